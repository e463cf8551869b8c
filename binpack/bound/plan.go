package bound

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// The effort of [Plan] unless told otherwise.
const (
	DefaultPlanSteps  = 15000
	DefaultPlanStarts = 4
)

// PlanOptions of [Plan].
type PlanOptions struct {
	Seed uint64
	// Steps of ruin and recreate before the fleet grows; 0 =
	// DefaultPlanSteps, negative = none.
	Steps int
	// Starts is the number of greedy constructions of which the best is
	// improved; 0 = DefaultPlanStarts.
	Starts int
	// Machines to begin with, when that is more than the bounds ask for.
	Machines int
	// Standing machines hold items that stay where they are. Their kinds and
	// positions are taken, whatever else stands there counts against them.
	Standing []PlannedMachine
}

// A PlannedMachine is one machine of a [Packing] and what goes there.
type PlannedMachine struct {
	Kind        int32 // as numbered by [binpack.State.Kinds]
	Line, Index int32 // position: of a line of machines.csv and within it
	Items       []binpack.Entry
}

// A Packing says what goes where when everything is known beforehand.
type Packing struct {
	// Machines begins with the standing ones in the order given, whose Items
	// are what comes to them; then those to be opened, each at the lowest
	// position of its kind that is left.
	Machines []PlannedMachine
	// LeftOut is the number of items per app that found no place.
	LeftOut []int64
	// Cost of all machines that hold something, standing ones included.
	Cost float64
	// Bound is the volume bound of all items, those that stand included.
	Bound Bound
	// Proven says that nothing is left out and the cost is the bound's, so
	// that no packing is cheaper.
	Proven bool
}

// Complete reports whether nothing is left out.
func (p *Packing) Complete() bool {
	for _, n := range p.LeftOut {
		if n > 0 {
			return false
		}
	}
	return true
}

// Plan packs items[a] items of each app a at the least cost it finds: greedy
// constructions with random order, the best of which is improved by ruin and
// recreate (Schrimpf, Schneider, Stamm-Wilbrandt and Dueck, "Record Breaking
// Optimization Results Using the Ruin and Recreate Principle", Journal of
// Computational Physics 159, 2000) in a fleet of the bound's size, which grows
// while something does not fit. Both kinds of fleet are packed alike: a fixed
// one is an open one with counts.
//
// The packing respects capacity, types, limits, rules and spread, and can be
// placed in some order. Whole devices are amounts like others; shares of
// devices are not supported and are an error. Same seed, same packing.
func Plan(inst *binpack.Instance, items []int64, opt PlanOptions) (Packing, error) {
	if len(items) != len(inst.Apps) {
		panic("bound: items must have one entry per app")
	}
	for a, app := range inst.Apps {
		for d, dim := range inst.Dimensions {
			if dim.Device && items[a] > 0 && app.Demand[d]%dim.One != 0 {
				return Packing{}, fmt.Errorf("plan: app %q takes a share of a device (%s): only whole devices can be planned", app.Name, dim.Name)
			}
		}
	}
	if opt.Steps == 0 {
		opt.Steps = DefaultPlanSteps
	}
	if opt.Starts <= 0 {
		opt.Starts = DefaultPlanStarts
	}
	p := newPlanner(inst, items, opt.Standing)
	all := slices.Clone(items)
	for _, s := range opt.Standing {
		for _, e := range s.Items {
			all[e.App] += int64(e.Count)
		}
	}
	least := Volume(inst, all)
	p.search(opt, least.Cost)
	out := p.packing(items, opt.Standing)
	out.Bound = least
	out.Proven = out.Complete() && out.Cost <= least.Cost
	return out, nil
}

// search runs the whole plan.
func (p *planner) search(opt PlanOptions, enough float64) {
	p.openFleet(opt.Machines)
	p.construct(opt)
	p.improve(opt.Steps)
	jumped := false
	for len(p.waiting) > 0 {
		n := p.grow()
		if n == 0 {
			break
		}
		jumped = jumped || n > 1
		p.begin()
		p.fill()
		p.improve(opt.Steps)
	}
	if len(p.waiting) > 0 || opt.Steps < 0 {
		return
	}
	if jumped || len(p.kinds) > 1 {
		p.shrink(opt.Steps)
	}
	if len(p.kinds) > 1 {
		p.trade(opt.Steps, enough)
	}
}

// construct fills the empty fleet a few times and keeps the best.
func (p *planner) construct(opt PlanOptions) {
	best, least := 0, int64(math.MaxInt64)
	for i := range opt.Starts {
		p.restart(opt.Seed, i)
		if p.leftVolume < least {
			best, least = i, p.leftVolume
		}
		if len(p.waiting) == 0 {
			return
		}
	}
	if best != opt.Starts-1 {
		p.restart(opt.Seed, best)
	}
}

func (p *planner) restart(seed uint64, start int) {
	p.rng = rand.New(rand.NewPCG(seed, uint64(start)))
	for m := range p.kind {
		p.empty(int32(m))
	}
	p.begin()
	p.fill()
}

// packing is the result as others read it, but for the bound.
func (p *planner) packing(items []int64, standing []PlannedMachine) Packing {
	p.repairSpread()
	out := Packing{LeftOut: make([]int64, len(items))}
	for a := range items {
		out.LeftOut[a] = p.left[a] + p.hopeless[a]
	}
	next := newPositions(p.inst, p.kindOfLine, standing)
	for m, k := range p.kind {
		if k < 0 || m >= len(standing) && len(p.on[m]) == 0 {
			continue
		}
		pm := PlannedMachine{Kind: k}
		if m < len(standing) {
			pm.Line, pm.Index = standing[m].Line, standing[m].Index
			pm.Items = newItems(p.on[m], standing[m].Items)
		} else {
			pm.Line, pm.Index = next.take(k)
			pm.Items = newItems(p.on[m], nil)
		}
		out.Machines = append(out.Machines, pm)
	}
	out.Cost = p.cost()
	return out
}

// newItems are the entries of on without those of old, by app.
func newItems(on, old []binpack.Entry) []binpack.Entry {
	out := make([]binpack.Entry, 0, len(on))
	for _, e := range on {
		for _, o := range old {
			if o.App == e.App {
				e.Count -= o.Count
			}
		}
		if e.Count > 0 {
			at := len(out)
			out = append(out, e)
			for ; at > 0 && out[at-1].App > e.App; at-- {
				out[at-1], out[at] = out[at], out[at-1]
			}
		}
	}
	return out
}

// positions gives out the machines of a kind, lowest position first.
type positions struct {
	inst  *binpack.Instance
	of    []int32 // kind of each line
	line  []int32 // per kind: the next
	index []int32
	taken map[[2]int32]bool
}

func newPositions(inst *binpack.Instance, of []int32, standing []PlannedMachine) *positions {
	n := 0
	for _, k := range of {
		n = max(n, int(k)+1)
	}
	p := &positions{inst: inst, of: of, line: make([]int32, n), index: make([]int32, n), taken: map[[2]int32]bool{}}
	for _, s := range standing {
		p.taken[[2]int32{s.Line, s.Index}] = true
	}
	return p
}

func (p *positions) take(k int32) (line, index int32) {
	for {
		line, index = p.line[k], p.index[k]
		if int(line) == len(p.of) {
			panic("bound: the plan has more machines of a kind than there are")
		}
		count := p.inst.Machines[line].Count
		if p.of[line] != k || count != binpack.Unlimited && int(index) >= count {
			p.line[k], p.index[k] = line+1, 0
			continue
		}
		p.index[k]++
		if !p.taken[[2]int32{line, index}] {
			return line, index
		}
	}
}
