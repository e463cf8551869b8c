package plan

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

func TestPlanKeepsEveryConstraint(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	complete := 0
	for i := range 600 {
		inst, items := randomInstance(rng, binpack.Fleet(i%2), false)
		p := Pack(t.Context(), inst, items, Options{Seed: uint64(i), Steps: 60})
		checkPacking(t, inst, items, nil, p)
		if p.Complete() {
			complete++
		}
		again := Pack(t.Context(), inst, items, Options{Seed: uint64(i), Steps: 60})
		require.Equal(t, p, again)
	}
	assert.Greater(t, complete, 200)
}

func TestPlanAroundWhatStands(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	for i := range 400 {
		inst, items := randomInstance(rng, binpack.Fleet(i%2), false)
		first := Pack(t.Context(), inst, items, Options{Seed: 1, Steps: 20})
		// Every second machine stands with what was planned for it.
		var standing []Machine
		for j, m := range first.Machines {
			if j%2 == 0 {
				standing = append(standing, m)
				for _, e := range m.Items {
					items[e.App] -= int64(e.Count)
				}
			}
		}
		p := Pack(t.Context(), inst, items, Options{Seed: 1, Steps: 60, Standing: standing})
		checkPacking(t, inst, items, standing, p)
		for j, s := range standing {
			require.Equal(t, [2]int32{s.Line, s.Index}, [2]int32{p.Machines[j].Line, p.Machines[j].Index})
		}
	}
}

func TestPlanStepDoesNotAllocate(t *testing.T) {
	inst, items := smallLike(rand.New(rand.NewPCG(3, 4)), 100)
	p := newPlanner(inst, items, nil, nil)
	p.openFleet(0)
	p.construct(0, 0)
	for range 200 { // lists reach their lengths
		p.ruinStep()
	}
	require.Less(t, testing.AllocsPerRun(500, p.ruinStep), .05)
}

// An undone step leaves nothing behind.
func TestPlanUndo(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	for i := range 100 {
		inst, items := randomInstance(rng, binpack.Open, false)
		p := newPlanner(inst, items, nil, nil)
		p.openFleet(0)
		p.construct(0, 0)
		blocked, left, spent, volume := slices.Clone(p.blocked), slices.Clone(p.left), p.spent, p.leftVolume
		fleet, free := p.copyFleet(), slices.Clone(p.free[0])
		p.begin()
		for range 3 {
			if m := p.victim(i%2 == 0); m >= 0 {
				p.save(m)
				p.empty(m)
				if i%3 == 0 {
					p.setKind(m, -1)
				}
			}
		}
		p.fill(p.waiting)
		p.undo()
		require.Equal(t, blocked, p.blocked)
		require.Equal(t, left, p.left)
		require.Equal(t, free, p.free[0])
		require.Equal(t, fleet.kind, p.kind)
		require.Equal(t, [2]int64{spent, volume}, [2]int64{p.spent, p.leftVolume})
		for m := range p.on {
			require.ElementsMatch(t, fleet.on[m], p.on[m])
		}
	}
}

func TestPlanDevices(t *testing.T) {
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(binpack.Unlimited, 1, 10, 4000)}, []int64{1, 2000}, []int64{2, 0})
	inst.Types = []string{""}
	inst.Dimensions[1] = binpack.Dimension{Name: "gpu", One: 1000, Device: true}
	p := Pack(t.Context(), inst, []int64{5, 7}, Options{Seed: 1})
	checkPacking(t, inst, []int64{5, 7}, nil, p)
	require.True(t, p.Proven)
	require.Len(t, p.Machines, 3) // 10 devices of 4 a machine

	// Shares of .6: one a device, whatever their sum.
	inst.Apps[0].Demand[1] = 600
	p = Pack(t.Context(), inst, []int64{8, 1}, Options{Seed: 1})
	checkPacking(t, inst, []int64{8, 1}, nil, p)
	require.True(t, p.Complete())
	require.Len(t, p.Machines, 2)
	p = Pack(t.Context(), inst, []int64{9, 0}, Options{Seed: 1})
	require.Len(t, p.Machines, 3)
	require.False(t, p.Proven) // the bound only sees 5.4 devices

	// Two devices are begun by what stands: no whole one is left of the second pair.
	standing := []Machine{{Items: []binpack.Entry{{App: 0, Count: 2}}, Devices: [][]binpack.Device{{{Dimension: 1, Index: 1}}, {{Dimension: 1, Index: 3}}}}}
	inst.Apps[1].Demand[1] = 2000
	p = Pack(t.Context(), inst, []int64{0, 2}, Options{Seed: 1, Standing: standing})
	checkPacking(t, inst, []int64{0, 2}, standing, p)
	require.Len(t, p.Machines, 2)
	require.Equal(t, [][]binpack.Device{{{Dimension: 1, Index: 0}, {Dimension: 1, Index: 2}}}, p.Machines[0].Devices)
}

