package linear

import (
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A kinds holds the features that machines of a kind share.
type kinds struct {
	price, bill []float64 // [kind]
	score       []float64 // [kind] their weighted sum
	most        float64   // the largest score
}

// compare computes the features of each kind.
func (l *Scorer) compare() {
	k := l.kinds
	if k == nil {
		return
	}
	least, leastBill, limits := math.Inf(1), math.Inf(1), 0.0
	if l.d.limits != nil {
		limits = l.d.limits.most
	}
	for i := range k.price {
		kind, most := &l.s.Kinds()[i], 0.0
		for d, c := range kind.Capacity {
			if c > 0 {
				most = max(most, l.d.living(d)*(l.d.reference[d]/float64(c)))
			}
		}
		k.price[i], k.bill[i] = kind.Cost*most, kind.Cost*max(most, limits)
		least, leastBill = min(least, k.price[i]), min(leastBill, k.bill[i])
	}
	k.most = math.Inf(-1)
	for i := range k.price {
		k.price[i], k.bill[i] = over(k.price[i], least), over(k.bill[i], leastBill)
		k.score[i] = float64(l.weights[fPrice]*k.price[i]) + float64(l.weights[fBill]*k.bill[i])
		k.most = max(k.most, k.score[i])
	}
}

// over is the share of a price that is above the least one.
func over(price, least float64) float64 {
	if price > 0 {
		return 1 - least/price
	}
	return 0
}

// A limitBound follows the least number of machines that the limits of groups need.
type limitBound struct {
	alive []int64 // [group] items
	most  float64 // the largest items ÷ limit
	group int32   // of most
}

// add counts more items of a group, or fewer.
func (b *limitBound) add(s *binpack.State, group int32, n int64) {
	for len(b.alive) <= int(group) {
		b.alive = append(b.alive, 0)
	}
	b.alive[group] += n
	groups := s.Instance().Groups
	need := func(g int32) float64 {
		if groups[g].Limit == 0 {
			return 0
		}
		return float64(b.alive[g]) / float64(groups[g].Limit)
	}
	if v := need(group); v >= b.most {
		b.most, b.group = v, group
		return
	}
	if group == b.group {
		b.most = 0
		for g := range b.alive {
			if v := need(int32(g)); v > b.most {
				b.most, b.group = v, int32(g)
			}
		}
	}
}

// tightness is 0 while the limits need at most half of the machines in use, and 1 from all of them on.
func (b *limitBound) tightness(active float64) float64 {
	return max(0, 2*min(1, b.most/active)-1)
}

func (b *limitBound) clear() {
	clear(b.alive)
	b.most = 0
}
