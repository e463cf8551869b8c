package mpa

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// A Keeper is an agent whose memory goes through JSON: an agent made alike, that takes
// in what another gave, recommends the same from then on. All agents of this package
// are Keepers.
type Keeper interface {
	Agent
	json.Marshaler
	json.Unmarshaler
}

type timedJSON[T any] struct {
	Time  time.Time `json:"time"`
	Value T         `json:"value"`
}

// MarshalJSON implements [json.Marshaler].
func (t timed[T]) MarshalJSON() ([]byte, error) {
	return json.Marshal(timedJSON[T]{t.time, t.value})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *timed[T]) UnmarshalJSON(data []byte) error {
	var j timedJSON[T]
	err := json.Unmarshal(data, &j)
	t.time, t.value = j.Time, j.Value
	return err
}

// MarshalJSON implements [Keeper]: there is nothing to remember.
func (Static) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

// UnmarshalJSON implements [Keeper].
func (Static) UnmarshalJSON([]byte) error { return nil }

type fallbackJSON struct {
	First  Agent     `json:"first"`
	Second Agent     `json:"second"`
	Spoke  time.Time `json:"spoke,omitzero"`
}

// MarshalJSON implements [Keeper].
func (f *Fallback) MarshalJSON() ([]byte, error) {
	for _, a := range []Agent{f.First, f.Second} {
		if _, ok := a.(Keeper); !ok {
			return nil, fmt.Errorf("%T does not keep its memory", a)
		}
	}
	return json.Marshal(fallbackJSON{f.First, f.Second, f.spoke})
}

// UnmarshalJSON implements [Keeper].
func (f *Fallback) UnmarshalJSON(data []byte) error {
	j := fallbackJSON{First: f.First, Second: f.Second}
	err := json.Unmarshal(data, &j)
	f.spoke = j.Spoke
	return err
}

type pairJSON struct {
	Horizontal Agent `json:"horizontal"`
	Vertical   Agent `json:"vertical"`
}

// MarshalJSON implements [Keeper].
func (p *Pair) MarshalJSON() ([]byte, error) { return json.Marshal(pairJSON{p.horizontal, p.vertical}) }

// UnmarshalJSON implements [Keeper].
func (p *Pair) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &pairJSON{p.horizontal, p.vertical})
}

type hpaJSON struct {
	Wanted  []timed[int32] `json:"wanted,omitempty"`
	Changes []timed[int32] `json:"changes,omitempty"`
	Last    int32          `json:"last"`
	Seen    time.Time      `json:"seen,omitzero"`
	Spoke   bool           `json:"spoke,omitempty"`
}

// MarshalJSON implements [Keeper].
func (h *HPA) MarshalJSON() ([]byte, error) {
	return json.Marshal(hpaJSON{h.wanted, h.changes, h.last, h.seen, h.spoke})
}

// UnmarshalJSON implements [Keeper].
func (h *HPA) UnmarshalJSON(data []byte) error {
	var j hpaJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	h.wanted, h.changes, h.last, h.seen, h.spoke = j.Wanted, j.Changes, j.Last, j.Seen, j.Spoke
	return nil
}

type rateJSON struct {
	HPA  *HPA      `json:"hpa"`
	Rate Metric    `json:"rate,omitzero"`
	Next time.Time `json:"next,omitzero"`
}

// MarshalJSON implements [Keeper].
func (a *RateHPA) MarshalJSON() ([]byte, error) { return json.Marshal(rateJSON{a.hpa, a.rate, a.next}) }

// UnmarshalJSON implements [Keeper].
func (a *RateHPA) UnmarshalJSON(data []byte) error {
	j := rateJSON{HPA: a.hpa}
	err := json.Unmarshal(data, &j)
	a.rate, a.next = j.Rate, j.Next
	return err
}

type vpaJSON struct {
	Containers []usageJSON          `json:"containers"`
	Pods       map[string][]podJSON `json:"pods,omitempty"`
	Changed    time.Time            `json:"changed,omitzero"`
	Requests   []Resources          `json:"requests,omitempty"`
}

