package linear

import (
	"math"
	"math/bits"
	"slices"
)

// none is the score of a machine without room.
var none = math.Inf(-1)

// A tender is an item as the search for the best machine sees it.
type tender struct {
	app, group        int32
	need              []int64
	singl, open, slot float64 // weights, as far as they are the item's
	shapes            uint64  // that apps with pressure have
	util, upper, rise float64 // weights: of the largest share; of features that it bounds, if positive; of rise
	frag, full        float64
	spared            float64 // the most for an empty machine
	recent            float64
	fixed, closing    float64 // see closingWeights
	near              []int32
	far               []far
	nearMost, farMost float64 // the most that they can raise a score
	beyond            float64 // the most for recent and far
	allowed           float64 // the most for open
	bySpans           bool    // spans show how full a machine becomes, and the kind of a machine is its class
	size              float64 // of all of these together

	found       []int32
	best, slack float64
}

func (l *Scorer) newTender(a int32) tender {
	t := tender{
		app: a, group: l.s.Instance().Apps[a].Group, need: l.profiles[l.profileOf[a]],
		singl: l.utilWeight(a), open: l.openWeight(), near: l.near[a], far: l.far[a], size: 1,
		frag: l.weights[fFrag], full: l.weights[fFull], spared: max(0, l.weights[fEmpty]),
		rise: max(0, l.weights[fRise]), upper: max(0, l.weights[fMean]), recent: l.weights[fRecent],
	}
	t.bySpans = l.grid.spans > 0 && l.utilDims == nil && len(l.s.Kinds()) <= maxClasses
	t.util = l.weights[fUtil] + t.singl
	for _, w := range l.utilDims {
		t.upper += max(0, w)
	}
	t.allowed = t.open * float64(len(l.profileOf)-1)
	if t.open < 0 {
		t.allowed = t.open * float64(l.grid.fewest-1)
	}
	t.fixed, t.closing = l.closingWeights()
	if t.fixed == 0 && t.closing == 0 {
		t.near, t.far = nil, nil
	}
	for _, b := range t.near {
		v := t.closes(l, b)
		t.nearMost += max(0, -v)
		t.size += math.Abs(v)
	}
	for _, f := range t.far {
		v := t.closes(l, f.app)
		t.farMost += max(0, v)
		t.size += math.Abs(v)
	}
	t.beyond = max(0, t.recent) + t.farMost
	if l.slots && len(l.strong) > 0 {
		t.slot = l.weights[fSlot] * .25 / (1 << pressureBits)
		t.shapes = l.strongShapes
	}
	return t
}

// closes is the score for closing a machine to an app by the item.
func (t *tender) closes(l *Scorer, b int32) float64 {
	return t.fixed + float64(t.closing*float64(l.d.remaining[b]*l.d.dominant[b]))
}

// openOf is the score for a number of allowed apps.
func (t *tender) openOf(allowed int32) float64 { return t.open * float64(allowed-1) }

// limit is the most that the score can be without open where the largest used ÷ capacity
// after the placement is between two values. rise is its largest increase.
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
	return top + t.spared + t.rise*(rise+tiny) + t.beyond
}

func (t *tender) between(least, most float64) float64 {
	if t.util > 0 {
		return (t.util + t.upper) * most
	}
	return t.util*least + t.upper*most
}

// notClosed is the score bonus of a machine for apps to which it is closed already.
func (l *Scorer) notClosed(t *tender, m int32) float64 {
	sum := 0.0
	for _, b := range t.near {
		if l.blocks(b, m) {
			sum -= t.closes(l, b)
		}
	}
	return sum
}

// shortlist appends to buf the machines that may have the highest score, by index.
func (l *Scorer) shortlist(a int32, buf []int32) []int32 {
	t, g := l.newTender(a), l.grid
	g.findClosed(l, &t)
	start := len(buf)
	t.found, t.best, g.scores = buf, none, g.scores[:0]
	t.slack = 2 * tiny * t.size // far more than rounding can do: weights are at most 100
	for c := range g.high {
		g.setBid(t.need, c)
	}
	l.searchUnused(&t)
	l.boundCells(&t)
	l.searchCells(&t)
	l.searchClosed(&t)
	n := start
	for i, v := range g.scores {
		if t.mayWin(v) {
			t.found[n] = t.found[start+i]
			n++
		}
	}
	slices.Sort(t.found[start:n])
	return t.found[:n]
}

// mayWin reports whether a score of at most v is not certainly below the best.
func (t *tender) mayWin(v float64) bool { return v >= t.best-t.slack }

// try scores a machine, with the bonus for the apps to which it is closed.
func (l *Scorer) try(t *tender, m int32, closed float64) {
	v := l.tenderScore(t, m, t.best-t.slack-closed) + closed
	if v == none || !t.mayWin(v) {
		return
	}
	t.found, l.grid.scores = append(t.found, m), append(l.grid.scores, v)
	if l.s.Items(m) > 0 || !l.keepBack() {
		t.best = max(t.best, v)
	}
}

