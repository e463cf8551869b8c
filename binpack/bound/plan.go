package bound

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/sigma-scheduler/sigma/binpack"
)

// The effort of [Plan] unless told otherwise.
const DefaultPlanSteps = 15000

// PlanOptions of [Plan].
type PlanOptions struct {
	Seed uint64
	// Steps of ruin and recreate before the fleet grows; 0 =
	// DefaultPlanSteps, negative = none. All fleets of a search together get at
	// most planFleets times as many.
	Steps int
	// Starts is the number of searches, each with random numbers of its own, of
	// which the best is the result; 0 = 1. When one meets the bound, those after
	// it are left out.
	Starts int
	// Workers is the number of searches at the same time; 0 = 1. The result is
	// the same for any.
	Workers int
	// Machines to begin with, when that is more than the bounds ask for.
	Machines int
	// Standing machines hold items that stay where they are. Their positions are
	// taken, whatever else stands there counts against them.
	Standing []PlannedMachine
	// Watch is told every few steps how far the search is, if not nil. When it
	// reports false, the search ends with the best so far. It is called by one
	// goroutine at a time.
	Watch func(PlanProgress) bool
}

// PlanProgress is how far a [Plan] is.
type PlanProgress struct {
	Steps    int   // of all searches so far
	Machines int   // that are open in the search that reports
	Waiting  int64 // items that have no place yet there
}

// A PlannedMachine is one machine of a [Packing] and what goes there.
type PlannedMachine struct {
	Kind        int32 // as numbered by [binpack.State.Kinds]; of a standing machine not read
	Line, Index int32 // position: of a line of machines.csv and within it
	Items       []binpack.Entry
	// Devices are those of each item, in the order of Items; nil where its app
	// uses none. Of a standing machine nil as a whole means the lowest that are
	// free.
	Devices [][]binpack.Device
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
// The packing respects capacity, devices, types, limits, rules and spread, and
// can be placed in some order. Same seed, same packing.
func Plan(inst *binpack.Instance, items []int64, opt PlanOptions) Packing {
	if len(items) != len(inst.Apps) {
		panic("bound: items must have one entry per app")
	}
	if opt.Steps == 0 {
		opt.Steps = DefaultPlanSteps
	}
	all := slices.Clone(items)
	for _, s := range opt.Standing {
		for _, e := range s.Items {
			all[e.App] += int64(e.Count)
		}
	}
	out := searchAll(inst, items, opt)
	out.Bound = Volume(inst, all)
	out.Proven = out.Complete() && out.Cost <= out.Bound.Cost
	return out
}

// searchAll runs the searches and returns the best: the least volume left out,
// the least cost, the first.
func searchAll(inst *binpack.Instance, items []int64, opt PlanOptions) Packing {
	found := make([]*planner, max(1, opt.Starts))
	w := &watch{tell: opt.Watch}
	var wg sync.WaitGroup
	for range min(max(1, opt.Workers), len(found)) {
		wg.Go(func() {
			for i := w.next(); i < len(found); i = w.next() {
				p := newPlanner(inst, items, opt.Standing)
				p.watch = w
				p.search(opt, i)
				if len(p.waiting) == 0 && p.cost() <= p.enough {
					w.close()
				}
				found[i] = p
			}
		})
	}
	wg.Wait()
	best := found[0]
	for _, p := range found[1:] {
		if p != nil && (p.leftVolume < best.leftVolume || p.leftVolume == best.leftVolume && p.cost() < best.cost()) {
			best = p
		}
	}
	return best.packing(items, opt.Standing)
}

// A watch counts searches and their steps, and ends them.
type watch struct {
	mu     sync.Mutex
	tell   func(PlanProgress) bool // nil = nobody
	begun  int                     // searches
	closed bool                    // no more searches begin
	halted bool                    // all are to end
	steps  int
}

// next is the number of a search to begin, beyond all when there is none.
func (w *watch) next() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed && w.begun > 0 {
		return math.MaxInt
	}
	w.begun++
	return w.begun - 1
}

func (w *watch) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
}

// goOn reports how far a search is and whether it goes on.
func (w *watch) goOn(steps int, p PlanProgress) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps += steps
	p.Steps = w.steps
	if !w.halted && w.tell != nil && !w.tell(p) {
		w.closed, w.halted = true, true
	}
	return !w.halted
}

// search runs a whole search.
func (p *planner) search(opt PlanOptions, start int) {
	p.budget = planFleets * opt.Steps
	p.openFleet(opt.Machines)
	p.construct(opt.Seed, start)
	p.improve(opt.Steps)
	jumped := false
	for len(p.waiting) > 0 {
		n := p.grow()
		if n == 0 {
			jumped = p.relieve(opt.Steps) || jumped
			break
		}
		jumped = jumped || n > 1
		p.begin()
		p.fill(p.waiting)
		p.improve(opt.Steps)
	}
	if len(p.waiting) == 0 {
		if jumped || len(p.kinds) > 1 {
			p.shrink(opt.Steps)
		}
		if len(p.kinds) > 1 {
			p.trade(opt.Steps)
		}
	}
	p.repairSpread()
}

// construct fills the empty fleet a few times and keeps the best.
func (p *planner) construct(seed uint64, start int) {
	best, least := 0, int64(math.MaxInt64)
	for i := range constructions {
		p.restart(seed, start*constructions+i)
		if p.leftVolume < least {
			best, least = i, p.leftVolume
		}
		if len(p.waiting) == 0 {
			return
		}
	}
	if best != constructions-1 {
		p.restart(seed, start*constructions+best)
	}
}

func (p *planner) restart(seed uint64, stream int) {
	p.rng = rand.New(rand.NewPCG(seed, uint64(stream)))
	for m := range p.kind {
		p.empty(int32(m))
	}
	p.begin()
	p.fill(p.waiting)
}

// packing is the result as others read it, but for the bound.
func (p *planner) packing(items []int64, standing []PlannedMachine) Packing {
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
		pm.Devices = p.devicesOf(int32(m), pm.Items)
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