type usageJSON struct {
	CPU     *histogram `json:"cpu"`
	Memory  *histogram `json:"memory"`
	First   time.Time  `json:"first,omitzero"`
	Last    time.Time  `json:"last,omitzero"`
	Samples int        `json:"samples"`
}

type podJSON struct {
	CPU       time.Time `json:"cpu,omitzero"`
	Memory    time.Time `json:"memory,omitzero"`
	WindowEnd time.Time `json:"windowEnd,omitzero"`
	Peak      int64     `json:"peak,omitempty"`
	OOM       int64     `json:"oom,omitempty"`
	Killed    time.Time `json:"killed,omitzero"`
	Quick     bool      `json:"quick,omitempty"`
}

// MarshalJSON implements [Keeper].
func (v *VPA) MarshalJSON() ([]byte, error) {
	j := vpaJSON{Pods: map[string][]podJSON{}, Changed: v.changed, Requests: v.requests}
	for _, u := range v.containers {
		j.Containers = append(j.Containers, usageJSON{u.cpu, u.memory, u.first, u.last, u.samples})
	}
	for name, follow := range v.pods {
		list := make([]podJSON, len(follow))
		for i, f := range follow {
			list[i] = podJSON{f.cpu, f.memory, f.windowEnd, f.peak, f.oom, f.killed, f.quick}
		}
		j.Pods[name] = list
	}
	return json.Marshal(j)
}

// UnmarshalJSON implements [Keeper].
func (v *VPA) UnmarshalJSON(data []byte) error {
	var j vpaJSON
	for _, u := range v.containers {
		j.Containers = append(j.Containers, usageJSON{CPU: u.cpu, Memory: u.memory})
	}
	want := len(j.Containers)
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	if len(j.Containers) != want {
		return fmt.Errorf("vpa: memory of %d containers, want %d", len(j.Containers), want)
	}
	for i, u := range j.Containers {
		if u.CPU == nil || u.Memory == nil {
			return fmt.Errorf("vpa: containers[%d] lacks cpu or memory", i)
		}
		v.containers[i] = usageHistory{u.CPU, u.Memory, u.First, u.Last, u.Samples}
	}
	for name, list := range j.Pods {
		if len(list) != want {
			return fmt.Errorf("vpa: pod %s has %d containers, want %d", name, len(list), want)
		}
		follow := make([]podMemory, want)
		for i, f := range list {
			follow[i] = podMemory{f.CPU, f.Memory, f.WindowEnd, f.Peak, f.OOM, f.Killed, f.Quick}
		}
		v.pods[name] = follow
	}
	v.changed, v.requests = j.Changed, j.Requests
	return nil
}

type histogramJSON struct {
	Reference time.Time       `json:"reference,omitzero"`
	Total     float64         `json:"total"`
	Lo        int             `json:"lo"`
	Hi        int             `json:"hi"`
	Weights   map[int]float64 `json:"weights,omitempty"` // by bucket; others are 0
}

// MarshalJSON implements [json.Marshaler].
func (h *histogram) MarshalJSON() ([]byte, error) {
	j := histogramJSON{h.reference, h.total, h.lo, h.hi, map[int]float64{}}
	for i, w := range h.weights {
		if w != 0 {
			j.Weights[i] = w
		}
	}
	return json.Marshal(j)
}

// UnmarshalJSON implements [json.Unmarshaler], in a histogram of the same buckets.
func (h *histogram) UnmarshalJSON(data []byte) error {
	var j histogramJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	n := len(h.weights)
	for i, w := range j.Weights {
		if i < 0 || i >= n || w < 0 {
			return fmt.Errorf("histogram: bucket %d of %d has weight %v", i, n, w)
		}
	}
	if j.Lo < 0 || j.Lo >= n || j.Hi < 0 || j.Hi >= n || j.Total < 0 {
		return fmt.Errorf("histogram: buckets %d … %d of %d, weight %v", j.Lo, j.Hi, n, j.Total)
	}
	clear(h.weights)
	for i, w := range j.Weights {
		h.weights[i] = w
	}
	h.reference, h.total, h.lo, h.hi = j.Reference, j.Total, j.Lo, j.Hi
	return nil
}

