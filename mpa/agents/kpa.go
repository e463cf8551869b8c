package agents

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/guard"
)

// Defaults of Knative's autoscaler: pkg/autoscaler/config/config.go of knative.dev/serving
// v0.48.0, the ConfigMap config-autoscaler.
const (
	kpaConcurrency = 100 // requests at once in a pod: container-concurrency-target-default
	kpaRate        = 200 // requests per second and pod: requests-per-second-target-default
	kpaShare       = .7  // of either: container-concurrency-target-percentage
	kpaStable      = 60 * time.Second
	kpaPanic       = kpaStable / 10 // panic-window-percentage
	kpaThreshold   = 2              // times the ready pods: panic-threshold-percentage
	kpaUp          = 1000           // times the ready pods: max-scale-up-rate
	kpaDown        = 2              // max-scale-down-rate
)

// KPAConfig has the settings of Knative's autoscaler that a service may change.
type KPAConfig struct {
	// Rate: requests per second are the metric, not requests at once.
	Rate bool
	// Target of the metric in a pod, of which the autoscaler aims at .7; 0 = the default.
	Target float64
	// Limit is the hard limit, containerConcurrency, and then also the target of requests at
	// once; 0 = unlimited.
	Limit int32
}

// KPA recommends replicas as Knative's Pod Autoscaler does, knative.dev/serving v0.48.0,
// pkg/autoscaler/scaling: ⌈metric ÷ target⌉ over a minute, and in panic over its last tenth
// and never down. Scale to zero is left out: bounds begin at 1.
type KPA struct {
	cfg    KPAConfig
	bounds mpa.Range
	seen   []timed[float64] // the metric
	panics time.Time        // start of the panic; zero = no panic
	most   int32            // replicas wanted in this panic
}

// NewKPA returns an agent without memory.
func NewKPA(t mpa.Target, cfg KPAConfig) *KPA { return &KPA{cfg: cfg, bounds: t.Replicas} }

// target returns the value per pod that the autoscaler aims at.
func (a *KPA) target() float64 {
	switch {
	case a.cfg.Target > 0:
		return kpaShare * a.cfg.Target
	case a.cfg.Rate:
		return kpaShare * kpaRate
	case a.cfg.Limit > 0:
		return kpaShare * float64(a.cfg.Limit)
	}
	return kpaShare * kpaConcurrency
}

// Recommend implements [mpa.Agent].
func (a *KPA) Recommend(o *mpa.Observation) mpa.Recommendation {
	// Requests that wait in the pod's proxy, or before all pods, count as if inside.
	m, what := o.Gates.Inside, "requests at once"
	m.Value += o.Gates.Waiting.Value
	if a.cfg.Rate {
		m, what = o.Gates.Rate, "requests/s"
	}
	first := len(a.seen) == 0
	if n := len(a.seen); m.Known(o.Time, kpaStable) && (n == 0 || a.seen[n-1].time.Before(m.Time)) {
		a.seen = append(a.seen, timed[float64]{m.Time, m.Value})
	}
	a.seen = since(a.seen, o.Time.Add(-kpaStable))
	if len(a.seen) == 0 {
		return noOpinion("kpa", "no gate measures %s", what)
	}
	pods := float64(max(1, ready(o)))
	if first && pods > 1 {
		a.panics, a.most = o.Time, int32(pods) // it begins in panic, as it has no measurements yet
	}
	up, down := math.Ceil(kpaUp*pods), math.Floor(pods/kpaDown)
	within := func(wanted float64) int32 { return int32(min(max(wanted, down), up)) }
	stable, short := math.Ceil(a.mean(o.Time, kpaStable)/a.target()), math.Ceil(a.mean(o.Time, kpaPanic)/a.target())
	switch {
	case short/pods >= kpaThreshold:
		a.panics = o.Time
	case !a.panics.IsZero() && a.panics.Add(kpaStable).Before(o.Time):
		a.panics, a.most = time.Time{}, 0
	}
	want, mode := within(stable), "stable"
	if !a.panics.IsZero() {
		a.most = max(a.most, want, within(short))
		want, mode = a.most, "panic"
	}
	return mpa.Recommendation{
		Replicas: a.bounds.Clamp(want), Limit: a.cfg.Limit, Source: "kpa",
		Reason: fmt.Sprintf("%s: %.4g %s, %.4g in a pod wanted", mode, a.mean(o.Time, kpaStable), what, a.target()),
	}
}

// ready returns the number of pods that take requests.
func ready(o *mpa.Observation) int {
	n := 0
	for i := range o.Pods {
		if p := &o.Pods[i]; p.Ready && !p.Deleting && p.Phase == mpa.Running {
			n++
		}
	}
	return n
}

// mean returns the mean of the metric over a window, or its last value if the window is
// empty.
func (a *KPA) mean(now time.Time, window time.Duration) float64 {
	sum, n := 0.0, 0
	for _, v := range a.seen {
		if v.time.After(now.Add(-window)) {
			sum += v.value
			n++
		}
	}
	if n == 0 {
		return a.seen[len(a.seen)-1].value
	}
	return sum / float64(n)
}

// Shift implements [mpa.Shifter].
func (a *KPA) Shift(d time.Duration) {
	shiftAll(a.seen, d)
	a.panics = guard.Moved(a.panics, d)
}

type kpaJSON struct {
	Seen   []timed[float64] `json:"seen,omitempty"`
	Panics time.Time        `json:"panics,omitzero"`
	Most   int32            `json:"most,omitempty"`
}

// MarshalJSON implements [mpa.Stateful].
func (a *KPA) MarshalJSON() ([]byte, error) { return json.Marshal(kpaJSON{a.seen, a.panics, a.most}) }

// UnmarshalJSON implements [mpa.Stateful].
func (a *KPA) UnmarshalJSON(data []byte) error {
	var j kpaJSON
	err := json.Unmarshal(data, &j)
	a.seen, a.panics, a.most = j.Seen, j.Panics, j.Most
	return err
}
