package policy

import "github.com/sigma-scheduler/sigma/binpack"

// BestFitFirst is Best Fit by the first dimension alone (cpu, as a rule):
//
//	score = −(free₀ − demand₀) ÷ capacity₀
//
// The other dimensions only decide whether the item fits.
type BestFitFirst struct{ blind }

// Scorer prepares the policy for a state.
func (BestFitFirst) Scorer(s *binpack.State) binpack.Scorer {
	return byClass{&bestFitFirst{columnsOf(s)}}
}

type bestFitFirst struct{ columns }

func (p *bestFitFirst) Score(item binpack.Item, candidates []int32, out []float64) {
	clear(out)
	p.residual(0, p.apps[item.App].Demand[0], candidates, out)
	for i := range out {
		out[i] = -out[i]
	}
	startInOrder(p.state, candidates, out)
}