type autopilotJSON struct {
	VPA  *VPA             `json:"vpa"`
	HPA  *HPA             `json:"hpa"`
	Load []timed[float64] `json:"load,omitempty"`
}

// MarshalJSON implements [Keeper].
func (a *Autopilot) MarshalJSON() ([]byte, error) {
	return json.Marshal(autopilotJSON{a.vpa, a.horizontal, a.load})
}

// UnmarshalJSON implements [Keeper].
func (a *Autopilot) UnmarshalJSON(data []byte) error {
	j := autopilotJSON{VPA: a.vpa, HPA: a.horizontal}
	err := json.Unmarshal(data, &j)
	a.load = j.Load
	return err
}

type predictiveJSON struct {
	Cost     float64           `json:"cost,omitempty"`
	Slack    float64           `json:"slack"`
	Turned   time.Time         `json:"turned,omitzero"`
	Fewest   int32             `json:"fewest,omitempty"`
	Until    time.Time         `json:"until,omitzero"`
	Vain     int               `json:"vain,omitempty"`
	Jumped   time.Time         `json:"jumped,omitzero"`
	Demand   []timed[float64]  `json:"demand,omitempty"`
	Work     []timed[float64]  `json:"work,omitempty"`
	Filled   []timed[float64]  `json:"filled,omitempty"`
	Slots    map[int]slotJSON  `json:"slots,omitempty"` // of the day, those that were seen
	Slot     int               `json:"slot"`
	Seen     []float64         `json:"seen,omitempty"`
	Memory   []ContainerMemory `json:"memory"`
	Least    [][]timed[int64]  `json:"least"`
	Begun    time.Time         `json:"begun,omitzero"`
	Requests []Resources       `json:"requests,omitempty"`
	Replicas int32             `json:"replicas"`
	Resized  []time.Time       `json:"resized,omitempty"`
	Changed  time.Time         `json:"changed,omitzero"`
}

type slotJSON struct {
	Usual   float64 `json:"usual"`
	Scatter float64 `json:"scatter"`
}

// MarshalJSON implements [Keeper].
func (p *Predictive) MarshalJSON() ([]byte, error) {
	j := predictiveJSON{
		p.cost, p.slack, p.turned, p.fewest, p.until, p.vain, p.jumped, p.demand, p.work, p.filled,
		map[int]slotJSON{},
		p.slot, p.seen, p.memory, p.least, p.begun, p.requests, p.replicas, p.resized, p.changed,
	}
	for i, v := range p.usual {
		if !math.IsNaN(v) {
			j.Slots[i] = slotJSON{v, p.scatter[i]}
		}
	}
	return json.Marshal(j)
}

// UnmarshalJSON implements [Keeper].
func (p *Predictive) UnmarshalJSON(data []byte) error {
	var j predictiveJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	n := len(p.memory)
	switch {
	case j.Slot < -1 || j.Slot >= predictSlots:
		return fmt.Errorf("predictive: slot %d of %d", j.Slot, predictSlots)
	case j.Slack < slackLeast || j.Slack > slackMost:
		return fmt.Errorf("predictive: slack %v is not within %v and %v", j.Slack, slackLeast, slackMost)
	case len(j.Memory) != n || len(j.Least) != n:
		return fmt.Errorf("predictive: memory of %d and %d containers, want %d", len(j.Memory), len(j.Least), n)
	}
	for i, s := range j.Slots {
		if i < 0 || i >= predictSlots {
			return fmt.Errorf("predictive: slot %d of %d", i, predictSlots)
		}
		p.usual[i], p.scatter[i] = s.Usual, s.Scatter
	}
	p.cost, p.slack, p.turned, p.fewest, p.until, p.vain, p.jumped = j.Cost, j.Slack, j.Turned, j.Fewest, j.Until, j.Vain, j.Jumped
	p.demand, p.work, p.filled, p.slot, p.seen = j.Demand, j.Work, j.Filled, j.Slot, j.Seen
	p.memory, p.least, p.begun, p.requests, p.replicas, p.resized, p.changed = j.Memory, j.Least, j.Begun, j.Requests, j.Replicas, j.Resized, j.Changed
	return nil
}
