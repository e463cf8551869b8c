package plan

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
)

// DefaultSteps is the effort of [Pack] where Options.Steps is 0.
const DefaultSteps = 15000

// Options of [Pack].
type Options struct {
	Seed uint64
	// Steps of ruin and recreate before the fleet grows; 0 = DefaultSteps, negative
	// = no steps. A search takes at most 2·planFleets times as many.
	Steps int
	// Starts is the number of searches, each with random numbers of its own. The
	// best is the result. 0 = 1. When one meets the bound, those after it are left
	// out.
	Starts int
	// Workers is the number of searches at the same time; 0 = 1. The result is
	// the same for any.
	Workers int
	// Machines to begin with, when that is more than the bounds require.
	Machines int
	// Standing machines hold items that stay where they are. Their positions are
	// taken, and their items count against limits and rules.
	Standing []Machine
	// Loosened is the instance for the bounds: without the constraints that the
	// standing items break. nil = the same.
	Loosened *binpack.Instance
	// Moves makes the bound hold for placements after moves, too (see [bound.Options]).
	Moves bool
	// Work of the linear programs, as in [bound.Options], that may raise the bound when
	// the first search has not met it; 0 = no such work.
	Work int64
	// Watch, if not nil, is called every few steps with the progress of the search,
	// by one goroutine at a time.
	Watch func(Progress)
}

// Progress is the intermediate state of a [Pack].
type Progress struct {
	Steps    int   // of all searches so far
	Machines int   // that are open in the search that reports
	Waiting  int64 // items that have no place yet there
}

// A Machine is one machine of a [Packing] with the items placed there.
type Machine struct {
	Kind        int32 // as numbered by [binpack.State.Kinds]; of a standing machine not read
	Line, Index int32 // position: of a line of machines.csv and within it
	Items       []binpack.Entry
	// Devices are those of each item, in the order of Items; nil where its app
	// uses none. Of a standing machine nil as a whole means the lowest that are
	// free.
	Devices [][]binpack.Device
}

// A Packing assigns items to machines when everything is known beforehand.
type Packing struct {
	// Machines begins with the standing ones in the order given, whose Items are
	// the added ones; then those to be opened, each at the lowest free position of
	// its kind.
	Machines []Machine
	// Order has an order of the items in which each constraint holds after every one, where limits
	// or rules by zone bind a group; else nil: then the first of each group on each machine
	// precede the others.
	Order []Spot
	// LeftOut is the number of items per app that found no place.
	LeftOut []int64
	// Cost of all machines that hold something, standing ones included.
	Cost float64
	// Bound is the bound of all items, standing ones included, by [bound.Best].
	Bound bound.Bound
	// Proven means that nothing is left out and the cost equals the bound: no
	// packing is cheaper.
	Proven bool
}

// Complete reports whether nothing is left out.
func (p *Packing) Complete() bool {
	return !slices.ContainsFunc(p.LeftOut, func(n int64) bool { return n > 0 })
}

// Pack packs items[a] items of each app a at the least cost it finds: greedy constructions in random order. The best is improved by
// ruin and recreate (Schrimpf, Schneider, Stamm-Wilbrandt and Dueck, "Record Breaking Optimization Results Using the Ruin and Recreate
// Principle", Journal of Computational Physics 159, 2000) in a fleet of the bound's size, which grows while some item does not fit.
// Both kinds of fleet are packed in the same way: a fixed one is an open one with counts.
//
// The packing respects capacity, devices, types, limits, rules and spread, and can be placed
// in some order. The search counts zones; if its result has no order that keeps limits and
// rules by zone, the remaining items are moved at the end. Same seed, same packing. When the
// context ends, the search ends with the best so far.
func Pack(ctx context.Context, inst *binpack.Instance, items []int64, opt Options) Packing {
	if len(items) != len(inst.Apps) {
		panic("bound: items must have one entry per app")
	}
	opt.Steps = cmp.Or(opt.Steps, DefaultSteps)
	opt.Loosened = cmp.Or(opt.Loosened, inst)
	s := searches{inst: inst, items: items, opt: opt}
	s.watch.ctx, s.watch.watch = ctx, opt.Watch
	s.least = s.bound(ctx, bound.Options{})
	best := s.run(0)
	if best.cost() > s.least.Cost && len(best.waiting) == 0 && opt.Work > 0 {
		s.least = s.bound(ctx, bound.Options{Work: opt.Work, Enough: best.cost()})
	}
	for _, p := range s.runRest(best) {
		if p.leftVolume < best.leftVolume || p.leftVolume == best.leftVolume && p.cost() < best.cost() {
			best = p
		}
	}
	out := best.packing(items, opt.Standing)
	if ByZone(inst) {
		out = keepZones(inst, items, opt.Standing, out)
	}
	numberKinds(inst, &out)
	out.Bound = s.least
	if !out.Complete() {
		out.Bound = bound.Best(ctx, opt.Loosened, s.all(nil), bound.Options{Moves: opt.Moves}).Bound
	}
	out.Proven = out.Complete() && out.Cost <= out.Bound.Cost
	return out
}

