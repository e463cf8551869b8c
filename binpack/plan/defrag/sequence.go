package defrag

import (
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// maxWindow is the number of moves over which two moves of an item are made one.
const maxWindow = 512

// A change is the new machine of an item in an attempt.
type change struct{ item, to int32 }

// carryOut orders the moves of the attempt so that each is valid in its turn, and adds
// them to the sequence. It fails where items block each other and there is no room to
// step aside.
func (s *search) carryOut() bool {
	var pending []change
	for _, i := range s.touched {
		if s.at[i] != s.before[i] {
			pending = append(pending, change{i, s.at[i]})
		}
	}
	slices.Reverse(pending) // the end of a chain is first
	s.rewind()
	first := len(s.sequence)
	aside := map[int32]bool{}
	for len(pending) > 0 {
		n := len(pending)
		pending = slices.DeleteFunc(pending, func(c change) bool { return s.try(c.item, c.to) })
		if len(pending) == n && !s.together(&pending) && !s.stepAside(pending, aside) {
			return false
		}
	}
	s.longest = len(s.sequence) - first
	s.merge(first)
	s.paid = 0
	for _, m := range s.sequence {
		if m.from >= 0 {
			s.paid += s.items[m.item].Price
		}
	}
	return true
}

// try moves an item if its new machine takes it now.
func (s *search) try(i, to int32) bool {
	from, used := s.at[i], s.devices[i]
	if from == to {
		return true // stepped aside to where it belongs
	}
	if from >= 0 {
		s.lift(i)
	}
	if s.state.Fits(s.items[i].App, to) {
		s.put(i, to)
		s.add(i, from, to, used, s.nextStep())
		return true
	}
	s.back(i, from, used)
	return false
}

func (s *search) back(i, m int32, used []binpack.Device) {
	if m < 0 {
		return
	}
	if err := s.state.PlaceAs(s.items[i].App, m, used); err != nil {
		panic("moves: an item does not go back: " + err.Error())
	}
	s.landed(i, m, used)
}

func (s *search) nextStep() int {
	if n := len(s.sequence); n > 0 {
		return s.sequence[n-1].Step + 1
	}
	return 0
}

func (s *search) add(i, from, to int32, used []binpack.Device, step int) {
	s.sequence = append(s.sequence, Move{Step: step, item: i, from: from, to: to, fromDevices: used, Devices: s.devices[i]})
}

// together moves up to Options.InFlight items that wait for each other in one step.
func (s *search) together(pending *[]change) bool {
	for k := 2; k <= min(s.opt.InFlight, len(*pending)); k++ {
		for start := range *pending {
			group := s.circle(*pending, start, k)
			if len(group) < 2 || !s.exchange(group) {
				continue
			}
			*pending = slices.DeleteFunc(*pending, func(c change) bool { return slices.Contains(group, c) })
			return true
		}
	}
	return false
}

// circle follows changes from one on, each to one that is on its new machine.
func (s *search) circle(pending []change, start, most int) []change {
	group := []change{pending[start]}
	for len(group) < most {
		at := slices.IndexFunc(pending, func(c change) bool {
			return s.at[c.item] == group[len(group)-1].to && !slices.Contains(group, c)
		})
		if at < 0 {
			break
		}
		group = append(group, pending[at])
	}
	return group
}

func (s *search) exchange(group []change) bool {
	from, used := make([]int32, len(group)), make([][]binpack.Device, len(group))
	for k, c := range group {
		if from[k], used[k] = s.at[c.item], s.devices[c.item]; from[k] >= 0 {
			s.lift(c.item)
		}
	}
	for k, c := range group {
		if s.state.Fits(s.items[c.item].App, c.to) {
			s.put(c.item, c.to)
			continue
		}
		for _, done := range group[:k] {
			s.lift(done.item)
		}
		for k, c := range group {
			s.back(c.item, from[k], used[k])
		}
		return false
	}
	step := s.nextStep()
	for k, c := range group {
		s.add(c.item, from[k], c.to, used[k], step)
	}
	return true
}

// stepAside moves one of the items that block each other to any machine that takes it, one
// move more; each item once.
func (s *search) stepAside(pending []change, aside map[int32]bool) bool {
	for _, c := range pending {
		if aside[c.item] || s.at[c.item] < 0 {
			continue
		}
		from := s.at[c.item]
		for _, m := range s.state.Feasible(s.items[c.item].App, nil) {
			if m != from && s.takes(m) && s.try(c.item, m) {
				aside[c.item] = true
				return true
			}
		}
	}
	return false
}

// merge makes one move of two where an item that moves from an index on has moved before,
// if all between stays valid.
func (s *search) merge(first int) {
	if s.slow || s.opt.InFlight > 1 {
		return // devices are chosen on arrival: another order chooses others
	}
	for k := first; k < len(s.sequence); k++ {
		item := s.sequence[k].item
		earlier := -1
		for e := k - 1; e >= max(0, k-maxWindow); e-- {
			if s.sequence[e].item == item {
				earlier = e
				break
			}
		}
		if earlier >= 0 && s.mergeTwo(earlier, k) {
			k = max(k-2, -1)
		}
	}
	for k := range s.sequence {
		s.sequence[k].Step = k
	}
}

// mergeTwo makes one move of the two at indices e < l.
func (s *search) mergeTwo(e, l int) bool {
	early, late := s.sequence[e], s.sequence[l]
	one := early
	one.to = late.to
	tail := s.sequence[e:]
	inner, rest := tail[1:l-e], tail[l-e+1:]
	if one.from == one.to {
		return s.replace(e, slices.Concat(inner, rest))
	}
	if s.replace(e, slices.Concat([]Move{one}, inner, rest)) {
		return true
	}
	if one.from < 0 || s.emptied[one.from] || !s.usable[one.from] {
		return false // its machine would be in use for longer
	}
	return s.replace(e, slices.Concat(inner, []Move{one}, rest))
}

// replace replaces the moves from an index on by others that end the same, if each of them
// is valid.
func (s *search) replace(e int, others []Move) bool {
	old := slices.Clone(s.sequence[e:])
	s.takeBack(old)
	for k, m := range others {
		app := s.items[m.item].App
		if m.from >= 0 {
			s.state.Remove(app, m.from, nil)
		}
		if s.state.Fits(app, m.to) {
			s.state.Book(app, m.to)
			continue
		}
		if m.from >= 0 {
			s.state.Book(app, m.from)
		}
		s.takeBack(others[:k])
		for _, m := range old {
			if m.from >= 0 {
				s.state.Remove(s.items[m.item].App, m.from, nil)
			}
			s.state.Book(s.items[m.item].App, m.to)
		}
		return false
	}
	s.sequence = append(s.sequence[:e], others...)
	return true
}

// takeBack takes back moves in the state alone, the last first.
func (s *search) takeBack(moves []Move) {
	for _, m := range slices.Backward(moves) {
		s.state.Remove(s.items[m.item].App, m.to, nil)
		if m.from >= 0 {
			s.state.Book(s.items[m.item].App, m.from)
		}
	}
}
