package binpack

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// A Kind is a set of machines that are alike: equal type, capacity, cost and zone.
type Kind struct {
	Type     int32
	Cost     float64
	Capacity []int64 // per dimension, in units
}

// pool holds the machines of one kind that are not in use, for open fleets.
type pool struct {
	lines []int32 // lines of the kind, in file order
	line  int     // index into lines: those before have no more machines to create
	empty []int32 // machines that are empty, not on offer
	offer int32   // the machine on offer; -1 = all used
}

// compileKinds finds the kind of every line. In a cluster there may be as many kinds as
// nodes: no two have exactly the same memory.
func (s *State) compileKinds() {
	index := make(map[string]int32, len(s.inst.Machines))
	s.kindAt = make([]int32, len(s.inst.Machines))
	var key []byte
	for line, ml := range s.inst.Machines {
		key = binary.LittleEndian.AppendUint32(key[:0], uint32(ml.Type))
		key = binary.LittleEndian.AppendUint64(key, math.Float64bits(ml.Cost+0)) // +0: no sign
		for _, c := range ml.Capacity {
			key = binary.LittleEndian.AppendUint64(key, uint64(c))
		}
		key = append(key, ml.Zone...)
		k, ok := index[string(key)]
		if !ok {
			k = int32(len(s.kinds))
			index[string(key)] = k
			s.kinds = append(s.kinds, Kind{Type: ml.Type, Cost: ml.Cost, Capacity: ml.Capacity})
			s.pools = append(s.pools, pool{offer: -1})
		}
		s.kindAt[line] = k
		s.pools[k].lines = append(s.pools[k].lines, int32(line))
		for i, d := range s.deviceDims {
			s.maxDevices[i] = max(s.maxDevices[i], int(ml.Capacity[d]/s.inst.Dimensions[d].One))
		}
	}
}

// populate brings the first machines into being: all of a fixed fleet, one of
// each kind of an open one.
func (s *State) populate() {
	s.ordered = true
	if s.inst.Fleet == Fixed {
		for line, ml := range s.inst.Machines {
			k := s.kindAt[line]
			for i := range ml.Count {
				m := s.addMachine(k, int32(line), int32(i))
				s.offered[m/64] |= 1 << (m % 64)
			}
		}
		return
	}
	for k := range s.pools {
		s.pools[k].line = 0
		s.offerNext(int32(k))
	}
}

// upcoming is the first line of a kind with machines not yet created, -1 if there
// is no such line.
func (s *columns) upcoming(p *pool) int32 {
	for ; p.line < len(p.lines); p.line++ {
		line := p.lines[p.line]
		if count := s.inst.Machines[line].Count; count == Unlimited || len(s.byLine[line]) < count {
			return line
		}
	}
	return -1
}

// offerNext puts the lowest unused machine of a kind on offer.
func (s *State) offerNext(k int32) {
	p := &s.pools[k]
	best := -1
	for i, m := range p.empty {
		if best < 0 || s.Before(m, p.empty[best]) {
			best = i
		}
	}
	line := s.upcoming(p)
	switch {
	case best >= 0 && (line < 0 || s.line[p.empty[best]] <= line):
		p.offer = p.empty[best]
		p.empty[best] = p.empty[len(p.empty)-1]
		p.empty = p.empty[:len(p.empty)-1]
	case line >= 0:
		p.offer = s.addMachine(k, line, int32(len(s.byLine[line])))
	default:
		p.offer = -1
		return
	}
	s.offered[p.offer/64] |= 1 << (p.offer % 64)
	s.touchClass(p.offer)
	s.note(p.offer, -1)
}

func (s *State) addMachine(k, line, index int32) int32 {
	m := int32(len(s.kind))
	kind := &s.kinds[k]
	if m > 0 && s.ordered {
		last := m - 1
		s.ordered = s.line[last] < line || s.line[last] == line && s.index[last] < index
	}
	for d := range s.free {
		s.free[d] = append(s.free[d], kind.Capacity[d])
	}
	for b := range s.least {
		s.least[b] = append(s.least[b], 0)
	}
	s.relieve(m)
	s.kind = append(s.kind, k)
	s.items = append(s.items, 0)
	if len(s.contents) < cap(s.contents) { // reuse the list kept by a Reset
		s.contents = s.contents[:m+1]
	} else {
		s.contents = append(s.contents, make([]Entry, 0, 8))
	}
	s.version = append(s.version, uint32(s.seq))
	s.lastUsed = append(s.lastUsed, 0)
	s.opened = append(s.opened, 0)
	s.byLine[line] = append(s.byLine[line], m)
	s.line = append(s.line, line)
	s.index = append(s.index, index)
	if len(s.deviceDims) > 0 {
		s.devices = append(s.devices, s.newDevices(kind))
	}
	if int(m)/64 >= len(s.offered) {
		s.offered = append(s.offered, 0)
		if len(s.offered) > s.words {
			s.growRows(max(4, 2*s.words))
		}
	}
	if s.typeBlocks == nil {
		for range s.appStride {
			s.blockedBy = append(s.blockedBy, 0)
		}
		return m
	}
	s.blockedBy = append(s.blockedBy, s.typeBlocks[kind.Type]...)
	return m
}

