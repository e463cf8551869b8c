package rule

import (
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
)

// allocated leads a search by the score of [MostAllocated] or [LeastAllocated], for items that count
// the same dimensions: the score before it is cut to whole numbers is linear in the free amounts.
type allocated struct {
	*upstream

	units [][]float64 // [kind][dimension] the fall of the score with the free amount, in parts
	whole []float64   // [kind] the score without free amounts, in parts
	part  []float64   // [kind] a part of the score: one dimension's, so that an index splits by them and by shares
	draw  float64     // at least the draw among ties
	index *binpack.Index

	// Of the item.
	item binpack.Item
	rest []float64 // [kind]
	one  [1]int32
	out  [1]float64
}

// Contenders implements [binpack.Shortlister].
func (u *upstream) Contenders(item binpack.Item, buf []int32) (contenders []int32, known bool) {
	demand := u.state.Instance().Apps[item.App].Demand
	if u.fall == 0 || len(demand) > binpack.MaxIndexed {
		return buf, false
	}
	mask := 0
	for d, need := range demand {
		if u.counts(d, need) {
			mask |= 1 << d
		}
	}
	g := u.guides[mask]
	if g == nil {
		g = newAllocated(u, mask)
		u.guides[mask] = g
	}
	g.item, g.rest = item, g.rest[:0]
	for k, units := range g.units {
		v := g.whole[k] + rounding
		for d, need := range demand {
			v += units[d] * float64(need)
		}
		g.rest = append(g.rest, v)
	}
	return g.index.Search(item.App, 0, buf)
}

func newAllocated(u *upstream, mask int) *allocated {
	g := &allocated{upstream: u}
	for _, k := range u.state.Kinds() {
		units, total, count := make([]float64, len(k.Capacity)), 0.0, 0.0
		for d, whole := range k.Capacity {
			if mask>>d&1 != 0 && whole > 0 {
				units[d] = u.fall * float64(u.weights[d]) / float64(whole)
				total += float64(u.weights[d])
				count++
			}
		}
		for d := range units {
			units[d] *= count / max(1, total)
		}
		g.units, g.whole, g.part = append(g.units, units), append(g.whole, max(0, u.fall)*count), append(g.part, maxNodeScore/max(1, count))
	}
	if !u.ties.ByPosition {
		g.draw = 1
	}
	g.index = binpack.NewIndex(u.state, g, indexFrom)
	g.index.Each = !u.ties.ByPosition
	return g
}

// Renew implements [binpack.Guide].
func (*allocated) Renew() bool { return false }

// Shared implements [binpack.Guide].
func (g *allocated) Shared(m int32) float64 {
	sum := 0.0
	for d, unit := range g.units[g.state.KindOf(m)] {
		sum -= unit * float64(g.state.Free(d)[m])
	}
	return sum
}

// Limit implements [binpack.Guide].
func (g *allocated) Limit(kind int32, shared, _, _ float64) float64 {
	return math.Floor((shared+g.rest[kind])*g.part[kind]) + g.draw
}

// Limits implements [binpack.Guide].
func (g *allocated) Limits(kind int32, _ []int32, _, limits []float64, _ float64) {
	rest, part := g.rest[kind], g.part[kind]
	for i, shared := range limits {
		limits[i] = math.Floor((shared+rest)*part) + g.draw
	}
}

// Value implements [binpack.Guide].
func (g *allocated) Value(m int32) float64 {
	g.one[0] = m
	g.Score(g.item, g.one[:], g.out[:])
	return g.out[0]
}
