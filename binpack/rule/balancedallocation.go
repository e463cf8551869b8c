package rule

import (
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
)

// BalancedAllocation is kube-scheduler's NodeResourcesBalancedAllocation:
//
//	score = 50 + ⌊(50 + ⌊100 · (1 − σ)⌋ − ⌊100 · (1 − σ₀)⌋) ÷ 2⌋
//
// with σ the standard deviation of requested_d ÷ allocatable_d over dimensions, and σ₀
// that without the item: since Kubernetes 1.36 the change counts. An item without
// demand scores 0 everywhere (upstream skips the plugin).
type BalancedAllocation struct {
	blind

	Ties Ties
}

// Scorer prepares the policy for a state.
func (p BalancedAllocation) Scorer(s *binpack.State) binpack.Scorer {
	return p.Ties.scorer(s, &upstream{score: balancedAllocation, skipsNothing: true}, nil)
}

func balancedAllocation(demand, requested, allocatable, _ []int64) int64 {
	with := balance(requested, allocatable)
	for d, need := range demand {
		requested[d] -= need
	}
	return maxNodeScore/2 + (maxNodeScore/2+with-balance(requested, allocatable))/2
}

func balance(requested, allocatable []int64) int64 {
	var total float64
	count := 0
	for d, whole := range allocatable {
		if whole != 0 {
			total += share(requested[d], whole)
			count++
		}
	}
	switch count {
	case 0, 1:
		return maxNodeScore
	case 2:
		return balanceOfTwo(requested, allocatable)
	}
	mean, sum := total/float64(count), 0.0
	for d, whole := range allocatable {
		if whole != 0 {
			off := share(requested[d], whole) - mean
			sum += float64(off * off)
		}
	}
	return int64((1 - math.Sqrt(sum/float64(count))) * maxNodeScore)
}

// balanceOfTwo is the usual case, σ = |a − b| ÷ 2. Upstream computes it so, and
// the last bit of the other formula may differ.
func balanceOfTwo(requested, allocatable []int64) int64 {
	difference := 0.0
	for d, whole := range allocatable {
		if whole != 0 {
			difference = share(requested[d], whole) - difference
		}
	}
	return int64((1 - math.Abs(difference/2)) * maxNodeScore)
}

func share(requested, whole int64) float64 {
	return min(float64(requested)/float64(whole), 1)
}
