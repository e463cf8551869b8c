package learned

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/guard"
)

// Agent sizes a workload by a policy.
type Agent struct {
	// Ahead, if set, returns the largest future rates: until more pods could exist, and for
	// as long as a shrink holds. They replace the expected demand.
	Ahead func(now time.Time) (soon, later float64)
	// Forecast, if set, returns predictions of both: soon is expected in addition to the
	// demand by the rules, later replaces the largest need of holdSeconds. 0 = no opinion.
	Forecast func(now time.Time) (soon, later float64)

	target mpa.Target
	v      Values
	s      state
	now    time.Time // of the observation
}

// state is the memory of an agent.
type state struct {
	Begun time.Time `json:"begun,omitzero"`
	// First is the first size of the pods, in cores.
	First float64 `json:"first"`
	// Cost of a request in core-seconds; 0 = unknown.
	Cost float64 `json:"cost,omitempty"`
	// Fresh counts measurements since the workload changed, while they weigh more; 0 = no change.
	Fresh int `json:"fresh,omitempty"`
	// Watches for such changes.
	Watches watches `json:"watches"`
	// Demand in cores of the last minutes, its maxima, and those of the need.
	Recent []sample `json:"recent,omitempty"`
	Ten    maxima   `json:"ten,omitempty"`
	Hour   maxima   `json:"hour,omitempty"`
	Held   maxima   `json:"held,omitempty"`
	// Usual demand by slot of the day, and the largest of the present slot.
	Usual map[int]float64 `json:"usual,omitempty"`
	Slot  int             `json:"slot"`
	Seen  float64         `json:"seen"`
	// Beta is the slack; Up and Down its last steps; Vain, steps up that did not help, and
	// Before, the slack before them.
	Beta   float64   `json:"beta"`
	Up     time.Time `json:"up,omitzero"`
	Down   time.Time `json:"down,omitzero"`
	Vain   int       `json:"vain,omitempty"`
	Before float64   `json:"before,omitempty"`
	// Late and Asked give the share of the error budget that is spent: both forget.
	Late  float64 `json:"late"`
	Asked float64 `json:"asked"`
	// Filled is the need ÷ the cores of the pods, its maxima and those of its negative.
	Filled maxima `json:"filled,omitempty"`
	Empty  maxima `json:"empty,omitempty"`
	// Short is the rate per pod at which something other than cpu ran short, until a time.
	Short      float64   `json:"short,omitempty"`
	ShortUntil time.Time `json:"shortUntil,omitzero"`
	// Memory by container, and the largest work per pod of an hour, in cores.
	Memory []memory `json:"memory"`
	Work   maxima   `json:"work,omitempty"`
	// Requests and Replicas of the last observation, and their changes.
	Requests []mpa.Resources `json:"requests,omitempty"`
	Replicas int32           `json:"replicas"`
	Changed  time.Time       `json:"changed,omitzero"`
	CPU      []time.Time     `json:"cpu,omitempty"`
	Other    []time.Time     `json:"other,omitempty"`
	Scaled   []time.Time     `json:"scaled,omitempty"`
	// Wants is the time since when larger pods were recommended but not created.
	Wants time.Time `json:"wants,omitzero"`
	// Unsure is the last time at which metrics were missing or old.
	Unsure time.Time `json:"unsure,omitzero"`
	// Shrunk is the time and the demand of the last shrink; Swung, the times at which it grew
	// again although demand was the same.
	Shrunk sample      `json:"shrunk,omitzero"`
	Swung  []time.Time `json:"swung,omitempty"`
	// Lost is the time since when most requests are not answered.
	Lost time.Time `json:"lost,omitzero"`
}

// A sample is a value at a time.
type sample struct {
	Time  time.Time `json:"time"`
	Value float64   `json:"value"`
}

// maxima of a window: ascending in time, each larger than all after it.
type maxima []sample

