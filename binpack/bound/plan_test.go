package bound

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// checkPacking places a packing item by item, first of all one of each app on
// each machine and then the doubles, which is the order that spread asks for,
// and lets the slow checker judge. What stands is booked first.
func checkPacking(t *testing.T, inst *binpack.Instance, items []int64, standing []PlannedMachine, p Packing) {
	t.Helper()
	c := binpack.NewChecker(inst)
	for _, s := range standing {
		for _, e := range s.Items {
			for range e.Count {
				require.NoError(t, c.Initial(e.App, s.Line, s.Index, wholeDevices(inst, e.App, nil)))
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
			require.Equal(t, kinds[m.Kind], binpack.Kind{Type: line.Type, Cost: line.Cost, Capacity: line.Capacity})
			if !double {
				require.False(t, used[[2]int32{m.Line, m.Index}], "a machine is planned twice")
				used[[2]int32{m.Line, m.Index}] = true
				if len(m.Items) > 0 || i < len(standing) && len(standing[i].Items) > 0 {
					cost += line.Cost
				}
			}
			free := map[int]int{}
			for _, e := range m.Items {
				require.Equal(t, inst.Apps[e.App].Group, e.Group)
				key := [3]int32{m.Line, m.Index, e.Group}
				for n := range e.Count {
					devices := wholeDevices(inst, e.App, free)
					first := n == 0 && !groups[key]
					groups[key] = true
					if first == double {
						continue
					}
					require.NoError(t, c.Place(e.App, m.Line, m.Index, devices))
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

// wholeDevices gives an item the next devices; free counts those given out.
func wholeDevices(inst *binpack.Instance, app int32, free map[int]int) []binpack.Device {
	var out []binpack.Device
	for d, dim := range inst.Dimensions {
		if dim.Device {
			for range inst.Apps[app].Demand[d] / dim.One {
				out = append(out, binpack.Device{Dimension: int32(d), Index: int32(free[d])})
				free[d]++
			}
		}
	}
	return out
}

// randomInstance draws everything a planner must respect, but for devices.
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
	for range lines {
		l := binpack.MachineLine{Cost: float64(1 + rng.IntN(4)), Type: int32(rng.IntN(2)), Count: 1 + rng.IntN(6)}
		if fleet == binpack.Open && rng.IntN(2) == 0 {
			l.Count = binpack.Unlimited
		}
		for range dims {
			l.Capacity = append(l.Capacity, int64(8+rng.IntN(12)))
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

func TestPlanKeepsEveryConstraint(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	complete := 0
	for i := range 600 {
		inst, items := randomInstance(rng, binpack.Fleet(i%2), false)
		p, err := Plan(inst, items, PlanOptions{Seed: uint64(i), Steps: 60})
		require.NoError(t, err)
		checkPacking(t, inst, items, nil, p)
		if p.Complete() {
			complete++
		}
		again, err := Plan(inst, items, PlanOptions{Seed: uint64(i), Steps: 60})
		require.NoError(t, err)
		require.Equal(t, p, again)
	}
	assert.Greater(t, complete, 200)
}

func TestPlanAroundWhatStands(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	for i := range 400 {
		inst, items := randomInstance(rng, binpack.Fleet(i%2), false)
		first, err := Plan(inst, items, PlanOptions{Seed: 1, Steps: 20})
		require.NoError(t, err)
		// Every second machine stands with what was planned for it.
		var standing []PlannedMachine
		for j, m := range first.Machines {
			if j%2 == 0 {
				standing = append(standing, m)
				for _, e := range m.Items {
					items[e.App] -= int64(e.Count)
				}
			}
		}
		p, err := Plan(inst, items, PlanOptions{Seed: 1, Steps: 60, Standing: standing})
		require.NoError(t, err)
		checkPacking(t, inst, items, standing, p)
		for j, s := range standing {
			require.Equal(t, [2]int32{s.Line, s.Index}, [2]int32{p.Machines[j].Line, p.Machines[j].Index})
		}
	}
}

var _ = math.Inf