// Thousands of apps in a fleet that holds few of them: the effort is bounded, and
// the search still finds better than the greedy start.
func TestPlanWithFarTooLittleRoom(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 7))
	var machines []binpack.MachineLine
	for range 30 {
		machines = append(machines, packtest.Line(1, 1, 90+int64(rng.IntN(20)), 200))
	}
	inst := packtest.Instance(machines)
	inst.Fleet, inst.Types = binpack.Fixed, []string{""}
	var items []int64
	for a := range 4000 {
		inst.Apps = append(inst.Apps, binpack.App{Group: int32(a), Demand: []int64{int64(20 + rng.IntN(60)), int64(20 + rng.IntN(60))}})
		inst.Groups = append(inst.Groups, binpack.Group{Limit: 1})
		items = append(items, 2)
	}
	left := func(steps int) (volume int64) {
		p := Pack(t.Context(), inst, items, Options{Seed: 1, Steps: steps})
		checkPacking(t, inst, items, nil, p)
		for a, n := range p.LeftOut {
			volume += n * inst.Apps[a].Demand[0]
		}
		return volume
	}
	greedy := left(-1)
	p := newPlanner(inst, items, nil, nil)
	p.search(Options{Seed: 1, Steps: 1000}, 0)
	require.LessOrEqual(t, len(p.try), maxTried+ruinMax*10)
	require.Less(t, left(3000), greedy)
}

// However weak the bound is, the search ends: when its steps are used up, the
// fleet grows without them.
func TestPlanEffortIsBounded(t *testing.T) {
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(binpack.Unlimited, 1, 100)})
	var items []int64
	for a := range 60 { // a pair each, and no two pairs together: 60 machines, of which the bound sees 31
		inst.Apps = append(inst.Apps, binpack.App{Group: int32(a), Demand: []int64{51}})
		inst.Groups = append(inst.Groups, binpack.Group{})
		items = append(items, 1)
	}
	inst.Types = []string{""}
	steps := 0
	opt := Options{Seed: 1, Steps: 640, Watch: func(p Progress) {
		require.Greater(t, p.Steps, steps)
		steps = p.Steps
	}}
	p := newPlanner(inst, items, nil, nil)
	p.watch.watch = opt.Watch
	p.search(opt, 0)
	require.Empty(t, p.waiting)
	require.Equal(t, 60.0, p.cost())
	require.Positive(t, steps)
	require.LessOrEqual(t, steps, 2*planFleets*640)
}

// A linear program proves what the cheap bounds miss.
func TestPlanProves(t *testing.T) {
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(binpack.Unlimited, 1, 100)}, []int64{51}, []int64{30})
	inst.Types = []string{""}
	p := Pack(t.Context(), inst, []int64{10, 20}, Options{Seed: 1}) // 10 with one of each, 10/3 with three
	checkPacking(t, inst, []int64{10, 20}, nil, p)
	require.Equal(t, 14.0, p.Cost)
	require.False(t, p.Proven)
	p = Pack(t.Context(), inst, []int64{10, 20}, Options{Seed: 1, Work: 1e6, Starts: 3})
	checkPacking(t, inst, []int64{10, 20}, nil, p)
	require.Equal(t, 14.0, p.Cost)
	require.True(t, p.Proven)
}

