package binpack

import (
	"math"
	"slices"
)

const (
	// MaxIndexed is the number of dimensions up to which an Index serves.
	MaxIndexed = 6
	blockSize  = 48
	groupSize  = 16 // blocks of a kind
	// machinesOfKind is the number of machines for each kind from which blocks of one kind pay.
	machinesOfKind = 16
	// usedScale is the weight of a used share, beside the part that all items share, where machines are kept together.
	usedScale = .5
	tiny      = 1e-9 // far more than rounding does to a share
)

var searchAlways = false // in fleets of any size, too

// A Guide gives the scores that an [Index] searches. A score is the sum of a part of the machine that all
// items share, and of a rest.
type Guide interface {
	// Renew brings the shared parts up to date. It reports whether one may have risen on a machine that did not change.
	Renew() bool
	// Shared is at least the shared part of a machine, until Renew reports true.
	Shared(m int32) float64
	// Limit is at least the score of each machine of a kind that takes the item, whose shared part is at most
	// shared, and whose largest used share is then between least and most.
	Limit(kind int32, shared, least, most float64) float64
	// Limits adds to the shared parts of machines of a kind their rests, or a little more; tops are the largest used
	// shares with the item. A sum below enough counts no more.
	Limits(kind int32, machines []int32, tops, limits []float64, enough float64)
	// Value is the score of a machine that takes the item.
	Value(m int32) float64
}

// A Raiser is a Guide some of whose scores are above its limits.
type Raiser interface {
	// Raised returns by how much, for each block of the index; Limits adds it for each machine.
	Raised(x *Index) []float64
}

// An Index finds the machines with the highest score without a look at each. Machines of one kind that are alike in
// their shared part and their free amounts form a block; the bounds of a block show whether one of them can win.
// It follows the journal of a state.
//
// Of the machines of a fixed fleet that never held an item the first of each kind represents the others,
// unless Each is set.
type Index struct {
	Each bool // positions count in scores

	s    *State
	g    Guide
	more Raiser // g, or nil
	from int    // machines

	seq     uint64
	changes []Change
	moved   int // machines since the blocks were made

	blocks  []block
	bounds  []bounds  // of the blocks
	groups  []bounds  // of up to groupSize blocks each
	members [][]int32 // [group] its blocks
	groupOf []int32   // [block]
	last    []int32   // [kind] the group for the next block
	planes  []plane
	roots   []int32   // [kind] see plane.next
	at      []spot    // [machine]
	unused  [][]int32 // [kind] by position
	first   []int     // [kind] index in unused; those before have held an item or are not on offer

	open   []openBlock
	raised []float64 // [block] see Raiser; nil = none
	scores []float64
	limits [blockSize]float64
	tops   [blockSize]float64
	barred []bool    // [kind] its type is closed to the item
	adds   []float64 // [kind · dimensions + dimension] share of the item
	units  []float64 // likewise: 1 ÷ capacity
	points []int32
	keys   []float64
}

// A block holds machines of a kind.
type block struct {
	machines [blockSize]int32
	shared   [blockSize]float64
	used     [MaxIndexed][blockSize]float64 // share, by dimension
}

// bounds are those of a block or of a group of blocks, or wider.
type bounds struct {
	kind, count int32 // count is that of a block
	wide        bool
	shared      float64
	least, most [MaxIndexed]float64 // of used
}

