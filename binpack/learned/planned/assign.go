package planned

import (
	"math/bits"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack/learned"
)

func (l *scorer) grow() {
	dims := len(l.capacity)
	for len(l.of) < l.s.Size() {
		l.of = append(l.of, -1)
		l.clean = append(l.clean, true)
		l.spareOf = append(l.spareOf, -1)
		l.spareAt = append(l.spareAt, 0)
		for range l.plan.words {
			l.fits = append(l.fits, 0)
		}
		for range dims {
			l.spare = append(l.spare, 0)
		}
	}
}

// follow reads one machine and finds the first machine whose assignment changes.
func (l *scorer) follow(m int32) {
	at, had := slices.BinarySearchFunc(l.used, m, func(u, m int32) int {
		switch {
		case u == m:
			return 0
		case l.s.Before(u, m):
			return -1
		}
		return 1
	})
	switch has := l.s.Items(m) > 0; {
	case !has && !had:
		return
	case !has:
		l.used = slices.Delete(l.used, at, at+1)
		l.release(m)
		l.first = min(l.first, at)
		return
	case !had:
		l.used = slices.Insert(l.used, at, m)
		l.first = min(l.first, at)
	}
	wasClean := had && l.clean[m]
	row := l.fits[int(m)*l.plan.words : (int(m)+1)*l.plan.words]
	narrower := had && l.narrows(m, row)
	l.clean[m] = l.findClean(m, row)
	if !l.clean[m] {
		l.findBeside(m, row)
	}
	// A machine chooses the same again if only planned machines that it does not
	// have drop out of its choice.
	if i := l.of[m]; !wasClean || !l.clean[m] || !narrower || i < 0 || row[i>>6]>>(i&63)&1 == 0 {
		l.first = min(l.first, at)
	}
}

// narrows reports whether the planned machines that m may be are a part of row,
// those that it might be before.
func (l *scorer) narrows(m int32, row []uint64) bool {
	if int(l.s.KindOf(m)) >= len(l.plan.ofKind) {
		return true
	}
	for w, word := range l.plan.ofKind[l.s.KindOf(m)] {
		for _, e := range l.s.Contents(m) {
			if int(e.Count) > len(l.plan.has[e.App]) {
				return false
			}
			word &= l.plan.has[e.App][e.Count-1][w]
		}
		if word&^row[w] != 0 {
			return false
		}
	}
	return true
}

// findClean fills row with the planned machines that hold all that m holds.
func (l *scorer) findClean(m int32, row []uint64) bool {
	clear(row)
	k := l.s.KindOf(m)
	if int(k) >= len(l.plan.ofKind) {
		return false
	}
	copy(row, l.plan.ofKind[k])
	for _, e := range l.s.Contents(m) {
		if int(e.Count) > len(l.plan.has[e.App]) {
			clear(row)
			return false
		}
		some := uint64(0)
		for w, word := range l.plan.has[e.App][e.Count-1] {
			row[w] &= word
			some |= row[w]
		}
		if some == 0 {
			return false
		}
	}
	return true
}

// findBeside fills row for a machine whose items no planned machine holds: with the
// planned machines of which most has arrived, less the amounts that have lost their
// room.
func (l *scorer) findBeside(m int32, row []uint64) {
	clear(row)
	k := l.s.KindOf(m)
	best := int64(0)
	for i := range l.plan.machines {
		r := &l.plan.machines[i]
		if r.kind != k {
			continue
		}
		come := int64(0)
		for _, e := range r.items {
			come += int64(min(e.Count, learned.CountApp(l.s.Contents(m), e.App))) * l.share[e.App]
		}
		for d, v := range l.spareRoom(m, int32(i)) {
			if v < 0 {
				come -= int64(float64(-v) / l.capacity[d][k] * (1 << shareBits))
			}
		}
		if come > best {
			clear(row)
			best = come
		}
		if come == best {
			row[i/64] |= 1 << (i % 64)
		}
	}
	l.spareOf[m] = -1
}

func (l *scorer) release(m int32) {
	if i := l.of[m]; i >= 0 {
		l.of[m] = -1
		if l.owner[i] == m {
			l.owner[i] = -1
			l.open[i>>6] |= 1 << (i & 63)
		}
	}
}

func (l *scorer) take(m, i int32) {
	l.of[m], l.owner[i] = i, m
	l.open[i>>6] &^= 1 << (i & 63)
}

// assign gives machines in use their planned machines: first those that hold only
// reserved items, in order of position, then the others. It starts where something
// changed, or from the beginning if machines moved out of each other's way or hold
// items that were not planned.
func (l *scorer) assign() {
	if l.first == len(l.used) {
		l.countLeft()
		return
	}
	for _, m := range l.used[l.first:] {
		l.release(m)
	}
	l.shaken = false
	for _, clean := range []bool{true, false} {
		for _, m := range l.used[l.first:] {
			if l.clean[m] != clean {
				l.shaken = l.shaken || !l.clean[m]
				continue
			}
			if i := l.firstOpen(m); i >= 0 {
				l.take(m, i)
				continue
			}
			l.shaken = true
			clear(l.seen)
			l.augment(m)
		}
	}
	l.first = len(l.used)
	l.countLeft()
}

func (l *scorer) firstOpen(m int32) int32 {
	for w, word := range l.fits[int(m)*l.plan.words : (int(m)+1)*l.plan.words] {
		if word &= l.open[w]; word != 0 {
			return int32(w<<6 + bits.TrailingZeros64(word))
		}
	}
	return -1
}

// augment finds a planned machine for m by moving others (Kuhn 1955).
func (l *scorer) augment(m int32) bool {
	if i := l.firstOpen(m); i >= 0 {
		l.take(m, i)
		return true
	}
	for w := range l.plan.words {
		for {
			word := l.fits[int(m)*l.plan.words+w] &^ l.seen[w]
			if word == 0 {
				break
			}
			i := int32(w<<6 + bits.TrailingZeros64(word))
			l.seen[w] |= word & -word
			if l.augment(l.owner[i]) {
				l.take(m, i)
				return true
			}
		}
	}
	return false
}

// countLeft counts the machines of each kind that the plan leaves alone.
func (l *scorer) countLeft() {
	for k, n := range l.kindCount {
		l.left[k] = n - l.s.Held()[k]
		if k < len(l.plan.ofKind) {
			for w, word := range l.plan.ofKind[k] {
				l.left[k] -= int64(bits.OnesCount64(word & l.open[w]))
			}
		}
	}
}
