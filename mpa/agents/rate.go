package agents

import (
	"encoding/json"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/guard"
)

// RateHPA is a horizontal agent by requests per second and pod, as KEDA sets one up with a
// Prometheus trigger: the HorizontalPodAutoscaler sees a rate that is polled every 30 s.
// KEDA's cool-down of 300 s applies only to 0 replicas, which bounds from 1 exclude. Above,
// the HorizontalPodAutoscaler's window, which is as long, applies.
type RateHPA struct {
	hpa  *HPA
	rate mpa.Metric
	next time.Time
}

// ratePoll is KEDA's default polling interval.
const ratePoll = 30 * time.Second

// NewRateHPA returns an agent without memory.
func NewRateHPA(t mpa.Target, perPod float64) *RateHPA {
	cfg := DefaultHPA()
	cfg.Utilisation, cfg.RatePerPod = 0, perPod
	return &RateHPA{hpa: NewHPA(t, cfg)}
}

// Recommend implements [mpa.Agent].
func (a *RateHPA) Recommend(o *mpa.Observation) mpa.Recommendation {
	if !o.Time.Before(a.next) {
		a.rate, a.next = o.Rate, o.Time.Add(ratePoll)
	}
	polled := *o
	polled.Rate = a.rate
	r := a.hpa.Recommend(&polled)
	r.Source = "hpa-rps"
	return r
}

// Shift implements [mpa.Shifter]. The polled rate keeps its time.
func (a *RateHPA) Shift(d time.Duration) {
	a.hpa.Shift(d)
	a.next = guard.Moved(a.next, d)
}

type rateJSON struct {
	HPA  *HPA       `json:"hpa"`
	Rate mpa.Metric `json:"rate,omitzero"`
	Next time.Time  `json:"next,omitzero"`
}

// MarshalJSON implements [mpa.Stateful].
func (a *RateHPA) MarshalJSON() ([]byte, error) { return json.Marshal(rateJSON{a.hpa, a.rate, a.next}) }

// UnmarshalJSON implements [mpa.Stateful].
func (a *RateHPA) UnmarshalJSON(data []byte) error {
	j := rateJSON{HPA: a.hpa}
	err := json.Unmarshal(data, &j)
	a.rate, a.next = j.Rate, j.Next
	return err
}
