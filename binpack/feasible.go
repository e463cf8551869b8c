package binpack

import (
	"math"
	"math/bits"
	"slices"
)

// rejecting counts the machines that a dimension recently rejected among those that
// passed the dimensions before it; 16 bits of fraction.
type rejecting struct {
	dimension int
	rejected  int64
}

// room finds the machines that take an item: capacity and devices, within the limits.
type room struct {
	limits

	// With many dimensions, by block of blockDims of them: the smallest free
	// amount of each machine and the largest demand of each app. A block whose
	// peak is no more than the least has room in all of its dimensions.
	least [][]int64 // [block][machine]; nil = not many
	peak  [][]int64 // [app][block]

	devices    [][]int64 // per machine
	deviceDims []int     // dimensions that are devices
	maxDevices []int     // per deviceDims, over kinds
	deviceOut  []int32

	lastReject int
	lastTook   int         // index in offered of a machine that took an item
	asked      uint64      // calls of feasibleMany
	rejecting  []rejecting // all dimensions, those that reject most machines first
}

func (s *room) compileBlocks() {
	dims := len(s.inst.Dimensions)
	if dims < manyDims {
		return
	}
	s.least = make([][]int64, (dims+blockDims-1)/blockDims)
	s.peak = make([][]int64, len(s.inst.Apps))
	for a, app := range s.inst.Apps {
		s.peak[a] = peaks(app.Demand)
	}
}

// peaks are the largest amounts of each block of a demand.
func peaks(demand []int64) []int64 {
	var list []int64
	for block := range slices.Chunk(demand, blockDims) {
		list = append(list, slices.Max(block))
	}
	return list
}

// relieve updates the least free amounts of a machine.
func (s *room) relieve(m int32) {
	for b := range s.least {
		least := int64(math.MaxInt64)
		for _, free := range s.free[b*blockDims : min((b+1)*blockDims, len(s.free))] {
			least = min(least, free[m])
		}
		s.least[b][m] = least
	}
}

// Fits reports whether a machine takes one more item of an app, whether it is
// on offer or not.
func (s *room) Fits(app, m int32) bool {
	if s.blockedBy[int(m)*s.appStride+int(app)/64]>>(app%64)&1 != 0 {
		return false
	}
	return s.hasRoom(&s.inst.Apps[app], m) && s.spreadAllows(app, m) && (!s.zones.hard || s.whyZone(app, m).Kind == Accepted)
}

func (s *room) hasRoom(app *App, m int32) bool {
	if app.Demand[s.lastReject] > s.free[s.lastReject][m] {
		return false
	}
	for d, need := range app.Demand {
		if need > s.free[d][m] {
			s.lastReject = d
			return false
		}
	}
	return len(s.deviceDims) == 0 || s.devicesFit(app, m)
}

// Takes reports whether some machine on offer takes one more item of an app.
func (s *room) Takes(app int32) bool {
	blocked := s.Blocked(app)
	for i := range s.offered {
		w := (s.lastTook + i) % len(s.offered)
		for word := s.offered[w] &^ blocked[w]; word != 0; word &= word - 1 {
			if s.Fits(app, int32(w*64+bits.TrailingZeros64(word))) {
				s.lastTook = w
				return true
			}
		}
	}
	return false
}

// Feasible appends to buf the machines on offer that take one more item of an
// app, by ascending index.
func (s *room) Feasible(app int32, buf []int32) []int32 {
	if !s.ByZone(s.inst.Apps[app].Group) {
		return s.feasible(app, buf)
	}
	start := len(buf)
	buf = s.feasible(app, buf)
	return buf[:start+len(s.openZones(app, buf[start:]))]
}

