package policy

import "github.com/sigma-scheduler/sigma/binpack"

// BestFit takes the machine that the item leaves fullest, by the l1 norm of
// what stays free:
//
//	score = −Σ (free_d − demand_d) ÷ capacity_d
//
// with the machine's own capacity. In one dimension it is the Best Fit of
// Johnson (1973); vectors have several, of which this is the plainest
// (Panigrahy et al. 2011).
type BestFit struct{ blind }

// Scorer prepares the policy for a state.
func (BestFit) Scorer(s *binpack.State) binpack.Scorer {
	return byClass{&bestFit{columnsOf(s)}}
}

type bestFit struct{ columns }

func (p *bestFit) Score(item binpack.Item, candidates []int32, out []float64) {
	clear(out)
	for d, need := range p.apps[item.App].Demand {
		p.residual(d, need, candidates, out)
	}
	for i := range out {
		out[i] = -out[i]
	}
}
