package linear

import (
	"math"
	"math/bits"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// boundsPay is the number of machines from which bounds save more than they
// cost: replays of churn on 6,000 machines take 0.6 of the time with them, those
// of large on 300 took 1.15 times.
const boundsPay = 1024

// bounds limit the score of each machine for an item of a profile, as far as it
// depends on the machine alone; the rest depends on item and time and adds at most
// a constant. A machine cannot win if its bound plus that constant is below a score
// that another machine reaches. The same holds for 64 machines with their highest
// bound.
type bounds struct {
	fits  []uint64  // bitset of the machines with room
	bound []float64 // [machine] base and the weight of open
	top   []float64 // the highest bound of each word of fits
	stale []uint64  // bitset over top: entries to compute again
	seeds [4]int32  // the last machines that items of the profile were placed on or left
	next  int       // of seeds
}

func newBounds(machines int) bounds {
	words := machines/64 + 1
	return bounds{
		fits: make([]uint64, words), stale: make([]uint64, words/64+1),
		bound: make([]float64, machines), top: make([]float64, words),
	}
}

// boundsHold reports whether bounds can be used: slot must not add to a score, and
// devices are left to Feasible.
func (l *Scorer) boundsHold() bool {
	for _, dim := range l.s.Instance().Dimensions {
		if dim.Device {
			return false
		}
	}
	return !l.slots || l.weights[fSlot] <= 0
}

func (l *Scorer) setBound(col *column, prof, m int32) {
	fits := true
	for d, need := range l.profiles[prof] {
		fits = fits && need <= l.s.Free(d)[m]
	}
	w := m / 64
	if fits {
		col.fits[w] |= 1 << (m % 64)
	} else {
		col.fits[w] &^= 1 << (m % 64)
	}
	col.bound[m] = col.base[m] + l.openWeight()*float64(l.allowed[m]-1)
	col.stale[w/64] |= 1 << (w % 64)
}

// highest is the highest bound of the machines of a word that have room.
func (b *bounds) highest(w int) float64 {
	if b.stale[w/64]>>(w%64)&1 == 0 {
		return b.top[w]
	}
	b.stale[w/64] &^= 1 << (w % 64)
	top := math.Inf(-1)
	for word := b.fits[w]; word != 0; word &= word - 1 {
		top = max(top, b.bound[w*64+bits.TrailingZeros64(word)])
	}
	b.top[w] = top
	return top
}

// beyond is the most that a score can be above the bound of its machine.
func (l *Scorer) beyond(a int32) float64 {
	most := max(0, l.utilWeight(a)) + max(0, l.weights[fRecent]) // util and recent are at most 1
	for _, w := range l.weights[fAge : fPartners+1] {            // these are at most 1 too
		most += max(0, w)
	}
	fixed, closing := l.closingWeights()
	size := 1.0
	for _, b := range l.near[a] {
		v := fixed + float64(closing*float64(l.d.remaining[b]*l.d.dominant[b]))
		most += max(0, v)
		size += math.Abs(v)
	}
	for _, f := range l.far[a] {
		v := fixed + float64(closing*float64(l.d.remaining[f.app]*l.d.dominant[f.app]))
		most += max(0, v)
		size += math.Abs(v)
	}
	return most + 1e-9*size // far more than rounding can do: weights are at most 100
}

// Contenders implements [binpack.Shortlister].
func (l *Scorer) Contenders(item binpack.Item, buf []int32) (contenders []int32, known bool) {
	a := item.App
	group := l.s.Instance().Apps[a].Group
	if l.s.Spread(group) < l.s.Instance().Groups[group].SpreadMin {
		return buf, false
	}
	l.sync()
	if l.guided() {
		if found, ok := l.searched(a, buf); ok {
			return found, true
		}
	}
	if l.grid != nil {
		return l.shortlist(a, buf), true
	}
	if !l.bounded || l.columns == nil {
		return buf, false
	}
	col, _ := l.column(l.profileOf[a], nil)
	offered, blocked := l.s.Offered(), l.s.Blocked(a)
	least := l.reached(item, col, offered, blocked) - l.beyond(a)
	for w, word := range offered {
		word &= col.fits[w] &^ blocked[w]
		if word == 0 || col.highest(w) < least {
			continue
		}
		for ; word != 0; word &= word - 1 {
			if m := w*64 + bits.TrailingZeros64(word); !(col.bound[m] < least) {
				buf = append(buf, int32(m))
			}
		}
	}
	return buf, true
}

// reached returns a score that some machine with room reaches: the best among the
// machines that items of the profile changed last and the one with the highest
// bound of all.
func (l *Scorer) reached(item binpack.Item, col *column, offered, blocked []uint64) float64 {
	takes := func(w int) uint64 { return offered[w] & col.fits[w] &^ blocked[w] }
	l.seeds = l.seeds[:0]
	for _, m := range col.seeds {
		if w := int(m / 64); w < len(offered) && takes(w)>>(m%64)&1 != 0 && !slices.Contains(l.seeds, m) {
			l.seeds = append(l.seeds, m)
		}
	}
	top, at := math.Inf(-1), -1
	for w := range offered {
		if col.highest(w) > top && takes(w) != 0 {
			top, at = col.top[w], w
		}
	}
	if at >= 0 {
		best := int32(-1)
		for word := takes(at); word != 0; word &= word - 1 {
			if m := int32(at*64 + bits.TrailingZeros64(word)); best < 0 || col.bound[m] > col.bound[best] {
				best = m
			}
		}
		if !slices.Contains(l.seeds, best) { // Score takes a machine once
			l.seeds = append(l.seeds, best)
		}
	}
	scores := l.seedScores[:len(l.seeds)]
	l.Score(item, l.seeds, scores)
	reached := math.Inf(-1)
	for _, score := range scores {
		reached = max(reached, score)
	}
	return reached
}
