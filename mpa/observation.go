package mpa

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa/guard"
)

// A Metric is one measured number. The zero value is a missing one.
type Metric struct {
	Value float64   `json:"value"`
	Time  time.Time `json:"time,omitzero"` // end of the window that it was measured over
}

type metricJSON struct {
	Value any       `json:"value"` // a number, or one of "NaN", "+Inf" and "-Inf"
	Time  time.Time `json:"time,omitzero"`
}

// MarshalJSON also writes NaN and infinite values: a log keeps the measured values.
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

// Usage of a container, averaged over a window. The zero value is a missing one.
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
	Actual  Resources `json:"actual,omitzero"` // active, from the pod's status
	Usage   Usage     `json:"usage,omitzero"`
	// MemoryLimit in bytes, by the pod's spec; 0 = unlimited.
	MemoryLimit int64 `json:"memoryLimit,omitempty"`
	// Killed is the last time at which the container ran out of memory; zero = never.
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

// An Observation is the measured state of a workload at one time.
type Observation struct {
	Time     time.Time `json:"time"`
	Replicas int32     `json:"replicas"` // asked for in the workload's spec
	Pods     []Pod     `json:"pods"`     // by name
	// Rate is arriving requests per second, over all pods; Latency the SLO's
	// percentile in seconds; Throughput answered requests per second.
	Rate       Metric `json:"rate,omitzero"`
	Latency    Metric `json:"latency,omitzero"`
	Throughput Metric `json:"throughput,omitzero"`
	// Gates holds the measurements of the gates before the pods; zero = there are no gates.
	Gates Gates `json:"gates,omitzero"`
	// Use over a long time, for agents that size by it; nil = not observed.
	Use *Use `json:"use,omitempty"`
}

// Gates holds the measurements of the gates before all pods.
type Gates struct {
	// Window before its time that each mean covers; 0 = since the measurement before.
	Window time.Duration `json:"windowNanoseconds,omitempty"`
	// Limit that is active: requests that a pod works on at once; 0 = any number.
	Limit int32 `json:"limit,omitempty"`
	// Inside is the mean number of requests in all pods, Waiting that of those before them.
	Inside  Metric `json:"inside,omitzero"`
	Waiting Metric `json:"waiting,omitzero"`
	// Rate of arriving requests per second, and of those that a pod Failed or took along when
	// it died.
	Rate   Metric `json:"rate,omitzero"`
	Failed Metric `json:"failed,omitzero"`
}

// Live returns the pods that serve or will serve. Callers must not change them.
func (o *Observation) Live() []Pod {
	gone := func(p Pod) bool { return p.Deleting || p.Phase == Ended }
	if !slices.ContainsFunc(o.Pods, gone) {
		return o.Pods
	}
	return slices.DeleteFunc(slices.Clone(o.Pods), gone)
}

// Requests returns the present requests in the order of the target's containers: of each,
// the most frequent among ready pods, or among all live ones while none is ready. Of
// equally frequent ones those of the newest pod count. They are nil when a container is in
// no pod. One pod may differ: a LimitRange capped it, or it was created without its size.
func (o *Observation) Requests(t *Target) []Resources {
	pods := o.Live()
	if ready := slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return p.Phase != Running || !p.Ready }); len(ready) > 0 {
		pods = ready
	}
	if t.Newest {
		pods = newest(o.Live())
	}
	return requestsOf(pods, t)
}

func requestsOf(pods []Pod, t *Target) []Resources {
	list := make([]Resources, len(t.Containers))
	for i, spec := range t.Containers {
		var ok bool
		if list[i], ok = mostFrequent(pods, spec.Name); !ok {
			return nil
		}
	}
	return list
}

// newest returns the pod that started last, if there is one.
func newest(pods []Pod) []Pod {
	last := 0
	for i := range pods {
		if pods[i].Started.After(pods[last].Started) {
			last = i
		}
	}
	return pods[min(last, len(pods)):min(last+1, len(pods))]
}

// mostFrequent returns the requests that most pods have for a container; ok is false if
// no pod has it.
func mostFrequent(pods []Pod, container string) (most Resources, ok bool) {
	type group struct {
		pods int
		last time.Time // start of the newest
	}
	groups := map[Resources]group{}
	var best group
	for i := range pods {
		for _, c := range pods[i].Containers {
			if c.Name != container {
				continue
			}
			g := groups[c.Request]
			if g.pods++; g.pods == 1 || pods[i].Started.After(g.last) {
				g.last = pods[i].Started
			}
			groups[c.Request] = g
			if !ok || g.pods > best.pods || g.pods == best.pods && g.last.After(best.last) {
				most, best, ok = c.Request, g, true
			}
		}
	}
	return most, ok
}
