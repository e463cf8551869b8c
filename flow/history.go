package flow

import (
	"time"
)

// A History estimates the log of a size: the mean of the logs before. What was seen an hour ago counts half. The zero value is empty.
type History struct {
	Flows  int
	Mean   float64
	weight float64
	last   time.Time
}

// Add learns from the log of a size.
func (h *History) Add(now time.Time, logSize float64) {
	h.weight = h.weight*Decay(now.Sub(h.last)) + 1
	h.Mean += (logSize - h.Mean) / h.weight
	h.Flows++
	h.last = now
}

// Judge adds the error of the estimate, if there were enough flows for one.
func (h *History) Judge(now time.Time, to *Errors, logSize float64) {
	if h.Flows >= TrustAfter {
		to.Add(now, logSize-h.Mean)
	}
}

// Silent is how long nothing was learned.
func (h *History) Silent(now time.Time) time.Duration { return now.Sub(h.last) }