// add adds a value, and drops those older than a window.
func (m *maxima) add(now time.Time, v float64, window time.Duration) {
	list := *m
	for len(list) > 0 && list[len(list)-1].Value <= v {
		list = list[:len(list)-1]
	}
	list = append(list, sample{now, v})
	old := 0
	for now.Sub(list[old].Time) > window {
		old++
	}
	*m = slices.Delete(list, 0, old)
}

// most returns the largest; 0 without any.
func (m *maxima) most() float64 {
	if len(*m) == 0 {
		return 0
	}
	return (*m)[0].Value
}

const (
	maxAge     = 2 * time.Minute
	day        = 24 * time.Hour
	recentSpan = 5 * time.Minute
	// Guards let 30 changes of cpu alone, 6 others and 12 of replicas pass in an hour, half of
	// each to shrink, and beyond them growth in place.
	cpuGrow, cpuShrink = 29, 14
	otherShrink        = 2
	scaleShrink        = 6
	patience           = 75 * time.Second // wait for larger pods before it adds pods instead
)

// New returns an agent without memory.
func New(t mpa.Target, v Values) *Agent {
	a := &Agent{target: t, v: v, s: state{Beta: v[betaFirst], Slot: -1, Watches: newWatches()}}
	for range t.Containers {
		a.s.Memory = append(a.s.Memory, memory{})
	}
	return a
}

func (a *Agent) span(i int) time.Duration { return time.Duration(a.v[i] * float64(time.Second)) }

// Recommend implements [mpa.Agent].
func (a *Agent) Recommend(o *mpa.Observation) mpa.Recommendation {
	r := mpa.Recommendation{Source: "learned"}
	requests := o.Requests(&a.target)
	switch {
	case requests == nil:
		r.Reason = "no pod to tell the present requests from"
		return r
	case a.target.SLO.Latency == 0:
		r.Reason = "no latency is promised"
		return r
	}
	a.follow(o, requests)
	a.now = o.Time
	w := a.look(o, requests)
	a.seeMemory(o, requests)
	if w.known {
		r.Drift = a.watch(o, &w)
	}
	if !w.known {
		r.Reason = w.missing
		if a.killed(o) {
			r.Containers = a.merge(requests, 1, a.memoryFor(o, requests, 1))
			r.Reason += "; more memory: a container ran out of it"
		}
		return r
	}
	expected, why := a.expected(o.Time, &w)
	a.steer(o, &w)
	n, factor, shape := a.shape(o, &w, expected)
	r.Reason = fmt.Sprintf("%.3g cores %s, %.3g as a slack of %.2g gives: %s", expected, why, a.need(expected, n, w.unit), a.slack(), shape)
	memory := a.memoryFor(o, requests, a.growth(expected, n))
	if memory != nil && n < o.Replicas && larger(memory, requests) {
		n = o.Replicas // the pods that stay take over requests: memory first
	}
	if n != o.Replicas {
		r.Replicas = n
	}
	r.Containers = a.merge(requests, factor, memory)
	if r.Replicas == 0 && r.Containers == nil {
		r.Replicas = o.Replicas // it has an opinion: this is enough
	}
	return r
}

// follow records changes of size and number.
func (a *Agent) follow(o *mpa.Observation, requests []mpa.Resources) {
	s := &a.s
	if s.Begun.IsZero() {
		s.Begun, s.Changed = o.Time, o.Time
		for _, r := range requests {
			s.First += float64(r.CPU) / 1000 * float64(o.Replicas)
		}
	} else if !slices.Equal(requests, s.Requests) {
		s.Changed, s.Wants = o.Time, time.Time{}
		if slices.EqualFunc(requests, s.Requests, func(a, b mpa.Resources) bool { return a.Memory == b.Memory }) {
			s.CPU = append(s.CPU, o.Time)
		} else {
			s.Other = append(s.Other, o.Time)
		}
	}
	if o.Replicas != s.Replicas && s.Replicas != 0 {
		s.Changed, s.Scaled = o.Time, append(s.Scaled, o.Time)
	}
	s.Requests, s.Replicas = requests, o.Replicas
	s.CPU, s.Other, s.Scaled = guard.LastHour(s.CPU, o.Time), guard.LastHour(s.Other, o.Time), guard.LastHour(s.Scaled, o.Time)
	s.Swung = guard.LastHour(s.Swung, o.Time)
}

