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
	if x.moved += len(x.changes); all || x.moved > 4*len(x.s.kind) {
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
		b.shared = math.Inf(-1)
		for j, m := range b.Machines[:b.count] {
			b.parts[j] = x.g.Shared(m)
			b.shared = max(b.shared, b.parts[j])
		}
	}
}

// build makes the blocks of all machines on offer.
func (x *Index) build() {
	s := x.s
	x.moved, x.blocks, x.planes = 0, x.blocks[:0], x.planes[:0]
	x.at = slices.Grow(x.at[:0], len(s.kind))[:len(s.kind)]
	for m := range x.at {
		x.at[m] = spot{block: noBlock, version: s.version[m]}
	}
	kinds := len(s.kinds)
	x.roots, x.first, x.unused = slices.Grow(x.roots[:0], kinds)[:kinds], make([]int, kinds), make([][]int32, kinds)
	for k := range x.roots {
		x.points = x.points[:0]
		for m, kind := range s.kind {
			switch {
			case int(kind) != k || s.offered[m/64]>>(m%64)&1 == 0:
			case s.neverUsed(int32(m)):
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
	half := x.split(kind, machines, &x.planes[p])
	next := [2]int32{x.divide(kind, machines[:half]), 0}
	next[1] = x.divide(kind, machines[half:])
	x.planes[p].next = next
	return p
}

func (x *Index) newBlock(kind int32, machines []int32) int32 {
	x.blocks = append(x.blocks, Block{Kind: kind})
	b := int32(len(x.blocks) - 1)
	for _, m := range machines {
		x.blocks[b].count++
		x.put(b, x.blocks[b].count-1, m, x.g.Shared(m))
	}
	x.blocks[b].stale = true
	return b
}

// put enters a machine into a block.
func (x *Index) put(b, at, m int32, shared float64) {
	blk := &x.blocks[b]
	blk.Machines[at], blk.parts[at], blk.stale = m, shared, true
	for d := range x.s.free {
		blk.Free[d][at] = x.s.free[d][m]
	}
	x.at[m].block, x.at[m].at = b, at
}

// enclose computes the bounds of a block.
func (b *Block) enclose(dims int) {
	b.stale, b.shared = false, math.Inf(-1)
	for d := range dims {
		least, most := int64(math.MaxInt64), int64(math.MinInt64)
		for _, free := range b.Free[d][:b.count] {
			least, most = min(least, free), max(most, free)
		}
		b.least[d], b.most[d] = least, most
	}
	for _, v := range b.parts[:b.count] {
		b.shared = max(b.shared, v)
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
	if s.offered[m/64]>>(m%64)&1 != 0 && !s.neverUsed(m) {
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
		if x.blocks[to].count == blockSize {
			to = x.divideBlock(m, shared, to)
		}
		x.blocks[to].count++
		x.put(to, x.blocks[to].count-1, m, shared)
	}
}

// find descends to the block of a machine.
func (x *Index) find(m int32, shared float64) int32 {
	at := x.roots[x.s.kind[m]]
	for at >= 0 {
		p := &x.planes[at]
		v := shared
		if p.coord > 0 {
			v = float64(x.s.free[p.coord-1][m])
		}
		if v < p.from {
			at = p.next[0]
		} else {
			at = p.next[1]
		}
	}
	return ^at
}

func (x *Index) remove(m int32) {
	at := x.at[m]
	b := &x.blocks[at.block]
	b.count--
	b.stale = true
	if last := b.count; last != at.at {
		moved := b.Machines[last]
		b.Machines[at.at], b.parts[at.at] = moved, b.parts[last]
		for d := range x.s.free {
			b.Free[d][at.at] = b.Free[d][last]
		}
		x.at[moved].at = at.at
	}
	x.at[m].block = noBlock
}

// divideBlock divides a full block in two and returns the one for a machine.
func (x *Index) divideBlock(m int32, shared float64, full int32) int32 {
	kind := x.blocks[full].Kind
	x.points = append(x.points[:0], x.blocks[full].Machines[:]...)
	p := int32(len(x.planes))
	x.planes = append(x.planes, plane{})
	half := x.split(kind, x.points, &x.planes[p])
	upper := x.newBlock(kind, x.points[half:])
	b := &x.blocks[full]
	b.count = 0
	for _, moved := range x.points[:half] {
		b.count++
		x.put(full, b.count-1, moved, x.g.Shared(moved))
	}
	x.planes[p].next = [2]int32{^full, ^upper}
	link := &x.roots[kind]
	for *link >= 0 {
		q := &x.planes[*link]
		v := shared
		if q.coord > 0 {
			v = float64(x.s.free[q.coord-1][m])
		}
		side := 1
		if v < q.from {
			side = 0
		}
		link = &q.next[side]
	}
	*link = p
	return x.find(m, shared)
}

// split orders machines by the coordinate in which they differ most, the lower half first, and
// returns the index of the second half.
func (x *Index) split(kind int32, machines []int32, p *plane) (half int) {
	most := -1.0
	for c := range len(x.s.free) + 1 {
		x.measure(c, machines)
		scale := 1.0
		if c > 0 {
			scale = freeScale / float64(max(1, x.s.kinds[kind].Capacity[c-1]))
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
			x.keys = append(x.keys, float64(x.s.free[coord-1][m]))
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
