package tune

import (
	"cmp"
	"context"

	"github.com/sigma-scheduler/sigma/flow"
)

// A Tuner proposes thresholds for a [flow.Decider]. The zero value has the budget of one decision.
type Tuner struct {
	Arrivals int // of a problem; 0 = Arrivals of the load
	Budget   int // evaluations; 0 = DefaultBudget
}

var _ flow.Tuner = Tuner{}

// heldBack sets the arrivals that judge apart from those that thresholds are found on.
const heldBack = 0x6865_6c64_0000_0000

func (t Tuner) problem(s *flow.Sizes, load float64, seed uint64) *Problem {
	n := t.Arrivals
	if n == 0 {
		n = Arrivals(load)
	}
	return NewProblem(s, load, n, seed, nil)
}

// Propose searches from the closed form, equal loads and the present thresholds.
func (t Tuner) Propose(s *flow.Sizes, load float64, bands int, present flow.Thresholds, seed uint64) (flow.Thresholds, error) {
	search := Search{Bands: bands, Budget: t.Budget, Seed: seed}
	search.Budget = cmp.Or(search.Budget, DefaultBudget)
	if present != nil {
		search.Start = []flow.Thresholds{present}
	}
	found, _, err := t.problem(s, load, seed).Search(context.Background(), search)
	return found, err
}

// Values returns J of each on arrivals that Propose did not see.
func (t Tuner) Values(s *flow.Sizes, load float64, seed uint64, sets ...flow.Thresholds) []float64 {
	p := t.problem(s, load, seed+heldBack)
	values := make([]float64, len(sets))
	for i, set := range sets {
		values[i] = p.Value(set)
	}
	return values
}
