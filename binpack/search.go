package binpack

import (
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack/rtree"
)

// A search finds the machine with the highest score without a look at each of them. The machines on
// offer are the points of a tree; from the bounds of a node a [Guide] derives the most that their
// scores can be. A search follows the most promising node first and leaves out those that cannot win.
//
// Of the machines of a fixed fleet that never held an item the first of each kind represents the others.
type search struct {
	ready   bool
	tree    rtree.Tree
	sorting Sorting
	units   []rtree.Range // [(kind + 1) · dimensions + dimension], the first for all kinds together
	unlike  bool          // capacities differ so much that bounds of several kinds are of no use
	changes int           // since the tree was built
	unused  [][]int32     // [kind] by position
	first   []int         // [kind] index in unused; those before have held an item or are not on offer

	machines []int32
	open     []openNode
	bounds   Bounds // of the last node
	scores   []float64
}

type openNode struct {
	node  int32
	bound float64
}

// Coordinates of a machine in the tree: its free shares by dimension, then these. Times are
// numbers of placements, see [State.LastUsed] and [State.Opened].
const (
	coordUsed = iota
	coordOpened
	coordItems
	coordsBeside
)

const mostUnlike = 4 // ratio of two capacities

// MaxBounded is the number of dimensions up to which machines are searched by a tree.
const MaxBounded = rtree.Most - coordsBeside

var searchAlways = false // in fleets of any size, too

// Bounds hold for each of a set of machines.
type Bounds struct {
	Free, Unit          []rtree.Range // by dimension: the free share of the capacity, and 1 ÷ capacity
	Used, Opened, Items rtree.Range
	Kind                int32 // of all of them; negative = of several
}

// A Sorting has the weights by which machines are kept together: of their free shares, of the time of
// the last item and of the first, and of the number of items. From is the number of machines from
// which a search saves more than it costs.
type Sorting struct {
	Free, Used, Opened, Items float64
	From                      int
}

// A Guide leads a search for the machine with the highest score of an item.
type Guide interface {
	Sorting() Sorting
	// Bound is at least the score of each machine within the bounds that takes the item.
	// Minus infinity = the item has no room on any of them.
	Bound(b *Bounds) float64
	// Value is the score of a machine that takes the item.
	Value(m int32) float64
}

// Search appends to buf the machines that take an item of the app and have the highest score
// but for slack, by ascending index. known is false, and buf unchanged, where there is no tree.
func (s *classIndex) Search(g Guide, app int32, slack float64, buf []int32) (found []int32, known bool) {
	t := &s.search
	a := &s.inst.Apps[app]
	if len(t.units) == 0 {
		s.findUnits()
	}
	sorting := g.Sorting()
	if len(s.kind) < sorting.From && !searchAlways || t.unlike || len(s.deviceDims) > 0 || len(s.free) > MaxBounded ||
		s.narrow(a.Group) || s.ByZone(a.Group) {
		return buf, false
	}
	if n := len(s.kind); !t.ready || t.changes > n || t.changes > n/8 && sorting != t.sorting {
		t.sorting = sorting
		s.plant()
	}
	blocked := s.Blocked(app)
	start, best := len(buf), math.Inf(-1)
	t.scores, t.open = t.scores[:0], t.open[:0]
	try := func(m int32) {
		if blocked[m/64]>>(m%64)&1 != 0 {
			return
		}
		for d, need := range a.Demand {
			if need > s.free[d][m] {
				return
			}
		}
		if v := g.Value(m); !(v < best-slack) { // NaN is a candidate: its error is reported
			buf, t.scores = append(buf, m), append(t.scores, v)
			best = max(best, v)
		}
	}
	for k := range t.unused {
		if m := s.firstUnused(k); m >= 0 {
			try(m)
		}
	}
	if t.tree.Root != rtree.None {
		t.open = append(t.open, openNode{t.tree.Root, math.Inf(1)})
	}
	for len(t.open) > 0 {
		at := t.open[len(t.open)-1]
		t.open = t.open[:len(t.open)-1]
		if at.bound < best-slack {
			continue
		}
		n := &t.tree.Nodes[at.node]
		if n.Left == rtree.None {
			for _, m := range n.Points() {
				try(m)
			}
			continue
		}
		left, right := openNode{n.Left, s.bound(g, n.Left)}, openNode{n.Right, s.bound(g, n.Right)}
		if left.bound > right.bound {
			left, right = right, left
		}
		for _, v := range [2]openNode{left, right} {
			if !(v.bound < best-slack) && !math.IsInf(v.bound, -1) {
				t.open = append(t.open, v)
			}
		}
	}
	n := start
	for i, v := range t.scores {
		if !(v < best-slack) {
			buf[n] = buf[start+i]
			n++
		}
	}
	slices.Sort(buf[start:n])
	return buf[:n], true
}

