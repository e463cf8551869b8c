package rule

import "github.com/sigma-scheduler/sigma/binpack"

// NextFit takes the machine that took the last item; if that one does not take this
// item, an empty machine; without one, any by lowest position (Johnson 1973). Score
// 2, 1, 0.
type NextFit struct{ blind }

// Scorer prepares the policy for a state.
func (NextFit) Scorer(s *binpack.State) binpack.Scorer { return nextFit{s} }

type nextFit struct{ state *binpack.State }

func (p nextFit) Score(_ binpack.Item, candidates []int32, out []float64) {
	last := p.state.Placements()
	for i, m := range candidates {
		switch {
		case last > 0 && p.state.LastUsed(m) == last:
			out[i] = 2
		case p.state.Items(m) == 0:
			out[i] = 1
		default:
			out[i] = 0
		}
	}
}
