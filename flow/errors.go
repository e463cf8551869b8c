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

// HalfLife is the time after which an observed flow counts half.
const HalfLife = time.Hour

// lastErrors is the number of newest flows that make most of the weight, so that a source that becomes wrong is
// detected at once and not by the hour.
const lastErrors = 300

// Decay is the remaining weight of something after a while.
func Decay(d time.Duration) float64 { return math.Exp2(-float64(max(0, d)) / float64(HalfLife)) }

// Errors are those of estimates of a size: of its logarithm, over flows that passed the first band. The newest count
// most.
type Errors struct {
	Flows          int
	weight, square float64
	last           time.Time
}

// Add adds an error: the log of a size less that of its estimate. After any silence, as many flows still count as trust
// needs, since a single one means nothing.
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

// Trusted reports whether estimates with these errors may be used for later flows.
func (e *Errors) Trusted() bool {
	sigma := e.Sigma()
	return e.Flows >= TrustAfter && *sigma <= TrustUpTo
}
