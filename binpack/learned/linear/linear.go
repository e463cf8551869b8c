package linear

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
)

// A Policy places an item on the candidate with the highest Σ weight·feature.
// Its parameters say how much is still to come and how many machines to open
// for it. It learns nothing online: what it adapts to, it reads from the state.
type Policy struct {
	know       binpack.Knowledge
	weights    [featureCount]float64
	dimWeights map[string]float64 // util:<dimension>
	params     map[string]float64
	eta        float64
	anyEmpty   bool // an empty machine is an ordinary candidate
}

// New builds the policy of a spec.
func New(spec learned.Spec) (*Policy, error) {
	p := &Policy{know: spec.Knowledge, params: spec.Parameters, eta: 1}
	if eta, ok := spec.Parameters["eta"]; ok {
		p.eta = eta
	}
	for i, name := range spec.Features {
		f, dim := learned.FindFeature(features, nil, name)
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
	if p.usesDemand() && !p.know.Forecast() && p.know != binpack.K2 {
		if _, ok := spec.Parameters["alpha"]; !ok {
			return nil, errors.New("spec.parameters.alpha is needed: without a forecast, closing, slot and singl count arrivals")
		}
	}
	return p, nil
}

func (p *Policy) usesDemand() bool {
	return p.weights[fClosing] != 0 || p.weights[fSlot] != 0 || p.weights[fSingl] != 0
}

// Knowledge implements [binpack.Policy].
func (p *Policy) Knowledge() binpack.Knowledge { return p.know }

// Scorer implements [binpack.Policy].
func (p *Policy) Scorer(s *binpack.State) binpack.Scorer { return NewScorer(p, s) }

const (
	// smallShare is the free share below which a rest counts as a fragment.
	smallShare = 1.0 / 12
	// maxShapes bounds the number of demand vectors that slot tells apart.
	maxShapes = 63
	// pressure fixed point.
	pressureBits = 20
	// pressureSteps per doubling of x in slot.
	pressureSteps = 8
	minPressure   = .3
	maxPressure   = 1.6
	minRemaining  = 3
)

// Scorer keeps for each pair of a profile (a demand vector) and a machine
// the part of the score that depends on amounts alone, and for each pair of a
// shape and a machine the pressure of the apps that could still use a place.
// Both follow the state's journal, so that a placement costs what it changed
// and the candidates cost a few additions each.
type Scorer struct {
	p *Policy
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

	allowed []int32   // [machine] apps that limits, rules and types allow
	highest []float64 // [machine] the largest used ÷ capacity, for rise

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
	base []float64 // Σ weight·feature over util, mean, rise, full, frag, empty
	util []float64
	lost []uint64 // shapes that fit now and not after; emptyBit
	bounds
}

// emptyBit marks an empty machine in column.lost.
const emptyBit = 1 << 63

type far struct {
	app, group, own, others int32
}

func NewScorer(p *Policy, s *binpack.State) *Scorer {
	inst := s.Instance()
	l := &Scorer{p: p, s: s, weights: p.weights, d: newDemand(s, p.know, p.params)}
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

func (l *Scorer) compileProfiles() {
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

func (l *Scorer) compileEffects() {
	inst := l.s.Instance()
	l.near = make([][]int32, len(inst.Apps))
	l.far = make([][]far, len(inst.Apps))
	members := make([][]int32, len(inst.Groups))
	for a := range inst.Apps {
		members[inst.Apps[a].Group] = append(members[inst.Apps[a].Group], int32(a))
	}
	for _, apps := range members { // the apps of a group close the same
		if len(apps) == 0 {
			continue
		}
		a := apps[0]
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
		for _, b := range apps {
			l.near[b], l.far[b] = l.near[a], l.far[a]
		}
	}
}

// Score implements [binpack.Scorer].
func (l *Scorer) Score(item binpack.Item, candidates []int32, out []float64) {
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
					v = -learned.EmptyPenalty // all alike: the order of machines.csv decides
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
func (l *Scorer) singlWeight(a int32) float64 {
	w := l.weights[fSingl]
	if w == 0 || l.s.Instance().Groups[l.s.Instance().Apps[a].Group].Limit != 1 {
		return 0
	}
	r := float64(l.d.remaining[a]) / (1 << itemBits)
	return w * min(1, r/float64(l.s.Active()+1))
}

// openWeight is the weight of one app that is allowed.
func (l *Scorer) openWeight() float64 {
	if n := len(l.profileOf); n > 1 {
		return l.weights[fOpen] / float64(n-1)
	}
	return 0
}

// closingWeights are what an app counts that the placement closes a machine to,
// and each unit of its R_b·c_b.
func (l *Scorer) closingWeights() (fixed, closing float64) {
	rc := float64(l.d.sumRC)/(1<<(itemBits+shareBits)) + 1
	return l.weights[fClose]/max(1, l.maxDegree) - l.openWeight(), 4 * l.weights[fClosing] / rc / (1 << (itemBits + shareBits))
}

// keepBack reports whether empty machines wait until no other takes the item:
// in an open fleet, when the target is reached or there is none.
func (l *Scorer) keepBack() bool {
	if l.s.Instance().Fleet == binpack.Fixed {
		return false
	}
	if l.d.fleet {
		return !l.more
	}
	return !l.p.anyEmpty
}

func (l *Scorer) addRecent(w float64, candidates []int32, out []float64) {
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
func (l *Scorer) addClosing(a int32, open float64, candidates []int32, out []float64) {
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
func (l *Scorer) column(prof int32, candidates []int32) (col *column, own bool) {
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
func (l *Scorer) follow(col *column, prof, m int32) {
	l.compute(col, m, prof, m)
	if l.bounded {
		l.setBound(col, prof, m)
	}
}

// compute fills one entry of a column.
func (l *Scorer) compute(col *column, at, prof, m int32) {
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
	if w := l.weights[fRise]; w != 0 {
		base += float64(w * (top - l.highest[m]))
	}
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
