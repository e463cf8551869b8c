package binpack

import (
	"math/bits"
	"slices"
)

// classes groups the machines on offer by kind, free amounts and emptiness: machines of a
// class differ only in their items. Policies that read only amounts then score a
// handful of classes instead of all machines.
type classes struct {
	of    []int32   // per machine: its class, -1 = not on offer
	list  []class   // all classes, live or spare
	live  []int32   // classes with members
	spare []int32   // classes without
	free  [][]int64 // [dimension][index into live]: their free amounts
	head  []int32   // [index into live]: the member with the lowest index
	many  []bool    // [index into live]: there is more than one member
	heads []int32   // hash table: first class of a chain, -1 = no class; a power of two long
	ready bool      // set up for the present machines
	off   bool      // grouping does not pay for this state
	tries int
}

// A classIndex finds machines by their class.
type classIndex struct {
	room
	classes classes
}

type class struct {
	members []uint64
	words   []uint64 // bitset of the words of members that are not 0
	count   int
	kind    int32
	empty   bool // its machines hold no item
	hash    uint64
	next    int32 // of the same chain, -1 at its end
	at      int   // index into live
	low     int   // the first word of words that is not 0
}

// Classes pay when they are clearly fewer than the machines on offer.
const (
	classShare    = 2    // machines on offer per class, at least
	classMinimum  = 16   // machines on offer before the share counts
	classPatience = 4096 // changes between two checks
)

// useClasses reports whether Choose should use classes. The first call sets them up.
func (s *classIndex) useClasses() bool {
	if len(s.deviceDims) > 0 {
		return false
	}
	c := &s.classes
	if !c.ready {
		c.ready = true
		c.free = slices.Grow(c.free, len(s.free))[:len(s.free)]
		if c.heads == nil {
			c.rehash(64)
		}
		for w, word := range s.offered {
			for ; word != 0; word &= word - 1 {
				s.touchClass(int32(w*64 + bits.TrailingZeros64(word)))
			}
		}
	}
	return !c.off
}

// forget empties the classes and keeps their memory.
func (c *classes) forget() {
	for _, k := range c.live {
		clear(c.list[k].members)
		clear(c.list[k].words)
		c.spare = append(c.spare, k)
	}
	for d := range c.free {
		c.free[d] = c.free[d][:0]
	}
	for i := range c.heads {
		c.heads[i] = -1
	}
	c.of, c.live, c.head, c.many = c.of[:0], c.live[:0], c.head[:0], c.many[:0]
	c.ready, c.off, c.tries = false, false, 0
}

