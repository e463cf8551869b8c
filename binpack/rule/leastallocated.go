package rule

import "github.com/sigma-scheduler/sigma/binpack"

// LeastAllocated is kube-scheduler's NodeResourcesFit with the LeastAllocated
// strategy, its default:
//
//	score = ⌊Σ ⌊100 · (allocatable_d − requested_d) ÷ allocatable_d⌋ ÷ dimensions⌋
type LeastAllocated struct {
	blind

	Ties Ties
}

// Scorer prepares the policy for a state.
func (p LeastAllocated) Scorer(s *binpack.State) binpack.Scorer {
	return p.Ties.scorer(s, leastAllocated, false)
}

func leastAllocated(_, requested, allocatable []int64) int64 {
	var sum, weights int64
	for d, whole := range allocatable {
		if whole == 0 {
			continue
		}
		sum += max(whole-requested[d], 0) * maxNodeScore / whole
		weights++
	}
	if weights == 0 {
		return 0
	}
	return sum / weights
}
