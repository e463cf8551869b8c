package policy

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Linear places an item on the candidate with the highest Σ weight·feature.
// Its parameters say how much is still to come and how many machines to open
// for it. It learns nothing online: what it adapts to, it reads from the state.
type Linear struct {
	know       binpack.Knowledge
	weights    [featureCount]float64
	dimWeights map[string]float64 // util:<dimension>
	params     map[string]float64
	eta        float64
	anyEmpty   bool // an empty machine is an ordinary candidate
}

func newLinear(spec Spec) (*Linear, error) {
	know, ok := binpack.ParseKnowledge(spec.Knowledge)
	if !ok {
		return nil, fmt.Errorf("spec.knowledge %q is unknown", spec.Knowledge)
	}
	p := &Linear{know: know, params: spec.Parameters, eta: 1}
	if eta, ok := spec.Parameters["eta"]; ok {
		p.eta = eta
	}
	for i, name := range spec.Features {
		f, dim := featureIndex(name)
		if f < 0 {
			return nil, fmt.Errorf("spec.features[%d] %q is unknown", i, name)
		}
		if dim != "" {
			if p.dimWeights == nil {
				p.dimWeights = map[string]float64{}
			}
			p.dimWeights[dim] = spec.Weights[i]
			continue
		}
		p.weights[f] = spec.Weights[i]
		p.anyEmpty = p.anyEmpty || f == fEmpty
	}
	if p.usesDemand() && !know.Forecast() && know != binpack.K2 {
		if _, ok := spec.Parameters["alpha"]; !ok {
			return nil, errors.New("spec.parameters.alpha is needed: without a forecast, closing, slot and singl count arrivals")
		}
	}
	return p, nil
}

func (p *Linear) usesDemand() bool {
	return p.weights[fClosing] != 0 || p.weights[fSlot] != 0 || p.weights[fSingl] != 0
}

// Knowledge implements [binpack.Policy].
func (p *Linear) Knowledge() binpack.Knowledge { return p.know }

// Scorer implements [binpack.Policy].
func (p *Linear) Scorer(s *binpack.State) binpack.Scorer { return newLinearScorer(p, s) }

const (
	// emptyPenalty keeps an empty machine back while an open one takes the item.
	emptyPenalty = 1e6
	// smallShare is the free share below which a rest counts as a fragment.
	smallShare = 1.0 / 12
	// maxShapes bounds the number of demand vectors that slot tells apart.
	maxShapes = 63
	// maxCached bounds the columns: profiles × machines.
	maxCached = 1 << 22
	// pressure fixed point.
	pressureBits = 20
	// pressureSteps per doubling of x in slot.
	pressureSteps = 8
	minPressure   = .3
	maxPressure   = 1.6
	minRemaining  = 3
)

// linearScorer keeps for each pair of a profile (a demand vector) and a machine
// the part of the score that depends on amounts alone, and for each pair of a
// shape and a machine the pressure of the apps that could still use a place.
// Both follow the state's journal, so that a placement costs what it changed
// and the candidates cost a few additions each.
type linearScorer struct {
	p *Linear
	s *binpack.State
	d *demand

	weights  [featureCount]float64
	utilDims []float64   // weight of util:<dimension>, nil = none
	inverse  [][]float64 // [kind][dimension] 1 ÷ capacity

	profileOf []int32   // [app]
	profiles  [][]int64 // demand vectors
	columns   []column  // [profile], nil when there are too many
	bounded   bool      // columns have bounds
	boundFrom int       // machines; math.MaxInt where bounds do not hold
	seeds     []int32
	// seedScores has room for all seeds of a column and one more.
	seedScores [len(bounds{}.seeds) + 1]float64
	position   []int32 // [machine] index among the candidates of this call
	stride     int

	near      [][]int32 // [app] apps that one more of it closes at once
	far       [][]far   // [app] apps that it closes under conditions
	maxDegree float64

	// Slot.
	slots    bool
	shapeOf  []int32
	shapes   [][]int64
	members  [][]uint64 // [shape] bitset of apps
	room     []uint64   // [machine*words + w] apps that are allowed and fit, machines in use
	words    int
	places   []int32   // [app] machines in use with room for it
	pressure []int64   // [app] p_b, pressureBits
	strong   []int32   // apps with pressure, in no order
	strongAt []int32   // [app] index in strong, -1
	sums     [][]int64 // [shape][machine] Σ p_b over apps allowed there
	table    []int64   // p_b by step
	left     int64     // machines still to be opened
	limits   []int64   // [app] of its group
	fitsNew  []bool    // [app] an empty machine of some kind takes it
	dirty    []int32
	isDirty  []bool

	allowed []int32 // [machine] apps that limits, rules and types allow

	seq           uint64
	requests      int64
	changes       []binpack.Change
	fresh         bool
	more          bool
	touched       []int32
	stamp         []uint32 // [machine] version seen by touched
	scratch       column
	columnChanges []binpack.Change
}

