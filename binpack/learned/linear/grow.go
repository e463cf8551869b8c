package linear

import (
	"github.com/sigma-scheduler/sigma/binpack"
)

// Grows is the mark of [binpack.Grower].
func (l *Scorer) Grows() {}

// growApps follows the apps and rules that were added to the state. Where one changes the
// scores of the others, as with the first limit, everything is made again.
func (l *Scorer) growApps() {
	apps := l.s.Instance().Apps
	if len(apps) == len(l.profileOf) && l.grown == len(l.s.Regrouped()) {
		return
	}
	for a := len(l.profileOf); a < len(apps); a++ {
		if !l.fresh || !l.growApp(int32(a)) {
			*l = *NewScorer(l.p, l.s)
			return
		}
	}
	for _, g := range l.s.Regrouped()[l.grown:] {
		l.compileGroup(g)
		for _, e := range l.s.Effects(g) {
			l.compileGroup(e.Other)
		}
	}
	l.grown = len(l.s.Regrouped())
}

// growApp adds an app to the caches, as one without arrivals.
func (l *Scorer) growApp(a int32) bool {
	if !l.d.grow(a) {
		return false
	}
	limit := int64(l.s.Instance().Groups[l.s.Instance().Apps[a].Group].Limit)
	if l.weights[fSlot] != 0 && !l.slots && limit > 0 {
		return false
	}
	if l.addProfile(a) {
		l.growProfile()
	}
	l.near, l.far = append(l.near, nil), append(l.far, nil)
	if l.partners != nil {
		l.partners = append(l.partners, nil)
	}
	if l.weights[fOpen] != 0 {
		for m := range l.allowed {
			if !l.blocks(a, int32(m)) {
				l.allowed[m]++
			}
		}
	}
	if l.slots {
		if !l.growShape(a, limit) {
			return false
		}
		l.mark(a)
	}
	return true
}

func (l *Scorer) blocks(a, m int32) bool { return l.s.Blocked(a)[m>>6]>>(m&63)&1 != 0 }

// growProfile makes room for a new demand.
func (l *Scorer) growProfile() {
	switch {
	case l.columns == nil:
	case len(l.profiles)*l.stride > l.maxCached:
		l.columns = nil
		l.makeGrid()
	default:
		l.columns = append(l.columns, column{})
	}
}

// growShape finds the shape of a new app and the machines with room for it. It reports
// false where the shapes of other apps change.
func (l *Scorer) growShape(a int32, limit int64) bool {
	shape, ok := l.shapeFor(a)
	if !ok {
		return false
	}
	if int(a)/64 >= l.words {
		l.widenRoom(l.words + l.words/2 + 1)
		for s, members := range l.members {
			l.members[s] = append(make([]uint64, 0, l.words), members...)[:l.words]
		}
	}
	l.shapeOf = append(l.shapeOf, shape)
	l.places, l.pressure = append(l.places, 0), append(l.pressure, 0)
	l.strongAt, l.isDirty = append(l.strongAt, -1), append(l.isDirty, false)
	l.limits, l.fitsNew = append(l.limits, limit), append(l.fitsNew, l.fitsEmpty(l.s.Instance().Apps[a].Demand))
	if limit == 0 {
		return true
	}
	l.members[shape][a/64] |= 1 << (a % 64)
	for m := range int32(len(l.stamp)) {
		if l.counted[m]>>shape&1 != 0 && !l.blocks(a, m) {
			l.room[int(m)*l.words+int(a)/64] |= 1 << (a % 64)
			l.places[a]++
		}
	}
	return true
}

// shapeFor returns the shape of a new app.
func (l *Scorer) shapeFor(a int32) (shape int32, ok bool) {
	if l.shapeAt == nil {
		if len(l.profiles) == len(l.shapes) {
			return l.profileOf[a], true
		}
		if len(l.profiles) > maxShapes {
			return 0, false
		}
		l.shapes = l.profiles
		fixed := l.s.Instance().Fleet == binpack.Fixed
		l.members = append(l.members, make([]uint64, l.words))
		l.sums = append(l.sums, make([]int64, l.stride))
		for m := range l.stamp {
			if hasRoom(l.shapes[len(l.shapes)-1], l.row(int32(m))) {
				l.fits[m] |= 1 << (len(l.shapes) - 1)
				if fixed || l.s.Items(int32(m)) > 0 {
					l.counted[m] |= 1 << (len(l.shapes) - 1)
				}
			}
		}
		for i := range l.columns { // they ignore which items fit the shape
			l.columns[i].seq = 0
		}
		return l.profileOf[a], true
	}
	c := l.d.dominant[a]
	if c > 0 && c < l.smallest || c > l.largest {
		return 0, false
	}
	shape, ok = l.shapeAt[l.shapeStep(c)]
	if !ok {
		return 0, false
	}
	for d, need := range l.s.Instance().Apps[a].Demand {
		ok = ok && need <= l.shapes[shape][d]
	}
	return shape, ok
}

// widenRoom gives the rows of room that many words, and room for new machines.
func (l *Scorer) widenRoom(words int) {
	room := make([]uint64, l.stride*words)
	for m := range l.stamp {
		copy(room[m*words:], l.room[m*l.words:(m+1)*l.words])
	}
	l.room, l.words = room, words
}

// grow adds an app without arrivals. It reports false where that changes the expectation
// of others: a clock's estimate, and a forecast at the cap.
func (d *demand) grow(a int32) bool {
	d.each = capOfEach(int(a) + 1)
	given := d.know == binpack.K1 && d.s.Known.Expected != nil && d.s.Known.Expected[a] >= 0
	if d.know != binpack.K0 && d.know != binpack.K1 || given || d.heaviest*(1+1e-9) >= d.each {
		return false
	}
	for i := range d.share {
		d.share[i] = append(d.share[i], 0)
	}
	for _, column := range []*[]int64{&d.dominant, &d.remaining, &d.rest, &d.alive, &d.seen, &d.sumSquares} {
		*column = append(*column, 0)
	}
	for i := range d.share {
		d.setShare(a, i)
	}
	d.setRemaining(a)
	if d.volume != nil {
		d.volume.grow()
	}
	return true
}
