package agents

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/guard"
)

// HPAConfig has the settings of the horizontal agent. See the Kubernetes documentation of
// the HorizontalPodAutoscaler, autoscaling/v2.
type HPAConfig struct {
	// Utilisation is the target for cpu, in percent of the requests; 0 = no target.
	Utilisation int32
	// RatePerPod is the target for requests per second and pod; 0 = no target. With both
	// targets, the larger number of replicas counts.
	RatePerPod float64
	// Initialisation is the time after a pod's start during which its cpu counts only if it
	// was measured while the pod was ready; Readiness the longest time to its first
	// readiness.
	Initialisation, Readiness time.Duration
	// MaxAge of a metric.
	MaxAge   time.Duration
	Up, Down Behaviour
}

// A Behaviour limits how fast a number of replicas changes in one direction.
type Behaviour struct {
	// Tolerance is the distance of usage ÷ target from 1, in this direction, up to which nothing changes.
	Tolerance float64
	// Stabilisation is the window whose most cautious recommendation counts.
	Stabilisation time.Duration
	Policies      []Policy
	// Select the policy that changes the most ("Max"), the least ("Min"), or
	// forbid the direction ("Disabled").
	Select string
}

// A Policy allows a change in a period, by a number of pods or by a share of them.
type Policy struct {
	Pods    int32
	Percent int32 // used when Pods is 0
	Period  time.Duration
}

// DefaultHPA returns the default of Kubernetes: 80 % of the cpu requests.
func DefaultHPA() HPAConfig {
	return HPAConfig{
		Utilisation:    80,
		Initialisation: 5 * time.Minute, Readiness: 30 * time.Second, MaxAge: 2 * time.Minute,
		Up: Behaviour{Tolerance: .1, Select: "Max", Policies: []Policy{
			{Percent: 100, Period: 15 * time.Second}, {Pods: 4, Period: 15 * time.Second},
		}},
		Down: Behaviour{Tolerance: .1, Select: "Max", Stabilisation: 5 * time.Minute, Policies: []Policy{
			{Percent: 100, Period: 15 * time.Second},
		}},
	}
}

// At returns the settings with another utilisation, in percent.
func (c HPAConfig) At(percent int32) HPAConfig {
	c.Utilisation = percent
	return c
}

// HPA recommends replicas as the HorizontalPodAutoscaler of Kubernetes 1.36 does:
// ⌈usage ÷ target · pods⌉ with a tolerance, careful assumptions about pods
// without metrics, a stabilisation window and limits on the rate of change.
type HPA struct {
	cfg    HPAConfig
	bounds mpa.Range
	wanted []timed[int32] // recommendations of the longest window
	// changes of the replicas, positive is up; each with the time of the observation before it.
	changes  []timed[int32]
	last     int32     // replicas requested at the last observation; 0 = no observation yet
	seen     time.Time // of the last observation
	answered bool      // it had an opinion then
}

// NewHPA returns a horizontal agent without memory.
func NewHPA(t mpa.Target, cfg HPAConfig) *HPA {
	if t.Stabilisation > 0 {
		cfg.Down.Stabilisation = t.Stabilisation
	}
	return &HPA{cfg: cfg, bounds: t.Replicas}
}

// Recommend implements [mpa.Agent].
func (h *HPA) Recommend(o *mpa.Observation) mpa.Recommendation {
	if h.last != 0 && o.Replicas != h.last {
		h.changes = append(h.changes, timed[int32]{h.seen, o.Replicas - h.last})
	}
	h.last, h.seen = o.Replicas, o.Time
	if o.Replicas == 0 {
		return noOpinion("hpa", "0 replicas: scaled to nothing by its owner")
	}
	want, reason := int32(0), ""
	take := func(n int32, why string) {
		if n > want {
			want, reason = n, why
		}
	}
	var missing error
	if h.cfg.Utilisation > 0 {
		n, utilisation, err := h.ReplicasByCPU(o)
		if err != nil {
			missing = err
		} else {
			take(n, fmt.Sprintf("cpu at %d %% of its requests, %d %% wanted", utilisation, h.cfg.Utilisation))
		}
	}
	if h.cfg.RatePerPod > 0 {
		if !o.Rate.Known(o.Time, h.cfg.MaxAge) {
			missing = fmt.Errorf("the rate of requests is missing or stale")
		} else {
			take(h.byRate(o), fmt.Sprintf("%.4g requests/s, %.4g wanted per pod", o.Rate.Value, h.cfg.RatePerPod))
		}
	}
	// The other metric alone must not shrink a workload: the missing one might have kept it.
	if missing != nil && (want == 0 || want < o.Replicas) {
		h.answered = false
		return noOpinion("hpa", "%v", missing)
	}
	stable := h.stabilise(o, want)
	limited := h.limit(o, stable)
	if limited != want {
		reason += fmt.Sprintf("; %d wanted, %d within window and rate", want, limited)
	}
	return mpa.Recommendation{Replicas: limited, Source: "hpa", Reason: reason}
}