// A column is what depends on a profile and on the free amounts of each
// machine. It follows the journal on its own, so that a profile pays only for
// the machines that changed since it was last asked for.
type column struct {
	seq  uint64
	base []float64 // Σ weight·feature over util, mean, full, frag, empty
	util []float64
	lost []uint64 // shapes that fit now and not after; emptyBit
	bounds
}

// emptyBit marks an empty machine in column.lost.
const emptyBit = 1 << 63

type far struct {
	app, group, own, others int32
}

func newLinearScorer(p *Linear, s *binpack.State) *linearScorer {
	inst := s.Instance()
	l := &linearScorer{p: p, s: s, weights: p.weights, d: newDemand(s, p.know, p.params)}
	for _, k := range s.Kinds() {
		inv := make([]float64, len(k.Capacity))
		for d, c := range k.Capacity {
			if c > 0 {
				inv[d] = 1 / float64(c)
			}
		}
		l.inverse = append(l.inverse, inv)
	}
	if p.dimWeights != nil {
		l.utilDims = make([]float64, len(inst.Dimensions))
		for d, dim := range inst.Dimensions {
			l.utilDims[d] = p.dimWeights[dim.Name]
		}
	}
	l.compileProfiles()
	l.compileEffects()
	l.slots = p.weights[fSlot] != 0 && anyLimit(inst)
	l.words = (len(inst.Apps) + 63) / 64
	if l.slots {
		l.compileShapes()
	}
	l.boundFrom = boundsPay
	if !l.boundsHold() {
		l.boundFrom = math.MaxInt
	}
	return l
}

func anyLimit(inst *binpack.Instance) bool {
	for _, g := range inst.Groups {
		if g.Limit > 0 {
			return true
		}
	}
	return false
}

func (l *linearScorer) compileProfiles() {
	apps := l.s.Instance().Apps
	l.profileOf = make([]int32, len(apps))
	index := map[string]int32{}
	var key []byte
	for a := range apps {
		key = key[:0]
		for _, need := range apps[a].Demand {
			for i := range 8 {
				key = append(key, byte(need>>(8*i)))
			}
		}
		at, ok := index[string(key)]
		if !ok {
			at = int32(len(l.profiles))
			index[string(key)] = at
			l.profiles = append(l.profiles, apps[a].Demand)
		}
		l.profileOf[a] = at
	}
}

func (l *linearScorer) compileEffects() {
	inst := l.s.Instance()
	l.near = make([][]int32, len(inst.Apps))
	l.far = make([][]far, len(inst.Apps))
	members := make([][]int32, len(inst.Groups))
	for a := range inst.Apps {
		members[inst.Apps[a].Group] = append(members[inst.Apps[a].Group], int32(a))
	}
	for a := range inst.Apps {
		for _, e := range l.s.Effects(inst.Apps[a].Group) {
			for _, b := range members[e.Other] {
				if e.Own == 1 && e.Others == 0 {
					l.near[a] = append(l.near[a], b)
				} else {
					l.far[a] = append(l.far[a], far{b, e.Other, e.Own, e.Others})
				}
			}
		}
		l.maxDegree = max(l.maxDegree, float64(len(l.near[a])+len(l.far[a])))
	}
}

// compileShapes groups demand vectors: one shape each while they are few, else
// by the dominant share on a geometric scale, the shape being the largest need
// in each dimension.
func (l *linearScorer) compileShapes() {
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
	for a, s := range l.shapeOf {
		l.members[s][a/64] |= 1 << (a % 64)
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
		for _, k := range l.s.Kinds() {
			ok := true
			for d, need := range apps[a].Demand {
				ok = ok && need <= k.Capacity[d]
			}
			l.fitsNew[a] = l.fitsNew[a] || ok
		}
	}
	steps := int(math.Floor(math.Log2(maxPressure/minPressure) * pressureSteps))
	for i := range steps + 1 {
		x := min(maxPressure, minPressure*math.Exp2((float64(i)+.5)/pressureSteps))
		l.table = append(l.table, int64(math.Round(math.Pow(x, l.p.eta)*(1<<pressureBits))))
	}
	l.sums = make([][]int64, len(l.shapes))
}

