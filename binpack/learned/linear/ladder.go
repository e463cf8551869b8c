package linear

import (
	"math"
	"math/bits"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

const (
	// rungs is the number of steps of a ladder.
	rungs = 64
	// maxClasses is the number of kinds that a ladder tells apart.
	maxClasses = 8
	// tiny is far more than rounding does to a share.
	tiny = 1e-9

	nowhere = -1
	unused  = -2
)

// A ladder finds the machines that may win where there are more demands than columns
// can be kept for. It sorts machines by class and by the largest used ÷ capacity. From
// that follows how full an item makes a machine at least and at most, and so the most
// that its score can be. Machines are scored from the most promising rung down, until
// no other can reach the best.
type ladder struct {
	classOf   []int32     // [kind]; one class where there are many kinds
	low, high [][]float64 // [class][dimension] the smallest and the largest 1 ÷ capacity
	machines  [][]int32   // [class*rungs+rung] in no order
	rung      []int32     // [machine] index in machines, or nowhere, or unused
	at        []int32     // [machine] index in machines[rung]
	// unused has for each kind of a fixed fleet the machines that never held an item:
	// they are all alike, so that the first stands for the others.
	unused [][]int32
	first  []int // [kind] index in unused; those before are in use

	limits []rungLimit
	closed []uint64 // bitset of machines that are closed to an app that the item closes one to
	scores []float64
}

type rungLimit struct {
	rung  int
	limit float64
}

// makeLadder makes the ladder of all machines that the caches know.
func (l *Scorer) makeLadder() {
	l.ladder = nil
	if l.columns != nil || !l.boundsHold() {
		return
	}
	kinds := l.s.Kinds()
	d := &ladder{classOf: make([]int32, len(kinds)), rung: make([]int32, l.stride), at: make([]int32, l.stride)}
	for k := range kinds {
		c := int32(k)
		if len(kinds) > maxClasses {
			c = 0
		}
		d.classOf[k] = c
		if int(c) == len(d.high) {
			d.low, d.high = append(d.low, slices.Clone(l.inverse[k])), append(d.high, slices.Clone(l.inverse[k]))
		}
		for i, inv := range l.inverse[k] {
			d.low[c][i], d.high[c][i] = min(d.low[c][i], inv), max(d.high[c][i], inv)
		}
	}
	d.machines = make([][]int32, len(d.high)*rungs)
	d.unused, d.first = make([][]int32, len(kinds)), make([]int, len(kinds))
	d.clear()
	l.ladder = d
	for m, stamp := range l.stamp {
		if stamp != 0 {
			d.put(l, int32(m))
		}
	}
}

func (d *ladder) clear() {
	for i := range d.rung {
		d.rung[i] = nowhere
	}
	for r := range d.machines {
		d.machines[r] = d.machines[r][:0]
	}
	for k := range d.unused {
		d.unused[k], d.first[k] = d.unused[k][:0], 0
	}
}

// neverUsed reports whether a machine differs in nothing from the others of its kind
// that held no item yet.
func (l *Scorer) neverUsed(m int32) bool {
	return l.s.LastUsed(m) == 0 && l.s.Items(m) == 0 && l.s.Instance().Fleet == binpack.Fixed
}

// put finds a machine's rung.
func (d *ladder) put(l *Scorer, m int32) {
	k := l.s.KindOf(m)
	old := d.rung[m]
	if old < 0 && l.neverUsed(m) {
		if old == nowhere {
			d.rung[m] = unused
			d.unused[k] = append(d.unused[k], m)
		}
		return
	}
	rung := d.classOf[k]*rungs + int32(min(rungs-1, max(0, l.highest[m]*rungs)))
	if rung == old {
		return
	}
	if old >= 0 {
		list := d.machines[old]
		last := list[len(list)-1]
		list[d.at[m]], d.at[last] = last, d.at[m]
		d.machines[old] = list[:len(list)-1]
	}
	d.rung[m], d.at[m] = rung, int32(len(d.machines[rung]))
	d.machines[rung] = append(d.machines[rung], m)
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
	t.allowed = max(0, t.open) * float64(len(l.profileOf)-1)
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
	d := l.ladder
	offered, blocked := l.s.Offered(), l.s.Blocked(a)
	closed := d.findClosed(l, &t, offered, blocked)
	start, best := len(buf), none
	d.scores = d.scores[:0]
	slack := 2 * tiny * t.size // far more than rounding can do: weights are at most 100
	try := func(m int32, delta float64) {
		if v := l.tenderScore(&t, m, best-slack-delta) + delta; v >= best-slack && v > none {
			buf, d.scores = append(buf, m), append(d.scores, v)
			if l.s.Items(m) > 0 || !l.keepBack() {
				best = max(best, v)
			}
		}
	}
	for k, list := range d.unused {
		for d.first[k] < len(list) && d.rung[list[d.first[k]]] != unused {
			d.first[k]++
		}
		if d.first[k] < len(list) {
			if m := list[d.first[k]]; !l.blocks(a, m) {
				try(m, l.notClosed(&t, m))
			}
		}
	}
	d.limits = d.limits[:0]
	beyond := max(0, t.recent) + t.farMost
	for c := range d.high {
		most, least := share(t.need, d.high[c]), share(t.need, d.low[c])
		for r := range rungs {
			if at := c*rungs + r; len(d.machines[at]) > 0 {
				from := max(least, float64(r)/rungs)
				to := float64(r+1)/rungs + most
				if r == rungs-1 {
					to = 1
				}
				if from <= 1+tiny {
					d.limits = append(d.limits, rungLimit{at, t.limit(from, to, most) + beyond + t.allowed})
				}
			}
		}
	}
	for len(d.limits) > 0 {
		top := 0
		for i := range d.limits {
			if d.limits[i].limit > d.limits[top].limit {
				top = i
			}
		}
		if d.limits[top].limit < best-slack {
			break
		}
		rung := d.limits[top].rung
		d.limits[top] = d.limits[len(d.limits)-1]
		d.limits = d.limits[:len(d.limits)-1]
		for _, m := range d.machines[rung] {
			if w, bit := m>>6, uint64(1)<<(m&63); offered[w]&^blocked[w]&^closed[w]&bit != 0 {
				try(m, 0)
			}
		}
	}
	for w, word := range closed {
		for ; word != 0; word &= word - 1 {
			m := int32(w*64 + bits.TrailingZeros64(word))
			if d.rung[m] < 0 {
				continue // closed by its type, as all of its kind
			}
			try(m, l.notClosed(&t, m))
		}
	}
	n := start
	for i, v := range d.scores {
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
func (d *ladder) findClosed(l *Scorer, t *tender, offered, blocked []uint64) []uint64 {
	d.closed = slices.Grow(d.closed[:0], len(offered))[:len(offered)]
	clear(d.closed)
	if t.fixed == 0 && t.closing == 0 {
		t.near = nil
	}
	for _, b := range t.near {
		for w, word := range l.s.Blocked(b) {
			d.closed[w] |= word
		}
	}
	for w := range d.closed {
		d.closed[w] &= offered[w] &^ blocked[w]
	}
	return d.closed
}

// tenderScore is the score of a machine without what the item closes in most machines; minus
// infinity where the item does not fit or the score is below least.
func (l *Scorer) tenderScore(t *tender, m int32, least float64) float64 {
	row := l.row(m)
	if t.need[l.tightest[m]] > row[l.tightest[m]] {
		return none
	}
	open := 0.0
	if t.open != 0 {
		open = t.open * float64(l.allowed[m]-1)
	}
	for i, n := range t.need {
		if n > row[i] {
			return none
		}
	}
	base, top := l.amounts(t.need, row, m)
	v := base + t.singl*top + open
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
