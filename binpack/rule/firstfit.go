package rule

import "github.com/sigma-scheduler/sigma/binpack"

// FirstFit takes the machine with the lowest position. All scores are equal:
// the tie-break of State.Choose is First Fit (Johnson 1973).
type FirstFit struct{ blind }

// Scorer prepares the policy for a state.
func (FirstFit) Scorer(*binpack.State) binpack.Scorer { return byClass{firstFit{}} }

type firstFit struct{}

func (firstFit) Score(_ binpack.Item, _ []int32, out []float64) { clear(out) }
