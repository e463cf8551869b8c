package rule

import "github.com/sigma-scheduler/sigma/binpack"

// MostAllocated is kube-scheduler's NodeResourcesFit with the MostAllocated
// strategy:
//
//	score = ⌊Σ ⌊100 · requested_d ÷ allocatable_d⌋ ÷ dimensions⌋
type MostAllocated struct {
	blind

	Ties Ties
}

// Scorer prepares the policy for a state.
func (p MostAllocated) Scorer(s *binpack.State) binpack.Scorer {
	return p.Ties.scorer(s, mostAllocated, false)
}

func mostAllocated(_, requested, allocatable []int64) int64 {
	var sum, weights int64
	for d, whole := range allocatable {
		if whole == 0 {
			continue
		}
		sum += min(requested[d], whole) * maxNodeScore / whole
		weights++
	}
	if weights == 0 {
		return 0
	}
	return sum / weights
}
