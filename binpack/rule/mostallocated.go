package rule

import "github.com/sigma-scheduler/sigma/binpack"

// MostAllocated is kube-scheduler's NodeResourcesFit with the MostAllocated
// strategy:
//
//	score = ⌊Σ weight_d · ⌊100 · requested_d ÷ allocatable_d⌋ ÷ Σ weight_d⌋
type MostAllocated struct {
	blind

	Ties Ties
	// Resources are the dimensions that count, with their weights; nil = all, with weight 1.
	Resources map[string]int64
}

// Scorer prepares the policy for a state.
func (p MostAllocated) Scorer(s *binpack.State) binpack.Scorer {
	return p.Ties.scorer(s, &upstream{score: mostAllocated, fall: 1}, p.Resources)
}

func mostAllocated(_, requested, allocatable, weights []int64) int64 {
	var sum, total int64
	for d, whole := range allocatable {
		if whole == 0 {
			continue
		}
		sum += min(requested[d], whole) * maxNodeScore / whole * weights[d]
		total += weights[d]
	}
	if total == 0 {
		return 0
	}
	return sum / total
}
