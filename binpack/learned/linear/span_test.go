package linear

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// curveTrace is a fixed fleet of two kinds of machines and 40 dimensions, of which half of the apps need
// one in part only, and one kind has none of it.
func curveTrace(t *testing.T) *trace.Trace {
	t.Helper()
	tr, err := generate.Generate("wide", 3, map[string]string{"n": "900", "d": "40"})
	require.NoError(t, err)
	inst := tr.Instance
	const scarce = 33
	for a := range inst.Apps {
		if a%2 == 0 {
			inst.Apps[a].Demand[scarce] = 0
		}
		inst.Apps[a].Expected = float64(a % 7)
	}
	small := inst.Machines[0]
	small.Name, small.Count, small.Capacity = "small", 20, nil
	inst.Machines[0].Count = 25
	for d, c := range inst.Machines[0].Capacity {
		if d == scarce {
			c = 0
		}
		small.Capacity = append(small.Capacity, c/2)
	}
	inst.Machines = append(inst.Machines, small)
	inst.Fleet = binpack.Fixed
	return tr
}

// TestSpans: with spans, too, the grid decides as scoring every machine does, also after a reset.
func TestSpans(t *testing.T) {
	tr := curveTrace(t)
	for _, name := range []string{"general-k0-fixed", "general-k1", "large-k0", "wide-k0", "vectors-k0"} {
		p, err := New(packtest.Shipped(t, name))
		require.NoError(t, err)
		run := newTreadmill(tr, p.know, p.Scorer)
		run.scorer.(*Scorer).maxCached = 0
		slow := onlyScores{NewScorer(p, run.s)}
		refused, placed, lacking := 0, 0, 0
		run.plain = func(item binpack.Item) int32 {
			want, failure := run.s.Choose(slow, item)
			got, err := run.s.Choose(run.scorer, item)
			require.Equal(t, failure, err)
			require.Equal(t, want, got, "%s: placement %d", name, placed)
			if err != nil {
				refused++
				return -1
			}
			placed++
			if got >= 25 {
				lacking++
			}
			return got
		}
		for placed+refused < len(tr.Events)*3/2 { // into a second time
			run.next()
		}
		require.Positive(t, run.scorer.(*Scorer).grid.spans)
		require.Positive(t, refused)
		require.Positive(t, lacking)
		t.Log(name, placed, refused, lacking)
	}
}
