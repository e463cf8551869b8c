package rule

import (
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
)

// RequestedToCapacityRatio is kube-scheduler's NodeResourcesFit with the
// RequestedToCapacityRatio strategy:
//
//	score = round(Σ weight_d · f(u_d) ÷ Σ weight_d),  u_d = ⌊100 · requested_d ÷ allocatable_d⌋
//
// over the d with f(u_d) > 0. Unlike MostAllocated it leaves dimensions that score nothing
// out of the mean. f is a broken line, in whole numbers.
type RequestedToCapacityRatio struct {
	blind

	Ties Ties
	// Resources are the dimensions that count, with their weights; nil = all, with weight 1.
	Resources map[string]int64
	// Shape are the points (utilisation, score) of f, by ascending utilisation. Scores are
	// a tenth of f's. nil is the shape of kube-scheduler's documentation for bin packing,
	// (0, 0) and (100, 10): f(u) = u.
	Shape [][]int64
}

// maxShapeScore is the highest score of a shape.
const maxShapeScore = 10

// Scorer prepares the policy for a state.
func (p RequestedToCapacityRatio) Scorer(s *binpack.State) binpack.Scorer {
	var line [maxNodeScore + 1]int64
	for u := range line {
		line[u] = brokenLine(p.Shape, int64(u))
	}
	return p.Ties.scorer(s, &upstream{score: func(_, requested, allocatable, weights []int64) int64 {
		var sum, total int64
		for d, whole := range allocatable {
			if whole == 0 {
				continue
			}
			if score := line[min(requested[d], whole)*maxNodeScore/whole]; score > 0 {
				sum += score * weights[d]
				total += weights[d]
			}
		}
		if total == 0 {
			return 0
		}
		return int64(math.Round(float64(sum) / float64(total)))
	}}, p.Resources)
}

// brokenLine is the height at u of the line through the points. It cuts to whole
// numbers as kube-scheduler does, towards zero, so a falling line is rounded up.
func brokenLine(shape [][]int64, u int64) int64 {
	const scale = maxNodeScore / maxShapeScore
	if shape == nil {
		return u
	}
	for i, to := range shape {
		if u > to[0] {
			continue
		}
		if i == 0 {
			return to[1] * scale
		}
		from := shape[i-1]
		return from[1]*scale + (to[1]-from[1])*scale*(u-from[0])/(to[0]-from[0])
	}
	return shape[len(shape)-1][1] * scale
}
