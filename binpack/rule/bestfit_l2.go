package rule

import "github.com/sigma-scheduler/sigma/binpack"

// BestFitL2 is Best Fit by the squared l2 norm of the amounts that stay free:
//
//	score = −Σ ((free_d − demand_d) ÷ capacity_d)²
//
// the norm-based greedy of Panigrahy et al. (2011) with weights ÷ capacity. The
// square weighs the emptiest dimension most.
type BestFitL2 struct{ blind }

// Scorer prepares the policy for a state.
func (BestFitL2) Scorer(s *binpack.State) binpack.Scorer {
	return byClass{&bestFitL2{columnsOf(s)}}
}

type bestFitL2 struct{ columns }

func (p *bestFitL2) Score(item binpack.Item, candidates []int32, out []float64) {
	clear(out)
	for d, need := range p.demand(item.App) {
		free, capacity := p.state.Free(d), p.capacity[d]
		for i, m := range candidates {
			share := float64(free[m]-need) / capacity[p.state.KindOf(m)]
			out[i] -= float64(share * share)
		}
	}
	startInOrder(p.state, candidates, out)
}

// Explain implements [binpack.Explainer].
func (p *bestFitL2) Explain(item binpack.Item, m int32) []binpack.Term {
	return p.startInOrderTerm(m, p.shares(item, m, "free after²", -1,
		func(after, _, _ float64) float64 { return after * after }))
}
