package engine

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

const defaultCanaryPercent = 10

// decider returns the role of the policy that ranks for a workload, its mode, and whether the
// ranking decides. The role is empty when no policy ranks.
func (e *Engine) decider(group string) (role ledger.Role, mode policy.Mode, decides bool) {
	if canary, _ := e.state.ledger.Policy(ledger.Canary); canary != nil {
		if modeOf(canary) != policy.Shadow && share(group) < percentOf(canary) {
			return ledger.Canary, policy.Canary, true
		}
	}
	primary, _ := e.state.ledger.Policy(ledger.Primary)
	if primary == nil { // Best-Fit decides; see reason
		return ledger.Primary, policy.Live, true
	}
	switch mode := modeOf(primary); {
	case mode == policy.Shadow:
		return ledger.Primary, mode, false
	case mode == policy.Canary && share(group) >= percentOf(primary):
		return "", mode, false
	default:
		return ledger.Primary, mode, true
	}
}

func modeOf(o *policy.Object) policy.Mode { return cmp.Or(o.Spec.Mode, policy.DefaultMode) }

func percentOf(o *policy.Object) int {
	if o.Spec.CanaryPercent == nil {
		return defaultCanaryPercent
	}
	return *o.Spec.CanaryPercent
}

// share returns a number from 0 to 99, always the same for a workload.
func share(group string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(group))
	return int(h.Sum32() % 100)
}

// reason returns the reason why the ranking of a policy does not count; "" when it counts.
func (e *Engine) reason(role ledger.Role, err error) string {
	var p panicked
	switch {
	case errors.Is(err, ledger.ErrNoPolicy):
		return "no-policy"
	case errors.As(err, &p):
		return "panic"
	case errors.Is(err, binpack.ErrNotFinite):
		return "not-finite"
	case err != nil:
		return "error"
	}
	if e.state.ledger.Knowledge(role).Forecast() && (e.state.forecastAt.IsZero() || e.opt.ForecastAge > 0 && e.opt.Now().Sub(e.state.forecastAt) > e.opt.ForecastAge) {
		return "stale-forecast"
	}
	return ""
}

func reasonText(reason string, cause error) string {
	text := map[string]string{
		"no-policy":      "there is none",
		"panic":          "it failed",
		"not-finite":     "a score is not a number",
		"stale-forecast": "the forecast of expected pods is missing or too old",
		"deadline":       "it took longer than the deadline",
		"error":          "it failed",
	}[reason]
	if cause != nil && reason != "no-policy" {
		return fmt.Sprintf("%s (%v).", text, cause)
	}
	return text + "."
}
