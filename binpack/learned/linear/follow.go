package linear

import (
	"math/bits"

	"github.com/sigma-scheduler/sigma/binpack"
)

// sync updates the caches to the state.
func (l *Scorer) sync() {
	l.growApps()
	var all bool
	l.changes, l.seq, all = l.s.Changes(l.seq, l.changes[:0])
	newRequests := l.s.RequestCount() - l.requests
	l.requests = l.s.RequestCount()
	if !l.fresh || all || l.d.stale() {
		l.reload()
		return
	}
	l.grow()
	everything := newRequests > 0 && l.arrived(newRequests == 1)
	left := l.left
	l.freed = l.departures != l.s.Departures()
	l.departures = l.s.Departures()
	for _, c := range l.changes {
		l.freed = l.freed || c.App < 0
		if c.App >= 0 {
			l.d.setRemaining(c.App)
			l.mark(c.App)
		}
	}
	l.planFleet()
	l.touch()
	if l.slots {
		before := len(l.strong)
		l.press(everything || left != l.left)
		if before+len(l.strong) > 0 { // else all sums are zero
			l.sumTouched()
		}
	}
}

// planFleet updates the number of machines to open. It is cut to its four leading
// bits: it only adds to the places of slot, and every change of it costs the
// pressure of every app.
func (l *Scorer) planFleet() {
	l.d.plan()
	l.more, l.left = l.d.open()
	if n := bits.Len64(uint64(l.left)); n > 4 {
		l.left = l.left >> (n - 4) << (n - 4)
	}
}

// arrived finds the apps of the requests that arrived since the last call, mostly
// one. A scorer that shares the pods with another, as of a canary, misses some.
func (l *Scorer) arrived(one bool) (everything bool) {
	l.came = l.came[:0]
	if one {
		l.came = append(l.came, l.s.LastArrival())
	} else {
		for a, n := range l.s.Seen() {
			if n != l.d.seen[a] {
				l.came = append(l.came, int32(a))
			}
		}
	}
	for _, a := range l.came {
		l.mark(a)
	}
	return l.d.arrive(l.came)
}

// grow makes room for new machines.
func (l *Scorer) grow() {
	n := l.s.Size()
	if n > l.stride {
		l.stride = max(64, n+n/2)
		l.columns = nil
		if len(l.profiles)*l.stride <= l.maxCached {
			l.columns = make([]column, len(l.profiles))
		}
		for s := range l.sums {
			l.sums[s] = append(make([]int64, 0, l.stride), l.sums[s]...)[:l.stride]
		}
		l.position = make([]int32, l.stride)
		l.widenRoom(l.words)
		l.allowed = append(make([]int32, 0, l.stride), l.allowed...)
		l.highest = append(make([]float64, 0, l.stride), l.highest...)
		l.stamp = append(make([]uint32, 0, l.stride), l.stamp...)
		l.fits = append(make([]uint64, 0, l.stride), l.fits...)
		l.counted = append(make([]uint64, 0, l.stride), l.counted...)
		l.tightest = append(make([]int32, 0, l.stride), l.tightest...)
		l.rows = append(make([]int64, 0, l.stride*len(l.s.Instance().Dimensions)), l.rows...)
		l.makeGrid()
	}
	for len(l.allowed) < n {
		l.allowed = append(l.allowed, 0)
		l.highest = append(l.highest, 0)
		l.stamp = append(l.stamp, 0)
		l.fits, l.counted = append(l.fits, 0), append(l.counted, 0)
		l.tightest = append(l.tightest, 0)
		l.rows = l.rows[:len(l.rows)+len(l.s.Instance().Dimensions)]
	}
}

// reload rebuilds every cache.
func (l *Scorer) reload() {
	l.grow()
	l.fresh = true
	l.d.reload()
	l.planFleet()
	clear(l.stamp)
	if l.grid != nil {
		l.grid.clear()
	}
	clear(l.room)
	clear(l.places)
	clear(l.counted)
	l.freed, l.departures = true, l.s.Departures()
	l.changes = l.changes[:0]
	for m := range int32(l.s.Size()) {
		l.changes = append(l.changes, binpack.Change{Machine: m, App: -1})
	}
	l.touch()
	if l.slots {
		l.press(true)
		l.sumTouched()
	}
}

