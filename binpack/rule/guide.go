package rule

import (
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
)

// rounding is far more than rounding does to a score of shares.
const rounding = 1e-9

// leftover leads a search by sign · Σ (free_d − demand_d) ÷ capacity_d.
type leftover struct {
	columns
	sign float64
	last bool // empty machines are last, see emptyLast
	need []int64
}

// Sorting implements [binpack.Guide].
func (*leftover) Sorting() binpack.Sorting { return binpack.Sorting{Free: 1, From: 2048} }

// Bound implements [binpack.Guide].
func (g *leftover) Bound(b *binpack.Bounds) float64 {
	sum := 0.0
	for d, unit := range b.Unit {
		need := float64(g.need[d])
		least, most := b.Free[d].Least-need*unit.Most, b.Free[d].Most-need*unit.Least
		if most < -rounding {
			return math.Inf(-1)
		}
		if g.sign < 0 {
			most = -max(0, least)
		}
		sum += most
	}
	if g.last && b.Items.Most == 0 {
		sum = g.emptied(sum)
	}
	return sum + rounding
}

// Value implements [binpack.Guide].
func (g *leftover) Value(m int32) float64 {
	sum := 0.0
	for d, need := range g.need {
		sum += float64(g.state.Free(d)[m]-need) / g.capacity[d][g.state.KindOf(m)]
	}
	sum *= g.sign
	if g.last && g.state.Items(m) == 0 {
		sum = g.emptied(sum)
	}
	return sum
}

// emptied is the score of an empty machine, see emptyLast.
func (g *leftover) emptied(score float64) float64 {
	if g.state.Instance().Fleet == binpack.Open {
		score = 0
	}
	return score - 2*float64(len(g.capacity)) - 1
}

// guided is a scorer by class that has its contenders searched where there are many classes.
type guided struct {
	growing
	guide *leftover
}

// Contenders implements [binpack.Shortlister].
func (g guided) Contenders(item binpack.Item, buf []int32) (contenders []int32, known bool) {
	g.guide.need = g.guide.demand(item.App)
	return g.guide.state.Search(g.guide, item.App, rounding, buf)
}