// merge returns the requests with cpu times a factor and with some memory; nil = as they
// are.
func (a *Agent) merge(requests []mpa.Resources, factor float64, memory []int64) []mpa.Resources {
	if factor == 1 && memory == nil {
		return nil
	}
	out := slices.Clone(requests)
	for i := range out {
		if factor != 1 && a.target.Containers[i].CPU {
			out[i].CPU = max(1, mpa.Scale(out[i].CPU, factor))
		}
		if memory != nil {
			out[i].Memory = memory[i]
		}
	}
	return out
}

func larger(memory []int64, requests []mpa.Resources) bool {
	for i, m := range memory {
		if m > requests[i].Memory {
			return true
		}
	}
	return false
}

// Shift implements [mpa.Shifter]. The usual demand keeps its time of day.
func (a *Agent) Shift(d time.Duration) {
	s := &a.s
	for _, t := range []*time.Time{&s.Begun, &s.Up, &s.Down, &s.ShortUntil, &s.Changed, &s.Wants, &s.Watches.Last, &s.Unsure, &s.Shrunk.Time, &s.Lost} {
		*t = guard.Moved(*t, d)
	}
	lists := [][]sample{s.Recent, s.Ten, s.Hour, s.Held, s.Filled, s.Empty, s.Work}
	for i := range s.Memory {
		m := &s.Memory[i]
		lists = append(lists, m.Low)
		for j := range m.Peaks {
			m.Peaks[j].Time = guard.Moved(m.Peaks[j].Time, d)
		}
		for j := range m.Needed {
			m.Needed[j].Time = guard.Moved(m.Needed[j].Time, d)
		}
		m.Killed = guard.Moved(m.Killed, d)
	}
	for _, list := range lists {
		for i := range list {
			list[i].Time = guard.Moved(list[i].Time, d)
		}
	}
	for _, list := range [][]time.Time{s.CPU, s.Other, s.Scaled, s.Swung} {
		for i := range list {
			list[i] = guard.Moved(list[i], d)
		}
	}
	s.Slot, s.Seen = -1, 0
}

// MarshalJSON implements [mpa.Stateful].
func (a *Agent) MarshalJSON() ([]byte, error) { return json.Marshal(a.s) }

// UnmarshalJSON implements [mpa.Stateful].
func (a *Agent) UnmarshalJSON(data []byte) error {
	s := state{Slot: -1, Watches: newWatches()}
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	switch {
	case len(s.Memory) != len(a.target.Containers):
		return fmt.Errorf("learned: memory of %d containers, want %d", len(s.Memory), len(a.target.Containers))
	case !(s.Beta >= min(a.v[betaLeast], a.v[betaFirst]) && s.Beta <= max(a.v[betaMost], a.v[betaFirst])):
		return fmt.Errorf("learned: beta %v is not within %v and %v", s.Beta, a.v[betaLeast], a.v[betaMost])
	case s.Before > max(a.v[betaMost], a.v[betaFirst]) || s.Vain > 0 && !(s.Before >= min(a.v[betaLeast], a.v[betaFirst])):
		return fmt.Errorf("learned: before %v is not within %v and %v", s.Before, a.v[betaLeast], a.v[betaMost])
	case !(s.Cost >= 0 && s.First >= 0 && s.Late >= 0 && s.Asked >= 0 && s.Short >= 0):
		return fmt.Errorf("learned: cost %v, late %v, asked %v, short %v: want at least 0", s.Cost, s.Late, s.Asked, s.Short)
	case s.Slot < -1 || s.Slot >= slots:
		return fmt.Errorf("learned: slot %d of %d", s.Slot, slots)
	case s.Fresh < 0:
		return fmt.Errorf("learned: fresh %d", s.Fresh)
	case math.IsNaN(s.Seen):
		return fmt.Errorf("learned: seen %v", s.Seen)
	}
	if err := s.Watches.check(); err != nil {
		return err
	}
	a.s = s
	return nil
}