// feasible is Feasible without the rules by zone.
func (s *room) feasible(app int32, buf []int32) []int32 {
	a := &s.inst.Apps[app]
	blocked := s.Blocked(app)
	narrow := s.narrow(a.Group)
	plain := len(s.deviceDims) == 0
	if plain && !narrow && len(a.Demand) <= 2 {
		return s.feasibleTwo(a, blocked, buf)
	}
	if plain && !narrow {
		return s.feasibleMany(app, blocked, buf)
	}
	for w, word := range s.offered {
		for word &^= blocked[w]; word != 0; word &= word - 1 {
			m := int32(w*64 + bits.TrailingZeros64(word))
			if s.hasRoom(a, m) && (!narrow || s.Count(a.Group, m) == 0) {
				buf = append(buf, m)
			}
		}
	}
	return buf
}

// feasibleTwo is Feasible for one or two dimensions, the common case.
func (s *room) feasibleTwo(a *App, blocked []uint64, buf []int32) []int32 {
	free0, need0 := s.free[0], a.Demand[0]
	free1, need1 := free0, need0
	if len(a.Demand) == 2 {
		free1, need1 = s.free[1], a.Demand[1]
	}
	for w, word := range s.offered {
		for word &^= blocked[w]; word != 0; word &= word - 1 {
			m := w*64 + bits.TrailingZeros64(word)
			if need0 <= free0[m] && need1 <= free1[m] {
				buf = append(buf, int32(m))
			}
		}
	}
	return buf
}

// feasibleMany is Feasible for many dimensions. It checks column after column, those that
// reject most first, so that the first columns reject most machines. The memory layout
// also suits reading along a column (3.7x on tianchi-prelim-b with 200 dimensions). Most
// of the few remaining machines have room, so the other columns are checked by block
// (another 1.3x).
func (s *room) feasibleMany(app int32, blocked []uint64, buf []int32) []int32 {
	demand, start := s.inst.Apps[app].Demand, len(buf)
	s.asked++
	all := s.least == nil || s.asked%askAll == 0
	n, met := start, 0
	first := s.rejecting[0].dimension
	for w, word := range s.offered { // the first column on the way
		if word &^= blocked[w]; word == 0 {
			continue
		}
		met += bits.OnesCount64(word)
		buf = slices.Grow(buf[:n], 64)[:n+64]
		for free, need := s.free[first], demand[first]; word != 0; word &= word - 1 {
			m := w*64 + bits.TrailingZeros64(word)
			buf[n] = int32(m)
			// Keep it if the difference is not negative, without a branch.
			n += int(1 - uint64(free[m]-need)>>63)
		}
	}
	buf = buf[:n]
	s.rejected(0, met-(n-start))
	for at := 1; at < len(s.rejecting) && n > start; at++ {
		if at == columnsFirst && !all {
			return s.passBlocks(app, buf, start)
		}
		d := s.rejecting[at].dimension
		free, need := s.free[d], demand[d]
		n = start
		for _, m := range buf[start:] {
			buf[n] = m
			n += int(1 - uint64(free[m]-need)>>63)
		}
		s.rejected(at, len(buf)-n)
		buf = buf[:n]
	}
	return buf
}

// rejected notes the number of machines that the dimension at an index of the order
// rejected, and moves it up.
func (s *room) rejected(at, machines int) {
	order := s.rejecting
	order[at].rejected += (int64(machines)<<16 - order[at].rejected) >> 4
	if at > 0 && order[at].rejected > order[at-1].rejected {
		order[at-1], order[at] = order[at], order[at-1]
	}
}

// passBlocks removes the machines without room from buf[start:].
func (s *room) passBlocks(app int32, buf []int32, start int) []int32 {
	demand := s.inst.Apps[app].Demand
	for b, peak := range s.peak[app] {
		least, n := s.least[b], start
		for _, m := range buf[start:] {
			buf[n] = m
			if peak <= least[m] || s.blockHasRoom(demand, b, m) {
				n++
			}
		}
		buf = buf[:n]
	}
	return buf
}

func (s *room) blockHasRoom(demand []int64, b int, m int32) bool {
	for d := b * blockDims; d < min((b+1)*blockDims, len(demand)); d++ {
		if demand[d] > s.free[d][m] {
			return false
		}
	}
	return true
}
