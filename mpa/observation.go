package mpa

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa/guard"
)

// A Metric is one measured number. The zero value stands for none.
type Metric struct {
	Value float64   `json:"value"`
	Time  time.Time `json:"time,omitzero"` // end of the window that it was measured over
}

type metricJSON struct {
	Value any       `json:"value"` // a number, or one of "NaN", "+Inf" and "-Inf"
	Time  time.Time `json:"time,omitzero"`
}

// MarshalJSON also writes NaN and infinite values: a log keeps what was measured.
func (m Metric) MarshalJSON() ([]byte, error) {
	j := metricJSON{m.Value, m.Time}
	if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
		j.Value = fmt.Sprintf("%+v", m.Value)
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (m *Metric) UnmarshalJSON(data []byte) error {
	var j metricJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	m.Time = j.Time
	switch v := j.Value.(type) {
	case float64:
		m.Value = v
		return nil
	case string:
		if special, ok := map[string]float64{"NaN": math.NaN(), "+Inf": math.Inf(1), "-Inf": math.Inf(-1)}[v]; ok {
			m.Value = special
			return nil
		}
	}
	return fmt.Errorf("metric value %v: want a number, NaN, +Inf or -Inf", j.Value)
}

// Known reports whether there is a number whose time lies within maxAge of now, before or
// after.
func (m Metric) Known(now time.Time, maxAge time.Duration) bool {
	return guard.Freshness(maxAge).Known(m.Time, now)
}

// Usage of a container, averaged over a window. The zero value stands for none.
type Usage struct {
	Resources
	Time   time.Time     `json:"time,omitzero"` // end of the window
	Window time.Duration `json:"windowNanoseconds,omitempty"`
}

// Known reports whether there is a usage whose time lies within maxAge of now.
func (u Usage) Known(now time.Time, maxAge time.Duration) bool {
	return Metric{Time: u.Time}.Known(now, maxAge)
}

// A Phase of a pod.
type Phase string

// The phases that matter here. A pod that succeeded or failed is Ended.
const (
	Pending Phase = "Pending"
	Running Phase = "Running"
	Ended   Phase = "Ended"
)

// A Resize is the state of an in-place resize of a pod.
type Resize string

// The states that the kubelet reports: no resize, under way, waiting for room on the node,
// or more than the node can ever give.
const (
	NoResize   Resize = ""
	InProgress Resize = "InProgress"
	Deferred   Resize = "Deferred"
	Infeasible Resize = "Infeasible"
)

// A Container of a pod.
type Container struct {
	Name    string    `json:"name"`
	Request Resources `json:"request"`         // asked for in the pod's spec
	Actual  Resources `json:"actual,omitzero"` // in force, from the pod's status
	Usage   Usage     `json:"usage,omitzero"`
	// Killed is when the container last ran out of memory; zero = never.
	Killed time.Time `json:"killed,omitzero"`
}

// A Pod of the workload.
type Pod struct {
	Name     string    `json:"name"`
	Phase    Phase     `json:"phase"`
	Deleting bool      `json:"deleting,omitempty"`
	Started  time.Time `json:"started,omitzero"` // zero = not yet
	// Ready is the pod's condition; ReadySince its last change, zero = the pod has
	// no such condition.
	Ready       bool        `json:"ready,omitempty"`
	ReadySince  time.Time   `json:"readySince,omitzero"`
	Containers  []Container `json:"containers"`
	Resize      Resize      `json:"resize,omitempty"`
	ResizeSince time.Time   `json:"resizeSince,omitzero"`
}

// An Observation is what is known of a workload at one time.
type Observation struct {
	Time     time.Time `json:"time"`
	Replicas int32     `json:"replicas"` // asked for in the workload's spec
	Pods     []Pod     `json:"pods"`     // by name
	// Rate is arriving requests per second, over all pods; Latency the SLO's
	// percentile in seconds; Throughput answered requests per second.
	Rate       Metric `json:"rate,omitzero"`
	Latency    Metric `json:"latency,omitzero"`
	Throughput Metric `json:"throughput,omitzero"`
}

// Live returns the pods that serve or will serve. Callers must not change them.
func (o *Observation) Live() []Pod {
	gone := func(p Pod) bool { return p.Deleting || p.Phase == Ended }
	if !slices.ContainsFunc(o.Pods, gone) {
		return o.Pods
	}
	return slices.DeleteFunc(slices.Clone(o.Pods), gone)
}

// Requests returns the requests of the newest live pod, in the order of the target's
// containers; nil when no pod has all of them.
func (o *Observation) Requests(t *Target) []Resources {
	var newest *Pod
	live := o.Live()
	for i := range live {
		if p := &live[i]; newest == nil || p.Started.After(newest.Started) {
			newest = p
		}
	}
	if newest == nil {
		return nil
	}
	list := make([]Resources, len(t.Containers))
	for i, spec := range t.Containers {
		found := false
		for _, c := range newest.Containers {
			if c.Name == spec.Name {
				list[i], found = c.Request, true
			}
		}
		if !found {
			return nil
		}
	}
	return list
}
