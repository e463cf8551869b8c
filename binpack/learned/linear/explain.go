package linear

import (
	"math"
	"math/bits"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
)

// Explain implements [binpack.Explainer]. It computes each feature from its
// definition and the state; of the caches it uses only the demand estimate and the
// pressure of apps.
func (l *Scorer) Explain(item binpack.Item, m int32) []binpack.Term {
	l.sync()
	value := l.values(item.App, m)
	heldBack := l.s.Items(m) == 0 && l.keepBack()
	var terms []binpack.Term
	add := func(name string, weight, value float64, counts bool) {
		t := binpack.Term{Name: name, Weight: weight, Value: value}
		if counts {
			t.Contribution = weight * value
		}
		terms = append(terms, t)
	}
	for f, weight := range l.weights {
		if weight == 0 {
			continue
		}
		// An empty machine has its penalty instead of the features of amounts.
		amounts := f <= fEmpty || f == fSingl || f == fTight || f == fSize || f == fPrice || f == fBill
		name := features[f].Name
		if f == fSlot && l.p.press {
			name = features[fPress].Name
		}
		add(name, weight, value[f], !heldBack || !amounts)
	}
	for d, weight := range l.utilDims {
		if inv := l.inverse[l.s.KindOf(m)][d]; weight != 0 {
			used := 0.0
			if inv > 0 {
				used = 1 - float64(l.s.Free(d)[m]-l.s.Instance().Apps[item.App].Demand[d])*inv
			}
			add("util:"+l.s.Instance().Dimensions[d].Name, weight, used, !heldBack)
		}
	}
	kept := 0.0
	if heldBack {
		kept = 1
	}
	add("kept back", -learned.EmptyPenalty, kept, true)
	return terms
}

// values returns all features of placing an item of app a on machine m.
func (l *Scorer) values(a, m int32) [featureCount]float64 {
	var v [featureCount]float64
	s := l.s
	inv, need := l.inverse[s.KindOf(m)], s.Instance().Apps[a].Demand
	sum, least, dims := 0.0, math.Inf(1), 0
	for d, n := range need {
		if inv[d] == 0 {
			continue
		}
		free := float64(s.Free(d)[m]-n) * inv[d]
		v[fUtil], least = max(v[fUtil], 1-free), min(least, free)
		sum += 1 - free
		dims++
	}
	v[fMean] = sum / max(1, float64(dims))
	before, _ := l.highestUsed(m)
	v[fRise] = v[fUtil] - before
	v[fFull] = learned.Indicator(least == 0)
	v[fFrag] = learned.Indicator(least > 0 && least < smallShare)
	v[fEmpty] = learned.Indicator(s.Items(m) == 0)
	active := float64(s.Active() + 1)
	if last := s.LastUsed(m); last > 0 {
		v[fRecent] = 1 / (1 + (float64(s.Placements())-float64(last))/active)
	}
	present := l.present(a)
	v[fAge], v[fCrowd] = present.ageAndCrowd(s, m)
	v[fOwn] = learned.Indicator(s.Count(s.Instance().Apps[a].Group, m) > 0)
	v[fSize] = v[fUtil] * l.largestShare(need, m)
	if l.kinds != nil {
		l.compare()
		v[fPrice], v[fBill] = l.kinds.price[s.KindOf(m)], l.kinds.bill[s.KindOf(m)]
	}
	if l.partners != nil {
		v[fPartners] = l.local(a, m, l.traffic(a))
	}
	closed, demand := l.closes(a, m)
	v[fClose] = closed / max(1, l.maxDegree)
	v[fClosing] = 4 * demand / (float64(l.d.sumRC)/(1<<(itemBits+shareBits)) + 1)
	if n := len(l.profileOf); n > 1 {
		allowed := n - 1
		for _, w := range s.BlockedApps(m) {
			allowed -= bits.OnesCount64(w)
		}
		v[fOpen] = (float64(allowed) - closed) / float64(n-1)
	}
	if s.Instance().Groups[s.Instance().Apps[a].Group].Limit == 1 {
		v[fSingl] = v[fUtil] * min(1, float64(l.d.remaining[a])/(1<<itemBits)/active)
	}
	if l.d.limits != nil {
		v[fTight] = v[fUtil] * l.d.limits.tightness(active)
	}
	if l.slots {
		v[fSlot] = .25 * l.lostPressure(a, m) / (1 << pressureBits)
	}
	return v
}

