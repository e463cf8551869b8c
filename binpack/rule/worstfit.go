package rule

import "github.com/sigma-scheduler/sigma/binpack"

// WorstFit takes the machine in use that the item leaves emptiest, by the same
// norm as [BestFit]:
//
//	score = Σ (free_d − demand_d) ÷ capacity_d
//
// and an empty machine only when no machine in use takes the item: Worst Fit is
// an Any Fit algorithm (Johnson 1973). With empty machines as equals it would
// open one for every item; that policy is [LeastAllocated].
type WorstFit struct{ blind }

// Scorer prepares the policy for a state.
func (WorstFit) Scorer(s *binpack.State) binpack.Scorer {
	c := columnsOf(s)
	return newGuided(&worstFit{c}, &leftover{columns: c, sign: 1, last: true})
}

type worstFit struct{ columns }

func (p *worstFit) Score(item binpack.Item, candidates []int32, out []float64) {
	clear(out)
	for d, need := range p.demand(item.App) {
		p.residual(d, need, candidates, out)
	}
	emptyLast(p.state, float64(len(p.capacity)), candidates, out)
}

// Explain implements [binpack.Explainer].
func (p *worstFit) Explain(item binpack.Item, m int32) []binpack.Term {
	return startTerm(p.state, float64(len(p.capacity)), m, p.shares(item, m, "free after", 1, afterShare))
}
