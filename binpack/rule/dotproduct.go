package rule

import "github.com/sigma-scheduler/sigma/binpack"

// DotProduct takes the machine in use whose free amounts point most the way
// the item's demand does:
//
//	score = Σ (demand_d ÷ capacity_d) · (free_d ÷ capacity_d)
//
// and an empty machine only when no machine in use takes the item (Panigrahy,
// Talwar, Uyeda and Wieder 2011, where a machine is filled before the next is
// opened).
type DotProduct struct{ blind }

// Scorer prepares the policy for a state.
func (DotProduct) Scorer(s *binpack.State) binpack.Scorer {
	return byClass{&dotProduct{columnsOf(s)}}
}

type dotProduct struct{ columns }

func (p *dotProduct) Score(item binpack.Item, candidates []int32, out []float64) {
	clear(out)
	for d, need := range p.demand(item.App) {
		if need == 0 {
			continue
		}
		free, capacity, demand := p.state.Free(d), p.capacity[d], float64(need)
		for i, m := range candidates {
			whole := capacity[p.state.KindOf(m)]
			out[i] += float64(demand / whole * (float64(free[m]) / whole))
		}
	}
	emptyLast(p.state, float64(len(p.capacity)), candidates, out)
}

// Explain implements [binpack.Explainer].
func (p *dotProduct) Explain(item binpack.Item, m int32) []binpack.Term {
	return startTerm(p.state, float64(len(p.capacity)), m, p.shares(item, m, "need · free", 1,
		func(_, need, free float64) float64 { return need * free }))
}