func (l *linearScorer) groupShapes() {
	lowest := int64(math.MaxInt64)
	for _, c := range l.d.dominant {
		if c > 0 {
			lowest = min(lowest, c)
		}
	}
	highest := int64(1)
	for _, c := range l.d.dominant {
		highest = max(highest, c)
	}
	ratio := math.Log(float64(highest)/float64(min(lowest, highest))) + 1e-9
	of := map[int]int32{}
	for a, c := range l.d.dominant {
		step := 0
		if c > 0 {
			step = int(math.Log(float64(c)/float64(lowest)) / ratio * (maxShapes - 1))
		}
		s, ok := of[step]
		if !ok {
			s = int32(len(l.shapes))
			of[step] = s
			l.shapes = append(l.shapes, make([]int64, len(l.inverse[0])))
		}
		l.shapeOf[a] = s
		for d, need := range l.s.Instance().Apps[a].Demand {
			l.shapes[s][d] = max(l.shapes[s][d], need)
		}
	}
}

// Score implements [binpack.Scorer].
func (l *linearScorer) Score(item binpack.Item, candidates []int32, out []float64) {
	l.sync()
	a := item.App
	prof := l.profileOf[a]
	singl, open := l.singlWeight(a), l.openWeight()
	keepBack := l.keepBack()
	slot := l.weights[fSlot] * .25 / (1 << pressureBits)
	col, own := l.column(prof, candidates)
	base, util, lostAt, position, sums := col.base, col.util, col.lost, l.position, l.sums
	ownShape, ownPressure := uint64(0), int64(0)
	if l.slots {
		ownShape, ownPressure = 1<<l.shapeOf[a], l.pressure[a]
	}
	out = out[:len(candidates)]
	for i, m := range candidates {
		position[m] = int32(i)
		at := m
		if own {
			at = int32(i)
		}
		v := base[at]
		if singl != 0 {
			v += float64(singl * util[at])
		}
		if lost := lostAt[at]; lost != 0 {
			if lost&emptyBit != 0 {
				lost &^= emptyBit
				if keepBack {
					v = -emptyPenalty // all alike: the order of machines.csv decides
				}
			}
			if lost != 0 {
				sum := int64(0)
				if lost&ownShape != 0 {
					sum = -ownPressure // a itself is allowed here
				}
				for ; lost != 0; lost &= lost - 1 {
					sum += sums[bits.TrailingZeros64(lost)][m]
				}
				v += float64(slot * float64(sum))
			}
		}
		out[i] = v
	}
	if open != 0 {
		for i, m := range candidates {
			out[i] += float64(open * float64(l.allowed[m]-1))
		}
	}
	if w := l.weights[fRecent]; w != 0 {
		l.addRecent(w, candidates, out)
	}
	l.addClosing(a, open, candidates, out)
}

// singlWeight is the factor of util in the feature singl.
func (l *linearScorer) singlWeight(a int32) float64 {
	w := l.weights[fSingl]
	if w == 0 || l.s.Instance().Groups[l.s.Instance().Apps[a].Group].Limit != 1 {
		return 0
	}
	r := float64(l.d.remaining[a]) / (1 << itemBits)
	return w * min(1, r/float64(l.s.Active()+1))
}

// openWeight is the weight of one app that is allowed.
func (l *linearScorer) openWeight() float64 {
	if n := len(l.profileOf); n > 1 {
		return l.weights[fOpen] / float64(n-1)
	}
	return 0
}

// closingWeights are what an app counts that the placement closes a machine to,
// and each unit of its R_b·c_b.
func (l *linearScorer) closingWeights() (fixed, closing float64) {
	rc := float64(l.d.sumRC)/(1<<(itemBits+shareBits)) + 1
	return l.weights[fClose]/max(1, l.maxDegree) - l.openWeight(), 4 * l.weights[fClosing] / rc / (1 << (itemBits + shareBits))
}

// keepBack reports whether empty machines wait until no other takes the item:
// in an open fleet, when the target is reached or there is none.
func (l *linearScorer) keepBack() bool {
	if l.s.Instance().Fleet == binpack.Fixed {
		return false
	}
	if l.d.fleet {
		return !l.more
	}
	return !l.p.anyEmpty
}

func (l *linearScorer) addRecent(w float64, candidates []int32, out []float64) {
	active := float64(l.s.Active() + 1)
	now := float64(l.s.Placements())
	for i, m := range candidates {
		if last := l.s.LastUsed(m); last > 0 {
			out[i] += w / (1 + float64((now-float64(last))/active))
		}
	}
}

