package sim

import (
	"math"

	"github.com/sigma-scheduler/sigma/mpa"
)

const (
	// allowedUse is the share of the error budget that is free: the other half is a reserve
	// for conditions that the simulated loads do not have.
	allowedUse = .5
	// brokenPrice is the price of each e-fold of use above it. A promise that is just broken
	// costs 1.04 times as much as the reference, so no saving pays for it.
	brokenPrice = 1.5
	killPrice   = .5
)

// Used returns the share of the forgiven requests that were late or lost.
func (r *Result) Used(slo mpa.SLO) float64 {
	return float64(r.Violations) / (float64(max(1, r.Requests)) * (1 - slo.Percentile/100))
}

// Objective returns the cost ÷ that of a reference in the same scenario, and a price without
// a cap for breaches beyond it. Lower is better; the reference has 1.
func (r *Result) Objective(slo mpa.SLO, reference *Result) float64 {
	p := r.Cost() / reference.Cost()
	if over := r.Used(slo) - max(allowedUse, reference.Used(slo)); over > 0 {
		p += brokenPrice * math.Log1p(over/allowedUse)
	}
	if more := r.Kills + r.Evictions - reference.Kills - reference.Evictions; more > 0 {
		p += killPrice * (1 + math.Log(float64(more)))
	}
	return p
}

// ObjectiveSettings are the constants of [Result.Objective], for a checkpoint of a search.
func ObjectiveSettings() []float64 { return []float64{allowedUse, brokenPrice, killPrice} }
