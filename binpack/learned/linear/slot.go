package linear

import (
	"math"
	"math/bits"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

func anyLimit(inst *binpack.Instance) bool {
	return slices.ContainsFunc(inst.Groups, func(g binpack.Group) bool { return g.Limit > 0 })
}

// compileShapes groups demand vectors: one shape each while they are few, else
// by the dominant share on a geometric scale, the shape being the largest need
// in each dimension.
func (l *Scorer) compileShapes() {
	apps := l.s.Instance().Apps
	n := len(apps)
	l.shapeOf = make([]int32, n)
	if len(l.profiles) <= maxShapes {
		copy(l.shapeOf, l.profileOf)
		l.shapes = l.profiles
	} else {
		l.groupShapes()
	}
	l.members = make([][]uint64, len(l.shapes))
	for s := range l.members {
		l.members[s] = make([]uint64, l.words)
	}
	l.places = make([]int32, n)
	l.pressure = make([]int64, n)
	l.strongAt = make([]int32, n)
	l.isDirty = make([]bool, n)
	l.fitsNew = make([]bool, n)
	l.limits = make([]int64, n)
	for a := range apps {
		l.limits[a] = int64(l.s.Instance().Groups[apps[a].Group].Limit)
		l.strongAt[a] = -1
		l.fitsNew[a] = l.fitsEmpty(apps[a].Demand)
		if l.limits[a] > 0 {
			l.members[l.shapeOf[a]][a/64] |= 1 << (a % 64)
		}
	}
	steps := int(math.Floor(math.Log2(maxPressure/minPressure) * pressureSteps))
	for i := range steps + 1 {
		x := min(maxPressure, minPressure*math.Exp2((float64(i)+.5)/pressureSteps))
		l.table = append(l.table, int64(math.Round(math.Pow(x, l.p.eta)*(1<<pressureBits))))
	}
	l.sums = make([][]int64, len(l.shapes))
}

// fitsEmpty reports whether an empty machine of some kind has room. There may be as many
// kinds as machines.
func (l *Scorer) fitsEmpty(demand []int64) bool {
	return slices.ContainsFunc(l.s.Kinds(), func(k binpack.Kind) bool {
		for d, need := range demand {
			if need > k.Capacity[d] {
				return false
			}
		}
		return true
	})
}

func (l *Scorer) groupShapes() {
	l.smallest, l.largest = math.MaxInt64, 1
	for _, c := range l.d.dominant {
		if c > 0 {
			l.smallest = min(l.smallest, c)
		}
		l.largest = max(l.largest, c)
	}
	l.shapeAt = map[int]int32{}
	apps := l.s.Instance().Apps
	for a, c := range l.d.dominant {
		step := l.shapeStep(c)
		s, ok := l.shapeAt[step]
		if !ok {
			s = int32(len(l.shapes))
			l.shapeAt[step] = s
			l.shapes = append(l.shapes, make([]int64, len(apps[a].Demand)))
		}
		l.shapeOf[a] = s
		for d, need := range apps[a].Demand {
			l.shapes[s][d] = max(l.shapes[s][d], need)
		}
	}
}

// shapeStep is the step of a dominant share on the scale from the lowest to the highest.
func (l *Scorer) shapeStep(c int64) int {
	if c == 0 {
		return 0
	}
	ratio := math.Log(float64(l.largest)/float64(min(l.smallest, l.largest))) + 1e-9
	return int(math.Log(float64(c)/float64(l.smallest)) / ratio * (maxShapes - 1))
}

// lostShapes is the set of those of some shapes that fit the machine now and not after need.
func (l *Scorer) lostShapes(need []int64, m int32, among uint64) uint64 {
	lost, row := uint64(0), l.row(m)
	for among &= l.fits[m]; among != 0; among &= among - 1 {
		s := bits.TrailingZeros64(among)
		for d, n := range l.shapes[s] {
			if n > row[d]-need[d] {
				lost |= 1 << s
				break
			}
		}
	}
	return lost
}

// slotWeight is the weight of a unit of pressure.
func (l *Scorer) slotWeight() float64 { return l.weights[fSlot] * .25 / (1 << pressureBits) }

// lostSum is the pressure of the apps of lost shapes on a machine, without the item's own app, which is allowed there.
func (l *Scorer) lostSum(lost, own uint64, pressure int64, m int32) int64 {
	sum := int64(0)
	if lost&own != 0 {
		sum = -pressure
	}
	for ; lost != 0; lost &= lost - 1 {
		sum += l.sums[bits.TrailingZeros64(lost)][m]
	}
	return sum
}

// row is the free amounts of a machine by dimension.
func (l *Scorer) row(m int32) []int64 {
	dims := len(l.s.Instance().Dimensions)
	return l.rows[int(m)*dims:][:dims:dims]
}

func (l *Scorer) mark(a int32) {
	if l.slots && !l.isDirty[a] {
		l.isDirty[a] = true
		l.dirty = append(l.dirty, a)
	}
}

// press computes the pressure of the apps whose demand or places changed, and
// brings the sums on all machines up to date.
func (l *Scorer) press(everything bool) {
	if everything {
		for a := range l.pressure {
			l.setPressure(int32(a))
		}
	} else {
		for _, a := range l.dirty {
			l.setPressure(a)
		}
	}
	for _, a := range l.dirty {
		l.isDirty[a] = false
	}
	l.dirty = l.dirty[:0]
}

func (l *Scorer) setPressure(a int32) {
	p := l.pressureOf(a)
	old := l.pressure[a]
	if p == old {
		return
	}
	l.pressure[a] = p
	switch {
	case old == 0:
		l.strongAt[a] = int32(len(l.strong))
		l.strong = append(l.strong, a)
		l.strongOf[l.shapeOf[a]]++
		l.strongShapes |= 1 << l.shapeOf[a]
	case p == 0:
		if l.strongOf[l.shapeOf[a]]--; l.strongOf[l.shapeOf[a]] == 0 {
			l.strongShapes &^= 1 << l.shapeOf[a]
		}
		at, last := l.strongAt[a], l.strong[len(l.strong)-1]
		l.strong[at], l.strongAt[last] = last, at
		l.strong = l.strong[:len(l.strong)-1]
		l.strongAt[a] = -1
	}
	sums := l.sums[l.shapeOf[a]]
	n := l.s.Size()
	for w, word := range l.s.Blocked(a) {
		word = ^word
		if rest := n - w*64; rest < 64 {
			word &= 1<<rest - 1
		}
		for ; word != 0; word &= word - 1 {
			sums[w*64+bits.TrailingZeros64(word)] += p - old
		}
	}
}

// pressureOf is p_b of the feature slot.
func (l *Scorer) pressureOf(b int32) int64 {
	r := l.d.remaining[b]
	if r < minRemaining<<itemBits || l.limits[b] == 0 {
		return 0
	}
	places := int64(l.places[b])
	if l.fitsNew[b] {
		places += max(0, l.left)
	}
	places = l.limits[b] * (places + 1) << itemBits
	if float64(r) <= minPressure*float64(places) {
		return 0
	}
	x := float64(r) / float64(places)
	if x >= maxPressure {
		return l.table[len(l.table)-1]
	}
	step := int(math.Log2(x/minPressure) * pressureSteps)
	return l.table[min(step, len(l.table)-1)]
}

// sumTouched computes the sums of the machines that changed from scratch.
func (l *Scorer) sumTouched() {
	for _, m := range l.touched {
		for s := range l.sums {
			l.sums[s][m] = 0
		}
		blocked := l.s.BlockedApps(m)
		for _, b := range l.strong {
			if blocked[b>>6]>>(b&63)&1 == 0 {
				l.sums[l.shapeOf[b]][m] += l.pressure[b]
			}
		}
	}
}