// podUsage is the cpu of one pod in the calculation of replicas.
type podUsage struct{ usage, request int64 }

// ReplicasByCPU returns the number of replicas by utilisation of the cpu requests, and that
// utilisation in percent, before windows, rates and bounds. The error names the metric or
// request that is missing.
func (h *HPA) ReplicasByCPU(o *mpa.Observation) (replicas int32, utilisation int64, err error) {
	var measured []podUsage
	var unready, missing []int64 // requests
	for _, p := range o.Pods {
		if p.Deleting || p.Phase == mpa.Ended {
			continue
		}
		var u podUsage
		known := len(p.Containers) > 0
		var when time.Time
		var window time.Duration
		for _, c := range p.Containers {
			if c.Request.CPU <= 0 {
				return 0, 0, fmt.Errorf("container %s of pod %s has no cpu request", c.Name, p.Name)
			}
			u.request += c.Request.CPU
			u.usage += c.Usage.CPU
			known = known && c.Usage.Known(o.Time, h.cfg.MaxAge)
			when, window = c.Usage.Time, c.Usage.Window
		}
		switch {
		case p.Phase == mpa.Pending:
			unready = append(unready, u.request)
		case !known:
			missing = append(missing, u.request)
		case h.unready(o.Time, &p, when, window):
			unready = append(unready, u.request)
		default:
			measured = append(measured, u)
		}
	}
	if len(measured) == 0 {
		return 0, 0, fmt.Errorf("no pod has a cpu metric that counts")
	}
	ratio, utilisation := h.ratio(measured)
	up := ratio > 1 && len(unready) > 0
	if !up && len(missing) == 0 {
		if h.tolerable(ratio) {
			return o.Replicas, utilisation, nil
		}
		return ceil(ratio * float64(len(measured))), utilisation, nil
	}
	// Pods without metrics are assumed to have the usage that argues against the change.
	for _, request := range missing {
		switch {
		case ratio < 1:
			measured = append(measured, podUsage{request * int64(max(100, h.cfg.Utilisation)) / 100, request})
		case ratio > 1:
			measured = append(measured, podUsage{0, request})
		}
	}
	if up {
		for _, request := range unready {
			measured = append(measured, podUsage{0, request})
		}
	}
	again, _ := h.ratio(measured)
	n := ceil(again * float64(len(measured)))
	turned := ratio < 1 && again > 1 || ratio > 1 && again < 1
	if h.tolerable(again) || turned || again < 1 && n > o.Replicas || again > 1 && n < o.Replicas {
		return o.Replicas, utilisation, nil
	}
	return n, utilisation, nil
}

// unready reports whether the cpu of a running pod does not count: the pod is starting, or
// was measured before it was ready.
func (h *HPA) unready(now time.Time, p *mpa.Pod, when time.Time, window time.Duration) bool {
	switch {
	case p.ReadySince.IsZero() || p.Started.IsZero():
		return true
	case p.Started.Add(h.cfg.Initialisation).After(now):
		return !p.Ready || when.Before(p.ReadySince.Add(window))
	default:
		return !p.Ready && p.Started.Add(h.cfg.Readiness).After(p.ReadySince)
	}
}

// ratio returns utilisation ÷ target, and the utilisation in whole percent.
func (h *HPA) ratio(pods []podUsage) (ratio float64, utilisation int64) {
	var usage, request int64
	for _, p := range pods {
		usage += p.usage
		request += p.request
	}
	utilisation = usage * 100 / request
	return float64(utilisation) / float64(h.cfg.Utilisation), utilisation
}

