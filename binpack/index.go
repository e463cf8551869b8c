package binpack

import (
	"math"
	"slices"
)

const (
	// MaxIndexed is the number of dimensions up to which an Index serves.
	MaxIndexed = 6
	blockSize  = 48
	// machinesOfKind is the number of machines for each kind from which blocks of one kind pay.
	machinesOfKind = 16
	// freeScale is the weight of a free share, beside the part that all items share, where machines are kept together.
	freeScale = .25
)

var searchAlways = false // in fleets of any size, too

// A Guide gives the scores that an [Index] searches. A score is the sum of a part of the machine that all
// items share, and of a rest.
type Guide interface {
	// Renew brings the shared parts up to date. It reports whether one may have risen on a machine that did not change.
	Renew() bool
	// Shared is at least the shared part of a machine, until Renew reports true.
	Shared(m int32) float64
	// Rest is at least the rest of the score of each machine of a kind with free amounts between
	// least and most that takes the item.
	Rest(kind int32, least, most []int64) float64
	// Limits adds to the shared parts of machines of a block their rests, or a little more; that of a machine
	// without room may be anything.
	Limits(b *Block, limits []float64)
	// Value is the score of a machine that takes the item.
	Value(m int32) float64
}

// A Raiser is a Guide some of whose scores are above the limits of Rest.
type Raiser interface {
	// Raised returns by how much, for each block of the index; Limits adds it for each machine.
	Raised(x *Index) []float64
}

// An Index finds the machines with the highest score without a look at each. Machines of one kind that are alike in
// their shared part and their free amounts form a block; the bounds of a block show whether one of them can win.
// It follows the journal of a state.
//
// Of the machines of a fixed fleet that never held an item the first of each kind represents the others.
type Index struct {
	s    *State
	g    Guide
	more Raiser // g, or nil
	from int    // machines

	seq     uint64
	changes []Change
	moved   int // machines since the blocks were made

	blocks []Block
	planes []plane
	roots  []int32   // [kind] see plane.next
	at     []spot    // [machine]
	unused [][]int32 // [kind] by position
	first  []int     // [kind] index in unused; those before have held an item or are not on offer

	open   []openBlock
	scores []float64
	points []int32
	keys   []float64
}

// A Block holds machines of a kind.
type Block struct {
	Kind     int32
	Machines [blockSize]int32             // the first count of them
	Free     [MaxIndexed][blockSize]int64 // by dimension

	count       int32
	stale       bool // least and most are to be computed
	shared      float64
	least, most [MaxIndexed]int64
	parts       [blockSize]float64 // shared
}

// A plane divides the machines of a kind by a coordinate: the shared part, then the free amounts.
type plane struct {
	coord int
	from  float64  // of the upper part
	next  [2]int32 // a plane, or ^ a block
}

type spot struct {
	block   int32 // noBlock = in none
	at      int32
	version uint32 // that the block has
}

const noBlock = -1

type openBlock struct {
	at    int32
	limit float64
}

// NewIndex returns an index of a state for fleets of at least so many machines.
func NewIndex(s *State, g Guide, from int) *Index {
	more, _ := g.(Raiser)
	return &Index{s: s, g: g, more: more, from: from}
}

// Serves reports whether an index of a state searches for items without preferences by zone.
func (x *Index) Serves() bool {
	n := len(x.s.kind)
	return (searchAlways || n >= x.from && len(x.s.kinds)*machinesOfKind <= n) && len(x.s.deviceDims) == 0 && len(x.s.free) <= MaxIndexed
}

// Blocks is the number of blocks.
func (x *Index) Blocks() int { return len(x.blocks) }

// BlockOf is the block of a machine, negative where it is in none.
func (x *Index) BlockOf(m int32) int32 { return x.at[m].block }

// Search appends to buf the machines that take an item of the app and have the highest score
// but for slack, by ascending index. known is false, and buf unchanged, where the index does not serve.
func (x *Index) Search(app int32, slack float64, buf []int32) (found []int32, known bool) {
	s, a := x.s, &x.s.inst.Apps[app]
	if !x.Serves() || s.narrow(a.Group) || s.ByZone(a.Group) {
		return buf, false
	}
	x.follow()
	t := tried{x: x, need: a.Demand, blocked: s.Blocked(app), slack: slack, best: math.Inf(-1), buf: buf}
	x.scores = x.scores[:0]
	for k := range x.unused {
		if m := x.firstUnused(k); m >= 0 && s.hasRoom(a, m) {
			t.try(m)
		}
	}
	x.bound(a.Demand)
	for {
		top, n := -1, 0
		for _, o := range x.open { // those that can win, and the most promising of them
			if o.limit < t.best-slack {
				continue
			}
			if top < 0 || o.limit > x.open[top].limit {
				top = n
			}
			x.open[n] = o
			n++
		}
		if top < 0 {
			break
		}
		o := x.open[top]
		x.open[top] = x.open[n-1]
		x.open = x.open[:n-1]
		t.search(&x.blocks[o.at])
	}
	end := len(buf)
	for i, v := range x.scores {
		if !(v < t.best-slack) {
			t.buf[end] = t.buf[len(buf)+i]
			end++
		}
	}
	slices.Sort(t.buf[len(buf):end])
	return t.buf[:end], true
}

// bound finds the blocks with room.
func (x *Index) bound(need []int64) {
	var raised []float64
	if x.more != nil {
		raised = x.more.Raised(x)
	}
	x.open = x.open[:0]
blocks:
	for b := range x.blocks {
		blk := &x.blocks[b]
		if blk.stale {
			blk.enclose(len(need))
		}
		for d, n := range need {
			if n > blk.most[d] {
				continue blocks
			}
		}
		limit := blk.shared + x.g.Rest(blk.Kind, blk.least[:len(need)], blk.most[:len(need)])
		if raised != nil {
			limit += raised[b]
		}
		if !math.IsInf(limit, -1) {
			x.open = append(x.open, openBlock{int32(b), limit})
		}
	}
}

// tried are the machines that a search has found so far.
type tried struct {
	x           *Index
	need        []int64
	blocked     []uint64
	slack, best float64
	buf         []int32
	limits      [blockSize]float64
}

func (t *tried) search(b *Block) {
	limits := t.limits[:b.count]
	copy(limits, b.parts[:])
	t.x.g.Limits(b, limits)
machines:
	for i, limit := range limits {
		if limit < t.best-t.slack {
			continue
		}
		for d, n := range t.need {
			if n > b.Free[d][i] {
				continue machines
			}
		}
		t.try(b.Machines[i])
	}
}

func (t *tried) try(m int32) {
	if t.blocked[m/64]>>(m%64)&1 != 0 {
		return
	}
	if v := t.x.g.Value(m); !(v < t.best-t.slack) { // NaN is a candidate: its error is reported
		t.buf, t.x.scores = append(t.buf, m), append(t.x.scores, v)
		t.best = max(t.best, v)
	}
}

// firstUnused is the lowest position of a kind that never held an item, -1 when there is none.
func (x *Index) firstUnused(k int) int32 {
	for list := x.unused[k]; x.first[k] < len(list); x.first[k]++ {
		if m := list[x.first[k]]; x.s.neverUsed(m) {
			return m
		}
	}
	return -1
}

// neverUsed reports whether a machine of a fixed fleet differs from its kind in its position alone.
func (s *columns) neverUsed(m int32) bool {
	return s.inst.Fleet == Fixed && s.lastUsed[m] == 0 && s.items[m] == 0
}
