package binpack

import "math/bits"

// classes groups the machines on offer by kind, free amounts and emptiness:
// machines of a class are equal but for what stands on them. Policies that look only at
// amounts then score a handful of classes instead of all machines.
type classes struct {
	of    []int32            // per machine: its class, -1 = not on offer
	list  []class            // all classes, live or spare
	live  []int32            // classes with members
	spare []int32            // classes without
	byKey map[uint64][]int32 // hash of kind and free amounts → live classes
	words int                // of a member bitset
	off   bool               // grouping does not pay for this state
	tries int
}

type class struct {
	members []uint64
	count   int
	hash    uint64
	at      int   // index into live
	first   int32 // a machine of the class, to read kind and free amounts from
	low     int   // no member below this word
}

// Classes pay when they are clearly fewer than the machines on offer.
const (
	classShare    = 2    // machines on offer per class, at least
	classMinimum  = 16   // machines on offer before the share is looked at
	classPatience = 4096 // changes between two looks
)

// useClasses reports whether Choose should go by classes, setting them up on
// first use.
func (s *State) useClasses() bool {
	if len(s.deviceDims) > 0 {
		return false
	}
	if s.classes == nil {
		s.classes = &classes{byKey: map[uint64][]int32{}}
		s.rebuildClasses()
	}
	return !s.classes.off
}

func (s *State) rebuildClasses() {
	for w, word := range s.offered {
		for ; word != 0; word &= word - 1 {
			s.touchClass(int32(w*64 + bits.TrailingZeros64(word)))
		}
	}
}

// touchClass moves a machine to the class of its present amounts.
func (s *State) touchClass(m int32) {
	c := s.classes
	if c == nil || c.off {
		return
	}
	for len(c.of) < len(s.kind) {
		c.of = append(c.of, -1)
	}
	if old := c.of[m]; old >= 0 {
		s.leaveClass(old, m)
	}
	if s.offered[m/64]>>(m%64)&1 == 0 {
		return
	}
	s.joinClass(m)
	c.tries++
	if c.tries%classPatience == 0 {
		s.judgeClasses()
	}
}

// judgeClasses gives classes up when most machines stand in one of their own.
func (s *State) judgeClasses() {
	offered := 0
	for _, w := range s.offered {
		offered += bits.OnesCount64(w)
	}
	if offered >= classMinimum && len(s.classes.live)*classShare > offered {
		s.classes.off = true
	}
}

func (s *State) leaveClass(k, m int32) {
	c := s.classes
	cl := &c.list[k]
	cl.members[m/64] &^= 1 << (m % 64)
	cl.count--
	c.of[m] = -1
	if cl.count > 0 {
		if cl.first == m {
			for w := cl.low; ; w++ {
				if cl.members[w] != 0 {
					cl.first, cl.low = int32(w*64+bits.TrailingZeros64(cl.members[w])), w
					break
				}
			}
		}
		return
	}
	last := c.live[len(c.live)-1]
	c.live[cl.at] = last
	c.list[last].at = cl.at
	c.live = c.live[:len(c.live)-1]
	bucket := c.byKey[cl.hash]
	for i, b := range bucket {
		if b == k {
			bucket[i] = bucket[len(bucket)-1]
			c.byKey[cl.hash] = bucket[:len(bucket)-1]
			break
		}
	}
	c.spare = append(c.spare, k)
}

func (s *State) joinClass(m int32) {
	c := s.classes
	hash := s.classHash(m)
	for _, k := range c.byKey[hash] {
		if cl := &c.list[k]; s.sameAmounts(cl.first, m) {
			s.addMember(cl, k, m)
			return
		}
	}
	var k int32
	if n := len(c.spare); n > 0 {
		k, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		k = int32(len(c.list))
		c.list = append(c.list, class{})
	}
	cl := &c.list[k]
	cl.hash, cl.at, cl.count, cl.first, cl.low = hash, len(c.live), 0, m, int(m)/64
	c.live = append(c.live, k)
	c.byKey[hash] = append(c.byKey[hash], k)
	s.addMember(cl, k, m)
}

func (s *State) addMember(cl *class, k, m int32) {
	for len(cl.members) <= int(m)/64 {
		cl.members = append(cl.members, 0)
	}
	cl.members[m/64] |= 1 << (m % 64)
	cl.low = min(cl.low, int(m)/64)
	cl.count++
	s.classes.of[m] = k
}

func (s *State) classHash(m int32) uint64 {
	h := uint64(s.kind[m]) + 0x9e3779b97f4a7c15
	if s.items[m] == 0 {
		h = ^h
	}
	for d := range s.free {
		h ^= uint64(s.free[d][m])
		h *= 0xff51afd7ed558ccd
		h ^= h >> 32
	}
	return h
}

func (s *State) sameAmounts(a, b int32) bool {
	if s.kind[a] != s.kind[b] || (s.items[a] == 0) != (s.items[b] == 0) {
		return false
	}
	for d := range s.free {
		if s.free[d][a] != s.free[d][b] {
			return false
		}
	}
	return true
}

// representatives appends the lowest position of every class that takes the
// app to buf.
func (s *State) representatives(app int32, buf []int32) []int32 {
	c := s.classes
	a := &s.inst.Apps[app]
	blocked := s.Blocked(app)
	narrow := s.groups[a.Group].spread > 1 && s.onGroup[a.Group] < s.groups[a.Group].spread
	for _, k := range c.live {
		cl := &c.list[k]
		if !s.roomy(a, cl.first) {
			continue
		}
		if m := s.firstAllowed(cl, blocked, a.Group, narrow); m >= 0 {
			buf = append(buf, m)
		}
	}
	return buf
}

func (s *State) roomy(a *App, m int32) bool {
	for d, need := range a.Demand {
		if need > s.free[d][m] {
			return false
		}
	}
	return true
}

func (s *State) firstAllowed(cl *class, blocked []uint64, group int32, narrow bool) int32 {
	best := int32(-1)
	for w := cl.low; w < len(cl.members); w++ {
		for word := cl.members[w] &^ blocked[w]; word != 0; word &= word - 1 {
			m := int32(w*64 + bits.TrailingZeros64(word))
			if narrow && s.Count(group, m) > 0 {
				continue
			}
			if s.ordered {
				return m
			}
			if best < 0 || s.before(m, best) {
				best = m
			}
		}
	}
	return best
}
