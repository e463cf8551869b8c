package defrag

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
)

// An Item is on a machine, or waits for one.
type Item struct {
	App         int32
	Line, Index int32 // of its machine: line of machines.csv and index within it; Line -1 = it waits
	Devices     []binpack.Device
	Fixed       bool    // it must not move; a waiting one is placed, and stays
	Price       float64 // of a move; 0 = 1
}

// A Move takes an item from its machine to another.
type Move struct {
	Item int // index into the items
	// Step counts from 0. The items of a step leave their machines together, then they
	// land; of one step there are at most Options.InFlight moves.
	Step        int
	From, To    Position
	Devices     []binpack.Device // on the new machine
	item        int32
	from, to    int32 // machines
	fromDevices []binpack.Device
}

// A Position is a line of machines.csv and an index within it.
type Position struct{ Line, Index int32 }

// Nowhere is the position of an item that waits.
var Nowhere = Position{-1, -1}

// Options of the search.
type Options struct {
	Seed uint64
	// Budget is the most that all moves together may cost; a move costs its item's price.
	// The placement of a waiting item is not a move.
	Budget float64
	// ByCost prefers the dearest machines: it takes the least price of moves for each unit
	// of machine cost. Otherwise all machines count alike.
	ByCost bool
	// Chain is the most other moves for one waiting item; 0 = DefaultChain.
	Chain int
	// InFlight is the most items that are away from their machines at once; 0 = 1. From 2
	// on items can change places.
	InFlight int
	// AppShare is the largest share of an app's items that may move; 0 = all. At least one
	// item of each app may.
	AppShare float64
	// Caps are the most items of each app that may move; nil = by AppShare.
	Caps []int32
	// Watch, when set, is called after each attempt with the number of attempts, moves and
	// machines emptied so far.
	Watch func(attempts, moves, freed int)
}

// DefaultChain is the most other moves for one waiting item.
const DefaultChain = 8

// A Planner looks for moves. It serves one goroutine.
type Planner struct {
	search
	least   []float64
	waiting []int32
}

// New prepares a search. It fails if an item cannot be on its stated machine, or an
// option or price is invalid.
func New(inst *binpack.Instance, items []Item, opt Options) (*Planner, error) {
	if err := opt.complete(); err != nil {
		return nil, err
	}
	p := &Planner{}
	if err := p.begin(inst, items, opt); err != nil {
		return nil, err
	}
	p.inUse = p.state.Active()
	p.least = p.leastPrices()
	for i := range items {
		if p.at[i] < 0 {
			p.waiting = append(p.waiting, int32(i))
		}
	}
	return p, nil
}

func (o *Options) complete() error {
	o.Chain = cmp.Or(o.Chain, DefaultChain)
	o.InFlight = cmp.Or(o.InFlight, 1)
	o.AppShare = cmp.Or(o.AppShare, 1)
	switch {
	case !(o.Budget >= 0):
		return fmt.Errorf("a budget of %g: want at least 0", o.Budget)
	case o.Chain < 0 || o.InFlight < 0:
		return errors.New("chain and items in flight must not be negative")
	case !(o.AppShare > 0 && o.AppShare <= 1):
		return fmt.Errorf("a share of an app of %g: want more than 0, at most 1", o.AppShare)
	}
	return nil
}

// Machines is the number of machines in use now, and at the beginning.
func (p *Planner) Machines() (now, before int) { return p.state.Active(), p.inUse }

// Moves is the sequence so far.
func (p *Planner) Moves() []Move {
	for i := range p.sequence {
		m := &p.sequence[i]
		m.Item, m.From, m.To = int(m.item), p.position(m.from), p.position(m.to)
	}
	return p.sequence
}

func (s *search) position(m int32) Position {
	if m < 0 {
		return Nowhere
	}
	line, index := s.state.Position(m)
	return Position{line, index}
}

// MakeRoom lets in the waiting items one by one, in their order, each with at most
// Options.Chain moves of others, and returns those that stay without a place. A context
// that ends stops it.
func (p *Planner) MakeRoom(ctx context.Context) (left []int) {
	p.open(false)
	for _, i := range p.waiting {
		if ctx.Err() != nil || !p.letIn(i) {
			left = append(left, int(i))
		}
	}
	p.waiting = p.waiting[:0]
	return left
}

// letIn finds a place for a waiting item. A machine of an open fleet that is not in use is
// the last resort.
func (p *Planner) letIn(i int32) bool {
	for range p.effort.room {
		p.attempts++
		p.mark()
		p.pool = append(p.pool[:0], i)
		if p.settle(p.left()) && p.carryOut() && p.withinLimits() && p.longest <= p.opt.Chain+1 {
			return true
		}
		p.undo()
	}
	if p.inst.Fleet == binpack.Fixed {
		return false
	}
	p.attempts++
	p.mark()
	p.open(true)
	defer p.open(false)
	if !p.insert(i) {
		return false
	}
	return p.carryOut()
}

// Rebalance empties machines until no more than target are in use, the budget is used up, no
// attempt succeeds, or the context ends. Items move to machines that are in use.
func (p *Planner) Rebalance(ctx context.Context, target int) {
	p.drain(ctx, target)
}

// LeastMoves is a lower bound on the price of the moves that leave a number of machines
// fewer in use: each item of a machine that empties moves. Infinite means impossible.
func (p *Planner) LeastMoves(freed int) float64 {
	sum := 0.0
	for k := range freed {
		if k >= len(p.least) {
			return math.Inf(1)
		}
		sum += p.least[k]
	}
	return sum
}