// touchClass moves a machine to the class of its present amounts.
func (s *classIndex) touchClass(m int32) {
	c := &s.classes
	if !c.ready || c.off {
		return
	}
	for len(c.of) < len(s.kind) {
		c.of = append(c.of, -1)
	}
	if old := c.of[m]; old >= 0 {
		c.leave(old, m)
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

// judgeClasses switches classes off when most machines are alone in theirs.
func (s *classIndex) judgeClasses() {
	offered := 0
	for _, w := range s.offered {
		offered += bits.OnesCount64(w)
	}
	if offered >= classMinimum && len(s.classes.live)*classShare > offered {
		s.classes.off = true
	}
}

// leave takes a machine out of class k.
func (c *classes) leave(k, m int32) {
	cl := &c.list[k]
	w := int(m / 64)
	cl.members[w] &^= 1 << (m % 64)
	if cl.members[w] == 0 {
		cl.words[w/64] &^= 1 << (w % 64)
	}
	cl.count--
	c.of[m] = -1
	if cl.count > 0 {
		for cl.words[cl.low] == 0 {
			cl.low++
		}
		w := cl.low*64 + bits.TrailingZeros64(cl.words[cl.low])
		c.head[cl.at] = int32(w*64 + bits.TrailingZeros64(cl.members[w]))
		c.many[cl.at] = cl.count > 1
		return
	}
	last := len(c.live) - 1
	for d := range c.free {
		c.free[d][cl.at] = c.free[d][last]
		c.free[d] = c.free[d][:last]
	}
	c.head[cl.at], c.many[cl.at] = c.head[last], c.many[last]
	c.head, c.many = c.head[:last], c.many[:last]
	moved := c.live[last]
	c.live[cl.at] = moved
	c.list[moved].at = cl.at
	c.live = c.live[:last]
	link := &c.heads[cl.hash&uint64(len(c.heads)-1)]
	for *link != k {
		link = &c.list[*link].next
	}
	*link = cl.next
	c.spare = append(c.spare, k)
}

// joinClass puts a machine into the class of its amounts.
func (s *classIndex) joinClass(m int32) {
	c := &s.classes
	hash := s.classHash(m)
	for k := c.heads[hash&uint64(len(c.heads)-1)]; k >= 0; k = c.list[k].next {
		if s.sameAmounts(&c.list[k], m) {
			c.add(k, m)
			return
		}
	}
	k := c.newClass(hash)
	cl := &c.list[k]
	cl.kind, cl.empty, cl.low = s.kind[m], s.items[m] == 0, int(m)/(64*64)
	for d := range s.free {
		c.free[d] = append(c.free[d], s.free[d][m])
	}
	c.head, c.many = append(c.head, m), append(c.many, false)
	c.add(k, m)
}

// newClass returns a class without members.
func (c *classes) newClass(hash uint64) int32 {
	var k int32
	if n := len(c.spare); n > 0 {
		k, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		k = int32(len(c.list))
		c.list = append(c.list, class{})
	}
	cl := &c.list[k]
	cl.hash, cl.at, cl.count = hash, len(c.live), 0
	c.live = append(c.live, k)
	if len(c.live) > len(c.heads)/2 {
		c.rehash(2 * len(c.heads)) // links k too
		return k
	}
	head := &c.heads[hash&uint64(len(c.heads)-1)]
	cl.next, *head = *head, k
	return k
}

// rehash gives the table a new length and links all live classes.
func (c *classes) rehash(length int) {
	c.heads = make([]int32, length)
	for i := range c.heads {
		c.heads[i] = -1
	}
	for _, k := range c.live {
		head := &c.heads[c.list[k].hash&uint64(length-1)]
		c.list[k].next, *head = *head, k
	}
}

func (c *classes) add(k, m int32) {
	cl := &c.list[k]
	w := int(m / 64)
	for len(cl.members) <= w {
		if len(cl.members)%64 == 0 {
			cl.words = append(cl.words, 0)
		}
		cl.members = append(cl.members, 0)
	}
	cl.members[w] |= 1 << (m % 64)
	cl.words[w/64] |= 1 << (w % 64)
	cl.low = min(cl.low, w/64)
	cl.count++
	c.head[cl.at] = min(c.head[cl.at], m)
	c.many[cl.at] = cl.count > 1
	c.of[m] = k
}

func (s *classIndex) classHash(m int32) uint64 {
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

func (s *classIndex) sameAmounts(cl *class, m int32) bool {
	if cl.kind != s.kind[m] || cl.empty != (s.items[m] == 0) {
		return false
	}
	for d := range s.free {
		if s.classes.free[d][cl.at] != s.free[d][m] {
			return false
		}
	}
	return true
}

// fewClasses is the number of classes below which all are searched; from it on by an index,
// where the scorer has a [Guide].
var fewClasses = 128

// representatives appends to buf the lowest position of every class that takes the app. With many classes, if that is
// not the class's first machine, it appends the first one instead and records the class in pending, which is then as
// long as buf and holds -1 elsewhere. Searching a machine in every class took most of the time, and only a class that
// may rank first needs one (see settle). 1.8x with Best Fit on 100,000 machines, 1.1x on churn with 8,000.
func (s *classIndex) representatives(app int32, buf, pending []int32) (machines, classes []int32) {
	c := &s.classes
	a := &s.inst.Apps[app]
	blocked := s.Blocked(app)
	free0, need0 := c.free[0], a.Demand[0]
	if len(c.live) < fewClasses || !s.ordered || s.narrow(a.Group) {
		for at, k := range c.live {
			if need0 > free0[at] || !c.roomy(a.Demand, at) {
				continue
			}
			if m := s.firstAllowed(&c.list[k], a.Group, blocked); m >= 0 {
				buf = append(buf, m)
			}
		}
		return buf, pending
	}
	for at, k := range c.live {
		if need0 > free0[at] || !c.roomy(a.Demand, at) {
			continue
		}
		m := c.head[at]
		if blocked[m/64]>>(m%64)&1 == 0 {
			k = -1
		} else if !c.many[at] {
			continue
		}
		buf, pending = append(buf, m), append(pending, k)
	}
	return buf, pending
}

// settle finds the machine of a pending candidate's class that takes the item and scores
// it. It reports whether there is one.
func (s *State) settle(scorer Scorer, item Item, at int, out []float64) bool {
	m := s.firstAllowed(&s.classes.list[s.pending[at]], s.inst.Apps[item.App].Group, s.Blocked(item.App))
	if m < 0 {
		return false
	}
	s.candidates[at] = m
	scorer.Score(item, s.candidates[at:at+1], out[at:at+1])
	return true
}

// roomy reports whether the class at an index of live has room for a demand;
// the first dimension is known to fit.
func (c *classes) roomy(demand []int64, at int) bool {
	for d := 1; d < len(demand); d++ {
		if demand[d] > c.free[d][at] {
			return false
		}
	}
	return true
}

// firstAllowed is the lowest position of a class that takes the app, -1 when no class
// has one. A class has few members spread over all machines, so it reads only the words
// of the bitset that are not 0 (a replay of churn on 10,000 machines is 1.55x as fast).
func (s *classIndex) firstAllowed(cl *class, group int32, blocked []uint64) int32 {
	narrow := s.narrow(group)
	best := int32(-1)
	for i := cl.low; i < len(cl.words); i++ {
		for words := cl.words[i]; words != 0; words &= words - 1 {
			w := i*64 + bits.TrailingZeros64(words)
			for word := cl.members[w] &^ blocked[w]; word != 0; word &= word - 1 {
				m := int32(w*64 + bits.TrailingZeros64(word))
				if narrow && s.Count(group, m) > 0 {
					continue
				}
				if s.ordered {
					return m
				}
				if best < 0 || s.Before(m, best) {
					best = m
				}
			}
		}
	}
	return best
}