// touch follows the machines that changed: which apps are allowed, which have
// room.
func (l *Scorer) touch() {
	l.touched = l.touched[:0]
	for _, c := range l.changes {
		m := c.Machine
		if v := l.s.Version(m); l.stamp[m] != v {
			l.stamp[m] = v
			l.touched = append(l.touched, m)
			l.touchMachine(m)
		}
	}
}

func (l *Scorer) touchMachine(m int32) {
	row := l.row(m)
	for d := range row {
		row[d] = l.s.Free(d)[m]
	}
	blocked := l.s.BlockedApps(m)
	if l.weights[fOpen] != 0 {
		n := len(l.profileOf)
		for _, w := range blocked {
			n -= bits.OnesCount64(w)
		}
		l.allowed[m] = int32(n)
	}
	if l.weights[fRise] != 0 || l.grid != nil {
		l.highest[m], l.tightest[m] = l.highestUsed(m)
	}
	if l.grid != nil {
		l.grid.put(l, m)
	}
	if !l.slots {
		return
	}
	l.touchRoom(m, row, blocked)
}

// touchRoom follows which apps with a limit a machine has room for.
func (l *Scorer) touchRoom(m int32, free []int64, blocked []uint64) {
	fits := uint64(0)
	for s, shape := range l.shapes {
		if hasRoom(shape, free) {
			fits |= 1 << s
		}
	}
	l.fits[m] = fits
	if l.s.Items(m) == 0 && l.s.Instance().Fleet == binpack.Open {
		fits = 0
	}
	old := l.counted[m]
	l.counted[m] = fits
	room := l.room[int(m)*l.words:][:len(blocked)]
	if !l.freed && fits&^old == 0 { // nothing has left: apps can only lose a place
		for w, before := range room {
			now := before &^ blocked[w]
			for lost := old &^ fits; lost != 0; lost &= lost - 1 {
				now &^= l.members[bits.TrailingZeros64(lost)][w]
			}
			room[w] = now
			for gone := before &^ now; gone != 0; gone &= gone - 1 {
				l.losePlace(int32(w*64 + bits.TrailingZeros64(gone)))
			}
		}
		return
	}
	for w, before := range room {
		now := uint64(0)
		for f := fits; f != 0; f &= f - 1 {
			now |= l.members[bits.TrailingZeros64(f)][w]
		}
		now &^= blocked[w]
		room[w] = now
		for gone := before &^ now; gone != 0; gone &= gone - 1 {
			l.losePlace(int32(w*64 + bits.TrailingZeros64(gone)))
		}
		for came := now &^ before; came != 0; came &= came - 1 {
			a := int32(w*64 + bits.TrailingZeros64(came))
			l.places[a]++
			if l.pressure[a] != 0 {
				l.mark(a)
			}
		}
	}
}

// losePlace counts one place less for an app. That gives it no pressure where only a
// few items are expected, or fewer than all places.
func (l *Scorer) losePlace(a int32) {
	l.places[a]--
	if l.pressure[a] != 0 || l.d.remaining[a] >= minRemaining<<itemBits {
		l.mark(a)
	}
}

// highestUsed is the largest used ÷ capacity of a machine.
func (l *Scorer) highestUsed(m int32) (used float64, dimension int32) {
	row := l.row(m)
	for d, inv := range l.inverse[l.s.KindOf(m)] {
		if inv == 0 {
			continue
		}
		if share := 1 - float64(float64(row[d])*inv); share > used {
			used, dimension = share, int32(d)
		}
	}
	return used, dimension
}

func hasRoom(demand, row []int64) bool {
	row = row[:len(demand)]
	for d, need := range demand {
		if need > row[d] {
			return false
		}
	}
	return true
}
