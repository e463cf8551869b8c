package mpa

import "time"

// RateHPA is a horizontal agent by requests per second and pod, as KEDA sets one up
// with a Prometheus trigger: the HorizontalPodAutoscaler sees a rate that is asked for
// every 30 s. KEDA's cool-down of 300 s is for the way to 0 replicas, which bounds
// from 1 exclude; the way down to 1 waits for the HorizontalPodAutoscaler's window of
// as long.
type RateHPA struct {
	hpa  *HPA
	rate Metric
	next time.Time
}

// ratePoll is KEDA's default polling interval.
const ratePoll = 30 * time.Second

// NewRateHPA is an agent that has seen nothing.
func NewRateHPA(t Target, perPod float64) *RateHPA {
	cfg := DefaultHPA()
	cfg.Utilisation, cfg.RatePerPod = 0, perPod
	return &RateHPA{hpa: NewHPA(t, cfg)}
}

// Recommend implements [Agent].
func (a *RateHPA) Recommend(o *Observation) Recommendation {
	if !o.Time.Before(a.next) {
		a.rate, a.next = o.Rate, o.Time.Add(ratePoll)
	}
	polled := *o
	polled.Rate = a.rate
	r := a.hpa.Recommend(&polled)
	r.Source = "hpa-rps"
	return r
}