// bound is the guide's bound of a node.
func (s *classIndex) bound(g Guide, at int32) float64 {
	n, dims := &s.search.tree.Nodes[at], len(s.free)
	from := int(n.Kind+1) * dims
	b := &s.search.bounds
	b.Free, b.Unit, b.Kind = n.At[:dims], s.search.units[from:from+dims], n.Kind
	b.Used, b.Opened, b.Items = n.At[dims+coordUsed], n.At[dims+coordOpened], n.At[dims+coordItems]
	return g.Bound(b)
}

// firstUnused is the lowest position of a kind that never held an item, -1 when there is none.
func (s *classIndex) firstUnused(k int) int32 {
	t := &s.search
	for list := t.unused[k]; t.first[k] < len(list); t.first[k]++ {
		if m := list[t.first[k]]; s.neverUsed(m) {
			return m
		}
	}
	return -1
}

// neverUsed reports whether a machine of a fixed fleet differs from its kind in its position alone.
func (s *columns) neverUsed(m int32) bool {
	return s.inst.Fleet == Fixed && s.lastUsed[m] == 0 && s.items[m] == 0
}

// pointOf are the coordinates of a machine.
func (s *classIndex) pointOf(m int32) rtree.Bounds {
	b := rtree.Bounds{Kind: s.kind[m]}
	dims := len(s.free)
	from := int(b.Kind+1) * dims
	for d, unit := range s.search.units[from : from+dims] {
		free := float64(s.free[d][m]) * unit.Least
		b.At[d] = rtree.Range{Least: free, Most: free}
	}
	for c, v := range [coordsBeside]float64{float64(s.lastUsed[m]), float64(s.opened[m]), float64(s.items[m])} {
		b.At[dims+c] = rtree.Range{Least: v, Most: v}
	}
	return b
}

// findUnits computes 1 ÷ capacity.
func (s *classIndex) findUnits() {
	t := &s.search
	all := make([]rtree.Range, len(s.free))
	t.units = append(t.units[:0], all...)
	for k, kind := range s.kinds {
		for d, c := range kind.Capacity {
			unit := 1 / float64(max(c, 1))
			r := rtree.Range{Least: unit, Most: unit}
			t.units = append(t.units, r)
			if k == 0 {
				all[d] = r
			}
			all[d].Add(r)
		}
	}
	copy(t.units, all)
	t.unlike = slices.ContainsFunc(all, func(r rtree.Range) bool { return r.Most > mostUnlike*r.Least })
}

// plant builds the tree of all machines on offer.
func (s *classIndex) plant() {
	t := &s.search
	t.ready, t.changes = true, 0
	t.unused = slices.Grow(t.unused[:0], len(s.kinds))[:len(s.kinds)]
	t.first = slices.Grow(t.first[:0], len(s.kinds))[:len(s.kinds)]
	clear(t.first)
	for k := range t.unused {
		t.unused[k] = t.unused[k][:0]
	}
	t.machines = t.machines[:0]
	for m := range int32(len(s.kind)) {
		switch {
		case s.offered[m/64]>>(m%64)&1 == 0:
		case s.neverUsed(m):
			t.unused[s.kind[m]] = append(t.unused[s.kind[m]], m)
		default:
			t.machines = append(t.machines, m)
		}
	}
	active, items := float64(s.machines+1), float64(s.totalAlive+1)
	scale := slices.Repeat([]float64{t.sorting.Free}, len(s.free))
	scale = append(scale, t.sorting.Used/active, t.sorting.Opened/(10*active), t.sorting.Items*active/items)
	t.tree.Reset(t.machines, scale, s.pointOf)
}

// moveInTree follows a machine that changed.
func (s *classIndex) moveInTree(m int32) {
	t := &s.search
	if !t.ready {
		return
	}
	t.changes++
	t.tree.Remove(m)
	if s.offered[m/64]>>(m%64)&1 != 0 {
		t.tree.Insert(m)
	}
}
