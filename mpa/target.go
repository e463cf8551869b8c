package mpa

import (
	"fmt"
	"slices"
	"time"
)

// A Target is the promise of a workload, and the bounds of its size.
type Target struct {
	SLO        SLO             `json:"slo"`
	Replicas   Range           `json:"replicas"`
	Containers []ContainerSpec `json:"containers"`
	// Limit bounds the number of requests that a pod works on at once; the zero value = no
	// gate could apply it.
	Limit Range `json:"limit,omitzero"`
	// Stabilisation: scale down only after the lower count has been enough for this long;
	// 0 = the agent's own default.
	Stabilisation time.Duration `json:"stabilisationNanoseconds,omitempty"`
	// Off: the controller recommends and never acts.
	Off bool `json:"off,omitempty"`
	// Newest: the present size is that of the newest pod, as it was when journals had
	// format 1 or 2.
	Newest bool `json:"-"`
}

// An SLO is the promise of a workload. A zero part promises nothing.
type SLO struct {
	// Percentile of latency, 0 … 100, and its upper limit in seconds.
	Percentile float64 `json:"percentile,omitempty"`
	Latency    float64 `json:"latency,omitempty"`
	// Throughput that must be answered while it is demanded, in requests per second.
	Throughput float64 `json:"throughput,omitempty"`
}

// A Range of replicas or of limits, both ends included.
type Range struct {
	Min int32 `json:"min"`
	Max int32 `json:"max"`
}

// Clamp returns the nearest number in the range.
func (r Range) Clamp(n int32) int32 { return min(r.Max, max(r.Min, n)) }

// A ContainerSpec is the bounds of one container.
type ContainerSpec struct {
	Name string `json:"name"`
	// Min and Max of its requests; a Max of 0 has no limit.
	Min Resources `json:"min"`
	Max Resources `json:"max"`
	// CPU and Memory: whether these requests may be changed.
	CPU    bool `json:"cpu"`
	Memory bool `json:"memory"`
}

// Clamp returns the nearest size within the bounds.
func (c ContainerSpec) Clamp(r Resources) Resources {
	r = r.Max(c.Min)
	if c.Max.CPU > 0 {
		r.CPU = min(r.CPU, c.Max.CPU)
	}
	if c.Max.Memory > 0 {
		r.Memory = min(r.Memory, c.Max.Memory)
	}
	return r
}

// Validate reports the first thing that is wrong with a target.
func (t *Target) Validate() error {
	switch s := t.SLO; {
	case !(s.Percentile >= 0 && s.Percentile < 100):
		return fmt.Errorf("slo.percentile %v: want 0 to below 100", s.Percentile)
	case !(s.Latency >= 0) || !(s.Throughput >= 0):
		return fmt.Errorf("slo.latency %v, slo.throughput %v: want at least 0", s.Latency, s.Throughput)
	case (s.Percentile > 0) != (s.Latency > 0):
		return fmt.Errorf("slo: percentile and latency go together")
	}
	if r := t.Replicas; r.Min < 1 || r.Max < r.Min {
		return fmt.Errorf("replicas %d … %d: want 1 ≤ min ≤ max", r.Min, r.Max)
	}
	if r := t.Limit; r != (Range{}) && (r.Min < 1 || r.Max < r.Min) {
		return fmt.Errorf("limit %d … %d: want 1 ≤ min ≤ max", r.Min, r.Max)
	}
	if t.Stabilisation < 0 {
		return fmt.Errorf("stabilisation %v: want at least 0", t.Stabilisation)
	}
	for i, c := range t.Containers {
		switch {
		case c.Name == "":
			return fmt.Errorf("containers[%d].name is empty", i)
		case slices.ContainsFunc(t.Containers[:i], func(o ContainerSpec) bool { return o.Name == c.Name }):
			return fmt.Errorf("containers[%d].name %q is listed twice", i, c.Name)
		case c.Min.CPU < 0 || c.Min.Memory < 0:
			return fmt.Errorf("containers[%d].min is negative", i)
		case c.Max.CPU != 0 && c.Max.CPU < c.Min.CPU || c.Max.Memory != 0 && c.Max.Memory < c.Min.Memory:
			return fmt.Errorf("containers[%d].max is below its min", i)
		}
	}
	return nil
}

// MayHave reports whether a pod may have that many cores: the agent sizes the cpu of all
// containers, and the sum of their bounds allows it.
func (t *Target) MayHave(cores float64) bool {
	var low, high int64
	free := false
	for _, c := range t.Containers {
		low += c.Min.CPU
		high += c.Max.CPU
		free = free || c.Max.CPU == 0
		if !c.CPU {
			return false
		}
	}
	return cores*1000 >= float64(low) && (free || cores*1000 <= float64(high))
}
