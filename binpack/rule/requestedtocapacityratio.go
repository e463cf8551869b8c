package rule

import (
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
)

// RequestedToCapacityRatio is kube-scheduler's NodeResourcesFit with the
// RequestedToCapacityRatio strategy and the shape of its documentation for bin
// packing, utilisation 0 → 0 and 100 → 10 (times 10, to the scale of scores):
//
//	score = round(Σ u_d ÷ number of d with u_d > 0),  u_d = ⌊100 · requested_d ÷ allocatable_d⌋
//
// Unlike MostAllocated it leaves dimensions that score nothing out of the mean.
type RequestedToCapacityRatio struct {
	blind

	Ties Ties
}

// Scorer prepares the policy for a state.
func (p RequestedToCapacityRatio) Scorer(s *binpack.State) binpack.Scorer {
	return p.Ties.scorer(s, requestedToCapacityRatio, false)
}

func requestedToCapacityRatio(_, requested, allocatable []int64) int64 {
	var sum, weights int64
	for d, whole := range allocatable {
		if whole == 0 {
			continue
		}
		// With this shape the broken-line function is the identity.
		if u := min(requested[d], whole) * maxNodeScore / whole; u > 0 {
			sum += u
			weights++
		}
	}
	if weights == 0 {
		return 0
	}
	return int64(math.Round(float64(sum) / float64(weights)))
}
