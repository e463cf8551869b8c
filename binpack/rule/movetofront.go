package rule

import "github.com/sigma-scheduler/sigma/binpack"

// MoveToFront takes the machine that took an item most recently, and an empty
// machine only when no machine in use takes the item (Kamali and López-Ortiz
// 2015). Items that arrive together tend to leave together, so machines empty
// out: the best of the simple policies under departures.
//
//	score = number of placements made when the machine last took an item; 0 when empty
type MoveToFront struct{ blind }

// Scorer prepares the policy for a state.
func (MoveToFront) Scorer(s *binpack.State) binpack.Scorer { return moveToFront{s} }

type moveToFront struct{ state *binpack.State }

func (p moveToFront) Score(_ binpack.Item, candidates []int32, out []float64) {
	for i, m := range candidates {
		out[i] = 0
		if p.state.Items(m) > 0 {
			out[i] = float64(p.state.LastUsed(m))
		}
	}
}
