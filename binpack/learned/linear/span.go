package linear

import (
	"math"
	"math/bits"
)

// tenderAmounts is the part of the score that depends on amounts alone, as [Scorer.amounts] has it but
// for rounding, and how full the item makes the machine. It reports whether the item fits.
func (l *Scorer) tenderAmounts(t *tender, m int32) (base, top float64, fits bool) {
	row := l.row(m)
	if !t.bySpans {
		if d := l.tightest[m]; t.need[d] > row[d] || !hasRoom(t.need, row) {
			return 0, 0, false
		}
		base, top = l.amounts(t.need, row, m)
		return base, top, true
	}
	g, k := l.grid, l.s.KindOf(m)
	b := &g.bids[g.classOf[k]]
	left, fits := g.leastLeft(b, t.need, row, l.inverse[k], m, l.tightest[m])
	if !fits {
		return 0, 0, false
	}
	top = max(0, 1-left)
	base = float64(l.weights[fUtil]*top) + float64(l.weights[fMean]*(g.meanUsed[m]+b.mean)) + float64(l.weights[fRise]*(top-l.highest[m]))
	switch {
	case left == 0:
		base += l.weights[fFull]
	case left < smallShare:
		base += l.weights[fFrag]
	}
	if l.s.Items(m) == 0 {
		base += l.weights[fEmpty]
	}
	return base, top, true
}

// leastLeft is the smallest free share of a machine after a demand, bit for bit, and whether the
// demand fits. It reads the span of the tightest dimension, and those that may have less left.
func (g *grid) leastLeft(b *bid, need, row []int64, inverse []float64, m, tightest int32) (left float64, fits bool) {
	if b.lacks {
		return 0, false
	}
	left = math.Inf(1)
	first := int(tightest) / span
	if left, fits = spanLeft(left, need, row, inverse, first); !fits {
		return 0, false
	}
	for i, used := range g.spanUsed[int(m)*g.spans:][:len(b.spans)] {
		if i == first || used[1]+b.spans[i].most+tiny < 1-left {
			continue
		}
		if left, fits = spanLeft(left, need, row, inverse, i); !fits {
			return 0, false
		}
	}
	return left, true
}

// spanLeft lowers the smallest free share to that of a span.
func spanLeft(left float64, need, row []int64, inverse []float64, i int) (least float64, fits bool) {
	from, to := i*span, min((i+1)*span, len(need))
	row, inverse = row[from:to], inverse[from:to]
	for d, n := range need[from:to] {
		free := row[d] - n
		if free < 0 {
			return 0, false
		}
		if share := float64(free) * inverse[d]; share < left && inverse[d] != 0 {
			left = share
		}
	}
	return left, true
}

// lessSlot subtracts the cost of slot from a score; only part of it where the score falls below least.
func (l *Scorer) lessSlot(t *tender, m int32, v, least float64) float64 {
	sum := int64(0)
	for among := t.shapes & l.fits[m]; among != 0; among &= among - 1 {
		s := bits.TrailingZeros64(among)
		pressure := l.sums[s][m]
		if int32(s) == l.shapeOf[t.app] {
			pressure -= l.pressure[t.app] // a itself is allowed here
		}
		if pressure == 0 || !l.loses(l.shapes[s], t, m) {
			continue
		}
		if sum += pressure; v+t.slot*float64(sum) < least { // nothing adds to it: boundsHold
			break
		}
	}
	return v + t.slot*float64(sum)
}

// loses reports whether a shape that fits a machine does not after the item.
func (l *Scorer) loses(shape []int64, t *tender, m int32) bool {
	row := l.row(m)
	if d := l.tightest[m]; shape[d] > row[d]-t.need[d] {
		return true
	}
	for d, n := range shape {
		if n > row[d]-t.need[d] {
			return true
		}
	}
	return false
}
