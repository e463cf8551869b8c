package defrag

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// crowd is a full cluster: nodes of which nearly all room is taken by Best-Fit.
func crowd(t testing.TB, nodes int) (*Model, []int32, *rand.Rand) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(nodes), 9))
	in := &binpack.Instance{
		Fleet: binpack.Fixed, Types: []string{""}, Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "memory", One: 1}},
		Machines: []binpack.MachineLine{{Name: "m", Count: nodes, Cost: 1, Capacity: []int64{96, 384}}},
	}
	for a := range nodes {
		cpu := pick[int64](rng, 1, 2, 4, 4, 6, 8, 12, 16)
		in.Groups = append(in.Groups, binpack.Group{Name: fmt.Sprint("g", a), Limit: pick[int32](rng, 0, 0, 0, 1, 1, 2)})
		in.Apps = append(in.Apps, binpack.App{Name: fmt.Sprint("a", a), Group: int32(a), Expected: -1, Lifetime: -1, Demand: []int64{cpu, cpu * pick[int64](rng, 2, 3, 4, 4, 5)}})
		if a > 0 && rng.IntN(3) == 0 {
			in.Rules = append(in.Rules, binpack.Rule{A: int32(a), B: int32(rng.IntN(a))})
		}
	}
	m := NewModel(in, 1)
	scorer, slots := rule.BestFit{}.Scorer(m.state), []int32{}
	for missing := 0; missing < 50; {
		app := int32(rng.IntN(nodes))
		at, err := m.state.Choose(scorer, binpack.Item{App: app})
		if err != nil {
			missing++
			continue
		}
		line, index := m.state.Position(at)
		slot, err := m.Add(app, line, index, nil)
		require.NoError(t, err)
		slots = append(slots, slot)
	}
	return m, slots, rng
}

// BenchmarkMakeRoom lets items come and go on a full cluster. An operation is a rescue, whether it
// succeeds or not; p99 is of the CPU time of one.
func BenchmarkMakeRoom(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		b.Run(fmt.Sprint("nodes=", nodes), func(b *testing.B) {
			m, slots, rng := crowd(b, nodes)
			scorer := rule.BestFit{}.Scorer(m.state)
			var took []float64     // milliseconds
			runtime.LockOSThread() // whose time is measured
			defer runtime.UnlockOSThread()
			rescued := 0
			for b.Loop() {
				for {
					app := int32(rng.IntN(nodes))
					at, err := m.state.Choose(scorer, binpack.Item{App: app})
					if err == nil {
						line, index := m.state.Position(at)
						slot, err := m.Add(app, line, index, nil)
						require.NoError(b, err)
						slots = append(slots, slot)
						continue
					}
					began := cputime.Thread()
					moves, ok := m.MakeRoom(app, DefaultChain)
					took = append(took, 1000*(cputime.Thread()-began))
					if ok {
						rescued++
						for _, mv := range moves {
							if mv.From == Nowhere {
								slots = append(slots, int32(mv.Item))
							}
						}
					} else { // someone leaves
						k := rng.IntN(len(slots))
						m.Remove(slots[k])
						slots[k] = slots[len(slots)-1]
						slots = slots[:len(slots)-1]
					}
					break
				}
			}
			slices.Sort(took)
			at := func(q float64) float64 { return took[int(q*float64(len(took)-1))] }
			b.ReportMetric(at(.5), "p50-ms")
			b.ReportMetric(at(.99), "p99-ms")
			b.ReportMetric(at(1), "max-ms")
			b.ReportMetric(float64(rescued)/float64(len(took)), "rescued")
		})
	}
}
