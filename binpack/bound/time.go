package bound

import (
	"context"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// BestOverTime is [Best] for items that arrive and leave, as [VolumeOverTime] reads
// them. With departures it follows volume, limit and cliques from change to change,
// and integrates the largest of them at each moment. There is one clique for each
// group, chosen by the largest needs. With opt.Work > 0, tariffs follow: the prices
// of a linear program for some moments give a bound at any other moment too. Spread
// does not count then, since departures may undo it.
func BestOverTime(ctx context.Context, inst *binpack.Instance, changes []Change, measureFrom float64, opt Options) Bounds {
	if !departs(changes) {
		return Best(ctx, inst, sumOf(inst, changes), opt)
	}
	inst = perMachine(inst, nil, opt.Moves)
	volume := VolumeOverTime(inst, changes, measureFrom)
	f := newFollower(inst, changes)
	over := f.run(changes, measureFrom)
	stopped := false
	if opt.Work > 0 {
		if stopped = f.addTariffs(ctx, over.moments, opt.Work); len(f.tariffs) > 0 {
			f.begin()
			over = f.run(changes, measureFrom)
		}
	}
	out := Bounds{Bound: volume, Each: []Bound{volume}}
	if opt.Steps {
		out.Steps = over.steps
	}
	out.add(over.limit)
	out.add(over.clique)
	if len(f.tariffs) > 0 {
		over.tariff.Stopped = stopped
		out.add(over.tariff)
	}
	out.raise(over.all)
	out.name()
	return out
}

// departs reports whether any item leaves.
func departs(changes []Change) bool {
	return slices.ContainsFunc(changes, func(c Change) bool { return c.Count < 0 })
}

// sumOf is the number of items per app after all changes.
func sumOf(inst *binpack.Instance, changes []Change) []int64 {
	items := make([]int64, len(inst.Apps))
	for _, c := range changes {
		items[c.App] += int64(c.Count)
	}
	return items
}

// A follower keeps the needs of groups and cliques while items arrive and leave.
type follower struct {
	inst    *binpack.Instance
	exact   bool // sums of costs are exact
	uniform bool // all machines cost the same
	apps    [][]int32
	terms   *needs
	cliques [][]int32 // of groups
	in      [][]int32 // per group: its cliques
	most    []int64   // of items of each app at a time
	tariffs []tariff

	items         []int64
	count         int64 // of all items
	load          []wide
	need          []need
	short         bool
	groups, sums  maxima // of machines, by group and by clique
	groupC, sumsC maxima // the same of costs
}

// overTime holds bounds over time: of groups, of cliques, and the largest of all
// methods at each moment.
type overTime struct {
	limit, clique, tariff, all Bound
	moments                    [][]int64 // items at the peaks of all and at some more
	steps                      []Step    // of all
}

func newFollower(inst *binpack.Instance, changes []Change) *follower {
	f := &follower{inst: inst, exact: integral(inst), uniform: uniformCost(inst), apps: appsOf(inst), terms: newNeeds(inst, false)}
	largest := f.largestNeeds(changes)
	weight := make([]float64, len(largest))
	for g, n := range largest {
		weight[g] = float64(n.machines)
	}
	graph := exclusions(inst, f.apps, func(a int32) bool { return f.most[a] > 0 })
	known := map[string]bool{}
	f.in = make([][]int32, len(inst.Groups))
	for g := range inst.Groups {
		if weight[g] == 0 {
			continue
		}
		clique, _ := greedyClique(graph, weight, int32(g))
		slices.Sort(clique)
		key := make([]byte, 0, 4*len(clique))
		for _, m := range clique {
			key = append(key, byte(m), byte(m>>8), byte(m>>16), byte(m>>24))
		}
		if known[string(key)] {
			continue
		}
		known[string(key)] = true
		for _, m := range clique {
			f.in[m] = append(f.in[m], int32(len(f.cliques)))
		}
		f.cliques = append(f.cliques, clique)
	}
	f.begin()
	return f
}

func (f *follower) begin() {
	f.items, f.count = make([]int64, len(f.inst.Apps)), 0
	f.load = make([]wide, len(f.inst.Dimensions))
	f.need = make([]need, len(f.inst.Groups))
	f.groups, f.groupC = newMaxima(len(f.inst.Groups)), newMaxima(len(f.inst.Groups))
	f.sums, f.sumsC = newMaxima(len(f.cliques)), newMaxima(len(f.cliques))
	for i := range f.tariffs {
		f.tariffs[i].total = 0
	}
}

// largestNeeds are the groups' needs at the peaks of each.
func (f *follower) largestNeeds(changes []Change) []need {
	f.items = make([]int64, len(f.inst.Apps))
	f.most = make([]int64, len(f.inst.Apps))
	out := make([]need, len(f.inst.Groups))
	for _, c := range changes {
		f.items[c.App] += int64(c.Count)
		f.most[c.App] = max(f.most[c.App], f.items[c.App])
		if c.Count < 0 {
			continue
		}
		g := f.inst.Apps[c.App].Group
		n := f.terms.group(g, f.apps[g], f.items)
		out[g].machines = max(out[g].machines, n.machines)
		out[g].cost = max(out[g].cost, n.cost)
	}
	return out
}

// change applies one change.
func (f *follower) change(c Change) {
	add(f.load, f.inst.Apps[c.App].Demand, int64(c.Count))
	f.items[c.App] += int64(c.Count)
	f.count += int64(c.Count)
	for i := range f.tariffs {
		f.tariffs[i].total += f.tariffs[i].price[c.App] * int64(c.Count)
	}
	g := f.inst.Apps[c.App].Group
	old, now := f.need[g], f.terms.group(g, f.apps[g], f.items)
	if now == old {
		return
	}
	f.need[g] = now
	f.short = f.short || now.short
	f.groups.set(int(g), float64(now.machines))
	f.groupC.set(int(g), now.cost)
	for _, q := range f.in[g] {
		f.sums.set(int(q), f.sums.at(int(q))+float64(now.machines-old.machines))
		if f.exact {
			f.sumsC.set(int(q), f.sumsC.at(int(q))+now.cost-old.cost)
			continue
		}
		sum := 0.0
		for _, m := range f.cliques[q] {
			sum += f.need[m].cost
		}
		f.sumsC.set(int(q), sum)
	}
}

// run follows all changes, those of one instant together.
func (f *follower) run(changes []Change, measureFrom float64) overTime {
	volume := newFleet(f.inst)
	out := overTime{limit: Bound{Method: MethodLimit}, clique: Bound{Method: MethodClique}, tariff: Bound{Method: MethodColumns}}
	var machinesAt, costAt []int64 // at the peaks; of several the one with most items
	var mostMachines, mostCost int64
	first, final := max(changes[0].Time, measureFrom), changes[len(changes)-1].Time
	if !(measureFrom > changes[0].Time) { // NaN, too
		first = changes[0].Time
	}
	for i, c := range changes {
		f.change(c)
		last := i == len(changes)-1
		if !last && changes[i+1].Time == c.Time {
			continue
		}
		all := volume.bound(f.load)
		limit := Bound{Machines: int(f.groups.most()), Cost: f.groupC.most(), Short: f.short}
		clique := Bound{Machines: int(f.sums.most()), Cost: f.sumsC.most(), Short: f.short}
		tariff := f.tariff()
		all.Machines, all.Cost = max(all.Machines, clique.Machines, tariff.Machines), max(all.Cost, clique.Cost, tariff.Cost)
		if all.Machines > out.all.Machines || all.Machines == out.all.Machines && f.count > mostMachines {
			machinesAt, mostMachines = append(machinesAt[:0], f.items...), f.count
		}
		if all.Cost > out.all.Cost || all.Cost == out.all.Cost && f.count > mostCost {
			costAt, mostCost = append(costAt[:0], f.items...), f.count
		}
		if n := len(out.steps); n == 0 || out.steps[n-1].Machines != all.Machines || last {
			out.steps = append(out.steps, Step{c.Time, all.Machines})
		}
		span := 0.0
		if !last {
			from := max(c.Time, first)
			span = max(0, changes[i+1].Time-from)
			// A moment in the middle of each part of the time.
			if at := (from - first) / (final - first) * moments; span > 0 && at >= float64(len(out.moments))+.5 {
				out.moments = append(out.moments, slices.Clone(f.items))
			}
		}
		out.limit.pass(limit, span)
		out.clique.pass(clique, span)
		out.tariff.pass(tariff, span)
		out.all.pass(all, span)
	}
	if machinesAt != nil {
		out.moments = append([][]int64{machinesAt}, out.moments...)
	}
	if costAt != nil && !slices.Equal(costAt, machinesAt) {
		out.moments = append(out.moments, costAt)
	}
	return out
}

// pass adds a bound that holds for a span of time.
func (b *Bound) pass(now Bound, span float64) {
	b.Machines = max(b.Machines, now.Machines)
	b.Cost = max(b.Cost, now.Cost)
	b.Short = b.Short || now.Short
	b.MachineSeconds += float64(now.Machines) * span
	b.CostSeconds += now.Cost * span
}

// maxima is a list of numbers of at least 0 with its largest at hand: a binary tree
// over them.
type maxima []float64

func newMaxima(n int) maxima {
	size := 1
	for size < n {
		size *= 2
	}
	return make(maxima, 2*size)
}

func (m maxima) at(i int) float64 { return m[len(m)/2+i] }

func (m maxima) most() float64 { return m[1] }

func (m maxima) set(i int, v float64) {
	at := len(m)/2 + i
	m[at] = v
	for at /= 2; at > 0; at /= 2 {
		m[at] = max(m[2*at], m[2*at+1])
	}
}
