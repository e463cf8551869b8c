package observe

import (
	"math"
	"time"
)

// What histories count: the last hour's flows most, and estimates only after so many.
const (
	halfLife     = time.Hour
	leastHistory = 30
)

// decay is the weight that is left of something after a while.
func decay(d time.Duration) float64 { return math.Exp2(-float64(max(0, d)) / float64(halfLife)) }

// A history estimates the log of a size: the mean of the logs before.
type history struct {
	flows  int
	weight float64
	mean   float64
	last   time.Time
	errors spread
}

// add judges the estimate by a size that came, and learns from the size afterwards.
func (h *history) add(now time.Time, logSize float64) {
	h.errors.judge(now, h, logSize)
	h.weight = h.weight*decay(now.Sub(h.last)) + 1
	h.mean += (logSize - h.mean) / h.weight
	h.flows++
	h.last = now
}

// A spread is the root of the mean square of errors, the newest counting most.
type spread struct {
	flows          int
	weight, square float64
	last           time.Time
}

// judge adds the error of a history's estimate, if it has one.
func (s *spread) judge(now time.Time, h *history, logSize float64) {
	if h.flows < leastHistory {
		return
	}
	e, kept := logSize-h.mean, decay(now.Sub(s.last))
	s.flows++
	s.last = now
	s.weight = s.weight*kept + 1
	s.square = s.square*kept + e*e
}

// sigma is nil without flows.
func (s *spread) sigma() *float64 {
	if s.flows == 0 {
		return nil
	}
	v := math.Sqrt(s.square / s.weight)
	return &v
}
