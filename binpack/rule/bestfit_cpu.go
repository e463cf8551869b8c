package rule

import "github.com/sigma-scheduler/sigma/binpack"

// BestFitCPU is Best Fit by the first dimension alone (cpu, as a rule):
//
//	score = −(free₀ − demand₀) ÷ capacity₀
//
// The other dimensions only decide whether the item fits.
type BestFitCPU struct{ blind }

// Scorer prepares the policy for a state.
func (BestFitCPU) Scorer(s *binpack.State) binpack.Scorer {
	return byClass{&bestFitCPU{columnsOf(s)}}
}

type bestFitCPU struct{ columns }

func (p *bestFitCPU) Score(item binpack.Item, candidates []int32, out []float64) {
	clear(out)
	p.residual(0, p.demand(item.App)[0], candidates, out)
	for i := range out {
		out[i] = -out[i]
	}
	startInOrder(p.state, candidates, out)
}

// Explain implements [binpack.Explainer].
func (p *bestFitCPU) Explain(item binpack.Item, m int32) []binpack.Term {
	return p.startInOrderTerm(m, p.shares(item, m, "free after", -1, afterShare)[:1])
}
