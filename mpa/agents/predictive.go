package agents

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/guard"
)

// Predictive sizes a workload for the load that it expects in the next minutes, with the
// least slack that keeps its SLO.
//
// The demand is requests per second times the cpu of one, both as measured (cpu alone,
// where there is no rate). It expects the largest of the demand now, along its trend, and
// as usual at this time of day. A pod with l cores of work gets l + β·√l (the square-root
// rule of staffing: the noise around the mean causes queues). β, the slack, grows when
// latency exceeds the promised percentile although the demand was as planned, and shrinks
// while latency is far below.
//
// It prefers few large pods, which share peaks. It grows and shrinks them in small steps,
// and changes their number where that is not enough or too slow. Memory is the largest
// peak of a day with a margin.
type Predictive struct {
	target mpa.Target
	cost   float64 // core-seconds of a request; 0 = unknown
	slack  float64 // β, in √cores
	turned time.Time
	// fewest pods that kept the SLO, which holds until a time, and how many times in a row
	// more slack did not help.
	fewest int32
	until  time.Time
	vain   int
	jumped time.Time // when demand last began to jump
	// The last minutes: the demand in cores, the demand that was expected, and the share of
	// the requested cores that the demand needed.
	demand, work, filled []timed[float64]
	// usual is the demand in cores by slot of the day, a mean that forgets, and scatter its
	// mean deviation. Slots never observed are NaN.
	usual, scatter []float64
	slot           int // of seen; −1 = no slot yet
	seen           []float64

	memory   []mpa.ContainerMemory
	least    [][]timed[int64] // memory of the leanest pod in the last hour, by container
	begun    time.Time
	requests []mpa.Resources // at the last observation
	replicas int32
	resized  []time.Time // in the last hour
	changed  time.Time   // of the last change of either
}

const (
	predictSlot    = 5 * time.Minute
	predictSlots   = int(day / predictSlot)
	predictHorizon = 10 * time.Minute // of the usual demand
	predictForget  = .5               // weight of the newest day
	predictTrend   = 4 * time.Minute  // from which the trend is computed,
	predictAhead   = 90 * time.Second // and how far ahead it is used
	predictJump    = 30 * time.Second // in which a step shows
	predictSteep   = 1.15             // by this factor
	predictQuiet   = 15 * time.Minute // between two steps

	slackFirst, slackLeast, slackMost = .5, .05, 3
	slackUp, slackDown                = 1.15, .95
	slackSlow                         = 6 * time.Minute // between two steps down
	slackQuick                        = 2 * time.Minute // between two steps up
	slackCalm                         = .8              // of the SLO, below which there is too much
	slackVain                         = 2               // steps up that did not help before there are more pods
	slackUsed                         = .8              // of the cores needed, for a low latency to count

	fewestHold  = 3 * time.Hour    // how long a number of pods that was too small is avoided
	sizeHold    = 10 * time.Minute // whose largest need is kept when sizes shrink
	sizeSpare   = 1.03             // over the need, when a size changes
	sizeLess    = .88              // of the present size, below which it shrinks
	sizeStep    = 1.5              // most that pods grow at once
	sizeResizes = 5                // in an hour, to keep one for memory
	sizeCalm    = 20 * time.Minute // without a change, before pods become fewer and larger

	memoryMargin = 1.2 // of the peak
	memorySway   = .7  // of the sway of memory, over the peak
	memoryKill   = 1.1 // of the request of a container that ran out of memory
	memoryTight  = .5  // of either: with less, memory grows
)

// NewPredictive returns an agent without memory.
func NewPredictive(t mpa.Target) *Predictive {
	p := &Predictive{target: t, slack: slackFirst, slot: -1, usual: make([]float64, predictSlots), scatter: make([]float64, predictSlots)}
	for i := range p.usual {
		p.usual[i] = math.NaN()
	}
	for _, c := range t.Containers {
		p.memory = append(p.memory, mpa.ContainerMemory{Name: c.Name})
		p.least = append(p.least, nil)
	}
	return p
}

