package linear

import "math"

// fewCandidates are computed as fast as a column is brought up to date.
const fewCandidates = 8

// A column holds the part of the score that depends on a profile and on the free
// amounts of each machine. Each column follows the journal on its own, so that a
// profile pays only for the machines that changed since its last use.
type column struct {
	seq  uint64
	base []float64 // Σ weight·feature over util, mean, rise, full, frag, empty
	util []float64
	lost []uint64  // shapes that fit now and not after; emptyBit
	size []float64 // weight·size; nil = no weight
}

// column updates a profile's column. For few candidates, and where
// there are too many columns to cache, own is true and the column holds the candidates alone, in their order.
func (l *Scorer) column(prof int32, candidates []int32) (col *column, own bool) {
	if few := len(candidates) > 0 && len(candidates) <= fewCandidates; l.columns == nil || few {
		col = &l.scratch
		n := len(candidates)
		if cap(col.base) < n {
			l.allot(col, 2*n)
		}
		col.base, col.util, col.lost = col.base[:n], col.util[:n], col.lost[:n]
		for i, m := range candidates {
			l.compute(col, int32(i), prof, m, l.strongShapes)
		}
		return col, true
	}
	col = &l.columns[prof]
	var all bool
	l.columnChanges, col.seq, all = l.s.Changes(col.seq, l.columnChanges[:0])
	if all {
		if col.base == nil {
			l.allot(col, l.stride)
		}
		for m := range int32(l.s.Size()) {
			l.compute(col, m, prof, m, allShapes)
		}
		return col, false
	}
	for _, c := range l.columnChanges {
		l.compute(col, c.Machine, prof, c.Machine, allShapes)
	}
	return col, false
}

func (l *Scorer) allot(col *column, machines int) {
	col.base, col.util, col.lost = make([]float64, machines), make([]float64, machines), make([]uint64, machines)
	if l.weights[fSize] != 0 {
		col.size = make([]float64, machines)
	}
}

// emptyBit marks an empty machine in column.lost.
const (
	emptyBit  = 1 << 63
	allShapes = emptyBit - 1
)

// compute fills one entry of a column. It finds out which of some shapes are lost.
func (l *Scorer) compute(col *column, at, prof, m int32, shapes uint64) {
	need := l.profiles[prof]
	base, top := l.amounts(need, l.row(m), m)
	lost := uint64(0)
	if l.slots {
		lost = l.lostShapes(need, m, shapes)
	}
	if l.s.Items(m) == 0 {
		lost |= emptyBit
	}
	col.base[at], col.util[at], col.lost[at] = base, top, lost
	if col.size != nil {
		col.size[at] = l.sizeScore(need, m, top)
	}
}

// amounts is the part of the score of a machine with these free amounts that depends on
// amounts alone, and how full the item makes the machine.
func (l *Scorer) amounts(need, row []int64, m int32) (base, top float64) {
	inv := l.inverse[l.s.KindOf(m)][:len(need)]
	row = row[:len(need)]
	sum, least := 0.0, math.Inf(1)
	dims := 0
	for d, n := range need {
		if inv[d] == 0 {
			continue
		}
		free := float64(float64(row[d]-n) * inv[d])
		used := 1 - free
		if used > top {
			top = used
		}
		if free < least {
			least = free
		}
		sum += used
		dims++
		if l.utilDims != nil {
			base += float64(l.utilDims[d] * used)
		}
	}
	base += float64(l.weights[fUtil]*top) + float64(l.weights[fMean]*(sum/max(1, float64(dims))))
	if w := l.weights[fRise]; w != 0 {
		base += float64(w * (top - l.highest[m]))
	}
	switch {
	case least == 0:
		base += l.weights[fFull]
	case least < smallShare:
		base += l.weights[fFrag]
	}
	if l.s.Items(m) == 0 {
		base += l.weights[fEmpty]
	}
	return base, top
}
