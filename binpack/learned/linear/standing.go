package linear

import "math"

// ageScale is the number of placements for each machine in use after which age is ½.
const ageScale = 10

// addStanding adds the features of the items on a machine: age, crowd, own, size,
// price and partners. Empty machines that are kept back are all alike.
func (l *Scorer) addStanding(a int32, keepBack bool, candidates []int32, out []float64) {
	l.compare()
	traffic := 0.0
	if l.partners != nil {
		traffic = l.traffic(a)
	}
	for i, m := range candidates {
		if !keepBack || l.s.Items(m) > 0 {
			out[i] += l.standingScore(a, m, traffic)
		}
	}
}

func (l *Scorer) standingScore(a, m int32, traffic float64) float64 {
	age, crowd, own := l.standingOf(a, m)
	v := float64(l.weights[fAge]*age) + float64(l.weights[fCrowd]*crowd) + float64(l.weights[fOwn]*own)
	if w := l.weights[fSize]; w != 0 {
		v += float64(w * float64(l.utilAfter(a, m)*l.largestShare(a, m)))
	}
	if l.prices != nil {
		v += float64(l.weights[fPrice] * l.prices[l.s.KindOf(m)])
	}
	if traffic > 0 {
		v += float64(l.weights[fPartners] * l.local(a, m, traffic))
	}
	return v
}

// standingOf are the features age, crowd and own; the last only where it has a weight.
func (l *Scorer) standingOf(a, m int32) (age, crowd, own float64) {
	n := l.s.Items(m)
	if n == 0 {
		return 0, 0, 0
	}
	active, items := float64(l.s.Active()+1), float64(n)
	placed := float64(l.s.Placements() - l.s.Opened(m))
	age = placed / (placed + float64(ageScale*active))
	crowd = items / (items + float64(l.s.AliveTotal()+1)/active)
	if l.weights[fOwn] != 0 && l.s.Count(l.s.Instance().Apps[a].Group, m) > 0 {
		own = 1
	}
	return age, crowd, own
}

// utilAfter is the feature util.
func (l *Scorer) utilAfter(a, m int32) float64 {
	util := 0.0
	for d, inv := range l.inverse[l.s.KindOf(m)] {
		if inv != 0 {
			util = max(util, 1-float64(float64(l.s.Free(d)[m]-l.s.Instance().Apps[a].Demand[d])*inv))
		}
	}
	return util
}

// largestShare is an item's largest share of a machine over dimensions.
func (l *Scorer) largestShare(a, m int32) float64 {
	most := 0.0
	for d, inv := range l.inverse[l.s.KindOf(m)] {
		most = max(most, float64(l.s.Instance().Apps[a].Demand[d])*inv)
	}
	return most
}

// compare computes the feature price of each kind.
func (l *Scorer) compare() {
	least := math.Inf(1)
	for k := range l.prices {
		kind, most := &l.s.Kinds()[k], 0.0
		for d, c := range kind.Capacity {
			if c > 0 {
				most = max(most, l.d.living(d)*(l.d.reference[d]/float64(c)))
			}
		}
		l.prices[k] = kind.Cost * most
		least = min(least, l.prices[k])
	}
	for k, price := range l.prices {
		l.prices[k] = 0
		if price > 0 {
			l.prices[k] = 1 - least/price
		}
	}
}