// closes counts the apps to which one more item of a newly closes m, and adds up
// their future demand, in machines.
func (l *Scorer) closes(a, m int32) (apps, demand float64) {
	blocked := l.s.BlockedApps(m)
	count := func(b int32) {
		if blocked[b>>6]>>(b&63)&1 == 0 {
			apps++
			demand += float64(l.d.remaining[b]*l.d.dominant[b]) / (1 << (itemBits + shareBits))
		}
	}
	for _, b := range l.near[a] {
		count(b)
	}
	own := l.s.Count(l.s.Instance().Apps[a].Group, m) + 1
	for _, f := range l.far[a] {
		if own >= f.own && l.s.Count(f.group, m) >= f.others {
			count(f.app)
		}
	}
	return apps, demand
}

// lostPressure is Σ p_b over the apps b ≠ a that are allowed on m and fit now
// but not after.
func (l *Scorer) lostPressure(a, m int32) float64 {
	lost := l.lostShapes(l.s.Instance().Apps[a].Demand, m, allShapes)
	blocked := l.s.BlockedApps(m)
	sum := int64(0)
	for b, p := range l.pressure {
		if int32(b) != a && lost>>l.shapeOf[b]&1 != 0 && blocked[b>>6]>>(b&63)&1 == 0 {
			sum += p
		}
	}
	return float64(sum)
}

// ExplainFleet implements [binpack.FleetExplainer].
func (l *Scorer) ExplainFleet() binpack.FleetTarget {
	l.sync()
	t := binpack.FleetTarget{KeptBack: l.keepBack()}
	switch {
	case l.s.Instance().Fleet == binpack.Fixed && t.KeptBack:
		t.Why = "the fleet has room to spare: an empty machine waits until no other takes the item"
		return t
	case l.s.Instance().Fleet == binpack.Fixed:
		t.Why = "the fleet is fixed: empty machines are candidates like any other"
		return t
	case !l.d.fleet && l.p.anyEmpty:
		t.Why = "the policy weighs the feature empty: empty machines are candidates like any other"
		return t
	case !l.d.fleet:
		t.Why = "there is no target for the fleet: an empty machine waits until no other takes the item"
		return t
	case l.d.know.Clock() && l.s.Left() > 0:
		t.Why = "there is no target once items leave: the clock does not say how long they stay"
		return t
	case l.d.paced() && l.s.Left() > 0:
		t.Why = "there is no target once items leave: how evenly they came does not say how long they stay"
		return t
	case t.KeptBack:
		t.Why = "as many machines are open as are wanted by now"
	default:
		t.Why = "fewer machines are open than are wanted by now"
	}
	t.By = map[binpack.Knowledge]string{
		binpack.K0Clock: "what came and the elapsed share",
		binpack.K1:      "what came and the rest of the forecast",
		binpack.K1Clock: "the forecast, and what came and the elapsed share",
		binpack.K2:      "what came and the rest of the true numbers",
	}[l.d.know]
	if l.d.paced() {
		t.By = "the forecast, and what came and how evenly"
	}
	for d, target := range l.d.target {
		w := binpack.FleetWanted{
			Volume: l.d.final[d] / (1 + .2*l.d.z), Arrived: machinesOf(l.d.arrived[d]), Target: target,
		}
		if l.s.Left() > 0 {
			w.Arrived = l.d.living(d) // the estimate begins with it then
		}
		for k, n := range l.s.Held() {
			w.Open += float64(n) * float64(l.s.Kinds()[k].Capacity[d]) / max(1, l.d.reference[d])
		}
		t.Wanted = append(t.Wanted, w)
	}
	return t
}