// A plane divides the machines of a kind by a coordinate: the shared part, then the used shares.
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
	at    int32 // a block, or ^ a group
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
	t := tried{x: x, app: a, blocked: s.Blocked(app), slack: slack, best: math.Inf(-1), buf: buf}
	x.scores = x.scores[:0]
	for k := range x.unused {
		if m := x.firstUnused(k); m >= 0 && s.hasRoom(a, m) {
			t.try(m)
		}
	}
	x.openGroups(a)
	for len(x.open) > 0 && !(x.open[0].limit < t.best-slack) {
		at := x.open[0].at
		switch {
		case at < 0 && x.groups[^at].wide:
			x.encloseGroup(^at)
			x.open[0].limit = x.limit(at)
			x.siftDown()
		case at < 0:
			x.pop()
			for _, b := range x.members[^at] {
				x.push(b)
			}
		case x.bounds[at].wide:
			x.enclose(at)
			x.open[0].limit = x.limit(at)
			x.siftDown()
		default:
			x.pop()
			t.search(at)
		}
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

// openGroups makes open a heap of the groups with room, the most promising one first.
func (x *Index) openGroups(a *App) {
	x.open, x.adds, x.barred = x.open[:0], x.adds[:0], x.barred[:0]
	for i, unit := range x.units {
		x.adds = append(x.adds, float64(a.Demand[i%len(a.Demand)])*unit)
	}
	for k := range x.s.kinds {
		x.barred = append(x.barred, !a.MayUse(x.s.kinds[k].Type))
	}
	if x.raised = nil; x.more != nil {
		x.raised = x.more.Raised(x)
	}
	for g := range x.groups {
		x.push(^int32(g))
	}
}

// limit is the most that a score in a block, or ^ a group, can be; minus infinity without room.
func (x *Index) limit(at int32) float64 {
	if at >= 0 {
		v := x.within(&x.bounds[at])
		if x.raised != nil {
			v += x.raised[at]
		}
		return v
	}
	v := x.within(&x.groups[^at])
	if x.raised != nil && v > math.Inf(-1) {
		most := math.Inf(-1)
		for _, b := range x.members[^at] {
			most = max(most, x.raised[b])
		}
		v += most
	}
	return v
}

// within is the limit of bounds that are not raised.
func (x *Index) within(b *bounds) float64 {
	if x.barred[b.kind] {
		return math.Inf(-1)
	}
	least, most := 0.0, 0.0
	for d, add := range x.added(b.kind) {
		if v := b.least[d] + add; v > least {
			least = v
		}
		if v := b.most[d] + add; v > most {
			most = v
		}
	}
	if least > 1+tiny {
		return math.Inf(-1)
	}
	return x.g.Limit(b.kind, b.shared, least, min(1, most))
}

// added are the shares of the item on machines of a kind.
func (x *Index) added(kind int32) []float64 {
	dims := len(x.s.free)
	return x.adds[int(kind)*dims:][:dims]
}

func (x *Index) push(at int32) {
	limit := x.limit(at)
	if limit == math.Inf(-1) {
		return
	}
	i := len(x.open)
	x.open = append(x.open, openBlock{})
	for ; i > 0 && limit > x.open[(i-1)/2].limit; i = (i - 1) / 2 {
		x.open[i] = x.open[(i-1)/2]
	}
	x.open[i] = openBlock{at, limit}
}

func (x *Index) pop() {
	last := len(x.open) - 1
	x.open[0] = x.open[last]
	x.open = x.open[:last]
	x.siftDown()
}

// siftDown moves the first of the heap to its place.
func (x *Index) siftDown() {
	heap := x.open
	for i, top := 0, 1; top < len(heap); top = 2*i + 1 {
		if right := top + 1; right < len(heap) && heap[right].limit > heap[top].limit {
			top = right
		}
		if !(heap[top].limit > heap[i].limit) {
			return
		}
		heap[i], heap[top] = heap[top], heap[i]
		i = top
	}
}

// tried are the machines that a search has found so far.
type tried struct {
	x           *Index
	app         *App
	blocked     []uint64
	slack, best float64
	buf         []int32
}

func (t *tried) search(at int32) {
	x := t.x
	b, bounds := &x.blocks[at], &x.bounds[at]
	n := bounds.count
	tops, limits := x.tops[:n], x.limits[:n]
	clear(tops)
	for d, add := range x.added(bounds.kind) {
		for i, used := range b.used[d][:n] {
			if used += add; used > tops[i] {
				tops[i] = used
			}
		}
	}
	copy(limits, b.shared[:])
	x.g.Limits(bounds.kind, b.machines[:n], tops, limits, t.best-t.slack)
	for i, limit := range limits {
		if limit < t.best-t.slack || tops[i] > 1+tiny {
			continue
		}
		if m := b.machines[i]; x.s.hasRoom(t.app, m) {
			t.try(m)
		}
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
		if m := list[x.first[k]]; x.neverUsed(m) {
			return m
		}
	}
	return -1
}

// neverUsed reports whether a machine of a fixed fleet is represented by another of its kind, from which it
// differs in its position alone.
func (x *Index) neverUsed(m int32) bool {
	s := x.s
	return !x.Each && s.inst.Fleet == Fixed && s.lastUsed[m] == 0 && s.items[m] == 0
}
