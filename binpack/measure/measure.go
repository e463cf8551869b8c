package measure

import (
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
)

// AllocationRate is placed demand ÷ capacity, per dimension: the capacity of
// the machines that hold an item in an open fleet, of all machines in a fixed
// one.
func AllocationRate(s *binpack.State) []float64 {
	inst := s.Instance()
	placed := make([]wide, len(inst.Dimensions))
	for a, n := range s.Alive() {
		if n > 0 {
			addVector(placed, inst.Apps[a].Demand, n)
		}
	}
	capacity := make([]wide, len(inst.Dimensions))
	if inst.Fleet == binpack.Fixed {
		for _, line := range inst.Machines {
			addVector(capacity, line.Capacity, int64(line.Count))
		}
	} else {
		for k, n := range s.Held() {
			addVector(capacity, s.Kinds()[k].Capacity, n)
		}
	}
	rate := make([]float64, len(placed))
	for d := range rate {
		rate[d] = share(placed[d], capacity[d])
	}
	return rate
}

func addVector(sums []wide, amounts []int64, n int64) {
	for d, v := range amounts {
		sums[d].addTimes(v, n)
	}
}

// Balance is the standard deviation of utilisation (used ÷ capacity) over the
// active machines, taken per dimension and averaged over dimensions; 0 is an
// even fleet. A machine without capacity in a dimension has no utilisation
// there, and a dimension that no active machine has is left out of the mean.
func Balance(s *binpack.State) float64 {
	sum, dims := 0.0, 0
	for d := range s.Instance().Dimensions {
		if deviation, ok := utilisationDeviation(s, d); ok {
			sum += deviation
			dims++
		}
	}
	return ratio(sum, dims)
}

// utilisationDeviation passes over the machines twice, mean first: the one-pass
// formula loses all digits when the fleet is nearly even.
func utilisationDeviation(s *binpack.State, d int) (deviation float64, ok bool) {
	mean, n := 0.0, 0
	eachUtilisation(s, d, func(u float64) {
		mean += u
		n++
	})
	if n == 0 {
		return 0, false
	}
	mean /= float64(n)
	squares := 0.0
	eachUtilisation(s, d, func(u float64) {
		squares += float64((u - mean) * (u - mean))
	})
	return math.Sqrt(squares / float64(n)), true
}

func eachUtilisation(s *binpack.State, d int, visit func(u float64)) {
	for m, free := range s.Free(d) {
		capacity := s.Capacity(int32(m))[d]
		if s.Items(int32(m)) > 0 && capacity > 0 {
			visit(float64(capacity-free) / float64(capacity))
		}
	}
}

// Spread is the mean over groups with an item of distinct machines ÷ items: 1
// when no two items of a group share a machine.
func Spread(s *binpack.State) float64 {
	inst := s.Instance()
	items := make([]int64, len(inst.Groups))
	for a, n := range s.Alive() {
		items[inst.Apps[a].Group] += n
	}
	sum, groups := 0.0, 0
	for g, n := range items {
		if n > 0 {
			sum += float64(s.Spread(int32(g))) / float64(n)
			groups++
		}
	}
	return ratio(sum, groups)
}

// MeanSquaredFree is the mean over active machines and dimensions of
// (free ÷ capacity)². Of two placements on equally many machines it is smaller
// where the free capacity is spread evenly: a smooth tie-breaker for training.
// A machine without capacity in a dimension does not count there.
func MeanSquaredFree(s *binpack.State) float64 {
	sum, n := 0.0, 0
	for d := range s.Instance().Dimensions {
		eachUtilisation(s, d, func(u float64) {
			sum += float64((1 - u) * (1 - u))
			n++
		})
	}
	return ratio(sum, n)
}

func ratio(sum float64, n int) float64 {
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}
