package plan

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

// checkPacking places a packing item by item, first of all one of each app on
// each machine and then the doubles, which is the order that spread asks for,
// and then asks the slow checker. What stands is placed first.
func checkPacking(t *testing.T, inst *binpack.Instance, items []int64, standing []Machine, p Packing) {
	t.Helper()
	c := binpack.NewChecker(inst)
	for _, s := range standing {
		at := 0
		for _, e := range s.Items {
			for range e.Count {
				require.NoError(t, c.Initial(e.App, s.Line, s.Index, devicesAt(s, at)))
				at++
			}
		}
	}
	kinds := binpack.NewState(inst).Kinds()
	placed := make([]int64, len(items))
	cost, used := 0.0, map[[2]int32]bool{}
	for _, double := range []bool{false, true} {
		groups := map[[3]int32]bool{}
		for _, s := range standing {
			for _, e := range s.Items {
				groups[[3]int32{s.Line, s.Index, e.Group}] = true
			}
		}
		for i, m := range p.Machines {
			line := inst.Machines[m.Line]
			require.Equal(t, binpack.Kind{Type: line.Type, Cost: line.Cost, Capacity: line.Capacity}, kinds[m.Kind])
			if !double {
				require.False(t, used[[2]int32{m.Line, m.Index}], "a machine is planned twice")
				used[[2]int32{m.Line, m.Index}] = true
				if len(m.Items) > 0 || i < len(standing) && len(standing[i].Items) > 0 {
					cost += line.Cost
				}
			}
			at := -1
			for _, e := range m.Items {
				require.Equal(t, inst.Apps[e.App].Group, e.Group)
				key := [3]int32{m.Line, m.Index, e.Group}
				for n := range e.Count {
					at++
					first := n == 0 && !groups[key]
					groups[key] = true
					if first == double {
						continue
					}
					require.NoError(t, c.Place(e.App, m.Line, m.Index, devicesAt(m, at)))
					placed[e.App]++
				}
			}
		}
	}
	for a, n := range items {
		require.Equal(t, n, placed[a]+p.LeftOut[a], "app %d", a)
	}
	require.InDelta(t, cost, p.Cost, 1e-9)
	require.GreaterOrEqual(t, p.Cost, p.Bound.Cost*boolToFloat(p.Complete())-1e-9)
	if p.Proven {
		require.True(t, p.Complete())
		require.InDelta(t, p.Bound.Cost, p.Cost, 1e-9)
	}
}

func boolToFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func devicesAt(m Machine, at int) []binpack.Device {
	if m.Devices == nil {
		return nil
	}
	return m.Devices[at]
}

// randomInstance draws everything a planner must respect.
func randomInstance(rng *rand.Rand, fleet binpack.Fleet, small bool) (*binpack.Instance, []int64) {
	dims, apps, lines := 1+rng.IntN(3), 2+rng.IntN(12), 1+rng.IntN(3)
	most := 6
	if small {
		dims, apps, lines, most = 1+rng.IntN(2), 2+rng.IntN(3), 1, 3
	}
	inst := &binpack.Instance{Fleet: fleet, Types: []string{"x", "y"}}
	for range dims {
		inst.Dimensions = append(inst.Dimensions, binpack.Dimension{One: 1})
	}
	devices := !small && rng.IntN(2) == 0 // the last dimension is one of devices
	if devices {
		inst.Dimensions[dims-1] = binpack.Dimension{One: 100, Device: true}
	}
	for range lines {
		l := binpack.MachineLine{Cost: float64(1 + rng.IntN(4)), Type: int32(rng.IntN(2)), Count: 1 + rng.IntN(6)}
		if fleet == binpack.Open && rng.IntN(2) == 0 {
			l.Count = binpack.Unlimited
		}
		for range dims {
			l.Capacity = append(l.Capacity, int64(8+rng.IntN(12)))
		}
		if devices {
			l.Capacity[dims-1] = int64(100 * rng.IntN(4))
		}
		inst.Machines = append(inst.Machines, l)
	}
	var items []int64
	for a := range apps {
		app := binpack.App{Group: int32(a)}
		if a > 0 && rng.IntN(4) == 0 {
			app.Group = inst.Apps[rng.IntN(a)].Group
		}
		if rng.IntN(4) == 0 {
			app.Types = []int32{int32(rng.IntN(2))}
		}
		for range dims {
			app.Demand = append(app.Demand, int64(1+rng.IntN(8)))
		}
		if devices {
			app.Demand[dims-1] = []int64{0, 0, 30, 40, 50, 65, 100, 200}[rng.IntN(8)]
		}
		inst.Apps = append(inst.Apps, app)
		g := binpack.Group{}
		if rng.IntN(2) == 0 {
			g.Limit = int32(1 + rng.IntN(3))
		}
		if rng.IntN(4) == 0 {
			g.SpreadMin = int32(2 + rng.IntN(2))
		}
		inst.Groups = append(inst.Groups, g)
		items = append(items, int64(rng.IntN(most+1)))
	}
	for range rng.IntN(apps + 1) {
		a, b := int32(rng.IntN(apps)), int32(rng.IntN(apps))
		if a != b {
			inst.Rules = append(inst.Rules, binpack.Rule{A: a, B: b, Max: int32(rng.IntN(3))})
		}
	}
	return inst, items
}

// smallLike is an instance as "small" generates them: limits, exclusions, and
// 15 machines at the least.
func smallLike(rng *rand.Rand, apps int) (*binpack.Instance, []int64) {
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(binpack.Unlimited, 1, 96, 512)})
	inst.Types = []string{""}
	var items []int64
	for a := range apps {
		cpu := []int64{4, 4, 8, 8, 2, 16}[rng.IntN(6)]
		inst.Apps = append(inst.Apps, binpack.App{Group: int32(a), Demand: []int64{cpu, 2 * cpu}})
		inst.Groups = append(inst.Groups, binpack.Group{Limit: int32(1 + rng.IntN(2))})
		items = append(items, int64(1+rng.IntN(10)))
	}
	for range apps / 2 {
		if a, b := int32(rng.IntN(apps)), int32(rng.IntN(apps)); a != b {
			inst.Rules = append(inst.Rules, binpack.Rule{A: a, B: b}, binpack.Rule{A: b, B: a})
		}
	}
	return inst, items
}