// addClosing adds the features close and closing, and takes from open what the
// placement closes. Most apps are still allowed on most machines, so everything
// is added everywhere and taken back where the machine is closed already.
func (l *linearScorer) addClosing(a int32, open float64, candidates []int32, out []float64) {
	wClose, wClosing := l.weights[fClose], l.weights[fClosing]
	if wClose == 0 && wClosing == 0 && open == 0 {
		return
	}
	fixed, closing := l.closingWeights()
	if near := l.near[a]; len(near) > 0 {
		sum := 0.0
		for _, b := range near {
			sum += fixed + float64(closing*float64(l.d.remaining[b]*l.d.dominant[b]))
		}
		position := l.position
		for i := range out {
			out[i] += sum
		}
		without := l.s.Blocked(a) // no candidate is here, nor most of those that are closed to b
		for _, b := range near {
			v := fixed + float64(closing*float64(l.d.remaining[b]*l.d.dominant[b]))
			for w, word := range l.s.Blocked(b) {
				for word &^= without[w]; word != 0; word &= word - 1 {
					m := int32(w*64 + bits.TrailingZeros64(word))
					if i := position[m]; int(i) < len(candidates) && candidates[i] == m {
						out[i] -= v
					}
				}
			}
		}
	}
	for _, f := range l.far[a] {
		v := fixed + float64(closing*float64(l.d.remaining[f.app]*l.d.dominant[f.app]))
		row := l.s.Blocked(f.app)
		group := l.s.Instance().Apps[a].Group
		for i, m := range candidates {
			if row[m>>6]>>(m&63)&1 == 0 && l.s.Count(group, m)+1 >= f.own && l.s.Count(f.group, m) >= f.others {
				out[i] += v
			}
		}
	}
}

// column brings a profile's column up to date. Without columns, own is true
// and the column holds the candidates alone, in their order.
func (l *linearScorer) column(prof int32, candidates []int32) (col *column, own bool) {
	if l.columns == nil {
		col = &l.scratch
		n := len(candidates)
		if cap(col.base) < n {
			col.base, col.util, col.lost = make([]float64, 2*n), make([]float64, 2*n), make([]uint64, 2*n)
		}
		col.base, col.util, col.lost = col.base[:n], col.util[:n], col.lost[:n]
		for i, m := range candidates {
			l.compute(col, int32(i), prof, m)
		}
		return col, true
	}
	col = &l.columns[prof]
	var all bool
	l.columnChanges, col.seq, all = l.s.Changes(col.seq, l.columnChanges[:0])
	if all {
		if col.base == nil {
			col.base, col.util, col.lost = make([]float64, l.stride), make([]float64, l.stride), make([]uint64, l.stride)
			if l.bounded {
				col.bounds = newBounds(l.stride)
			}
		}
		for m := range int32(l.s.Size()) {
			l.follow(col, prof, m)
		}
		return col, false
	}
	for _, c := range l.columnChanges {
		l.follow(col, prof, c.Machine)
		if c.App >= 0 && l.profileOf[c.App] == prof {
			col.seeds[col.next%len(col.seeds)] = c.Machine
			col.next++
		}
	}
	return col, false
}

// follow brings a machine's entry in a profile's column up to date.
func (l *linearScorer) follow(col *column, prof, m int32) {
	l.compute(col, m, prof, m)
	if l.bounded {
		l.setBound(col, prof, m)
	}
}

// compute fills one entry of a column.
func (l *linearScorer) compute(col *column, at, prof, m int32) {
	inv := l.inverse[l.s.KindOf(m)]
	need := l.profiles[prof]
	top, sum, least, base := 0.0, 0.0, math.Inf(1), 0.0
	dims := 0
	for d, n := range need {
		if inv[d] == 0 {
			continue
		}
		free := float64(l.s.Free(d)[m]-n) * inv[d]
		used := 1 - free
		top, least = max(top, used), min(least, free)
		sum += used
		dims++
		if l.utilDims != nil {
			base += float64(l.utilDims[d] * used)
		}
	}
	base += float64(l.weights[fUtil]*top) + float64(l.weights[fMean]*(sum/max(1, float64(dims))))
	switch {
	case least == 0:
		base += l.weights[fFull]
	case least < smallShare:
		base += l.weights[fFrag]
	}
	lost := uint64(0)
	if l.slots {
		lost = l.lostShapes(need, m)
	}
	if l.s.Items(m) == 0 {
		base += l.weights[fEmpty]
		lost |= emptyBit
	}
	col.base[at], col.util[at], col.lost[at] = base, top, lost
}

// lostShapes is the set of shapes that fit the machine now and not after need.
func (l *linearScorer) lostShapes(need []int64, m int32) uint64 {
	lost := uint64(0)
	for s, shape := range l.shapes {
		now, after := true, true
		for d, n := range shape {
			free := l.s.Free(d)[m]
			now = now && n <= free
			after = after && n <= free-need[d]
		}
		if now && !after {
			lost |= 1 << s
		}
	}
	return lost
}