func (h *HPA) tolerable(ratio float64) bool {
	return ratio >= 1-h.cfg.Down.Tolerance && ratio <= 1+h.cfg.Up.Tolerance
}

// byRate returns the number of replicas by requests per second, an external metric per
// pod.
func (h *HPA) byRate(o *mpa.Observation) int32 {
	if h.tolerable(o.Rate.Value / (h.cfg.RatePerPod * float64(o.Replicas))) {
		return o.Replicas
	}
	return max(1, ceil(o.Rate.Value/h.cfg.RatePerPod))
}

func ceil(v float64) int32 {
	return int32(min(max(bounded.Int(math.Ceil(v)), math.MinInt32), math.MaxInt32))
}

// stabilise returns the most cautious recommendation of the windows. Without one, at the
// beginning and after metrics were missing, the present replicas count as recommended.
func (h *HPA) stabilise(o *mpa.Observation, want int32) int32 {
	h.wanted = since(h.wanted, o.Time.Add(-max(h.cfg.Up.Stabilisation, h.cfg.Down.Stabilisation)))
	if len(h.wanted) == 0 && !h.answered {
		h.wanted = append(h.wanted, timed[int32]{o.Time, o.Replicas})
	}
	low, high := want, want
	for _, w := range h.wanted {
		if w.time.After(o.Time.Add(-h.cfg.Up.Stabilisation)) {
			low = min(low, w.value)
		}
		if w.time.After(o.Time.Add(-h.cfg.Down.Stabilisation)) {
			high = max(high, w.value)
		}
	}
	h.wanted, h.answered = append(h.wanted, timed[int32]{o.Time, want}), true
	return min(high, max(low, o.Replicas))
}

// limit applies bounds and rates of change.
func (h *HPA) limit(o *mpa.Observation, want int32) int32 {
	longest := time.Duration(0)
	for _, b := range []Behaviour{h.cfg.Up, h.cfg.Down} {
		for _, p := range b.Policies {
			longest = max(longest, p.Period)
		}
	}
	h.changes = since(h.changes, o.Time.Add(-longest))
	switch {
	case want > o.Replicas:
		most := max(o.Replicas, h.reach(o, h.cfg.Up, +1))
		want = min(want, most)
	case want < o.Replicas:
		least := min(o.Replicas, h.reach(o, h.cfg.Down, -1))
		want = max(want, least)
	}
	return h.bounds.Clamp(want)
}

// reach returns the number of replicas that a behaviour allows in its direction.
func (h *HPA) reach(o *mpa.Observation, b Behaviour, sign int32) int32 {
	if b.Select == "Disabled" || len(b.Policies) == 0 {
		return o.Replicas
	}
	far := int32(0)
	for i, p := range b.Policies {
		begin := o.Replicas // of the period
		for _, c := range h.changes {
			if c.time.After(o.Time.Add(-p.Period)) {
				begin -= c.value
			}
		}
		to := begin + sign*p.Pods
		if p.Pods == 0 {
			share := float64(begin) * (1 + float64(sign)*float64(p.Percent)/100)
			if to = ceil(math.Trunc(share)); sign > 0 {
				to = ceil(share)
			}
		}
		if i == 0 || (sign*to > sign*far) == (b.Select != "Min") {
			far = to
		}
	}
	return far
}

// Shift implements [mpa.Shifter].
func (h *HPA) Shift(d time.Duration) {
	h.seen = guard.Moved(h.seen, d)
	shiftAll(h.wanted, d)
	shiftAll(h.changes, d)
}

type hpaJSON struct {
	Wanted   []timed[int32] `json:"wanted,omitempty"`
	Changes  []timed[int32] `json:"changes,omitempty"`
	Last     int32          `json:"last"`
	Seen     time.Time      `json:"seen,omitzero"`
	Answered bool           `json:"spoke,omitempty"`
}

// MarshalJSON implements [mpa.Stateful].
func (h *HPA) MarshalJSON() ([]byte, error) {
	return json.Marshal(hpaJSON{h.wanted, h.changes, h.last, h.seen, h.answered})
}

// UnmarshalJSON implements [mpa.Stateful].
func (h *HPA) UnmarshalJSON(data []byte) error {
	var j hpaJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	h.wanted, h.changes, h.last, h.seen, h.answered = j.Wanted, j.Changes, j.Last, j.Seen, j.Answered
	return nil
}
