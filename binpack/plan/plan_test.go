package plan

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

// checkPacking places a packing item by item, first of all one of each app on
// each machine and then the doubles, which is the order that spread asks for,
// and lets the slow checker judge. What stands is booked first.
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

// dearest marks instances that no packing satisfies.
var dearest = math.Inf(1)

// everyPacking looks for the least cost of a complete packing, by trying everything.
type everyPacking struct {
	inst     *binpack.Instance
	kindOf   []int // machine line of each machine in use
	on       [][]int32
	lineUsed []int
	best     float64
}

func leastCost(inst *binpack.Instance, items []int64) float64 {
	b := &everyPacking{inst: inst, lineUsed: make([]int, len(inst.Machines)), best: dearest}
	var list []int32
	for a, n := range items {
		for range n {
			list = append(list, int32(a))
		}
	}
	b.place(list, 0, 0)
	return b.best
}

// place puts the first item everywhere; from is the first machine of items of
// the same app, which are alike.
func (b *everyPacking) place(list []int32, from int, cost float64) {
	if cost >= b.best {
		return
	}
	if len(list) == 0 {
		if b.spreadHolds() {
			b.best = cost
		}
		return
	}
	a := list[0]
	next := func(m int) int {
		if len(list) > 1 && list[1] == a {
			return m
		}
		return 0
	}
	for m := from; m < len(b.on); m++ {
		b.on[m] = append(b.on[m], a)
		if b.holds(m) {
			b.place(list[1:], next(m), cost)
		}
		b.on[m] = b.on[m][:len(b.on[m])-1]
	}
	for line, ml := range b.inst.Machines {
		if ml.Count != binpack.Unlimited && b.lineUsed[line] == ml.Count {
			continue
		}
		m := len(b.on)
		b.lineUsed[line]++
		b.kindOf, b.on = append(b.kindOf, line), append(b.on, []int32{a})
		if b.holds(m) {
			b.place(list[1:], next(m), cost+ml.Cost)
		}
		b.kindOf, b.on = b.kindOf[:m], b.on[:m]
		b.lineUsed[line]--
	}
}

// holds reports whether a machine breaks nothing but perhaps spread.
func (b *everyPacking) holds(m int) bool {
	line := b.inst.Machines[b.kindOf[m]]
	groups := map[int32]int32{}
	for d, room := range line.Capacity {
		var needs []int64
		for _, a := range b.on[m] {
			room -= b.inst.Apps[a].Demand[d]
			needs = append(needs, b.inst.Apps[a].Demand[d])
		}
		if room < 0 {
			return false
		}
		if dim := b.inst.Dimensions[d]; dim.Device {
			free := make([]int64, line.Capacity[d]/dim.One)
			for i := range free {
				free[i] = dim.One
			}
			if !devicesHold(free, needs, dim.One) {
				return false
			}
		}
	}
	for _, a := range b.on[m] {
		app := b.inst.Apps[a]
		groups[app.Group]++
		if limit := b.inst.Groups[app.Group].Limit; limit > 0 && groups[app.Group] > limit {
			return false
		}
		ok := app.Types == nil
		for _, typ := range app.Types {
			ok = ok || typ == line.Type
		}
		if !ok {
			return false
		}
	}
	for _, r := range b.inst.Rules {
		if groups[r.A] > 0 && groups[r.B] > r.Max {
			return false
		}
	}
	return true
}

// devicesHold tries every device for every need.
func devicesHold(free, needs []int64, one int64) bool {
	if len(needs) == 0 {
		return true
	}
	need, rest := needs[0], needs[1:]
	switch {
	case need == 0:
		return devicesHold(free, rest, one)
	case need > one:
		rest = append(slices.Repeat([]int64{one}, int(need/one)), rest...)
		return devicesHold(free, rest, one)
	}
	for i := range free {
		if free[i] >= need {
			free[i] -= need
			holds := devicesHold(free, rest, one)
			free[i] += need
			if holds {
				return true
			}
		}
	}
	return false
}

// spreadHolds: a group may stand twice on a machine only when it stands on as
// many machines as its spread asks for.
func (b *everyPacking) spreadHolds() bool {
	for g, group := range b.inst.Groups {
		machines, double := int32(0), false
		for _, on := range b.on {
			n := 0
			for _, a := range on {
				if b.inst.Apps[a].Group == int32(g) {
					n++
				}
			}
			if n > 0 {
				machines++
			}
			double = double || n > 1
		}
		if double && machines < group.SpreadMin {
			return false
		}
	}
	return true
}

func TestPlanAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	packed, optimal, proven := 0, 0, 0
	for i := range 400 {
		inst, items := randomInstance(rng, binpack.Fleet(i%2), i%4 < 2)
		left := int64(7)
		for a := range items {
			items[a] = min(items[a], left)
			left -= items[a]
		}
		want := leastCost(inst, items)
		p := Pack(t.Context(), inst, items, Options{Seed: 1, Steps: 300})
		checkPacking(t, inst, items, nil, p)
		if want == dearest {
			require.False(t, p.Complete())
			continue
		}
		packed++
		if p.Complete() && p.Cost == want {
			optimal++
		} else {
			t.Logf("instance %d: cost %v, left out %v, optimum %v", i, p.Cost, p.LeftOut, want)
		}
		if p.Complete() {
			require.GreaterOrEqual(t, p.Cost, want)
		}
		if p.Proven {
			proven++
			require.InDelta(t, want, p.Cost, 1e-9)
		}
	}
	require.Greater(t, packed, 200)
	require.Equal(t, packed, optimal)
	require.Greater(t, proven, 50)
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

func TestPlanStepDoesNotAllocate(t *testing.T) {
	inst, items := smallLike(rand.New(rand.NewPCG(3, 4)), 100)
	p := newPlanner(inst, items, nil)
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
		p := newPlanner(inst, items, nil)
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
	p := newPlanner(inst, items, nil)
	p.search(Options{Seed: 1, Steps: 1000}, 0)
	require.LessOrEqual(t, len(p.try), maxTried+ruinMax*10)
	require.Less(t, left(3000), greedy)
}

// However little the bound says, the search ends: when its steps are used up, the
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
	p := newPlanner(inst, items, nil)
	p.watch.tell = opt.Watch
	p.search(opt, 0)
	require.Empty(t, p.waiting)
	require.Equal(t, 60.0, p.cost())
	require.Positive(t, steps)
	require.LessOrEqual(t, steps, 2*planFleets*640)
}

// What the cheap bounds do not see is proven by a linear program.
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