// blockTypes enters the types of the machines that were added since the last call: of a fleet, 64 machines at once.
func (s *limits) blockTypes() {
	for s.typed < len(s.kind) {
		w, masks := s.typed/64, make([]uint64, len(s.typeBlocks)) // machines of the word by type
		for ; s.typed < min(len(s.kind), 64*(w+1)); s.typed++ {
			masks[s.kinds[s.kind[s.typed]].Type] |= 1 << (s.typed % 64)
		}
		for t, mask := range masks {
			if mask == 0 {
				continue
			}
			for k, word := range s.typeBlocks[t] {
				for ; word != 0; word &= word - 1 {
					s.blocked[(k*64+bits.TrailingZeros64(word))*s.words+w] |= mask
				}
			}
		}
	}
}

func (s *limits) growRows(words int) {
	s.blocked, s.holding = widened(s.blocked, len(s.inst.Apps), s.words, words), widened(s.holding, len(s.groups), s.words, words)
	s.words = words
}

// widened are rows with more words each.
func widened(old []uint64, rows, words, more int) []uint64 {
	wide := make([]uint64, rows*more)
	for r := range rows {
		copy(wide[r*more:], old[r*words:(r+1)*words])
	}
	return wide
}

// Before reports whether machine a has a lower position than machine b.
func (s *columns) Before(a, b int32) bool {
	if s.ordered {
		return a < b
	}
	return s.line[a] < s.line[b] || s.line[a] == s.line[b] && s.index[a] < s.index[b]
}

// Candidates lists those of the machines that take an item that a policy may choose
// among; the list is valid until the next call. In a fixed fleet it is all of them.
// In an open fleet it is those that hold an item, and of the empty ones the lowest
// position of each kind: empty machines of a kind differ in nothing else. allowed
// need not be all machines that take the item: where something else refuses the
// lowest one, the next is the candidate.
//
// offered holds the same rule for all machines, kept up to date with every
// placement, and [State.Feasible] reads it; a property test holds the two together.
func (s *columns) Candidates(allowed []int32) []int32 {
	if s.inst.Fleet == Fixed {
		return allowed
	}
	s.lowest = slices.Grow(s.lowest[:0], len(s.kinds))[:len(s.kinds)]
	for k := range s.lowest {
		s.lowest[k] = -1
	}
	for _, m := range allowed {
		if k := s.kind[m]; s.items[m] == 0 && (s.lowest[k] < 0 || s.Before(m, s.lowest[k])) {
			s.lowest[k] = m
		}
	}
	s.allowed = s.allowed[:0]
	for _, m := range allowed {
		if s.items[m] > 0 || s.lowest[s.kind[m]] == m {
			s.allowed = append(s.allowed, m)
		}
	}
	return s.allowed
}

// employ takes an empty machine of an open fleet into use.
func (s *State) employ(m int32) {
	s.offered[m/64] |= 1 << (m % 64)
	p := &s.pools[s.kind[m]]
	if p.offer == m {
		s.offerNext(s.kind[m])
		return
	}
	for i, e := range p.empty {
		if e == m {
			p.empty[i] = p.empty[len(p.empty)-1]
			p.empty = p.empty[:len(p.empty)-1]
			return
		}
	}
}

// MachineAt gives the machine with an index within a line of machines.csv,
// bringing it into being if it is not there yet; -1 when the line has no such
// machine.
func (s *State) MachineAt(line, index int32) int32 {
	if count := s.inst.Machines[line].Count; index < 0 || count != Unlimited && int(index) >= count {
		return -1
	}
	for int(index) >= len(s.byLine[line]) {
		k := s.kindAt[line]
		m := s.addMachine(k, line, int32(len(s.byLine[line])))
		s.pools[k].empty = append(s.pools[k].empty, m)
	}
	return s.byLine[line][index]
}

// retire gives an emptied machine of an open fleet back: the lowest position
// of the kind is on offer, the others wait.
func (s *State) retire(m int32) {
	p := &s.pools[s.kind[m]]
	if p.offer < 0 {
		p.offer = m
		return
	}
	back := m
	if s.Before(m, p.offer) {
		back, p.offer = p.offer, m
	}
	p.empty = append(p.empty, back)
	s.offered[back/64] &^= 1 << (back % 64)
	if back != m {
		s.touchClass(back)
		s.note(back, -1)
	}
}
