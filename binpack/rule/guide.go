package rule

import (
	"github.com/sigma-scheduler/sigma/binpack"
)

const (
	// rounding is far more than rounding does to a score of shares.
	rounding = 1e-9
	// indexFrom is the number of machines from which an index saves more than it costs.
	indexFrom = 128
)

// leftover leads a search by sign · Σ (free_d − demand_d) ÷ capacity_d.
type leftover struct {
	columns
	sign float64
	last bool // empty machines are last, see emptyLast
	need []int64
	rest []float64 // [kind] of the item
}

// begin prepares the search for an item.
func (g *leftover) begin(need []int64) {
	g.need, g.rest = need, g.rest[:0]
	for k := range g.state.Kinds() {
		sum := 0.0
		for d, n := range need {
			sum += float64(n) / g.capacity[d][k]
		}
		g.rest = append(g.rest, rounding-g.sign*sum)
	}
}

// Renew implements [binpack.Guide].
func (*leftover) Renew() bool { return false }

// Shared implements [binpack.Guide].
func (g *leftover) Shared(m int32) float64 {
	k, sum := g.state.KindOf(m), 0.0
	for d := range g.capacity {
		sum += float64(g.state.Free(d)[m]) / g.capacity[d][k]
	}
	sum *= g.sign
	if g.last && g.state.Items(m) == 0 {
		sum = g.emptied(sum) + float64(len(g.capacity)) // the rest is at least −1 for each
	}
	return sum
}

// Limit implements [binpack.Guide].
func (g *leftover) Limit(kind int32, shared, _, _ float64) float64 { return shared + g.rest[kind] }

// Limits implements [binpack.Guide].
func (g *leftover) Limits(kind int32, _ []int32, _, limits []float64, _ float64) {
	rest := g.rest[kind]
	for i := range limits {
		limits[i] += rest
	}
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
	index *binpack.Index
}

func newGuided(s binpack.Scorer, g *leftover) guided {
	return guided{growing{byClass{s}}, g, binpack.NewIndex(g.state, g, indexFrom)}
}

// Contenders implements [binpack.Shortlister].
func (g guided) Contenders(item binpack.Item, buf []int32) (contenders []int32, known bool) {
	g.guide.begin(g.guide.demand(item.App))
	return g.index.Search(item.App, rounding, buf)
}
