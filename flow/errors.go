package flow

import (
	"math"
	"time"
)

// When a source of sizes is trusted.
const (
	TrustAfter = 30 // flows
	TrustUpTo  = 1. // deviation of the log of the size
)

// HalfLife is after what time a flow that was seen counts half.
const HalfLife = time.Hour

// lastErrors is how many flows count for most, so that a source that goes wrong is found out at once and not by the hour.
const lastErrors = 300

// Decay is the weight that is left of something after a while.
func Decay(d time.Duration) float64 { return math.Exp2(-float64(max(0, d)) / float64(HalfLife)) }

// Errors are those of estimates of a size: of its logarithm, over flows that went beyond the first band. The newest count most.
type Errors struct {
	Flows          int
	weight, square float64
	last           time.Time
}

// Add takes an error: the log of a size less that of its estimate. However long nothing came, as many flows count as trust wants:
// one alone says nothing.
func (e *Errors) Add(now time.Time, err float64) {
	kept := min(max(Decay(now.Sub(e.last)), TrustAfter/e.weight), 1-1./lastErrors)
	e.Flows++
	e.last = now
	e.weight = e.weight*kept + 1
	e.square = e.square*kept + err*err
}

// Sigma is the root of their mean square, nil without flows.
func (e *Errors) Sigma() *float64 {
	if e.Flows == 0 {
		return nil
	}
	v := math.Sqrt(e.square / e.weight)
	return &v
}

// Trusted reports whether what they are of may be used for flows to come.
func (e *Errors) Trusted() bool {
	sigma := e.Sigma()
	return e.Flows >= TrustAfter && *sigma <= TrustUpTo
}
