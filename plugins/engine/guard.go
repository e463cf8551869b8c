package engine

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// Mode says what a policy's ranking is for.
type Mode string

// The modes of a PlacementPolicy.
const (
	Shadow     Mode = "shadow" // computed and compared, of no influence
	CanaryMode Mode = "canary" // decides for a share of the workloads
	Live       Mode = "live"
)

const defaultCanaryPercent = 10

// decider is the role whose policy is asked about a workload, in which mode, and
// whether it decides. The role is empty when none is asked.
func (e *Engine) decider(group string) (role ledger.Role, mode Mode, decides bool) {
	if canary, _ := e.ledger.Policy(ledger.Canary); canary != nil {
		if modeOf(canary) != Shadow && share(group) < percentOf(canary) {
			return ledger.Canary, CanaryMode, true
		}
	}
	primary, _ := e.ledger.Policy(ledger.Primary)
	if primary == nil { // Best-Fit decides; see reason
		return ledger.Primary, Live, true
	}
	switch mode := modeOf(primary); {
	case mode == Shadow:
		return ledger.Primary, mode, false
	case mode == CanaryMode && share(group) >= percentOf(primary):
		return "", mode, false
	default:
		return ledger.Primary, mode, true
	}
}

func modeOf(o *policy.Object) Mode {
	if o.Spec.Mode == "" {
		return Live
	}
	return Mode(o.Spec.Mode)
}

func percentOf(o *policy.Object) int {
	if o.Spec.CanaryPercent == nil {
		return defaultCanaryPercent
	}
	return *o.Spec.CanaryPercent
}

// share is a number from 0 to 99 that stays a workload's.
func share(group string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(group))
	return int(h.Sum32() % 100)
}

// panicked is the panic of a scorer.
type panicked struct{ value any }

func (p panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// reason says why the ranking of a policy does not count; "" when it does.
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
	object, _ := e.ledger.Policy(role)
	know, _ := binpack.ParseKnowledge(object.Spec.Knowledge)
	if know.Forecast() && (e.forecastAt.IsZero() || e.opt.ForecastAge > 0 && e.opt.Now().Sub(e.forecastAt) > e.opt.ForecastAge) {
		return "stale-forecast"
	}
	return ""
}

func reasonText(reason string, cause error) string {
	text := map[string]string{
		"no-policy":      "there is none",
		"panic":          "it failed",
		"not-finite":     "a score is no number",
		"stale-forecast": "the forecast of expected pods is missing or too old",
		"deadline":       "it took longer than the deadline",
		"error":          "it failed",
	}[reason]
	if cause != nil && reason != "no-policy" {
		return fmt.Sprintf("%s (%v).", text, cause)
	}
	return text + "."
}

// Events are rare: a burst of them at first, then one each two seconds.
type limiter struct {
	*rate.Limiter
	now func() time.Time
}

func newLimiter(now func() time.Time) *limiter {
	return &limiter{rate.NewLimiter(rate.Every(2*time.Second), 20), now}
}

// event tells of a pod, if events are not too many.
func (e *Engine) event(pod *v1.Pod, kind, reason, text string) {
	if e.opt.Recorder == nil || !e.limiter.AllowN(e.limiter.now(), 1) {
		return
	}
	e.opt.Recorder.Eventf(pod, nil, kind, reason, "Scheduling", "%s", text)
}
