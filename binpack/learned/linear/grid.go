package linear

import (
	"math"
	"math/bits"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

const (
	// steps is the number of steps of the shares that a grid tells apart.
	steps = 24
	// maxClasses is the number of kinds that a grid tells apart.
	maxClasses = 8
	// tiny is far more than rounding does to a share.
	tiny = 1e-9

	nowhere = -1
	unused  = -2
)

// A grid finds the machines that may win where there are more demands than columns
// can be kept for. It sorts machines into cells by class and by used ÷ capacity in two
// dimensions, those that tell most about how full an item makes a machine. From that
// follows how full a machine becomes at least and at most, and so the most that its
// score can be. Cells are scored from the most promising down, until no other machine
// can reach the best.
type grid struct {
	classOf   []int32     // [kind]; one class where there are many kinds
	low, high [][]float64 // [class][dimension] the smallest and the largest 1 ÷ capacity
	pivots    [2]int      // the two dimensions
	exact     bool        // there are no others

	cells    []cell
	cellOf   []int32      // [machine] index in cells, or nowhere, or unused
	at       []int32      // [machine] index in the cell
	pivot    [][2]float64 // [machine] used ÷ capacity of the pivots
	occupied []int32      // cells with machines
	// unused has for each kind of a fixed fleet the machines that never held an item:
	// they are all alike, so that the first stands for the others.
	unused [][]int32
	first  []int // [kind] index in unused; those before are in use
	fewest int32 // apps that a machine in a cell allowed

	limits []cellLimit
	bids   [maxClasses]bid
	closed []uint64 // bitset of machines that are closed to an app that the item closes one to
	scores []float64
}

type cell struct {
	machines    []int32 // in no order
	least, most float64 // that a machine in it had as largest used ÷ capacity
	at          int32   // index in occupied
}

type cellLimit struct {
	cell  int32
	limit float64
}

// A bid is what an item needs of a class of machines, as shares.
type bid struct {
	least, most           float64 // the largest over dimensions
	pivotLeast, pivotMost [2]float64
}

// makeGrid makes the grid of all machines that the caches know.
func (l *Scorer) makeGrid() {
	l.grid = nil
	if l.columns != nil || !l.boundsHold() {
		return
	}
	kinds := l.s.Kinds()
	g := &grid{
		classOf: make([]int32, len(kinds)), cellOf: make([]int32, l.stride), at: make([]int32, l.stride),
		pivot: make([][2]float64, l.stride), unused: make([][]int32, len(kinds)), first: make([]int, len(kinds)),
	}
	for k := range kinds {
		c := int32(k)
		if len(kinds) > maxClasses {
			c = 0
		}
		g.classOf[k] = c
		if int(c) == len(g.high) {
			g.low, g.high = append(g.low, slices.Clone(l.inverse[k])), append(g.high, slices.Clone(l.inverse[k]))
		}
		for i, inv := range l.inverse[k] {
			g.low[c][i], g.high[c][i] = min(g.low[c][i], inv), max(g.high[c][i], inv)
		}
	}
	g.choosePivots(l.profiles)
	g.cells = make([]cell, len(g.high)*steps*steps)
	g.clear()
	l.grid = g
	for m, stamp := range l.stamp {
		if stamp != 0 {
			g.put(l, int32(m))
		}
	}
}

// choosePivots takes the dimension that the demands need most of, and the one that
// they need most of beyond that.
func (g *grid) choosePivots(demands [][]int64) {
	dims := len(g.high[0])
	sums := make([]float64, dims)
	for _, need := range demands {
		for d, n := range need {
			sums[d] += float64(n) * g.high[0][d]
		}
	}
	p := slices.Index(sums, slices.Max(sums))
	clear(sums)
	for _, need := range demands {
		for d, n := range need {
			sums[d] += max(0, float64(n)*g.high[0][d]-float64(need[p])*g.high[0][p])
		}
	}
	q := slices.Index(sums, slices.Max(sums))
	if q == p {
		q = dims - 1 - p
	}
	g.pivots, g.exact = [2]int{p, q}, dims <= 2
}

func (g *grid) clear() {
	g.fewest = math.MaxInt32
	for i := range g.cellOf {
		g.cellOf[i] = nowhere
	}
	for c := range g.cells {
		g.cells[c].machines = g.cells[c].machines[:0]
	}
	g.occupied = g.occupied[:0]
	for k := range g.unused {
		g.unused[k], g.first[k] = g.unused[k][:0], 0
	}
}

// neverUsed reports whether a machine differs in nothing from the others of its kind
// that held no item yet.
func (l *Scorer) neverUsed(m int32) bool {
	return l.s.LastUsed(m) == 0 && l.s.Items(m) == 0 && l.s.Instance().Fleet == binpack.Fixed
}

// put finds a machine's cell.
func (g *grid) put(l *Scorer, m int32) {
	k := l.s.KindOf(m)
	old := g.cellOf[m]
	if old < 0 && l.neverUsed(m) {
		if old == nowhere {
			g.cellOf[m] = unused
			g.unused[k] = append(g.unused[k], m)
		}
		return
	}
	row, at := l.row(m), g.classOf[k]
	for i, d := range g.pivots {
		used := 0.0
		if inv := l.inverse[k][d]; inv != 0 {
			used = 1 - float64(row[d])*inv
		}
		g.pivot[m][i] = used
		at = at*steps + int32(min(steps-1, max(0, used*steps)))
	}
	g.fewest = min(g.fewest, l.allowed[m])
	to := &g.cells[at]
	if at != old {
		if old >= 0 {
			g.drop(m)
		}
		if len(to.machines) == 0 {
			to.least, to.most, to.at = l.highest[m], l.highest[m], int32(len(g.occupied))
			g.occupied = append(g.occupied, at)
		}
		g.cellOf[m], g.at[m] = at, int32(len(to.machines))
		to.machines = append(to.machines, m)
	}
	to.least, to.most = min(to.least, l.highest[m]), max(to.most, l.highest[m])
}

// drop takes a machine out of its cell.
func (g *grid) drop(m int32) {
	from := &g.cells[g.cellOf[m]]
	last := from.machines[len(from.machines)-1]
	from.machines[g.at[m]], g.at[last] = last, g.at[m]
	from.machines = from.machines[:len(from.machines)-1]
	if len(from.machines) == 0 {
		moved := g.occupied[len(g.occupied)-1]
		g.occupied[from.at], g.cells[moved].at = moved, from.at
		g.occupied = g.occupied[:len(g.occupied)-1]
	}
}

// bidOf is what a demand needs of a class.
func (g *grid) bidOf(need []int64, class int) bid {
	low, high := g.low[class], g.high[class]
	b := bid{least: share(need, low), most: share(need, high)}
	for i, d := range g.pivots {
		b.pivotLeast[i], b.pivotMost[i] = float64(need[d])*low[d], float64(need[d])*high[d]
	}
	return b
}

// range_ is how full a machine becomes at least and at most, whose largest share and shares
// of the pivots are in ranges.
func (b *bid) becomes(least, most float64, low, high [2]float64, exact bool) (from, to float64) {
	p, q := low[0]+b.pivotLeast[0], low[1]+b.pivotLeast[1]
	from = max(least, b.least, p, q)
	if exact {
		return from, max(high[0]+b.pivotMost[0], high[1]+b.pivotMost[1])
	}
	return from, most + b.most
}

var none = math.Inf(-1)

// A tender is what the search for the best machine knows of the item.
type tender struct {
	app, group         int32
	need               []int64
	singl, open, slot  float64
	shapes             uint64 // that apps with pressure have
	util, upper, rise  float64
	recent             float64
	fixed, closing     float64
	near               []int32
	far                []far
	nearMost, farMost  float64
	allowed            float64 // the most that open can be
	size               float64
	frag, full, spared float64
}

func (l *Scorer) newTender(a int32) tender {
	t := tender{
		app: a, group: l.s.Instance().Apps[a].Group, need: l.profiles[l.profileOf[a]],
		singl: l.singlWeight(a), open: l.openWeight(), near: l.near[a], far: l.far[a], size: 1,
		frag: l.weights[fFrag], full: l.weights[fFull], spared: max(0, l.weights[fEmpty]),
		rise: max(0, l.weights[fRise]), upper: max(0, l.weights[fMean]), recent: l.weights[fRecent],
	}
	t.util = l.weights[fUtil] + t.singl
	for _, w := range l.utilDims {
		t.upper += max(0, w)
	}
	t.allowed = t.open * float64(len(l.profileOf)-1)
	if t.open < 0 {
		t.allowed = t.open * float64(l.grid.fewest-1)
	}
	t.fixed, t.closing = l.closingWeights()
	for _, b := range t.near {
		v := l.closes1(&t, b)
		t.nearMost += max(0, -v)
		t.size += math.Abs(v)
	}
	for _, f := range t.far {
		v := l.closes1(&t, f.app)
		t.farMost += max(0, v)
		t.size += math.Abs(v)
	}
	if l.slots && len(l.strong) > 0 {
		t.slot = l.weights[fSlot] * .25 / (1 << pressureBits)
		t.shapes = l.strongShapes
	}
	return t
}

func (l *Scorer) closes1(t *tender, b int32) float64 {
	return t.fixed + float64(t.closing*float64(l.d.remaining[b]*l.d.dominant[b]))
}

// openOf is what a number of apps that are allowed adds.
func (t *tender) openOf(allowed int32) float64 { return t.open * float64(allowed-1) }

// limit is the most that what depends on amounts can be where the largest used ÷ capacity
// after the placement is between two values. rise is how much it can rise.
func (t *tender) limit(least, most, rise float64) float64 {
	const edge = 1 - smallShare
	least, most = least-tiny, min(most, 1)+tiny
	top := math.Inf(-1)
	if least <= edge+tiny {
		top = t.between(least, min(most, edge+tiny))
	}
	if most >= edge-tiny {
		top = max(top, t.frag+t.between(max(least, edge-tiny), most))
	}
	if most >= 1-tiny {
		top = max(top, t.full+t.between(max(least, 1-tiny), most))
	}
	return top + t.spared + t.rise*(rise+tiny)
}

func (t *tender) between(least, most float64) float64 {
	if t.util > 0 {
		return (t.util + t.upper) * most
	}
	return t.util*least + t.upper*most
}

// notClosed is what a machine's score is higher for what is closed there already.
func (l *Scorer) notClosed(t *tender, m int32) float64 {
	sum := 0.0
	for _, b := range t.near {
		if l.blocks(b, m) {
			sum -= l.closes1(t, b)
		}
	}
	return sum
}

// shortlist appends to buf the machines that may have the highest score, in no order.
func (l *Scorer) shortlist(a int32, buf []int32) []int32 {
	t := l.newTender(a)
	g := l.grid
	offered, blocked := l.s.Offered(), l.s.Blocked(a)
	closed := g.findClosed(l, &t, offered, blocked)
	start, best := len(buf), none
	g.scores = g.scores[:0]
	slack := 2 * tiny * t.size // far more than rounding can do: weights are at most 100
	try := func(m int32, delta float64) {
		Tried++
		if v := l.tenderScore(&t, m, best-slack-delta) + delta; v >= best-slack && v > none {
			buf, g.scores = append(buf, m), append(g.scores, v)
			if l.s.Items(m) > 0 || !l.keepBack() {
				best = max(best, v)
			}
		}
	}
	for k, list := range g.unused {
		for g.first[k] < len(list) && g.cellOf[list[g.first[k]]] != unused {
			g.first[k]++
		}
		if g.first[k] < len(list) {
			if m := list[g.first[k]]; !l.blocks(a, m) {
				try(m, l.notClosed(&t, m))
			}
		}
	}
	for c := range g.high {
		g.bids[c] = g.bidOf(t.need, c)
	}
	beyond := max(0, t.recent) + t.farMost
	g.limits = g.limits[:0]
	for _, at := range g.occupied {
		b, c := &g.bids[at/(steps*steps)], &g.cells[at]
		low := [2]float64{float64(at/steps%steps) / steps, float64(at%steps) / steps}
		from, to := b.becomes(c.least, c.most, low, [2]float64{low[0] + 1./steps, low[1] + 1./steps}, g.exact)
		if from > 1+tiny {
			continue
		}
		if limit := t.limit(from, to, b.most) + beyond + t.allowed; limit >= best-slack {
			g.limits = append(g.limits, cellLimit{at, limit})
		}
	}
	for len(g.limits) > 0 {
		top, n := 0, 0
		for _, c := range g.limits { // those that are still of interest, the best first
			if c.limit < best-slack {
				continue
			}
			if g.limits[n] = c; c.limit > g.limits[top].limit {
				top = n
			}
			n++
		}
		if n == 0 {
			break
		}
		at := g.limits[top].cell
		g.limits[top] = g.limits[n-1]
		g.limits = g.limits[:n-1]
		b := &g.bids[at/(steps*steps)]
		for _, m := range g.cells[at].machines {
			if w := m >> 6; (offered[w]&^blocked[w]&^closed[w])>>(m&63)&1 == 0 {
				continue
			}
			from, to := b.becomes(l.highest[m], l.highest[m], g.pivot[m], g.pivot[m], g.exact)
			if from <= 1+tiny && t.limit(from, to, b.most)+beyond+t.openOf(l.allowed[m]) >= best-slack {
				try(m, 0)
			}
		}
	}
	for w, word := range closed {
		for ; word != 0; word &= word - 1 {
			m := int32(w*64 + bits.TrailingZeros64(word))
			if g.cellOf[m] < 0 {
				continue // closed by its type, as all of its kind
			}
			b := &g.bids[g.classOf[l.s.KindOf(m)]]
			from, to := b.becomes(l.highest[m], l.highest[m], g.pivot[m], g.pivot[m], g.exact)
			if from > 1+tiny || t.limit(from, to, b.most)+beyond+t.openOf(l.allowed[m])+t.nearMost < best-slack {
				continue
			}
			try(m, l.notClosed(&t, m))
		}
	}
	n := start
	for i, v := range g.scores {
		if v >= best-slack {
			buf[n] = buf[start+i]
			n++
		}
	}
	buf = buf[:n]
	slices.Sort(buf[start:])
	return buf
}

func share(need []int64, inverse []float64) float64 {
	top := 0.0
	for d, n := range need {
		if used := float64(n) * inverse[d]; used > top {
			top = used
		}
	}
	return top
}

// findClosed finds the machines that are closed to an app that the item closes one to.
func (g *grid) findClosed(l *Scorer, t *tender, offered, blocked []uint64) []uint64 {
	g.closed = slices.Grow(g.closed[:0], len(offered))[:len(offered)]
	clear(g.closed)
	if t.fixed == 0 && t.closing == 0 {
		t.near = nil
	}
	for _, b := range t.near {
		for w, word := range l.s.Blocked(b) {
			g.closed[w] |= word
		}
	}
	for w := range g.closed {
		g.closed[w] &= offered[w] &^ blocked[w]
	}
	return g.closed
}

// tenderScore is the score of a machine without what the item closes in most machines; minus
// infinity where the item does not fit or the score is below least.
func (l *Scorer) tenderScore(t *tender, m int32, least float64) float64 {
	row := l.row(m)
	if t.need[l.tightest[m]] > row[l.tightest[m]] {
		return none
	}
	for i, n := range t.need {
		if n > row[i] {
			return none
		}
	}
	base, top := l.amounts(t.need, row, m)
	v := base + t.singl*top + t.openOf(l.allowed[m])
	if t.recent != 0 {
		if last := l.s.LastUsed(m); last > 0 {
			v += t.recent / (1 + (float64(l.s.Placements())-float64(last))/float64(l.s.Active()+1))
		}
	}
	if v+t.farMost < least {
		return none
	}
	for _, f := range t.far {
		if !l.blocks(f.app, m) && l.s.Count(t.group, m)+1 >= f.own && l.s.Count(f.group, m) >= f.others {
			v += l.closes1(t, f.app)
		}
	}
	if v < least || t.shapes == 0 {
		return v
	}
	sum := int64(0)
	lost := l.lostShapes(t.need, m, t.shapes)
	if lost>>l.shapeOf[t.app]&1 != 0 {
		sum = -l.pressure[t.app]
	}
	for ; lost != 0; lost &= lost - 1 {
		sum += l.sums[bits.TrailingZeros64(lost)][m]
	}
	return v + t.slot*float64(sum)
}

var Tried int
