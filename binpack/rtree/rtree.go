// Package rtree is an R-tree (Guttman 1984) of points that move often: each node has the bounds of the
// points below it. [github.com/sigma-scheduler/sigma/binpack] searches the best machine with it.
package rtree

import (
	"math"
	"slices"
)

// Most is the number of coordinates that a point has at most.
const Most = 7

// None is no node.
const None = -1

const leafMost = 6

// A Range is a closed interval.
type Range struct{ Least, Most float64 }

// Add widens a range by another one.
func (r *Range) Add(o Range) { r.Least, r.Most = min(r.Least, o.Least), max(r.Most, o.Most) }

// Bounds are those of a set of points, by coordinate. Kind is the kind of all of them, negative where
// they are of several.
type Bounds struct {
	At   [Most]Range
	Kind int32
}

// A Node is a leaf with points, or has two nodes below it.
type Node struct {
	Bounds
	Left, Right int32 // None in a leaf
	parent      int32
	count       int32
	points      [leafMost]int32
}

// Points are the numbers of a leaf's points. Read only.
func (n *Node) Points() []int32 { return n.points[:n.count] }

// A Tree holds points by their numbers from 0 on. The zero value is ready for Reset.
type Tree struct {
	Nodes []Node
	Root  int32 // None = no point

	at     func(point int32) Bounds
	scale  []float64 // by coordinate: points with a distance of 1 ÷ scale are far apart
	spare  []int32   // nodes that are free
	leafOf []int32   // by point
	keys   []float64
}

// Reset makes the tree one of these points, whose order it changes. at gives the present coordinates of a
// point; coordinates without a scale do not count where points are kept together.
func (t *Tree) Reset(points []int32, scale []float64, at func(point int32) Bounds) {
	t.Nodes, t.spare, t.leafOf, t.Root = t.Nodes[:0], t.spare[:0], t.leafOf[:0], None
	t.scale, t.at = append(t.scale[:0], scale...), at
	if len(points) > 0 {
		t.Root = t.build(points, None)
	}
}

func (t *Tree) build(points []int32, parent int32) int32 {
	at := t.newNode(parent)
	if len(points) <= leafMost*2/3 {
		t.setLeaf(at, points)
		return at
	}
	half := t.split(points)
	left := t.build(points[:half], at)
	right := t.build(points[half:], at)
	t.Nodes[at].Left, t.Nodes[at].Right = left, right
	t.enclose(at)
	return at
}

func (t *Tree) newNode(parent int32) int32 {
	var at int32
	if n := len(t.spare); n > 0 {
		at, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		at = int32(len(t.Nodes))
		t.Nodes = append(t.Nodes, Node{})
	}
	t.Nodes[at].parent = parent
	return at
}

func (t *Tree) setLeaf(at int32, points []int32) {
	n := &t.Nodes[at]
	n.Left, n.Right, n.count = None, None, int32(copy(n.points[:], points))
	for _, p := range points {
		t.setLeafOf(p, at)
	}
	t.encloseLeaf(n)
}

func (t *Tree) setLeafOf(point, leaf int32) {
	for len(t.leafOf) <= int(point) {
		t.leafOf = append(t.leafOf, None)
	}
	t.leafOf[point] = leaf
}

func (t *Tree) encloseLeaf(n *Node) {
	for i, p := range n.Points() {
		b := t.at(p)
		if i == 0 {
			n.Bounds = b
		} else {
			t.add(&n.Bounds, &b)
		}
	}
}

func (t *Tree) enclose(at int32) {
	n := &t.Nodes[at]
	n.Bounds = t.Nodes[n.Left].Bounds
	t.add(&n.Bounds, &t.Nodes[n.Right].Bounds)
}

// encloseUp computes the bounds of a node and of those above it, as far as they change.
func (t *Tree) encloseUp(at int32) {
	for ; at != None; at = t.Nodes[at].parent {
		before := t.Nodes[at].Bounds
		if t.enclose(at); t.Nodes[at].Bounds == before {
			return
		}
	}
}

