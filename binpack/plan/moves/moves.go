package moves

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
)

// An Item stands on a machine, or waits for one.
type Item struct {
	App         int32
	Line, Index int32 // of its machine: line of machines.csv and index within it; Line -1 = it waits
	Devices     []binpack.Device
	Fixed       bool    // it must not move
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
	// Watch, when set, is called after each attempt with the number of attempts, moves and
	// machines emptied so far.
	Watch func(attempts, moves, freed int)
}

// DefaultChain is the most other moves for one waiting item.
const DefaultChain = 8

// A Planner looks for moves. It serves one goroutine.
type Planner struct {
	search
	before  int // machines in use at the beginning
	least   []float64
	waiting []int32
}

// New prepares a search. The error says which item cannot stand where it is said to
// stand, or which option or price makes no sense.
func New(inst *binpack.Instance, items []Item, opt Options) (*Planner, error) {
	if err := opt.complete(); err != nil {
		return nil, err
	}
	p := &Planner{}
	if err := p.begin(inst, items, opt); err != nil {
		return nil, err
	}
	p.before = p.state.Active()
	p.least = p.leastPrices()
	for i := range items {
		if p.at[i] < 0 {
			p.waiting = append(p.waiting, int32(i))
		}
	}
	return p, nil
}

func (o *Options) complete() error {
	if o.Chain == 0 {
		o.Chain = DefaultChain
	}
	if o.InFlight == 0 {
		o.InFlight = 1
	}
	if o.AppShare == 0 {
		o.AppShare = 1
	}
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
func (p *Planner) Machines() (now, before int) { return p.state.Active(), p.before }

// Moves is the sequence so far.
func (p *Planner) Moves() []Move {
	for i := range p.sequence {
		m := &p.sequence[i]
		m.Item, m.From, m.To = int(m.item), p.position(m.from), p.position(m.to)
	}
	return p.sequence
}

func (p *Planner) position(m int32) Position {
	if m < 0 {
		return Nowhere
	}
	line, index := p.state.Position(m)
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
	for range roomAttempts {
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

// open says where items may land: on machines in use and, in a fixed fleet or if empty
// says so, on others that were not emptied.
func (p *Planner) open(empty bool) {
	for m := int32(len(p.machines)); int(m) < p.state.Size(); m++ {
		p.machines, p.usable = append(p.machines, m), append(p.usable, false)
		p.emptied, p.on, p.load = append(p.emptied, false), append(p.on, nil), append(p.load, load{})
	}
	empty = empty || p.inst.Fleet == binpack.Fixed
	for _, m := range p.machines {
		p.usable[m] = !p.emptied[m] && (empty || p.state.Items(m) > 0)
	}
}

// Rebalance empties machines until no more than target are in use, the budget is used up, no
// attempt succeeds, or the context ends. Items move to machines that are in use.
func (p *Planner) Rebalance(ctx context.Context, target int) {
	p.open(false)
	p.tries, p.extra = make([]int, len(p.machines)), make([]float64, len(p.machines))
	for _, m := range p.machines {
		p.usable[m] = p.state.Items(m) > 0
	}
	failed, round, best := 0, 0, math.Inf(1)
	for p.state.Active() > target && ctx.Err() == nil {
		m, next := p.cheapest()
		if m < 0 || failed > maxFailures+failuresPerMachine*p.state.Active() {
			return
		}
		// Another machine may be cheaper than what this attempt takes.
		enough := next
		if round++; round > patience {
			enough = max(next, best)
		}
		if round > 2*patience {
			enough = math.Inf(1)
		}
		price, done := p.empty(m, enough)
		switch {
		case done:
			p.bringHome()
			failed, round, best = 0, 0, math.Inf(1)
		case math.IsInf(price, 1):
			failed++
		default:
			best = min(best, price)
		}
		if p.opt.Watch != nil {
			p.opt.Watch(p.attempts, len(p.sequence), p.before-p.state.Active())
		}
	}
}

// cheapest is the machine that promises the least price of moves, -1 = none, and the price
// that the second promises.
func (p *Planner) cheapest() (best int32, next float64) {
	best, least := int32(-1), math.Inf(1)
	next = least
	for _, m := range p.machines {
		if !p.usable[m] || p.state.Items(m) == 0 || p.tries[m] >= maxTries {
			continue
		}
		price, ok := p.priceOf(m)
		if !ok || p.load[m].firstPrice > p.left()+1e-9 {
			continue
		}
		price = p.worth(m, price+p.extra[m])
		if price < least {
			best, least, next = m, price, least
		} else {
			next = min(next, price)
		}
	}
	return best, next
}

// worth is a price, or a price for each unit of a machine's cost.
func (p *Planner) worth(m int32, price float64) float64 {
	if p.opt.ByCost {
		price /= max(p.state.Kinds()[p.state.KindOf(m)].Cost, 1e-9)
	}
	return price
}

// empty tries to empty a machine for no more than enough and reports whether it is done. The price
// is infinite where it is not possible.
func (p *Planner) empty(m int32, enough float64) (price float64, done bool) {
	p.attempts++
	p.tries[m]++
	if !p.roomWithout(m) {
		p.tries[m] = maxTries
		return math.Inf(1), false
	}
	p.mark()
	p.usable[m] = false
	p.pool = p.pool[:0]
	own, _ := p.priceOf(m)
	for len(p.on[m]) > 0 {
		i := p.on[m][len(p.on[m])-1]
		p.pool = append(p.pool, i)
		p.lift(i)
	}
	ok := p.settle(p.left())
	p.extra[m] = max(0, p.spent-p.spentAtMark-own)
	price = math.Inf(1)
	if ok && p.carryOut() && p.withinLimits() {
		if price = p.worth(m, p.paid-p.paidWas); price <= enough {
			p.emptied[m] = true
			return price, true
		}
		p.extra[m] = max(0, p.paid-p.paidWas-own)
		p.tries[m]--
	}
	p.undo()
	p.usable[m] = true
	return price, false
}

// bringHome takes back moves that are no longer needed.
func (p *Planner) bringHome() {
	for i := range p.items {
		i := int32(i)
		home := p.origin[i]
		if home < 0 || p.at[i] == home || !p.usable[home] || !p.state.Fits(p.items[i].App, home) {
			continue
		}
		p.attempts++
		p.mark()
		p.lift(i)
		if p.state.Fits(p.items[i].App, home) {
			p.put(i, home)
			if p.carryOut() && p.paid < p.paidWas {
				continue
			}
		}
		p.undo()
	}
}

// roomWithout reports whether the other machines have as much room as the items of a machine
// take, in each dimension.
func (p *Planner) roomWithout(m int32) bool {
	for d := range p.inst.Dimensions {
		column := p.state.Free(d)
		need := p.state.Capacity(m)[d] - column[m]
		for _, other := range p.machines {
			if need <= 0 {
				break
			}
			if other != m && p.usable[other] {
				need -= column[other]
			}
		}
		if need > 0 {
			return false
		}
	}
	return true
}

// left is what of the budget is left.
func (p *Planner) left() float64 { return p.opt.Budget - p.paid }

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
