package binpack

import (
	"math"
	"slices"
)

// follow brings the blocks up to date.
func (x *Index) follow() {
	var all bool
	x.changes, x.seq, all = x.s.Changes(x.seq, x.changes[:0])
	renew := x.g.Renew()
	if x.moved += len(x.changes); all || x.moved > 8*len(x.s.kind) {
		x.build()
		return
	}
	for _, c := range x.changes {
		x.update(c.Machine)
	}
	if !renew {
		return
	}
	for i := range x.blocks {
		b := &x.blocks[i]
		shared := math.Inf(-1)
		for j, m := range b.machines[:x.bounds[i].count] {
			b.shared[j] = x.g.Shared(m)
			shared = max(shared, b.shared[j])
		}
		x.bounds[i].shared = shared
	}
	for g := range x.groups {
		x.encloseGroup(int32(g))
	}
}

// build makes the blocks of all machines on offer.
func (x *Index) build() {
	s := x.s
	x.moved, x.blocks, x.bounds, x.groups, x.planes = 0, x.blocks[:0], x.bounds[:0], x.groups[:0], x.planes[:0]
	x.members, x.groupOf, x.last = x.members[:0], x.groupOf[:0], slices.Repeat([]int32{-1}, len(s.kinds))
	x.at = slices.Grow(x.at[:0], len(s.kind))[:len(s.kind)]
	for m := range x.at {
		x.at[m] = spot{block: noBlock, version: s.version[m]}
	}
	kinds := len(s.kinds)
	x.units = x.units[:0]
	for _, k := range s.kinds {
		for _, c := range k.Capacity {
			x.units = append(x.units, 1/float64(max(1, c)))
		}
	}
	x.roots, x.first, x.unused = slices.Grow(x.roots[:0], kinds)[:kinds], make([]int, kinds), make([][]int32, kinds)
	for k := range x.roots {
		x.points = x.points[:0]
		for m, kind := range s.kind {
			switch {
			case int(kind) != k || s.offered[m/64]>>(m%64)&1 == 0:
			case x.neverUsed(int32(m)):
				x.unused[k] = append(x.unused[k], int32(m))
			default:
				x.points = append(x.points, int32(m))
			}
		}
		x.roots[k] = x.divide(int32(k), x.points)
	}
}

// divide makes blocks of machines of a kind, whose order it changes.
func (x *Index) divide(kind int32, machines []int32) int32 {
	if len(machines) <= blockSize*2/3 {
		return ^x.newBlock(kind, machines)
	}
	p := int32(len(x.planes))
	x.planes = append(x.planes, plane{})
	half := x.split(machines, &x.planes[p])
	next := [2]int32{x.divide(kind, machines[:half]), 0}
	next[1] = x.divide(kind, machines[half:])
	x.planes[p].next = next
	return p
}

func (x *Index) newBlock(kind int32, machines []int32) int32 {
	x.blocks, x.bounds = append(x.blocks, block{}), append(x.bounds, bounds{kind: kind})
	b := int32(len(x.blocks) - 1)
	group := x.last[kind]
	if group < 0 || len(x.members[group]) == groupSize {
		group = int32(len(x.groups))
		x.groups, x.members, x.last[kind] = append(x.groups, bounds{kind: kind}), append(x.members, nil), group
	}
	x.members[group], x.groupOf = append(x.members[group], b), append(x.groupOf, group)
	x.fill(b, machines)
	return b
}

// fill makes a block one of these machines.
func (x *Index) fill(b int32, machines []int32) {
	x.bounds[b].count = int32(len(machines))
	for at, m := range machines {
		x.put(b, int32(at), m, x.g.Shared(m))
	}
	x.enclose(b)
}

// put enters a machine into a block.
func (x *Index) put(b, at, m int32, shared float64) {
	blk, bounds, group := &x.blocks[b], &x.bounds[b], &x.groups[x.groupOf[b]]
	blk.machines[at], blk.shared[at] = m, shared
	bounds.shared, bounds.wide = max(bounds.shared, shared), true
	group.shared, group.wide = max(group.shared, shared), true
	for d := range x.s.free {
		used := x.used(d, m)
		blk.used[d][at] = used
		bounds.least[d], bounds.most[d] = min(bounds.least[d], used), max(bounds.most[d], used)
		group.least[d], group.most[d] = min(group.least[d], used), max(group.most[d], used)
	}
	x.at[m].block, x.at[m].at = b, at
}

// used is the used share of a machine in a dimension.
func (x *Index) used(d int, m int32) float64 {
	s := x.s
	k := s.kind[m]
	return float64(s.kinds[k].Capacity[d]-s.free[d][m]) * x.units[int(k)*len(s.free)+d]
}

