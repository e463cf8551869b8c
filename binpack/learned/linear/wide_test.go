//go:build unix

package linear

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/cerebro/trace/tracetest"
)

// wideTrace is a fixed fleet of machines with two dimensions and apps that each have a
// demand of their own. The items need 97 % of the cpu.
func wideTrace(machines int, apps int32) *trace.Trace {
	const cpu, memory = 96_000, 512_000
	rng := rand.New(rand.NewPCG(1, 2))
	inst := &binpack.Instance{
		Types: []string{"node"}, Fleet: binpack.Fixed, Dimensions: []binpack.Dimension{{Name: "cpu", One: 1000}, {Name: "memory", One: 1000}},
		Machines: []binpack.MachineLine{{Name: "node", Count: machines, Cost: 1, Capacity: []int64{cpu, memory}}},
	}
	tr := &trace.Trace{Instance: inst}
	for a := range apps {
		cores := []int64{1000, 2000, 4000, 4000, 4000, 4000, 8000, 8000, 8000, 16_000}[rng.IntN(10)]
		demand := []int64{cores - rng.Int64N(cores/4), cores*[]int64{1, 2, 4, 4, 8}[rng.IntN(5)] - rng.Int64N(cores/4)}
		inst.Groups = append(inst.Groups, binpack.Group{Name: fmt.Sprint("app-", a), Limit: []int32{1, 1, 2, 4}[rng.IntN(4)]})
		inst.Apps = append(inst.Apps, binpack.App{Name: fmt.Sprint("app-", a), Group: a, Demand: demand, Expected: -1, Lifetime: -1})
	}
	for range 2 * apps { // each excludes four others
		if a, b := rng.Int32N(apps), rng.Int32N(apps); a != b {
			inst.Rules = append(inst.Rules, binpack.Rule{A: a, B: b}, binpack.Rule{A: b, B: a})
		}
	}
	items := make([]int64, apps)
	for used := int64(0); used < int64(machines)*cpu/100*97; {
		a, most := rng.Int32N(apps), 4
		if a < 20 {
			most = 40
		}
		count := 1 + rng.IntN(most)
		tr.Events = append(tr.Events, trace.Event{Time: float64(len(tr.Events)), Kind: trace.Create, Request: int32(len(tr.Requests)), Count: int32(count)})
		tr.Requests = append(tr.Requests, trace.Request{Name: fmt.Sprint(len(tr.Requests)), App: a, Count: int32(count)})
		used += int64(count) * inst.Apps[a].Demand[0]
		items[a] += int64(count)
	}
	for a := range inst.Apps {
		inst.Apps[a].Expected = float64(items[a])
	}
	return tr
}

// speedAtWidth compares shipped policies on 6,000 machines and 9,338 apps with the same
// scores of every machine that takes the item.
func speedAtWidth(t *testing.T, out io.Writer) {
	traces := []*trace.Trace{wideTrace(6000, 9338)}
	if data := os.Getenv("SIGMA_DATA"); data != "" {
		tr := tracetest.Converted(t, "tianchi", filepath.Join(data, "tianchi2018-common"), filepath.Join(data, "tianchi2018-prelim-b"), "--large-first", "--empty")
		tr.Instance.Fleet = binpack.Fixed
		traces = append(traces, tr)
	}
	fmt.Fprintln(out, "\n| fixed fleet of 6,000 machines, 9,338 apps | machines in use | placements/CPU-s | allocations per placement | every machine scored | ratio (least … most) |\n|---|---:|---:|---:|---:|---:|")
	for _, tr := range traces {
		for _, name := range []string{"kubernetes-k0-fixed", "general-k1", "large-k1"} {
			p, err := New(packtest.Shipped(t, name))
			require.NoError(t, err)
			twin := newTreadmill(tr, p.know, p.Scorer)
			slow := onlyScores{twin.scorer}
			twin.plain = func(item binpack.Item) int32 {
				m, err := twin.s.Choose(slow, item)
				if err != nil {
					return -1
				}
				return m
			}
			r := race{
				fmt.Sprintf("%s, %d dimensions", name, len(tr.Instance.Dimensions)), newTreadmill(tr, p.know, p.Scorer), twin,
				len(tr.Events) / 3, len(tr.Events) / 4, 100, 3, 1,
			}
			if len(tr.Instance.Dimensions) > 2 { // a millisecond each
				r.from, r.items, r.twinItems = 2000, 1000, 50
			}
			r.run(t, out)
		}
	}
}

// TestWide: the grid decides as scoring every machine does, to the last item that fits.
func TestWide(t *testing.T) {
	tr := wideTrace(60, 90)
	for _, name := range []string{"kubernetes-k0-fixed", "general-k1", "large-k1"} {
		p, err := New(packtest.Shipped(t, name))
		require.NoError(t, err)
		run := newTreadmill(tr, p.know, p.Scorer)
		run.scorer.(*Scorer).maxCached = 0
		slow := onlyScores{NewScorer(p, run.s)}
		refused := 0
		run.plain = func(item binpack.Item) int32 {
			want, failure := run.s.Choose(slow, item)
			got, err := run.s.Choose(run.scorer, item)
			require.Equal(t, failure, err)
			require.Equal(t, want, got)
			if err != nil {
				refused++
				return -1
			}
			return got
		}
		for run.event < len(tr.Events)-1 {
			run.next()
		}
		require.NotNil(t, run.scorer.(*Scorer).grid)
		require.Positive(t, run.most)
		t.Log(name, refused, run.most)
	}
}
