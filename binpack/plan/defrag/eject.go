package defrag

import (
	"math"
)

// A shortage is the amount that a machine lacks of a dimension.
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
// the other, its size relative to the item's, its price if it is on its first machine, and a
// little chance. Where no single item frees enough, two do; in a quick search, which has few
// moves to spare, now and then also if two are cheaper.
func (s *search) eject(i int32) bool {
	best := ejection{machine: -1, cost: math.Inf(1)}
	s.hole = math.MaxInt64
	if s.narrow {
		s.hole = s.largestHole()
	}
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

// homelessWeight is the weight of the size of an item for which no machine has room, 2 of others.
// Where all room is in holes that are too small, two small items are then cheaper than one as
// large as the item that takes their place, which gains nothing.
const homelessWeight = 6

// homeless reports whether an item is larger than the largest hole.
func (s *search) homeless(j int32) bool { return s.app(j).Demand[s.tight[0]] > s.hole }

// largestHole is the most that a machine has free of the tightest dimension.
func (s *search) largestHole() int64 {
	most, column := int64(0), s.state.Free(s.tight[0])
	for _, m := range s.machines {
		if s.usable[m] {
			most = max(most, column[m])
		}
	}
	return most
}

// each calls f for a number of machines from a random one on, and for more until there is
// an ejection.
func (s *search) each(number int, best *ejection, f func(m int32)) {
	if len(s.machines) == 0 {
		return
	}
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
	return app.MayUse(s.state.Kinds()[s.state.KindOf(m)].Type)
}

// cost of an ejection of j for i; infinite where j must stay.
func (s *search) cost(i, j int32) float64 {
	a, b := &s.items[i], &s.items[j]
	if b.Fixed || a.App == b.App {
		return math.Inf(1)
	}
	weight := 2.
	if s.homeless(j) {
		weight = homelessWeight
	}
	cost := s.pen[j] + weight*s.size[b.App]/s.size[a.App] + .3*s.rng.Float64()
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
	s.listBars(i, m)
	last, lastCost, lastFits := int32(-1), math.Inf(1), false
	for _, j := range s.on[m] {
		cost := s.cost(i, j)
		if cost >= best.cost {
			continue
		}
		if app := s.items[j].App; app != last || cost < lastCost { // items of an app are alike
			last, lastCost, lastFits = app, cost, s.makesRoom(i, m, j, -1)
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
	s.listBars(i, m)
	for k, j := range s.on[m] {
		one := s.cost(i, j)
		if one >= best.cost {
			continue
		}
		for _, other := range s.on[m][k+1:] {
			if cost := one + s.cost(i, other); cost < best.cost && s.makesRoom(i, m, j, other) {
				*best = ejection{machine: m, out: [2]int32{j, other}, cost: cost}
			}
		}
	}
}

// makesRoom reports whether an item fits on a machine without one or two others (-1 = one).
func (s *search) makesRoom(i, m, j, other int32) bool {
	for k, lack := range s.short {
		need := s.need[lack.dimension]
		have := need[s.items[j].App]
		if other >= 0 {
			have += need[s.items[other].App]
		}
		if have < lack.amount {
			s.short[0], s.short[k] = lack, s.short[0] // it may well refuse the next ones too
			return false
		}
	}
	if group := s.app(i).Group; s.slow || s.inst.Groups[group].SpreadMin > 1 || s.state.ByZone(group) {
		return s.trial(i, m, j, other)
	}
	return s.opened(j, other)
}

// A bar is a limit or a rule that closes a machine to an item: so many items of a group, or
// so many of the item's own, have to leave.
type bar struct {
	group, gone int32
	own         int32
}

// listBars lists the bars that close a machine to an item. Only limits and rules that are broken
// count, since items that leave break none.
func (s *search) listBars(i, m int32) {
	s.bars, s.barred = s.bars[:0], s.app(i).Group
	if s.state.Blocked(s.items[i].App)[m/64]>>(m%64)&1 == 0 {
		return
	}
	for _, e := range s.state.Contents(m) {
		s.counts[e.Group] += e.Count
	}
	own := s.counts[s.barred]
	if limit := s.inst.Groups[s.barred].Limit; limit > 0 && own >= limit {
		s.bars = append(s.bars, bar{s.barred, own - limit + 1, own + 1})
	}
	for _, r := range s.into[s.barred] {
		if n := s.counts[r.A]; n > 0 && own >= r.Max {
			s.bars = append(s.bars, bar{r.A, n, own - r.Max + 1})
		}
	}
	for _, r := range s.out[s.barred] {
		if n := s.counts[r.B]; n > r.Max {
			s.bars = append(s.bars, bar{r.B, n - r.Max, own + 1})
		}
	}
	for _, e := range s.state.Contents(m) {
		s.counts[e.Group] = 0
	}
}

// opened reports whether no bar is left after the removal of an item and another (-1 = no other).
func (s *search) opened(j, other int32) bool {
	for _, b := range s.bars {
		group, own := int32(0), int32(0)
		for _, x := range [2]int32{j, other} {
			if x < 0 {
				continue
			}
			switch s.app(x).Group {
			case b.group:
				group++
			case s.barred:
				own++
			}
		}
		if group < b.gone && own < b.own {
			return false
		}
	}
	return true
}

// trial is makesRoom by doing it: with devices, spread and zones it is the exact way.
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
