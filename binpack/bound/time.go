package bound

import (
	"context"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// BestOverTime is [Best] for items that come and go, as [VolumeOverTime] reads
// them. With departures volume, limit and cliques are followed from change to
// change, and the integrals are over the largest of them at each moment; the
// cliques are one for each group, chosen by the largest needs, and the linear
// programs bound the moment of the peak only. Spread does not count then, since
// departures may undo it.
func BestOverTime(ctx context.Context, inst *binpack.Instance, changes []Change, measureFrom float64, opt Options) Bounds {
	volume := VolumeOverTime(inst, changes, measureFrom)
	if !departs(changes) {
		return Best(ctx, inst, sumOf(inst, changes), opt)
	}
	f := newFollower(inst, changes)
	over := f.run(changes, measureFrom)
	out := Bounds{Bound: volume, Each: []Bound{volume}}
	out.add(over.limit)
	out.add(over.clique)
	out.raise(over.all)
	for _, b := range atPeak(ctx, inst, over, opt) {
		out.add(b)
	}
	out.name()
	return out
}

// atPeak are the bounds of the linear programs on what is there at the peaks.
func atPeak(ctx context.Context, inst *binpack.Instance, over overTime, opt Options) []Bound {
	if over.machinesAt == nil {
		return nil
	}
	same := uniformCost(inst) || slices.Equal(over.machinesAt, over.costAt)
	if !same {
		opt.Work /= 2
	}
	out := byColumns(ctx, inst, over.machinesAt, opt, over.all.Cost)
	if same {
		return out
	}
	for _, b := range byColumns(ctx, inst, over.costAt, opt, over.all.Cost) {
		at := slices.IndexFunc(out, func(o Bound) bool { return o.Method == b.Method })
		if at < 0 {
			out = append(out, b)
			continue
		}
		out[at].pass(b, 0)
		out[at].Stopped = out[at].Stopped || b.Stopped
	}
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

// A follower keeps what groups and cliques need while items come and go.
type follower struct {
	inst    *binpack.Instance
	exact   bool // sums of costs are
	apps    [][]int32
	terms   *needs
	cliques [][]int32 // of groups
	in      [][]int32 // per group: its cliques

	items         []int64
	load          []wide
	need          []need
	short         bool
	groups, sums  maxima // of machines, by group and by clique
	groupC, sumsC maxima // the same of costs
}

// overTime are bounds over time: of groups, of cliques, and of all methods with
// the largest taken at each moment.
type overTime struct {
	limit, clique, all Bound
	machinesAt, costAt []int64 // items at the peaks of all
}

func newFollower(inst *binpack.Instance, changes []Change) *follower {
	f := &follower{inst: inst, exact: integral(inst), apps: appsOf(inst), terms: newNeeds(inst, false)}
	most := f.largestNeeds(changes)
	weight := make([]float64, len(most))
	for g, n := range most {
		weight[g] = float64(n.machines)
	}
	came := make([]bool, len(inst.Apps))
	for _, c := range changes {
		came[c.App] = true
	}
	graph := exclusions(inst, f.apps, func(a int32) bool { return came[a] })
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
	f.items = make([]int64, len(f.inst.Apps))
	f.load = make([]wide, len(f.inst.Dimensions))
	f.need = make([]need, len(f.inst.Groups))
	f.groups, f.groupC = newMaxima(len(f.inst.Groups)), newMaxima(len(f.inst.Groups))
	f.sums, f.sumsC = newMaxima(len(f.cliques)), newMaxima(len(f.cliques))
}

// largestNeeds are the groups' needs at the peaks of each.
func (f *follower) largestNeeds(changes []Change) []need {
	f.items = make([]int64, len(f.inst.Apps))
	out := make([]need, len(f.inst.Groups))
	for _, c := range changes {
		f.items[c.App] += int64(c.Count)
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

// change books one change.
func (f *follower) change(c Change) {
	add(f.load, f.inst.Apps[c.App].Demand, int64(c.Count))
	f.items[c.App] += int64(c.Count)
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
	out := overTime{limit: Bound{Method: MethodLimit}, clique: Bound{Method: MethodClique}}
	for i, c := range changes {
		f.change(c)
		last := i == len(changes)-1
		if !last && changes[i+1].Time == c.Time {
			continue
		}
		all := volume.bound(f.load)
		limit := Bound{Machines: int(f.groups.most()), Cost: f.groupC.most(), Short: f.short}
		clique := Bound{Machines: int(f.sums.most()), Cost: f.sumsC.most(), Short: f.short}
		all.Machines, all.Cost = max(all.Machines, clique.Machines), max(all.Cost, clique.Cost)
		if all.Machines > out.all.Machines {
			out.machinesAt = slices.Clone(f.items)
		}
		if all.Cost > out.all.Cost {
			out.costAt = slices.Clone(f.items)
		}
		span := 0.0
		if !last {
			from := c.Time
			if measureFrom > from { // false for NaN
				from = measureFrom
			}
			span = max(0, changes[i+1].Time-from)
		}
		out.limit.pass(limit, span)
		out.clique.pass(clique, span)
		out.all.pass(all, span)
	}
	return out
}

// pass takes in a bound that holds for a span of time.
func (b *Bound) pass(now Bound, span float64) {
	b.Machines = max(b.Machines, now.Machines)
	b.Cost = max(b.Cost, now.Cost)
	b.Short = b.Short || now.Short
	b.MachineSeconds += float64(now.Machines) * span
	b.CostSeconds += now.Cost * span
}

// maxima is a list of numbers, at least 0, of which the largest is known: a
// binary tree over them.
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
