package bound

import (
	"cmp"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// demand of groups for machines of their own, by limits per machine and the size of
// items alone.
type needs struct {
	inst   *binpack.Instance
	terms  [][]term // per group; the largest counts
	of     []int32  // per app: index of its term in its group's list
	spread bool     // spread_min counts: true without departures
}

// A term bounds the machines of one app, or of all apps of a group, by the number
// of items that a machine takes: a volume bound in one dimension of its own.
type term struct {
	fleet *fleet
	cheap []step // usable machines, the cheapest first; capacity is 1
}

// newNeeds compiles the terms. An app whose items fit on no machine needs nothing:
// there is no placement of all items, so any number is a bound.
func newNeeds(inst *binpack.Instance, spread bool) *needs {
	n := &needs{inst: inst, terms: make([][]term, len(inst.Groups)), of: make([]int32, len(inst.Apps)), spread: spread}
	known := map[string]term{}
	members := make([]int, len(inst.Groups))
	key := make([]byte, 0, 4*len(inst.Machines))
	termOf := func(hold func(m *binpack.MachineLine) int64) term {
		key = key[:0]
		held := make([]int64, len(inst.Machines))
		for i := range inst.Machines {
			held[i] = hold(&inst.Machines[i])
			for v := uint64(held[i]); ; v >>= 7 {
				if v < 128 {
					key = append(key, byte(v))
					break
				}
				key = append(key, byte(v)|128)
			}
		}
		t, ok := known[string(key)]
		if !ok {
			t = newTerm(inst, held)
			known[string(key)] = t
		}
		return t
	}
	for a := range inst.Apps {
		app := &inst.Apps[a]
		limit := int64(inst.Groups[app.Group].Limit)
		n.of[a] = int32(len(n.terms[app.Group]))
		members[app.Group]++
		n.terms[app.Group] = append(n.terms[app.Group], termOf(func(m *binpack.MachineLine) int64 {
			return min(holds(app, m), most(limit))
		}))
	}
	for g := range inst.Groups {
		if members[g] > 1 {
			limit := int64(inst.Groups[g].Limit)
			n.terms[g] = append(n.terms[g], termOf(func(*binpack.MachineLine) int64 { return most(limit) }))
		}
	}
	return n
}

// most returns a limit, or for 0 (no limit) a large number that cannot overflow.
func most(limit int64) int64 {
	if limit == 0 {
		return math.MaxInt32
	}
	return limit
}

// holds is the number of an app's items that a machine has room for.
func holds(a *binpack.App, m *binpack.MachineLine) int64 {
	if !a.MayUse(m.Type) {
		return 0
	}
	n := int64(math.MaxInt32)
	for d, need := range a.Demand {
		if need > 0 {
			n = min(n, m.Capacity[d]/need)
		}
	}
	return n
}

func newTerm(inst *binpack.Instance, held []int64) term {
	f := newFleetOf(inst, 1, func(line, _ int) int64 { return held[line] })
	cheap := stepsOf(inst, func(line int) int64 { return min(held[line], 1) })
	slices.SortStableFunc(cheap, func(a, b step) int { return cmp.Compare(a.cost, b.cost) })
	return term{fleet: f, cheap: runningSums(cheap, true)}
}

// need is the number of machines that one group needs, and their cost. Short marks too few
// machines for it.
type need struct {
	machines int
	cost     float64
	short    bool
}

// group is the need of a group of items[a] items of each of its apps.
func (n *needs) group(g int32, apps []int32, items []int64) need {
	var out need
	total := int64(0)
	for _, a := range apps {
		total += items[a]
		out.raise(&n.terms[g][n.of[a]], items[a])
	}
	if len(apps) > 1 {
		out.raise(&n.terms[g][len(apps)], total)
	}
	if s := int64(n.inst.Groups[g].SpreadMin); n.spread && s > 1 {
		out.atLeast(&n.terms[g][len(n.terms[g])-1], int(min(s, total)))
	}
	return out
}

func (v *need) raise(t *term, items int64) {
	if items == 0 || len(t.cheap) == 0 {
		return
	}
	load := wide{lo: uint64(items)}
	machines, short := machinesFor(t.fleet.bySize[0], load)
	if short {
		v.short = true
		return
	}
	v.cost = max(v.cost, t.fleet.costFor(t.fleet.byCost[0], load))
	v.atLeast(t, machines)
}

// atLeast raises the need to a number of machines.
func (v *need) atLeast(t *term, machines int) {
	if machines == 0 || len(t.cheap) == 0 {
		return
	}
	s, full, _, ok := reach(t.cheap, wide{lo: uint64(machines)})
	if !ok {
		v.short = true
		return
	}
	v.machines = max(v.machines, machines)
	v.cost = max(v.cost, s.costSoFar+s.cost*float64(full))
}

// appsOf lists the apps of each group.
func appsOf(inst *binpack.Instance) [][]int32 {
	apps := make([][]int32, len(inst.Groups))
	for a := range inst.Apps {
		g := inst.Apps[a].Group
		apps[g] = append(apps[g], int32(a))
	}
	return apps
}

// needsOf is the need of each group with items[a] items of each app, all at once.
func needsOf(inst *binpack.Instance, items []int64) []need {
	n := newNeeds(inst, true)
	out := make([]need, len(inst.Groups))
	for g, apps := range appsOf(inst) {
		if len(apps) > 0 {
			out[g] = n.group(int32(g), apps, items)
		}
	}
	return out
}

// Limit bounds a placement of items[a] items of each app a by the group that needs
// most machines for itself: a group of n items with limit k needs ceil(n/k), more
// if its items are large, and as many as its spread requires.
func Limit(inst *binpack.Instance, items []int64) Bound {
	return limitOf(needsOf(perMachine(inst, items, false), items))
}

// limitOf is the bound of the group that needs most.
func limitOf(needs []need) Bound {
	b := Bound{Method: MethodLimit}
	for _, n := range needs {
		b.Machines = max(b.Machines, n.machines)
		b.Cost = max(b.Cost, n.cost)
		b.Short = b.Short || n.short
	}
	return b
}