// A search that is halted still ends with a packing of everything.
func TestPlanHalted(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 8))
	for i := range 40 {
		inst, items := smallLike(rng, 60)
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		p := Pack(ctx, inst, items, Options{Seed: 1, Starts: 3, Watch: func(Progress) {
			if calls++; calls > i%3 {
				cancel()
			}
		}})
		cancel()
		checkPacking(t, inst, items, nil, p)
		require.True(t, p.Complete())
	}
}

// The packing is the same for any number of workers, and more searches are
// never worse.
func TestPlanStartsAndWorkers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	better := 0
	for i := range 30 {
		inst, items := randomInstance(rng, binpack.Fleet(i%2), false)
		for a := range items {
			items[a] *= 4
		}
		opt := Options{Seed: uint64(i), Steps: 30}
		one := Pack(t.Context(), inst, items, opt)
		opt.Starts = 5
		want := Pack(t.Context(), inst, items, opt)
		checkPacking(t, inst, items, nil, want)
		opt.Workers = 4
		require.Equal(t, want, Pack(t.Context(), inst, items, opt))
		if one.Complete() {
			require.True(t, want.Complete())
			require.LessOrEqual(t, want.Cost, one.Cost)
			if want.Cost < one.Cost {
				better++
			}
		}
	}
	require.Positive(t, better)
}

func BenchmarkPlan(b *testing.B) {
	for _, apps := range []int{30, 300} {
		b.Run(fmt.Sprintf("apps=%d", apps), func(b *testing.B) {
			inst, items := smallLike(rand.New(rand.NewPCG(3, 6)), apps)
			over, plans := 0, 0
			b.ReportAllocs()
			for b.Loop() {
				plans++
				p := Pack(b.Context(), inst, items, Options{Seed: uint64(plans)})
				over += len(p.Machines) - p.Bound.Machines
			}
			b.ReportMetric(float64(over)/float64(plans), "over-bound")
		})
	}
}

func ExamplePack() {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}},
		Types:      []string{""},
		Machines:   []binpack.MachineLine{{Name: "node", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{10}}},
		Groups:     []binpack.Group{{Name: "web", Limit: 1}, {Name: "batch"}},
		Apps:       []binpack.App{{Name: "web", Group: 0, Demand: []int64{6}}, {Name: "batch", Group: 1, Demand: []int64{4}}},
		Fleet:      binpack.Open,
	}
	p := Pack(context.Background(), inst, []int64{2, 2}, Options{Seed: 1})
	for _, m := range p.Machines {
		fmt.Printf("node-%05d:", m.Index)
		for _, e := range m.Items {
			fmt.Printf(" %d %s", e.Count, inst.Apps[e.App].Name)
		}
		fmt.Println()
	}
	fmt.Println("proven:", p.Proven)
	// Output:
	// node-00000: 1 web 1 batch
	// node-00001: 1 web 1 batch
	// proven: true
}

// Machines filled to the brim: where items are many and nothing else constrains
// them, plans are on the bound or next to it.
func TestPlanFillsMachinesUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 11))
	on := 0
	for range 10 {
		inst := packtest.Instance([]binpack.MachineLine{packtest.Line(binpack.Unlimited, 1, 150)})
		inst.Types = []string{""}
		items := make([]int64, 81) // sizes 20 to 100, 400 of them
		for size := range items {
			inst.Apps = append(inst.Apps, binpack.App{Group: int32(size), Demand: []int64{int64(20 + size)}})
			inst.Groups = append(inst.Groups, binpack.Group{})
		}
		for range 400 {
			items[rng.IntN(len(items))]++
		}
		p := Pack(t.Context(), inst, items, Options{Seed: 1})
		checkPacking(t, inst, items, nil, p)
		require.LessOrEqual(t, p.Cost, p.Bound.Cost+1)
		if p.Proven {
			on++
		}
	}
	require.GreaterOrEqual(t, on, 5)
}