// searchUnused scores one unused machine of each kind.
func (l *Scorer) searchUnused(t *tender) {
	g := l.grid
	for k, list := range g.unused {
		for g.first[k] < len(list) && g.cellOf[list[g.first[k]]] != unused {
			g.first[k]++
		}
		if g.first[k] == len(list) {
			continue
		}
		if m := list[g.first[k]]; !l.blocks(t.app, m) {
			l.try(t, m, l.notClosed(t, m))
		}
	}
}

// boundCells finds the cells whose machines may win, and their highest scores.
func (l *Scorer) boundCells(t *tender) {
	g := l.grid
	g.limits = g.limits[:0]
	for _, at := range g.occupied {
		b, c := &g.bids[at/(steps*steps)], &g.cells[at]
		low := [2]float64{float64(at/steps%steps) / steps, float64(at%steps) / steps}
		from, to := b.becomes(c.least, c.most, low, [2]float64{low[0] + 1./steps, low[1] + 1./steps}, g.exact)
		if c.limit = none; from > 1+tiny {
			continue
		}
		if c.limit = t.limit(from, to, b.most) + t.allowed; t.mayWin(c.limit) {
			g.limits = append(g.limits, cellLimit{at, c.limit})
		}
	}
}

// searchCells scores the machines that are closed to no app that the item closes one to,
// from the most promising cell down.
func (l *Scorer) searchCells(t *tender) {
	g := l.grid
	offered, blocked := l.s.Offered(), l.s.Blocked(t.app)
	for {
		top, n := 0, 0
		for _, c := range g.limits { // those that are still of interest
			if !t.mayWin(c.limit) {
				continue
			}
			if g.limits[n] = c; c.limit > g.limits[top].limit {
				top = n
			}
			n++
		}
		if n == 0 {
			return
		}
		at := g.limits[top].cell
		g.limits[top] = g.limits[n-1]
		g.limits = g.limits[:n-1]
		for _, m := range g.cells[at].machines {
			w := m >> 6
			if (offered[w]&^blocked[w]&^g.closed[w])>>(m&63)&1 != 0 && t.mayWin(l.most(t, m, 0)) {
				l.try(t, m, 0)
			}
		}
	}
}

// searchClosed scores the machines that searchCells leaves out.
func (l *Scorer) searchClosed(t *tender) {
	g := l.grid
	for w, word := range g.closed {
		for ; word != 0; word &= word - 1 {
			m := int32(w*64 + bits.TrailingZeros64(word))
			// Unused machines are closed by their type, as all of the kind.
			if g.cellOf[m] < 0 || !t.mayWin(g.cells[g.cellOf[m]].limit+t.nearMost) {
				continue
			}
			if closed := l.notClosed(t, m); t.mayWin(l.most(t, m, closed) + closed) {
				l.try(t, m, closed)
			}
		}
	}
}

// most is the most that the score of a machine can be without the bonus for closed
// apps, exactly enough to decide whether it may win with closed added; minus
// infinity where the item does not fit.
func (l *Scorer) most(t *tender, m int32, closed float64) float64 {
	g := l.grid
	b := &g.bids[g.classOf[l.s.KindOf(m)]]
	from, to := b.becomes(l.highest[m], l.highest[m], g.pivot[m], g.pivot[m], g.exact)
	if !g.exact { // the dimension that is tightest on a machine bounds it better than the pivots
		d := l.tightest[m]
		from = max(from, l.highest[m]+float64(t.need[d])*g.low[g.classOf[l.s.KindOf(m)]][d])
	}
	if from > 1+tiny {
		return none
	}
	most := t.limit(from, to, b.most) + t.openOf(l.allowed[m])
	if g.spans == 0 || !t.mayWin(most+closed) {
		return most
	}
	if from, to = g.bySpans(b, m, from, to); from > 1+tiny {
		return none
	}
	return t.limit(from, to, b.most) + t.openOf(l.allowed[m])
}

// share is the largest share of a demand.
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
func (g *grid) findClosed(l *Scorer, t *tender) {
	offered, blocked := l.s.Offered(), l.s.Blocked(t.app)
	g.closed = slices.Grow(g.closed[:0], len(offered))[:len(offered)]
	clear(g.closed)
	for _, b := range t.near {
		for w, word := range l.s.Blocked(b) {
			g.closed[w] |= word
		}
	}
	for w := range g.closed {
		g.closed[w] &= offered[w] &^ blocked[w]
	}
}

// tenderScore is the score of a machine without the terms of the apps that the item closes on most
// machines; minus infinity where the item does not fit or the score is below least.
func (l *Scorer) tenderScore(t *tender, m int32, least float64) float64 {
	base, top, ok := l.tenderAmounts(t, m)
	if !ok {
		return none
	}
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
			v += t.closes(l, f.app)
		}
	}
	if v < least || t.shapes == 0 {
		return v
	}
	return l.lessSlot(t, m, v, least)
}
