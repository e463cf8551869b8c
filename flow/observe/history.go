package observe

import (
	"time"

	"github.com/sigma-scheduler/sigma/flow"
)

// What histories count: the last hour's flows most, and estimates only after so many.
const (
	halfLife     = flow.HalfLife
	leastHistory = flow.TrustAfter
)

// A history estimates the log of a size: the mean of the logs before.
type history struct {
	flows  int
	weight float64
	mean   float64
	last   time.Time
	errors flow.Errors
}

// add judges the estimate by a size that came, and learns from the size afterwards.
func (h *history) add(now time.Time, logSize float64) {
	h.judge(now, &h.errors, logSize)
	h.weight = h.weight*flow.Decay(now.Sub(h.last)) + 1
	h.mean += (logSize - h.mean) / h.weight
	h.flows++
	h.last = now
}

// judge adds the error of the history's estimate, if it has one.
func (h *history) judge(now time.Time, to *flow.Errors, logSize float64) {
	if h.flows >= leastHistory {
		to.Add(now, logSize-h.mean)
	}
}