// searches are those of one plan.
type searches struct {
	inst  *binpack.Instance
	items []int64
	opt   Options
	least bound.Bound // of the items that fit some machine
	watch watch
}

// all counts the items, standing ones included, less those of without.
func (s *searches) all(without []int64) []int64 {
	all := slices.Clone(s.items)
	for a, n := range without {
		all[a] -= n
	}
	for _, m := range s.opt.Standing {
		for _, e := range m.Items {
			all[e.App] += int64(e.Count)
		}
	}
	return all
}

func (s *searches) bound(ctx context.Context, opt bound.Options) bound.Bound {
	opt.Moves = s.opt.Moves
	return bound.Best(ctx, s.opt.Loosened, s.all(hopeless(s.inst, s.items)), opt).Bound
}

// run runs a search.
func (s *searches) run(i int) *planner {
	p := newPlanner(s.inst, s.items, s.opt.Standing, newPlanZones(s.inst))
	p.watch, p.enough = &s.watch, s.least.Cost
	opt := s.opt
	opt.Machines = max(opt.Machines, s.least.Machines)
	p.search(opt, i)
	return p
}

// runRest runs the searches after the first, until one meets the bound, and
// returns those up to it.
func (s *searches) runRest(first *planner) []*planner {
	found := make([]*planner, max(1, s.opt.Starts))
	found[0] = first
	done := func(p *planner) bool { return len(p.waiting) == 0 && p.cost() <= s.least.Cost }
	var next, end atomic.Int64 // no search from end on begins
	end.Store(int64(len(found)))
	if done(first) {
		end.Store(0)
	}
	var wg sync.WaitGroup
	for range min(max(1, s.opt.Workers), len(found)-1) {
		wg.Go(func() {
			for {
				i := int(next.Add(1))
				if i >= int(end.Load()) || s.watch.ctx.Err() != nil {
					return
				}
				if found[i] = s.run(i); done(found[i]) {
					end.Store(0)
				}
			}
		})
	}
	wg.Wait()
	at := slices.IndexFunc(found, func(p *planner) bool { return p == nil || done(p) })
	if at < 0 {
		return found
	}
	if found[at] == nil {
		return found[:at]
	}
	return found[:at+1]
}

// A watch counts the steps of all searches.
type watch struct {
	ctx   context.Context
	watch func(Progress) // may be nil
	mu    sync.Mutex
	steps int
}

// goOn reports the progress of a search and returns whether it shall continue.
func (w *watch) goOn(steps int, p Progress) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps += steps
	p.Steps = w.steps
	if w.watch != nil {
		w.watch(p)
	}
	return w.ctx.Err() == nil
}

// search runs a whole search. With one kind of machine their number is the cost,
// and every fleet gets all the steps; with several the exchange at the end decides.
func (p *planner) search(opt Options, start int) {
	each := opt.Steps
	if len(p.kinds) > 1 {
		each /= planFleets
	}
	p.budget = planFleets * opt.Steps
	p.openFleet(opt.Machines)
	p.construct(opt.Seed, start)
	p.improve(each)
	jumped := false
	for len(p.waiting) > 0 {
		n := p.grow()
		if n == 0 {
			break
		}
		jumped = jumped || n > 1
		p.begin()
		p.fill(p.waiting)
		p.improve(each)
	}
	p.budget = planFleets * opt.Steps
	if len(p.waiting) > 0 {
		p.improve(opt.Steps - each)
		jumped = p.relieve(opt.Steps) || jumped
	}
	if len(p.waiting) == 0 {
		if jumped || len(p.kinds) > 1 {
			p.shrink(each)
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

// packing returns the result without the bound.
func (p *planner) packing(items []int64, standing []Machine) Packing {
	out := Packing{LeftOut: make([]int64, len(items))}
	for a := range items {
		out.LeftOut[a] = p.left[a] + p.hopeless[a]
	}
	next := newPositions(p.inst, p.kindOfLine, standing)
	for m, k := range p.kind {
		if k < 0 || m >= len(standing) && len(p.on[m]) == 0 {
			continue
		}
		pm := Machine{Kind: k}
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

func newPositions(inst *binpack.Instance, of []int32, standing []Machine) *positions {
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
