package moves

import (
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A shortage is what a machine lacks of a dimension.
type shortage struct {
	dimension int
	amount    int64
}

// An ejection puts an item on a machine in place of one or two others.
type ejection struct {
	machine int32
	out     [2]int32 // items; the second is -1 for one
	cost    float64
}

// eject puts an item in the place of the one that costs least, of another app: the penalty of
// the other, its size beside the item's, its price if it stands where it stood at the
// beginning, and a little chance. Where no single item makes room, two do; in a quick search,
// which has few moves to spare, now and then also where two are cheaper.
func (s *search) eject(i int32) bool {
	best := ejection{machine: -1, cost: math.Inf(1)}
	s.each(s.effort.look, &best, func(m int32) { s.ejectOne(i, m, &best) })
	if best.machine < 0 || s.effort.pairs > 0 && s.rng.IntN(s.effort.pairs) == 0 {
		s.each(s.effort.lookPairs, &best, func(m int32) { s.ejectTwo(i, m, &best) })
	}
	if best.machine < 0 {
		return false
	}
	for _, j := range best.out {
		if j >= 0 {
			s.lift(j)
			s.pool = append(s.pool, j)
		}
	}
	s.put(i, best.machine)
	return true
}

// each calls f for a number of machines from a random one on, and for more until there is
// an ejection.
func (s *search) each(number int, best *ejection, f func(m int32)) {
	start := s.rng.IntN(len(s.machines))
	for k := range s.machines {
		m := s.machines[(start+k)%len(s.machines)]
		if !s.usable[m] || len(s.on[m]) == 0 {
			continue
		}
		if number--; number < 0 && best.machine >= 0 {
			return
		}
		f(m)
	}
}

// lacks lists what a machine lacks for an item, the tightest dimension first; ok is false
// where the machine's type or an amount larger than all of its capacity forbids the item.
func (s *search) lacks(i, m int32) (ok bool) {
	app, capacity := s.app(i), s.state.Capacity(m)
	s.short = s.short[:0]
	for _, d := range s.tight {
		if lack := app.Demand[d] - s.state.Free(d)[m]; lack > 0 {
			if app.Demand[d] > capacity[d] {
				return false
			}
			s.short = append(s.short, shortage{d, lack})
		}
	}
	return s.typeAllowed(app, m)
}

func (s *search) typeAllowed(app *binpack.App, m int32) bool {
	return app.Types == nil || slices.Contains(app.Types, s.state.Kinds()[s.state.KindOf(m)].Type)
}

// cost of an ejection of j for i; infinite where j must stay.
func (s *search) cost(i, j int32) float64 {
	a, b := &s.items[i], &s.items[j]
	if b.Fixed || a.App == b.App {
		return math.Inf(1)
	}
	cost := s.pen[j] + 2*s.size[b.App]/s.size[a.App] + .3*s.rng.Float64()
	if s.at[j] == s.origin[j] {
		if s.moved[b.App] >= s.cap[b.App] {
			return math.Inf(1)
		}
		cost += b.Price
	}
	return cost
}

func (s *search) ejectOne(i, m int32, best *ejection) {
	if !s.lacks(i, m) {
		return
	}
	blocked := s.blocked(i, m)
	last, lastCost, lastFits := int32(-1), math.Inf(1), false
	for _, j := range s.on[m] {
		cost := s.cost(i, j)
		if cost >= best.cost {
			continue
		}
		if app := s.items[j].App; app != last || cost < lastCost { // items of an app are alike
			last, lastCost, lastFits = app, cost, s.makesRoom(i, m, blocked, j, -1)
		}
		if lastFits && cost < best.cost {
			*best = ejection{machine: m, out: [2]int32{j, -1}, cost: cost}
		}
	}
}

func (s *search) ejectTwo(i, m int32, best *ejection) {
	if !s.lacks(i, m) {
		return
	}
	blocked := s.blocked(i, m)
	for k, j := range s.on[m] {
		one := s.cost(i, j)
		if one >= best.cost {
			continue
		}
		for _, other := range s.on[m][k+1:] {
			if cost := one + s.cost(i, other); cost < best.cost && s.makesRoom(i, m, blocked, j, other) {
				*best = ejection{machine: m, out: [2]int32{j, other}, cost: cost}
			}
		}
	}
}

// blocked reports whether limits or rules close a machine to an item.
func (s *search) blocked(i, m int32) bool {
	return s.state.Blocked(s.items[i].App)[m/64]>>(m%64)&1 != 0
}

// makesRoom reports whether an item fits on a machine without one or two others (-1 = one).
func (s *search) makesRoom(i, m int32, blocked bool, j, other int32) bool {
	for _, lack := range s.short {
		have := s.app(j).Demand[lack.dimension]
		if other >= 0 {
			have += s.app(other).Demand[lack.dimension]
		}
		if have < lack.amount {
			return false
		}
	}
	group := s.app(i).Group
	if s.slow || s.inst.Groups[group].SpreadMin > 1 {
		return s.trial(i, m, j, other)
	}
	if !blocked {
		return true
	}
	gone := [2]int32{s.app(j).Group, -1}
	if other >= 0 {
		gone[1] = s.app(other).Group
	}
	return !s.blockedWithout(group, m, gone)
}

// blockedWithout reports whether limit or rules close a machine to one more item of a group
// when an item of each of two other groups (-1 = none) is gone.
func (s *search) blockedWithout(group, m int32, gone [2]int32) bool {
	count := func(g int32) int32 {
		n := s.state.Count(g, m)
		for _, x := range gone {
			if x == g {
				n--
			}
		}
		return n
	}
	own := count(group)
	if limit := s.inst.Groups[group].Limit; limit > 0 && own >= limit {
		return true
	}
	for _, r := range s.into[group] {
		if own >= r.Max && count(r.A) > 0 {
			return true
		}
	}
	for _, r := range s.out[group] {
		if count(r.B) > r.Max {
			return true
		}
	}
	return false
}

// trial is makesRoom by doing it: with devices and spread it is the exact way.
func (s *search) trial(i, m, j, other int32) bool {
	gone := [2]int32{j, other}
	for _, x := range gone {
		if x >= 0 {
			s.state.Remove(s.items[x].App, m, s.devices[x])
		}
	}
	fits := s.state.Fits(s.items[i].App, m)
	for _, x := range gone {
		if x < 0 {
			continue
		}
		if err := s.state.PlaceAs(s.items[x].App, m, s.devices[x]); err != nil {
			panic("moves: an item does not go back: " + err.Error())
		}
	}
	return fits
}
