package linear

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// curveTrace is a fixed fleet of two kinds of machines and 40 dimensions, of which half of the apps need
// one in part only, and one kind has none of it.
func curveTrace(t *testing.T) *trace.Trace {
	t.Helper()
	inst, tr := curves(900, 40)
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

// curves are n items of apps whose demands are a day of cpu and one of memory, in d dimensions.
func curves(n, d int) (*binpack.Instance, *trace.Trace) {
	rng := rand.New(rand.NewPCG(3, 1))
	inst := &binpack.Instance{
		Types: []string{"host"}, Fleet: binpack.Open, Machines: []binpack.MachineLine{{Name: "host", Count: binpack.Unlimited, Cost: 1}},
	}
	for i := range d {
		inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: fmt.Sprintf("d%03d", i), One: 1})
		inst.Machines[0].Capacity = append(inst.Machines[0].Capacity, 10_000)
	}
	tr := &trace.Trace{Instance: inst, MeasureFrom: math.NaN()}
	for len(tr.Requests) < n {
		level, peak, a := 300*math.Exp(rng.NormFloat64()-.5), rng.Float64(), int32(len(inst.Apps))
		demand := make([]int64, d)
		for i := range demand {
			demand[i] = int64(math.Round(min(10_000, max(1, level*(1+.7*math.Cos(2*math.Pi*(2*float64(i)/float64(d)-peak)))*(.8+.4*rng.Float64())))))
		}
		inst.Apps = append(inst.Apps, binpack.App{Name: fmt.Sprintf("app-%d", a), Group: a, Demand: demand, Expected: -1, Lifetime: -1})
		inst.Groups = append(inst.Groups, binpack.Group{Name: inst.Apps[a].Name, Limit: int32(rng.IntN(5) * rng.IntN(2))})
		for range min(n-len(tr.Requests), int(min(200, 2/math.Pow(1-rng.Float64(), 1/1.2)))) {
			tr.Requests = append(tr.Requests, trace.Request{App: a, Count: 1})
		}
	}
	rng.Shuffle(n, func(i, j int) { tr.Requests[i], tr.Requests[j] = tr.Requests[j], tr.Requests[i] })
	for i := range tr.Requests {
		tr.Requests[i].Name = fmt.Sprintf("r%05d", i)
		tr.Events = append(tr.Events, trace.Event{Time: float64(i), Kind: trace.Create, Request: int32(i), Count: 1})
	}
	return inst, tr
}

// TestSpans: with spans, too, the grid decides as scoring every machine does, also after a reset.
func TestSpans(t *testing.T) {
	tr := curveTrace(t)
	for _, name := range []string{"kubernetes-k0-fixed", "general-k1", "large-k1"} {
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
