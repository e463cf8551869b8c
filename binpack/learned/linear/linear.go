package linear

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
)

// A Policy places an item on the candidate with the highest Σ weight·feature. Its
// parameters set how much demand is expected and how many machines to open for it.
// It does not learn online: it adapts to the state.
type Policy struct {
	know       binpack.Knowledge
	weights    [featureCount]float64
	dimWeights map[string]float64 // util:<dimension>
	params     map[string]float64
	eta        float64
	anyEmpty   bool // an empty machine is an ordinary candidate
	press      bool // slot is the feature press
	emptyLast  bool // in a fixed fleet, too, empty machines are kept back
}

// EmptyLast returns the policy that keeps empty machines of a fixed fleet back, too, where those
// in use have room to spare, until no machine in use takes the item.
func (p *Policy) EmptyLast() binpack.Policy {
	last := *p
	last.emptyLast = true
	return &last
}

// New builds the policy of a spec.
func New(spec learned.Spec) (*Policy, error) {
	p := &Policy{know: spec.Knowledge, params: spec.Parameters, eta: 1}
	if eta, ok := spec.Parameters["eta"]; ok {
		p.eta = eta
	}
	if slices.Contains(spec.Features, "slot") && slices.Contains(spec.Features, "press") {
		return nil, errors.New("spec.features: press takes the place of slot: list one of them")
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
		if f == fPress {
			f, p.press = fSlot, true
		}
		p.weights[f] = spec.Weights[i]
		p.anyEmpty = p.anyEmpty || f == fEmpty
	}
	if p.usesDemand() && !p.know.Forecast() && p.know != binpack.K2 {
		if _, ok := spec.Parameters["alpha"]; !ok {
			return nil, errors.New("spec.parameters.alpha is needed: without a forecast, closing, slot, press and singl count arrivals")
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
func (p *Policy) Scorer(s *binpack.State) binpack.Scorer {
	if p.press && p.weights[fSlot] != 0 {
		return newPressed(p, s)
	}
	return NewScorer(p, s)
}

const (
	// smallShare is the free share below which a rest counts as a fragment.
	smallShare = 1.0 / 12
	// maxShapes bounds the number of demand vectors that slot distinguishes.
	maxShapes = 63
	// pressure fixed point.
	pressureBits = 20
	// pressureSteps per doubling of x in slot.
	pressureSteps = 8
	minPressure   = .3
	maxPressure   = 1.6
	minRemaining  = 3
)

// A Scorer caches the part of the score that depends on amounts alone for each
// profile (a demand vector) and machine, and the pressure of the apps that could
// still use a place for each shape and machine. Both caches follow the state's
// journal: a placement costs only its changes, a candidate a few additions.
type Scorer struct {
	p *Policy
	s *binpack.State
	d *demand

	weights  [featureCount]float64
	utilDims []float64   // weight of util:<dimension>, nil = no weights
	inverse  [][]float64 // [kind][dimension] 1 ÷ capacity
	dimsOf   []float64   // [kind] dimensions of which it has some, at least 1

	profileOf []int32   // [app]
	profiles  [][]int64 // demand vectors
	profileAt map[string]int32
	key       []byte
	columns   []column // [profile], nil when there are too many
	maxCached int      // entries of columns
	grid      *grid    // instead of columns
	standing  bool     // age, crowd, own, size, price or partners has a weight
	kinds     *kinds   // nil = not needed
	partners  [][]pair // [app] for the feature partners; nil = not needed
	position  []int32  // [machine] index among the candidates of this call
	guide     *guide   // made when it first leads a search
	stride    int

	grown     int       // groups of State.Regrouped that near and far include
	near      [][]int32 // [app] apps that one more of it closes at once
	far       [][]far   // [app] apps that it closes under conditions
	maxDegree float64

	// Slot.
	slots    bool
	shapeOf  []int32
	shapes   [][]int64
	shapeAt  map[int]int32 // by step, where apps share shapes; nil = one for each profile
	smallest int64         // dominant share, where the steps begin
	largest  int64         // where they end
	members  [][]uint64    // [shape] bitset of apps with a limit
	room     []uint64      // [machine*words + w] those of them that are allowed and fit, machines in use
	words    int           // of a row of room; some may be for later apps
	places   []int32       // [app] machines in use with room for it; 0 without a limit
	pressure []int64       // [app] p_b, pressureBits
	strong   []int32       // apps with pressure, in no order
	strongAt []int32       // [app] index in strong, -1
	sums     [][]int64     // [shape][machine] Σ p_b over apps allowed there
	table    []int64       // p_b by step
	left     int64         // machines still to be opened
	limits   []int64       // [app] of its group
	fitsNew  []bool        // [app] an empty machine of some kind takes it
	dirty    []int32
	isDirty  []bool

	strongOf     [maxShapes]int32 // [shape] apps with pressure
	strongShapes uint64           // shapes with such apps
	fits         []uint64         // [machine] shapes that have room
	counted      []uint64         // [machine] those of them in places
	departures   uint64           // of the state
	freed        bool             // machines may have more room than at the last touch

	rows     []int64   // [machine*dimensions + dimension] free amounts
	tightest []int32   // [machine] the dimension of highest
	allowed  []int32   // [machine] apps that limits, rules and types allow
	highest  []float64 // [machine] the largest used ÷ capacity, for rise

	seq           uint64
	requests      int64
	changes       []binpack.Change
	fresh         bool
	more          bool
	touched       []int32
	came          []int32  // apps with new requests
	stamp         []uint32 // [machine] version seen by touched
	scratch       column
	columnChanges []binpack.Change
}

type far struct {
	app, group, own, others int32
}

// NewScorer returns the scorer of a policy for one state.
func NewScorer(p *Policy, s *binpack.State) *Scorer {
	inst := s.Instance()
	l := &Scorer{p: p, s: s, weights: p.weights, d: newDemand(s, p.know, p.params)}
	for _, k := range s.Kinds() {
		inv, dims := make([]float64, len(k.Capacity)), 0.0
		for d, c := range k.Capacity {
			if c > 0 {
				inv[d] = 1 / float64(c)
				dims++
			}
		}
		l.inverse, l.dimsOf = append(l.inverse, inv), append(l.dimsOf, max(1, dims))
	}
	if p.dimWeights != nil {
		l.utilDims = make([]float64, len(inst.Dimensions))
		for d, dim := range inst.Dimensions {
			l.utilDims[d] = p.dimWeights[dim.Name]
		}
	}
	l.maxCached = learned.MaxCached
	if l.weights[fPrice] != 0 || l.weights[fBill] != 0 {
		n := len(s.Kinds())
		l.kinds = &kinds{price: make([]float64, n), bill: make([]float64, n), score: make([]float64, n)}
	}
	if l.weights[fBill] != 0 || l.weights[fTight] != 0 {
		l.d.limits = &limitBound{}
	}
	if l.weights[fPartners] != 0 && len(inst.Pairs) > 0 {
		l.partners = pairsOf(inst)
	}
	if p.emptyLast && inst.Fleet == binpack.Fixed || l.kinds != nil {
		l.d.standing = make([]int64, len(inst.Dimensions))
	}
	l.standing = slices.ContainsFunc(l.weights[fAge:fPartners+1], func(w float64) bool { return w != 0 })
	l.compileProfiles()
	l.compileEffects()
	l.slots = p.weights[fSlot] != 0 && anyLimit(inst)
	l.words = (len(inst.Apps) + 63) / 64
	if l.slots {
		l.compileShapes()
	}
	return l
}

func (l *Scorer) compileProfiles() {
	l.profileAt = map[string]int32{}
	for a := range l.s.Instance().Apps {
		l.addProfile(int32(a))
	}
}

// addProfile finds the profile of the next app. It reports whether that is new.
func (l *Scorer) addProfile(a int32) (isNew bool) {
	demand := l.s.Instance().Apps[a].Demand
	key := l.key[:0]
	for _, need := range demand {
		key = binary.LittleEndian.AppendUint64(key, uint64(need))
	}
	l.key = key
	at, ok := l.profileAt[string(key)]
	if !ok {
		at = int32(len(l.profiles))
		l.profileAt[string(key)] = at
		l.profiles = append(l.profiles, demand)
	}
	l.profileOf = append(l.profileOf, at)
	return !ok
}

func (l *Scorer) compileEffects() {
	inst := l.s.Instance()
	l.near = make([][]int32, len(inst.Apps))
	l.far = make([][]far, len(inst.Apps))
	for g := range inst.Groups {
		l.compileGroup(int32(g))
	}
	l.grown = len(l.s.Regrouped())
}

// compileGroup finds the apps that the apps of a group close: the same for all of them.
func (l *Scorer) compileGroup(group int32) {
	var near []int32
	var farther []far
	for _, e := range l.s.Effects(group) {
		for _, b := range l.s.GroupApps(e.Other) {
			if e.Own == 1 && e.Others == 0 {
				near = append(near, b)
			} else {
				farther = append(farther, far{b, e.Other, e.Own, e.Others})
			}
		}
	}
	for _, a := range l.s.GroupApps(group) {
		l.near[a], l.far[a] = near, farther
		l.maxDegree = max(l.maxDegree, float64(len(near)+len(farther)))
	}
}

// Score implements [binpack.Scorer].
func (l *Scorer) Score(item binpack.Item, candidates []int32, out []float64) {
	l.sync()
	a := item.App
	prof := l.profileOf[a]
	singl, open := l.utilWeight(a), l.openWeight()
	keepBack := l.keepBack()
	slot := l.slotWeight()
	col, own := l.column(prof, candidates)
	base, util, lostAt, position := col.base, col.util, col.lost, l.position
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
				v += float64(slot * float64(l.lostSum(lost, ownShape, ownPressure, m)))
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
	if l.standing {
		l.addStanding(a, keepBack, candidates, col.size, own, out)
	}
	l.addClosing(a, open, candidates, out)
}

// spareShare is the ratio of the capacity of a fixed fleet's machines in use to the living items
// above which an empty machine is kept back. On fleets of 1.5 times the volume bound it takes as
// many machines as Best-Fit (seeds 600000 to 600005, 2 orders); with 1.18 it takes 2 % more, with
// 1.21 5 %.
const spareShare = 1.15

// spare reports whether the machines in use have enough room beyond their items.
func (l *Scorer) spare() bool {
	for d := range l.d.standing {
		held := 0.0
		for k, n := range l.s.Held() {
			held += float64(float64(n) * (float64(l.s.Kinds()[k].Capacity[d]) / max(1, l.d.reference[d])))
		}
		if held < spareShare*l.d.living(d) {
			return false
		}
	}
	return true
}

// keepBack reports whether empty machines wait until no other machine takes the item:
// in an open fleet, when the target is reached or absent; in a fixed fleet when the
// policy sets it.
func (l *Scorer) keepBack() bool {
	if l.s.Instance().Fleet == binpack.Fixed {
		return l.p.emptyLast && l.spare()
	}
	if l.d.fleet {
		return !l.more
	}
	return !l.p.anyEmpty
}
