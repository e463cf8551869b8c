package linear

import (
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

const (
	// steps is the number of steps of the shares that a grid distinguishes.
	steps = 48
	// maxClasses is the number of kinds that a grid distinguishes.
	maxClasses = 8
	// span is the number of neighbouring dimensions that a grid takes together where
	// there are many: those of a curve differ little.
	span = 16
	// tiny is far more than rounding does to a share.
	tiny = 1e-9

	nowhere = -1
	unused  = -2
)

// A grid finds the machines that may win where there are more demands than columns can
// be kept for. It sorts machines into cells by class and by used ÷ capacity in two
// dimensions, those that best predict how full an item makes a machine. From that
// follows how full a machine becomes at least and at most, and so the most that its
// score can be. Cells are scored from the most promising down, until no other machine
// can reach the best.
type grid struct {
	classOf   []int32     // [kind]; one class where there are many kinds
	low, high [][]float64 // [class][dimension] the smallest and the largest 1 ÷ capacity
	pivots    [2]int      // the two dimensions
	exact     bool        // there are no others

	spans    int          // of all dimensions; 0 = there are few
	spanUsed [][2]float64 // [machine*spans + span] the least and the most used ÷ capacity
	meanUsed []float64    // [machine] the mean used ÷ capacity, where there are spans
	cells    []cell
	cellOf   []int32      // [machine] index in cells, or nowhere, or unused
	at       []int32      // [machine] index in the cell
	pivot    [][2]float64 // [machine] used ÷ capacity of the pivots
	occupied []int32      // cells with machines
	// unused has for each kind of a fixed fleet the machines that never held an item:
	// they are all alike, so that the first represents the others.
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
	limit       float64 // for the item of this call
}

type cellLimit struct {
	cell  int32
	limit float64
}

// A bid is the need of an item on a class of machines, as shares.
type bid struct {
	least, most           float64 // the largest over dimensions
	pivotLeast, pivotMost [2]float64
	spans                 []spanBid
	mean                  float64 // its addition to the mean, where there are spans
	lacks                 bool    // it needs a dimension that no machine of the class has
}

// A spanBid is the need of an item in a span: the least, and the most by the largest and
// by the smallest capacity of the class.
type spanBid struct{ least, most, mostHigh float64 }

// makeGrid makes the grid of all machines in the caches.
func (l *Scorer) makeGrid() {
	l.grid = nil
	if l.columns != nil || l.standing || !l.boundsHold() || l.partners == nil && binpack.NewIndex(l.s, nil, indexFrom).Serves() {
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
	if dims := len(g.high[0]); dims >= 2*span {
		g.spans = (dims + span - 1) / span
		g.spanUsed, g.meanUsed = make([][2]float64, l.stride*g.spans), make([]float64, l.stride)
		for c := range g.high {
			g.bids[c].spans = make([]spanBid, g.spans)
		}
	}
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
	row, at := l.row(m), g.classOf[k]
	g.setSpans(m, row, l.inverse[k])
	old := g.cellOf[m]
	if old < 0 && l.neverUsed(m) {
		if old == nowhere {
			g.cellOf[m] = unused
			g.unused[k] = append(g.unused[k], m)
		}
		return
	}
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

// setBid computes the bid of a demand for a class.
func (g *grid) setBid(need []int64, class int) {
	low, high, b := g.low[class], g.high[class], &g.bids[class]
	b.least, b.most = share(need, low), share(need, high)
	for i, d := range g.pivots {
		b.pivotLeast[i], b.pivotMost[i] = float64(need[d])*low[d], float64(need[d])*high[d]
	}
	b.mean, b.lacks = 0, false
	dims := 0
	for i := range b.spans {
		from, to := i*span, min((i+1)*span, len(need))
		least := math.Inf(1)
		for d, n := range need[from:to] {
			v := float64(n) * low[from+d]
			if v < least {
				least = v
			}
			b.mean += v
			b.lacks = b.lacks || n > 0 && high[from+d] == 0
			if high[from+d] != 0 {
				dims++
			}
		}
		b.spans[i] = spanBid{least, share(need[from:to], low[from:to]), share(need[from:to], high[from:to])}
	}
	b.mean /= max(1, float64(dims))
}

// setSpans computes how full a machine is by span.
func (g *grid) setSpans(m int32, row []int64, inverse []float64) {
	sum, dims := 0., 0
	for i := range g.spans {
		from := i * span
		least, most := 1., 0.
		for d, inv := range inverse[from:min(from+span, len(inverse))] {
			if inv == 0 {
				continue
			}
			used := 1 - float64(row[from+d])*inv
			if used < least {
				least = used
			}
			if used > most {
				most = used
			}
			sum += used
			dims++
		}
		g.spanUsed[int(m)*g.spans+i] = [2]float64{min(least, most), most}
	}
	if g.spans > 0 {
		g.meanUsed[m] = sum / max(1, float64(dims))
	}
}

// bySpans narrows how full a machine becomes at least and at most.
func (g *grid) bySpans(b *bid, m int32, from, to float64) (narrowFrom, narrowTo float64) {
	most := 0.0
	for i, used := range g.spanUsed[int(m)*g.spans:][:len(b.spans)] {
		need := &b.spans[i]
		if v := used[1] + need.least; v > from {
			from = v
		}
		if v := used[0] + need.most; v > from {
			from = v
		}
		if v := used[1] + need.mostHigh; v > most {
			most = v
		}
	}
	return from, min(to, most)
}

// becomes bounds the largest share after the placement on a machine whose largest share
// and shares of the pivots are in ranges.
func (b *bid) becomes(least, most float64, low, high [2]float64, exact bool) (from, to float64) {
	p, q := low[0]+b.pivotLeast[0], low[1]+b.pivotLeast[1]
	from = max(least, b.least, p, q)
	if exact {
		return from, max(high[0]+b.pivotMost[0], high[1]+b.pivotMost[1])
	}
	return from, most + b.most
}
