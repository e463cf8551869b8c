package phases

import (
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/sigma-scheduler/sigma/mpa"
)

const (
	maxAge = 2 * time.Minute
	// samples of a window at most, and the least time between two.
	samples    = 360
	leastSpace = time.Second
	// answered ÷ asked for below which cpu is spent on a backlog and on retries, too.
	answered = .95
)

// A Window holds the observations of some time, in steps of equal length.
type Window []Sample

// A Sample is the last observation of a step with a rate.
type Sample struct {
	Time time.Time `json:"time"`
	// Rate of requests per second.
	Rate float64 `json:"rate"`
	// Cores in use, and seconds of latency at the promised percentile; 0 = unknown, or the
	// promise was not kept or not all was answered.
	Cores   float64 `json:"cores,omitempty"`
	Latency float64 `json:"latency,omitempty"`
	// Memory is the largest of a pod.
	Memory int64 `json:"memory,omitempty"`
	// Replicas, and the request of each of them in all sized containers.
	Replicas int32         `json:"replicas"`
	Request  mpa.Resources `json:"request"`
}

// space returns the time between two samples.
func space(window time.Duration) time.Duration { return max(leastSpace, window/samples) }

// with returns the window with an observation, and without those from before it.
func (w Window) with(o *mpa.Observation, t *mpa.Target, window time.Duration) Window {
	requests := o.Requests(t)
	// NaN and negative rates count as unknown.
	if requests == nil || !o.Rate.Known(o.Time, maxAge) || !(o.Rate.Value >= 0 && o.Rate.Value < 1e9) {
		return w
	}
	s := Sample{Time: o.Time, Rate: o.Rate.Value, Replicas: o.Replicas}
	for _, r := range requests {
		s.Request = s.Request.Add(r)
	}
	cores, pods := 0.0, 0
	for i := range o.Pods {
		p := &o.Pods[i]
		if p.Deleting || p.Phase == mpa.Ended {
			continue
		}
		var sum mpa.Resources
		known := false
		for k := range p.Containers {
			c := &p.Containers[k]
			if slices.ContainsFunc(t.Containers, func(spec mpa.ContainerSpec) bool { return spec.Name == c.Name }) && c.Usage.Known(o.Time, maxAge) {
				sum, known = sum.Add(c.Usage.Resources), true
			}
		}
		if known {
			cores, pods = cores+float64(sum.CPU)/1000, pods+1
		}
		s.Memory = max(s.Memory, sum.Memory)
	}
	late := !o.Latency.Known(o.Time, maxAge) || !(o.Latency.Value > 0 && o.Latency.Value <= t.SLO.Latency)
	lost := o.Throughput.Known(o.Time, maxAge) && !(o.Throughput.Value >= answered*o.Rate.Value)
	if pods > 0 && !late && !lost {
		s.Cores, s.Latency = cores, o.Latency.Value
	}
	step := space(window)
	if n := len(w); n > 0 && s.Time.Truncate(step).Equal(w[n-1].Time.Truncate(step)) {
		w[n-1] = s
	} else {
		w = append(w, s)
	}
	old := 0
	for s.Time.Sub(w[old].Time) >= window {
		old++
	}
	return slices.Delete(w, 0, old)
}

// work returns the cores that the window's highest rate needs, 0 = unknown.
func (w Window) work() float64 {
	var each []float64
	most := 0.0
	for i := range w {
		s := &w[i]
		most = max(most, s.Rate)
		if s.Cores > 0 && s.Rate > 0 {
			each = append(each, s.Cores/s.Rate)
		}
	}
	if each == nil {
		return 0
	}
	slices.Sort(each)
	return most * stat.Quantile(.5, stat.Empirical, each, nil)
}
