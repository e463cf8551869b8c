package bound

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// The methods, by cost.
const (
	// MethodVolume: demand against capacity, see [Volume].
	MethodVolume = "volume"
	// MethodLimit: the machines that one group needs for its limit per machine, the
	// size of its items, the types it may use and, without departures, its spread.
	MethodLimit = "limit"
	// MethodClique: the heaviest clique of groups that share no machine; their
	// needs are added up.
	MethodClique = "clique"
	// MethodColumns: the linear program over all packings of a machine, see
	// [Best]. With ":" and the name of a dimension it is that dimension's.
	MethodColumns = "gilmore-gomory"
)

// DefaultWork of [Options] takes a few seconds where it is used up.
const DefaultWork = 8_000_000_000

// Options of [Best].
type Options struct {
	// Work limits the linear programs, in basic operations of about a
	// nanosecond each; 0 = volume, limit and clique only. The limit counts
	// operations and not time, so that the answer is always the same.
	Work int64
	// Enough is the cost of a known packing: once the bound has reached it, no
	// more expensive method is tried. 0 = unknown.
	Enough float64
	// Steps makes [BestOverTime] return the bound at each moment.
	Steps bool
	// Moves allows items to be moved, one after the other: each leaves its machine and is then
	// placed where it may be.
	Moves bool
}

// Bounds are the bounds of one demand.
type Bounds struct {
	// Bound is the strongest: for each figure the largest that a method gives.
	Bound
	// Each method's bound, the cheapest method first; the first is the volume
	// bound. A method that gave up is not in the list.
	Each []Bound
	// Steps are the strongest bound in machines over time, where [Options] request it and items leave.
	Steps []Step
}

// A Step is a number of machines from a time in seconds to the next step; the last one ends it.
type Step struct {
	Time     float64
	Machines int
}

// Best bounds a placement of items[a] items of each app a, all at once, by
// several methods, the cheapest first.
//
// Volume, limit and clique take microseconds to milliseconds (the clique at most
// some hundredths of a second) and are always computed. With opt.Work > 0, linear
// programs follow, in the manner of Gilmore and Gomory ("A linear programming
// approach to the cutting-stock problem", Operations Research 9, 1961): the least
// cost of fractions of machines, each filled in a permitted way, that cover all
// items. An integer program for each kind of machine makes ways as they are needed.
// Single dimensions are first, with limits only, where dynamic programming solves
// that program; then all dimensions with limits, rules and types, by branch and
// bound. A linear program gives a bound at any time, also when it is stopped early
// (Farley, "A note on bounding a class of linear programming problems", Operations
// Research 38, 1990), which is computed in rational numbers from rounded prices and
// thus free of floating-point error.
//
// Limits and rules by zone count as far as they limit machines.
//
// When the context ends, the linear programs stop, and Best returns the bounds
// proven by then.
func Best(ctx context.Context, inst *binpack.Instance, items []int64, opt Options) Bounds {
	inst = perMachine(inst, items, opt.Moves)
	volume := Volume(inst, items)
	needs := needsOf(inst, items)
	out := Bounds{Bound: volume, Each: []Bound{volume}}
	out.add(limitOf(needs))
	out.add(cliqueOf(inst, items, needs))
	for _, b := range byColumns(ctx, inst, items, opt, out.Cost) {
		out.add(b)
	}
	return out
}

// byColumns computes the bounds by linear programs: for the single dimensions in
// most demand, then for all.
func byColumns(ctx context.Context, inst *binpack.Instance, items []int64, opt Options, cost float64) []Bound {
	var out []Bound
	if opt.Work <= 0 {
		return nil
	}
	single := busiest(inst, items)
	part := opt
	part.Work = opt.Work / int64(4*len(single)+1)
	for _, d := range single {
		if opt.Enough > 0 && cost >= opt.Enough || ctx.Err() != nil {
			return out
		}
		if b, ok := columns(ctx, inst, items, []int{d}, false, part); ok {
			b.Method += ":" + inst.Dimensions[d].Name
			out = append(out, b)
			cost = max(cost, b.Cost)
		}
	}
	if opt.Enough > 0 && cost >= opt.Enough || ctx.Err() != nil || len(inst.Dimensions) == 1 && len(inst.Rules) == 0 && len(out) > 0 {
		return out
	}
	all := make([]int, len(inst.Dimensions))
	for d := range all {
		all[d] = d
	}
	part.Work = opt.Work / 4 * 3
	if b, ok := columns(ctx, inst, items, all, true, part); ok {
		out = append(out, b)
	}
	return out
}

// mostSingle is the number of dimensions with a linear program of their own.
const mostSingle = 4

// busiest returns the dimensions in most demand, by the volume bound; the first of
// several equal ones.
func busiest(inst *binpack.Instance, items []int64) []int {
	load := make([]wide, len(inst.Dimensions))
	for a, n := range items {
		add(load, inst.Apps[a].Demand, n)
	}
	f := newFleet(inst)
	machines := make([]int, len(load))
	var dims []int
	for d := range load {
		if load[d] != (wide{}) {
			machines[d], _ = machinesFor(f.bySize[d], load[d])
			dims = append(dims, d)
		}
	}
	slices.SortStableFunc(dims, func(a, b int) int { return cmp.Compare(machines[b], machines[a]) })
	return dims[:min(len(dims), mostSingle)]
}

// add adds the bound of a method.
func (b *Bounds) add(next Bound) {
	b.Each = append(b.Each, next)
	b.raise(next)
	b.name()
}

// raise raises the figures to those of a bound without a method of its own.
func (b *Bounds) raise(next Bound) {
	b.Machines = max(b.Machines, next.Machines)
	b.Cost = math.Max(b.Cost, next.Cost)
	b.MachineSeconds = math.Max(b.MachineSeconds, next.MachineSeconds)
	b.CostSeconds = math.Max(b.CostSeconds, next.CostSeconds)
	b.Short = b.Short || next.Short
}

// name finds the cheapest method that gives all figures, or else the methods that
// contribute: those that no other method equals in all figures.
func (b *Bounds) name() {
	var parts []string
	for i, e := range b.Each {
		if e.covers(b.Bound) {
			b.Method = e.Method
			return
		}
		covered := false
		for j, o := range b.Each {
			covered = covered || j != i && o.covers(e) && (j < i || !e.covers(o))
		}
		if !covered {
			parts = append(parts, e.Method)
		}
	}
	b.Method = strings.Join(parts, "+")
}

// covers reports whether no figure of another bound is above this one's.
func (b *Bound) covers(o Bound) bool {
	return b.Machines >= o.Machines && b.Cost >= o.Cost && b.MachineSeconds >= o.MachineSeconds && b.CostSeconds >= o.CostSeconds
}