func (t *Tree) add(b, o *Bounds) {
	for c := range t.scale {
		b.At[c].Add(o.At[c])
	}
	if b.Kind != o.Kind {
		b.Kind = -1
	}
}

// split orders points by the coordinate in which they differ most, the lower half first, and returns
// the index of the second half.
func (t *Tree) split(points []int32) int {
	all := t.at(points[0])
	for _, p := range points[1:] {
		b := t.at(p)
		t.add(&all, &b)
	}
	by, most := 0, -1.0
	for c, scale := range t.scale {
		if extent := scale * (all.At[c].Most - all.At[c].Least); extent > most {
			by, most = c, extent
		}
	}
	t.keys = t.keys[:0]
	for _, p := range points {
		t.keys = append(t.keys, t.at(p).At[by].Least)
	}
	half := len(points) / 2
	lowest(t.keys, points, half)
	return half
}

// lowest orders keys and points: the k lowest keys first (Hoare 1961).
func lowest(keys []float64, points []int32, k int) {
	for low, high := 0, len(keys)-1; low < high; {
		pivot, i, j := keys[(low+high)/2], low, high
		for i <= j {
			for keys[i] < pivot {
				i++
			}
			for keys[j] > pivot {
				j--
			}
			if i <= j {
				keys[i], keys[j] = keys[j], keys[i]
				points[i], points[j] = points[j], points[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			high = j
		case k >= i:
			low = i
		default:
			return
		}
	}
}

// Remove removes a point, if it is there.
func (t *Tree) Remove(point int32) {
	if int(point) >= len(t.leafOf) || t.leafOf[point] == None {
		return
	}
	at := t.leafOf[point]
	t.leafOf[point] = None
	n := &t.Nodes[at]
	i := slices.Index(n.Points(), point)
	n.count--
	n.points[i] = n.points[n.count]
	if n.count > 0 {
		t.encloseLeaf(n)
		t.encloseUp(n.parent)
		return
	}
	t.spare = append(t.spare, at)
	up := n.parent
	if up == None {
		t.Root = None
		return
	}
	// The sibling takes the parent's place.
	p := &t.Nodes[up]
	sibling := p.Left + p.Right - at
	t.spare = append(t.spare, up)
	t.Nodes[sibling].parent = p.parent
	if p.parent == None {
		t.Root = sibling
		return
	}
	if g := &t.Nodes[p.parent]; g.Left == up {
		g.Left = sibling
	} else {
		g.Right = sibling
	}
	t.encloseUp(p.parent)
}

// Insert adds a point that is not there to a leaf near it.
func (t *Tree) Insert(point int32) {
	if t.Root == None {
		t.Root = t.newNode(None)
		t.setLeaf(t.Root, []int32{point})
		return
	}
	b := t.at(point)
	at := t.Root
	for t.Nodes[at].Left != None {
		n := &t.Nodes[at]
		t.add(&n.Bounds, &b)
		if t.distance(&t.Nodes[n.Left].Bounds, &b) <= t.distance(&t.Nodes[n.Right].Bounds, &b) {
			at = n.Left
		} else {
			at = n.Right
		}
	}
	n := &t.Nodes[at]
	if n.count < leafMost {
		n.points[n.count] = point
		n.count++
		t.add(&n.Bounds, &b)
		t.setLeafOf(point, at)
		return
	}
	var points [leafMost + 1]int32
	copy(points[:], n.points[:])
	points[leafMost] = point
	half := t.split(points[:])
	left, right := t.newNode(at), t.newNode(at)
	t.setLeaf(left, points[:half])
	t.setLeaf(right, points[half:])
	n = &t.Nodes[at]
	n.Left, n.Right, n.count = left, right, 0
	t.enclose(at)
}

// distance is that of a point from bounds, with a little for the distance from their middle.
func (t *Tree) distance(b, point *Bounds) float64 {
	sum := 0.0
	for c, scale := range t.scale {
		r, v := b.At[c], point.At[c].Least
		sum += scale * (max(0, r.Least-v, v-r.Most) + .1*math.Abs(v-(r.Least+r.Most)/2))
	}
	return sum
}