// sync brings the caches up to date with the state.
func (l *linearScorer) sync() {
	var all bool
	l.changes, l.seq, all = l.s.Changes(l.seq, l.changes[:0])
	newRequests := l.s.RequestCount() - l.requests
	l.requests = l.s.RequestCount()
	if !l.fresh || all || newRequests > 1 || l.d.stale() {
		l.reload()
		return
	}
	l.grow()
	everything := newRequests == 1 && l.arrived()
	left := l.left
	for _, c := range l.changes {
		if c.App >= 0 {
			l.d.setRemaining(c.App)
			l.mark(c.App)
		}
	}
	l.planFleet()
	l.touch()
	if l.slots {
		l.press(everything || left != l.left)
		l.sumTouched()
	}
}

// planFleet asks how many machines to open. What is left to open is cut to its
// four leading bits: it only adds to the places of slot, and the pressure of
// every app is computed anew when it changes.
func (l *linearScorer) planFleet() {
	l.d.plan()
	l.more, l.left = l.d.open()
	if n := bits.Len64(uint64(l.left)); n > 4 {
		l.left = l.left >> (n - 4) << (n - 4)
	}
}

// arrived finds the app of the one request that came since the last call.
func (l *linearScorer) arrived() (everything bool) {
	a := l.s.LastArrival()
	everything = l.d.arrive(a)
	l.mark(a)
	return everything
}

func (l *linearScorer) mark(a int32) {
	if l.slots && !l.isDirty[a] {
		l.isDirty[a] = true
		l.dirty = append(l.dirty, a)
	}
}

// grow makes room for machines that came into being.
func (l *linearScorer) grow() {
	n := l.s.Size()
	if n > l.stride {
		l.stride = max(64, n+n/2)
		l.columns = nil
		l.bounded = l.stride >= l.boundFrom
		if len(l.profiles)*l.stride <= maxCached {
			l.columns = make([]column, len(l.profiles))
		}
		for s := range l.sums {
			l.sums[s] = append(make([]int64, 0, l.stride), l.sums[s]...)[:l.stride]
		}
		l.position = make([]int32, l.stride)
		room := make([]uint64, l.stride*l.words)
		copy(room, l.room)
		l.room = room
		l.allowed = append(make([]int32, 0, l.stride), l.allowed...)
		l.stamp = append(make([]uint32, 0, l.stride), l.stamp...)
	}
	for len(l.allowed) < n {
		l.allowed = append(l.allowed, 0)
		l.stamp = append(l.stamp, 0)
	}
}

// reload computes every cache anew.
func (l *linearScorer) reload() {
	l.grow()
	l.fresh = true
	l.d.reload()
	l.planFleet()
	clear(l.stamp)
	clear(l.room)
	clear(l.places)
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
func (l *linearScorer) touch() {
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

func (l *linearScorer) touchMachine(m int32) {
	blocked := l.s.BlockedApps(m)
	if l.weights[fOpen] != 0 {
		n := len(l.profileOf)
		for _, w := range blocked {
			n -= bits.OnesCount64(w)
		}
		l.allowed[m] = int32(n)
	}
	if !l.slots {
		return
	}
	counts := l.s.Items(m) > 0 || l.s.Instance().Fleet == binpack.Fixed
	fits := uint64(0)
	if counts {
		for s, shape := range l.shapes {
			ok := true
			for d, n := range shape {
				ok = ok && n <= l.s.Free(d)[m]
			}
			if ok {
				fits |= 1 << s
			}
		}
	}
	row := l.room[int(m)*l.words : (int(m)+1)*l.words]
	for w := range row {
		now := uint64(0)
		for f := fits; f != 0; f &= f - 1 {
			now |= l.members[bits.TrailingZeros64(f)][w]
		}
		now &^= blocked[w]
		for diff := now ^ row[w]; diff != 0; diff &= diff - 1 {
			a := int32(w*64 + bits.TrailingZeros64(diff))
			if now>>(a%64)&1 != 0 {
				l.places[a]++
			} else {
				l.places[a]--
			}
			l.mark(a)
		}
		row[w] = now
	}
}

// press computes the pressure of the apps whose demand or places changed, and
// brings the sums on all machines up to date.
func (l *linearScorer) press(everything bool) {
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

func (l *linearScorer) setPressure(a int32) {
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
	case p == 0:
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
func (l *linearScorer) pressureOf(b int32) int64 {
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
func (l *linearScorer) sumTouched() {
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
