package stack

import (
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/usage"
)

// ByUse sizes each workload by its use of the days before, as the algorithm usage of a MultidimPodAutoscaler: once a
// night, where the size differs by a tenth or more. Memory limits stay.
type ByUse struct {
	sizes   *sized.Sizes
	demands [][]int64
	night   float64
}

// leastChange is the least relative change of a size.
const leastChange = .1

// NewByUse reads the usage of a trace as the history.
func NewByUse(t *trace.Trace, u *trace.Usage) (*ByUse, error) {
	sizes, err := sized.New(t, u, usage.LeastDays)
	return &ByUse{sizes: sizes, night: math.Inf(-1)}, err
}

// Sample implements [Sizer]: the history has all samples.
func (b *ByUse) Sample(float64, int32, int32, float64, float64) {}

// Killed implements [Sizer].
func (b *ByUse) Killed(float64, int32, int32) {}

// Demand implements [Sizer].
func (b *ByUse) Demand(at float64, app int32, present []int64) []int64 {
	if night := day * math.Floor(at/day); night != b.night {
		b.night, b.demands = night, b.sizes.Demands(night)
	}
	demand := b.demands[app]
	differs := func(d int) bool {
		return math.Abs(float64(demand[d]-present[d])) >= leastChange*float64(present[d])
	}
	if slices.ContainsFunc(dimensions(demand), differs) {
		return demand
	}
	return nil
}

// ScalesLimits implements [Sizer].
func (b *ByUse) ScalesLimits() bool { return false }

// Evicts implements [Sizer]: moves are those of [Fit].
func (b *ByUse) Evicts() bool { return false }