// enclose computes the bounds of a block.
func (x *Index) enclose(at int32) {
	b, bounds := &x.blocks[at], &x.bounds[at]
	for d := range x.s.free {
		least, most := math.Inf(1), math.Inf(-1)
		for _, used := range b.used[d][:bounds.count] { // min and max of floats are slower
			if used < least {
				least = used
			}
			if used > most {
				most = used
			}
		}
		bounds.least[d], bounds.most[d] = least, most
	}
	shared := math.Inf(-1)
	for _, v := range b.shared[:bounds.count] {
		if v > shared {
			shared = v
		}
	}
	bounds.shared, bounds.wide, x.groups[x.groupOf[at]].wide = shared, false, true
}

// encloseGroup computes the bounds of a group from those of its blocks.
func (x *Index) encloseGroup(at int32) {
	g := &x.groups[at]
	blocks := x.members[at]
	*g = x.bounds[blocks[0]]
	g.wide = false
	for _, other := range blocks[1:] {
		b := &x.bounds[other]
		g.shared = max(g.shared, b.shared)
		for d := range x.s.free {
			g.least[d], g.most[d] = min(g.least[d], b.least[d]), max(g.most[d], b.most[d])
		}
	}
}

// update follows a machine that changed.
func (x *Index) update(m int32) {
	s := x.s
	for len(x.at) < len(s.kind) {
		x.at = append(x.at, spot{block: noBlock})
	}
	at := &x.at[m]
	if at.version == s.version[m] {
		return
	}
	at.version = s.version[m]
	to, shared := int32(noBlock), 0.0
	if s.offered[m/64]>>(m%64)&1 != 0 && !x.neverUsed(m) {
		shared = x.g.Shared(m)
		to = x.find(m, shared)
	}
	if to == at.block {
		if to != noBlock {
			x.put(to, at.at, m, shared)
		}
		return
	}
	if at.block != noBlock {
		x.remove(m)
	}
	if to != noBlock {
		if x.bounds[to].count == blockSize {
			to = x.divideBlock(m, shared, to)
		}
		x.bounds[to].count++
		x.put(to, x.bounds[to].count-1, m, shared)
	}
}

// find descends to the block of a machine.
func (x *Index) find(m int32, shared float64) int32 {
	at := x.roots[x.s.kind[m]]
	for at >= 0 {
		at = x.planes[at].next[x.side(at, m, shared)]
	}
	return ^at
}

// side is the side of a plane that a machine is on.
func (x *Index) side(at, m int32, shared float64) int {
	p := &x.planes[at]
	if p.coord > 0 {
		shared = x.used(p.coord-1, m)
	}
	if shared < p.from {
		return 0
	}
	return 1
}

func (x *Index) remove(m int32) {
	at := x.at[m]
	b, bounds := &x.blocks[at.block], &x.bounds[at.block]
	bounds.count--
	bounds.wide, x.groups[x.groupOf[at.block]].wide = true, true
	if last := bounds.count; last != at.at {
		moved := b.machines[last]
		b.machines[at.at], b.shared[at.at] = moved, b.shared[last]
		for d := range x.s.free {
			b.used[d][at.at] = b.used[d][last]
		}
		x.at[moved].at = at.at
	}
	x.at[m].block = noBlock
}

// divideBlock divides a full block in two and returns the one for a machine.
func (x *Index) divideBlock(m int32, shared float64, full int32) int32 {
	kind := x.bounds[full].kind
	x.points = append(x.points[:0], x.blocks[full].machines[:]...)
	p := int32(len(x.planes))
	x.planes = append(x.planes, plane{})
	half := x.split(x.points, &x.planes[p])
	upper := x.newBlock(kind, x.points[half:])
	x.fill(full, x.points[:half])
	x.planes[p].next = [2]int32{^full, ^upper}
	link := &x.roots[kind]
	for *link >= 0 {
		link = &x.planes[*link].next[x.side(*link, m, shared)]
	}
	*link = p
	return x.find(m, shared)
}

// split orders machines by the coordinate in which they differ most, the lower half first, and
// returns the index of the second half.
func (x *Index) split(machines []int32, p *plane) (half int) {
	most := -1.0
	for c := range len(x.s.free) + 1 {
		x.measure(c, machines)
		scale := 1.0
		if c > 0 {
			scale = usedScale
		}
		if extent := scale * (slices.Max(x.keys) - slices.Min(x.keys)); extent > most {
			p.coord, most = c, extent
		}
	}
	x.measure(p.coord, machines)
	half = len(machines) / 2
	lowest(x.keys, machines, half)
	p.from = x.keys[half]
	return half
}

// measure fills keys with a coordinate of machines.
func (x *Index) measure(coord int, machines []int32) {
	x.keys = x.keys[:0]
	for _, m := range machines {
		if coord == 0 {
			x.keys = append(x.keys, x.g.Shared(m))
		} else {
			x.keys = append(x.keys, x.used(coord-1, m))
		}
	}
}

// lowest orders keys and machines: the k lowest keys first (Hoare 1961). Element k is then the next one.
func lowest(keys []float64, machines []int32, k int) {
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
				machines[i], machines[j] = machines[j], machines[i]
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
