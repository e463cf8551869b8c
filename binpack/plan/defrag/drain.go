package defrag

import (
	"context"
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
)

// open sets the machines that items may move to: those in use and, in a fixed fleet or
// if empty is set, others that were not emptied.
func (s *search) open(empty bool) {
	for m := int32(len(s.machines)); int(m) < s.state.Size(); m++ {
		s.machines, s.usable = append(s.machines, m), append(s.usable, false)
		s.emptied, s.on, s.load = append(s.emptied, false), append(s.on, nil), append(s.load, load{})
	}
	empty = empty || s.inst.Fleet == binpack.Fixed
	for _, m := range s.machines {
		s.usable[m] = !s.emptied[m] && (empty || s.state.Items(m) > 0)
	}
}

// drain empties machines until no more than target are in use, the budget is used up, too many
// attempts fail one after the other, or the context ends. Items move to machines that are in use.
func (s *search) drain(ctx context.Context, target int) {
	s.open(false)
	s.tries, s.extra = make([]int, len(s.machines)), make([]float64, len(s.machines))
	for _, m := range s.machines {
		s.usable[m] = s.state.Items(m) > 0
	}
	failed, round := 0, 0
	var stuck []int32 // machines that no further attempt empties, unless another one is emptied
	emptied := false  // since they were tried
	for s.state.Active() > target && ctx.Err() == nil {
		m, next := s.cheapest()
		if m < 0 && emptied {
			for _, m := range stuck {
				s.tries[m] = 0
			}
			stuck, emptied = stuck[:0], false
			continue
		}
		if m < 0 || failed > s.effort.failures {
			return
		}
		// Another machine may be cheaper than this attempt: the attempt may cost what the
		// second promises, and a little more from attempt to attempt.
		switch round++; {
		case s.empty(m, next*(1+patience*float64(round))):
			s.bringHome()
			failed, round, emptied = 0, 0, true
		case s.stuck:
			s.tries[m] = s.effort.tries
			stuck = append(stuck, m)
		default:
			failed++
		}
		if s.opt.Watch != nil {
			s.opt.Watch(s.attempts, len(s.sequence), s.inUse-s.state.Active())
		}
	}
}

// cheapest is the machine that promises the least price of moves, -1 = no machine, and the
// price that the second promises.
func (s *search) cheapest() (best int32, next float64) {
	best, least := int32(-1), math.Inf(1)
	next = least
	for _, m := range s.machines {
		if !s.usable[m] || s.state.Items(m) == 0 || s.tries[m] >= s.effort.tries {
			continue
		}
		price, ok := s.priceOf(m)
		if !ok || s.load[m].firstPrice > s.left()+1e-9 {
			continue
		}
		price = s.worth(m, price+s.extra[m])
		switch {
		case price >= next || s.capped(m):
		case price < least:
			best, least, next = m, price, least
		default:
			next = price
		}
	}
	return best, next
}

// worth is a price, or a price for each unit of a machine's cost.
func (s *search) worth(m int32, price float64) float64 {
	if s.opt.ByCost {
		price /= s.costOf(m)
	}
	return price
}

func (s *search) costOf(m int32) float64 {
	return max(s.state.Kinds()[s.state.KindOf(m)].Cost, 1e-9)
}

// empty tries to empty a machine for no more than enough and reports whether it is done.
func (s *search) empty(m int32, enough float64) bool {
	s.attempts++
	s.tries[m]++
	if s.stuck = !s.roomWithout(m); s.stuck {
		return false
	}
	s.mark()
	s.usable[m] = false
	s.pool = s.pool[:0]
	own, _ := s.priceOf(m)
	for len(s.on[m]) > 0 {
		i := s.on[m][len(s.on[m])-1]
		s.pool = append(s.pool, i)
		s.lift(i)
	}
	if s.opt.ByCost {
		enough *= s.costOf(m)
	}
	ok := s.settle(min(s.left(), enough))
	s.extra[m] = max(0, s.spent-s.spentAtMark-own)
	if !ok && s.extra[m] == 0 { // the others get their turn
		s.extra[m] = own * float64(s.tries[m])
	}
	if ok && s.carryOut() && s.withinLimits() {
		if s.paid-s.paidWas <= enough {
			s.emptied[m] = true
			return true
		}
		s.extra[m] = max(0, s.paid-s.paidWas-own)
		s.tries[m]--
	}
	s.undo()
	s.usable[m] = true
	return false
}

// bringHome takes back moves that are no longer needed.
func (s *search) bringHome() {
	for i := range s.items {
		i := int32(i)
		home := s.origin[i]
		if home < 0 || s.at[i] == home || !s.usable[home] || !s.state.Fits(s.items[i].App, home) {
			continue
		}
		s.attempts++
		s.mark()
		s.lift(i)
		if s.state.Fits(s.items[i].App, home) {
			s.put(i, home)
			if s.carryOut() && s.paid < s.paidWas {
				continue
			}
		}
		s.undo()
	}
}

// roomWithout reports whether the other machines have as much room as the items of a machine
// take, in each dimension.
func (s *search) roomWithout(m int32) bool {
	for d := range s.inst.Dimensions {
		column := s.state.Free(d)
		need := s.state.Capacity(m)[d] - column[m]
		for _, other := range s.machines {
			if need <= 0 {
				break
			}
			if other != m && s.usable[other] {
				need -= column[other]
			}
		}
		if need > 0 {
			return false
		}
	}
	return true
}

// left is the remainder of the budget.
func (s *search) left() float64 { return s.opt.Budget - s.paid }