// Recommend implements [mpa.Agent].
func (p *Predictive) Recommend(o *mpa.Observation) mpa.Recommendation {
	requests := o.Requests(&p.target)
	if requests == nil {
		return noOpinion("predictive", "no pod to tell the present requests from")
	}
	p.follow(o, requests)
	memory := p.sizeMemory(o, requests)
	r := mpa.Recommendation{Source: "predictive"}
	size := cpuOf(requests)
	demand, ok := p.demanded(o)
	if !ok || size == 0 || o.Replicas == 0 {
		r.Reason = "cpu usage is missing or stale"
		r.Containers = p.merge(o, requests, 1, memory)
		return r
	}
	p.steer(o, demand, size)
	expected, why := p.expected(o.Time, demand)
	p.work = append(since(p.work, o.Time.Add(-sizeHold)), timed[float64]{o.Time, expected})
	r.Reason = fmt.Sprintf("%.3g cores %s, with a slack of %.2g", expected, why, p.slack)
	n, factor := p.shape(o, expected, size)
	if n != o.Replicas {
		r.Replicas = n
	}
	r.Containers = p.merge(o, requests, factor, memory)
	return r
}

// cpuOf returns the sum of cpu requests in cores.
func cpuOf(requests []mpa.Resources) float64 {
	sum := int64(0)
	for _, r := range requests {
		sum += r.CPU
	}
	return float64(sum) / 1000
}

// follow records changes of size and number.
func (p *Predictive) follow(o *mpa.Observation, requests []mpa.Resources) {
	if p.begun.IsZero() {
		p.begun, p.changed = o.Time, o.Time
	} else if !slices.Equal(requests, p.requests) {
		p.resized, p.changed = append(p.resized, o.Time), o.Time
	}
	if o.Replicas != p.replicas {
		p.changed = o.Time
	}
	p.requests, p.replicas = requests, o.Replicas
	p.resized = guard.LastHour(p.resized, o.Time)
}

const predictMaxAge = 2 * time.Minute

// Shift implements [mpa.Shifter]. The usual demand keeps its time of day.
func (p *Predictive) Shift(d time.Duration) {
	for _, t := range []*time.Time{&p.turned, &p.until, &p.jumped, &p.begun, &p.changed} {
		*t = guard.Moved(*t, d)
	}
	shiftAll(p.demand, d)
	shiftAll(p.work, d)
	shiftAll(p.filled, d)
	for i := range p.resized {
		p.resized[i] = guard.Moved(p.resized[i], d)
	}
	for i := range p.memory {
		shiftAll(p.least[i], d)
		for j := range p.memory[i].Peaks {
			p.memory[i].Peaks[j].Time = guard.Moved(p.memory[i].Peaks[j].Time, d)
		}
	}
	p.seen, p.slot = nil, -1
}

type predictiveJSON struct {
	Cost     float64               `json:"cost,omitempty"`
	Slack    float64               `json:"slack"`
	Turned   time.Time             `json:"turned,omitzero"`
	Fewest   int32                 `json:"fewest,omitempty"`
	Until    time.Time             `json:"until,omitzero"`
	Vain     int                   `json:"vain,omitempty"`
	Jumped   time.Time             `json:"jumped,omitzero"`
	Demand   []timed[float64]      `json:"demand,omitempty"`
	Work     []timed[float64]      `json:"work,omitempty"`
	Filled   []timed[float64]      `json:"filled,omitempty"`
	Slots    map[int]slotJSON      `json:"slots,omitempty"` // of the day, those observed
	Slot     int                   `json:"slot"`
	Seen     []float64             `json:"seen,omitempty"`
	Memory   []mpa.ContainerMemory `json:"memory"`
	Least    [][]timed[int64]      `json:"least"`
	Begun    time.Time             `json:"begun,omitzero"`
	Requests []mpa.Resources       `json:"requests,omitempty"`
	Replicas int32                 `json:"replicas"`
	Resized  []time.Time           `json:"resized,omitempty"`
	Changed  time.Time             `json:"changed,omitzero"`
}

type slotJSON struct {
	Usual   float64 `json:"usual"`
	Scatter float64 `json:"scatter"`
}

// MarshalJSON implements [mpa.Stateful].
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

// UnmarshalJSON implements [mpa.Stateful].
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
