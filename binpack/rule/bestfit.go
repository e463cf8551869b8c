package rule

import "github.com/sigma-scheduler/sigma/binpack"

// BestFit takes the machine that the item leaves fullest, by the l1 norm of the
// amounts that stay free:
//
//	score = −Σ (free_d − demand_d) ÷ capacity_d
//
// with the machine's own capacity. In one dimension it is the Best Fit of
// Johnson (1973); vectors have several, of which this is the plainest
// (Panigrahy et al. 2011).
type BestFit struct{ blind }

// Scorer prepares the policy for a state.
func (BestFit) Scorer(s *binpack.State) binpack.Scorer {
	c := columnsOf(s)
	inOrder := s.Instance().Fleet == binpack.Open && !c.oneKind() // see startInOrder
	return newGuided(&bestFit{c}, &leftover{columns: c, sign: -1, last: inOrder})
}

type bestFit struct{ columns }

func (p *bestFit) Score(item binpack.Item, candidates []int32, out []float64) {
	demand := p.demand(item.App)
	if len(demand) == 2 && p.oneKind() {
		p.scoreTwo(demand[0], demand[1], candidates, out)
		return
	}
	clear(out)
	for d, need := range demand {
		p.residual(d, need, candidates, out)
	}
	for i := range out {
		out[i] = -out[i]
	}
	startInOrder(p.state, candidates, out)
}

// scoreTwo is the same for two dimensions and one kind, the common case, in one
// pass instead of four.
func (p *bestFit) scoreTwo(need0, need1 int64, candidates []int32, out []float64) {
	free0, free1 := p.state.Free(0), p.state.Free(1)
	whole0, whole1 := p.capacity[0][0], p.capacity[1][0]
	for i, m := range candidates {
		out[i] = -(float64(free0[m]-need0)/whole0 + float64(free1[m]-need1)/whole1)
	}
}

// Explain implements [binpack.Explainer].
func (p *bestFit) Explain(item binpack.Item, m int32) []binpack.Term {
	return p.startInOrderTerm(m, p.shares(item, m, "free after", -1, afterShare))
}

// Fallback decides where another policy cannot: it has no score, or its score is
// not finite.
type Fallback = BestFit
