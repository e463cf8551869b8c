package agents

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
	"github.com/sigma-scheduler/sigma/mpa/guard"
)

const (
	// capacityWindow is the length of a window that it learns from, and the time for which
	// fewer replicas have to be enough.
	capacityWindow = time.Minute
	// capacityShort is the span whose rate counts in place of the minute's if it is higher.
	capacityShort = 20 * time.Second
	// capacityWindows are remembered at most; then the older half is forgotten.
	capacityWindows = 80
	// capacityMoved is the change of demand or wait from which on the rate is computed again.
	capacityMoved = .05
)

// Capacity learns the load that one pod can serve, by package capacity, and derives both
// results from that one measurement: the limit of requests at once in a pod, and the replicas
// as the rate of requests ÷ the rate that a pod serves within the SLO.
type Capacity struct {
	target   mpa.Target
	name     string // of the learner
	settings capacity.Settings
	learner  capacity.Learner
	windows  []capacity.Window // given to the learner
	last     *capacity.Window  // the last one, given to the learner or not; nil = no window yet
	blamed   blame
	other    otherCause
	doubt    doubt
	pardoned time.Time    // the limit is not to blame for failures since, as the last window showed
	now      []gateSample // since the last window
	pods     int          // ready, all the time since then
	limit    int32        // active, all the time since then
	rates    []timed[float64]
	wanted   []timed[int32]
	pod      podCapacity
}

// gateSample holds the measurements of gates up to a time.
type gateSample struct {
	Time   time.Time     `json:"time"`
	Window time.Duration `json:"windowNanoseconds,omitempty"` // 0 = since the one before
	Inside float64       `json:"inside"`
	Failed float64       `json:"failed"`
}

// podCapacity is the load that a pod serves, with the inputs that it was computed from.
type podCapacity struct {
	Limit  int           `json:"limit"`
	Rate   float64       `json:"rate"`
	Demand float64       `json:"demand"`
	Wait   float64       `json:"wait"`
	Each   float64       `json:"memoryPerRequest"`
	Size   mpa.Resources `json:"size"`
	Least  int           `json:"least,omitempty"` // the smallest limit that was allowed
	Most   int           `json:"most,omitempty"`
}

// NewCapacity returns an agent without memory, with the default learner.
func NewCapacity(t mpa.Target) *Capacity {
	s := capacity.DefaultSettings()
	if r := t.Limit; r != (mpa.Range{}) {
		s.Min, s.Max = int(r.Min), int(r.Max)
		s.Initial = min(max(s.Initial, s.Min), s.Max)
	}
	a, err := NewCapacityBy(t, capacity.Default, s)
	if err != nil {
		panic(err) // the target is valid
	}
	return a
}

// NewCapacityBy returns one with another learner. Errors name the setting.
func NewCapacityBy(t mpa.Target, learner string, s capacity.Settings) (*Capacity, error) {
	l, err := capacity.New(learner, s)
	if err != nil {
		return nil, err
	}
	return &Capacity{target: t, name: learner, settings: s, learner: l}, nil
}

// A Known is an agent's knowledge of a pod.
type Known struct {
	capacity.Capacity
	// PodLimit and PodRate are those of a pod of the present size within the SLO; 0 =
	// unknown.
	PodLimit int
	PodRate  float64
	Windows  int // given to the learner and kept
}

// Known returns the agent's knowledge; false = nothing yet.
func (a *Capacity) Known() (Known, bool) {
	c, ok := a.learner.Estimate()
	return Known{Capacity: c, PodLimit: a.pod.Limit, PodRate: a.pod.Rate, Windows: len(a.windows)}, ok
}

// learn begins again with some windows.
func (a *Capacity) learn(windows []capacity.Window) {
	a.learner, _ = capacity.New(a.name, a.settings) // as when it was made
	a.windows = nil
	for _, w := range windows {
		a.tell(w)
	}
}

func (a *Capacity) tell(w capacity.Window) {
	a.windows = append(a.windows, w)
	a.learner.Tell(w)
}

// Recommend implements [mpa.Agent].
func (a *Capacity) Recommend(o *mpa.Observation) mpa.Recommendation {
	r := a.recommend(o)
	if a.target.Limit == (mpa.Range{}) {
		r.Limit = 0 // no limit may be set
	}
	return r
}

func (a *Capacity) recommend(o *mpa.Observation) mpa.Recommendation {
	a.see(o)
	return a.say(o)
}

// say returns the recommendation for the windows so far.
func (a *Capacity) say(o *mpa.Observation) mpa.Recommendation {
	r := a.advise(o)
	if a.excused() && r.Limit > 0 {
		if len(a.windows) == 0 {
			r.Limit, r.Reason = a.other.Limit, fmt.Sprintf("%d requests at once, as before", a.other.Limit)
		}
		r.Reason += fmt.Sprintf("; %.3g %% of the requests failed, and no fewer at a lower limit: what fails teaches nothing", 100*a.other.Lost)
	}
	return r
}

func (a *Capacity) advise(o *mpa.Observation) mpa.Recommendation {
	g := &o.Gates
	if !measured(o) {
		return noOpinion("capacity", "no gate measures the requests")
	}
	size, ok := a.size(o)
	switch {
	case !ok:
		return noOpinion("capacity", "no pod is ready")
	case size.CPU == 0:
		return noOpinion("capacity", "resources.requests.cpu: a pod's containers request none, and what a pod takes goes by it")
	}
	r := mpa.Recommendation{Source: "capacity", Limit: int32(a.learner.Next())}
	c, ok := a.learner.Estimate()
	if !ok || !(c.Demand.Value > 0) {
		r.Reason = fmt.Sprintf("%d requests at once at first: nothing is known of a pod yet", r.Limit)
		return r
	}
	if err := a.plan(&c, size); err != nil {
		r.Reason = err.Error()
		return r
	}
	r.Limit = int32(a.pod.Limit)
	rate := max(a.mean(o.Time, capacityWindow), a.mean(o.Time, capacityShort)) + g.Waiting.Value/capacityWindow.Seconds()
	want := max(1, ceil(rate/a.pod.Rate))
	a.wanted = append(since(a.wanted, o.Time.Add(-max(capacityWindow, a.target.Stabilisation))), timed[int32]{o.Time, want})
	r.Replicas = want
	for _, w := range a.wanted {
		r.Replicas = max(r.Replicas, w.value)
	}
	r.Replicas = a.target.Replicas.Clamp(r.Replicas)
	r.Reason = fmt.Sprintf("%.4g requests/s, %.4g in a pod within the SLO, %d at once; a request takes %.3g ms of cpu and waits %.3g ms",
		rate, a.pod.Rate, a.pod.Limit, 1000*c.Demand.Value, 1000*c.Wait.Value)
	return r
}

// measured reports whether gates measure the requests.
func measured(o *mpa.Observation) bool {
	return o.Gates.Inside.Known(o.Time, capacityWindow) && o.Gates.Rate.Known(o.Time, capacityWindow)
}

// see adds the measurements of gates and ends a window that is long enough. It drops one
// during which the number of pods or the limit changed.
func (a *Capacity) see(o *mpa.Observation) {
	if !measured(o) {
		return
	}
	g := &o.Gates
	if n := len(a.rates); n == 0 || a.rates[n-1].time.Before(g.Rate.Time) {
		a.rates = append(since(a.rates, o.Time.Add(-capacityWindow)), timed[float64]{g.Rate.Time, g.Rate.Value})
	}
	if n := len(a.now); n > 0 && !a.now[n-1].Time.Before(g.Inside.Time) {
		return
	}
	if pods := ready(o); pods != a.pods || g.Limit != a.limit {
		a.now, a.pods, a.limit = nil, pods, g.Limit
	}
	a.now = append(a.now, gateSample{g.Inside.Time, g.Window, g.Inside.Value, g.Failed.Value})
	length := g.Inside.Time.Sub(a.now[0].Time)
	if length < capacityWindow || a.pods == 0 {
		return
	}
	if w := a.window(o, length.Seconds()); w.Check() == nil {
		if a.last = &w; a.teaches(o, &w) {
			if len(a.windows) >= capacityWindows {
				a.learn(a.windows[capacityWindows/2:])
			}
			a.tell(w)
		}
	}
	a.now = a.now[len(a.now)-1:] // it begins the next one
}

// window returns the means of all ready pods as those of one. The quota and the memory limit
// are the requests: usage above them may be taken away. For a pod that uses more memory it is
// the pod's limit.
func (a *Capacity) window(o *mpa.Observation, seconds float64) capacity.Window {
	pods := float64(a.pods)
	w := capacity.Window{Time: o.Gates.Inside.Time, Length: capacity.Some(seconds)}
	if o.Gates.Limit > 0 {
		w.Limit = capacity.Some(float64(o.Gates.Limit))
	}
	inside, failed, n := 0.0, 0.0, 0.0
	for i, s := range a.now[1:] { // the first ended the window before
		if i < len(a.now)-2 && s.Time.Add(-s.Window).Before(a.now[0].Time) {
			continue // it is about the time before, too; the answers are those of the last
		}
		inside, failed, n = inside+s.Inside, failed+s.Failed, n+1
	}
	w.Inside, w.Failed = capacity.Some(inside/n/pods), capacity.Some(failed/n*seconds/pods)
	if o.Throughput.Known(o.Time, capacityWindow) {
		w.Answered = capacity.Some(o.Throughput.Value * seconds / pods)
	}
	var used, size mpa.Resources
	known, memory := 0.0, int64(0)
	for i := range o.Pods {
		p := &o.Pods[i]
		u, s, ok := usageOf(p, o.Time)
		if !p.Ready || p.Deleting || !ok {
			continue
		}
		if known++; u.Memory >= used.Memory {
			memory = boundOf(p, u.Memory, s.Memory)
		}
		used = mpa.Resources{CPU: used.CPU + u.CPU, Memory: max(used.Memory, u.Memory)}
		size = s
	}
	if known > 0 {
		cores := float64(used.CPU) / 1000 / known
		w.CPU, w.Memory = capacity.Some(cores*seconds), capacity.Some(float64(used.Memory))
		w.Quota, w.MemoryLimit = capacity.Some(max(cores, float64(size.CPU)/1000)), capacity.Some(float64(memory))
	}
	return w
}

// boundOf returns the memory that a pod is sure of or, if it uses more, its limit; 0 = no
// bound.
func boundOf(p *mpa.Pod, used, requested int64) int64 {
	if used <= requested {
		return requested
	}
	limit := int64(0)
	for i := range p.Containers {
		if p.Containers[i].MemoryLimit == 0 {
			return 0
		}
		limit += p.Containers[i].MemoryLimit
	}
	return max(used, limit)
}

// usageOf returns usage and size of all containers of a pod.
func usageOf(p *mpa.Pod, now time.Time) (used, size mpa.Resources, ok bool) {
	for _, c := range p.Containers {
		if !c.Usage.Known(now, capacityWindow) {
			return used, size, false
		}
		used, size = used.Add(c.Usage.Resources), size.Add(actual(&c))
	}
	return used, size, len(p.Containers) > 0
}

// actual returns the active resources, or the requests if the status has none.
func actual(c *mpa.Container) mpa.Resources {
	if c.Actual == (mpa.Resources{}) {
		return c.Request
	}
	return c.Actual
}

// size returns the smallest size of a ready pod, with the memory that bounds it.
func (a *Capacity) size(o *mpa.Observation) (size mpa.Resources, ok bool) {
	for i := range o.Pods {
		p := &o.Pods[i]
		if !p.Ready || p.Deleting {
			continue
		}
		var s mpa.Resources
		for j := range p.Containers {
			s = s.Add(actual(&p.Containers[j]))
		}
		if !ok || s.CPU < size.CPU {
			size, ok = s, true
		}
	}
	if w := a.last; w != nil && w.Memory.Number > float64(size.Memory) {
		size.Memory = int64(w.MemoryLimit.Number)
	}
	return size, ok
}

// plan computes the rate of a pod and its limit.
func (a *Capacity) plan(c *capacity.Capacity, size mpa.Resources) error {
	if err := a.replan(&a.pod, c, size, a.most()); err != nil {
		return err
	}
	if r := a.target.Limit; r != (mpa.Range{}) {
		a.pod.Limit = int(r.Clamp(int32(a.pod.Limit)))
	}
	return nil
}

// replan computes p for at most most requests at once if one of its inputs has changed.
func (a *Capacity) replan(p *podCapacity, c *capacity.Capacity, size mpa.Resources, most int) error {
	moved := func(a, b float64) bool { return math.Abs(a-b) > capacityMoved*b }
	least := min(most, int(a.target.Limit.Min))
	if p.Size != size || p.Least != least || p.Limit > most || p.Limit >= p.Most && most > p.Most || moved(c.Demand.Value, p.Demand) || math.Abs(c.Wait.Value-p.Wait) > capacityMoved*(p.Wait+p.Demand) ||
		moved(c.MemoryPerRequest.High, p.Each) {
		slo := capacity.SLO{Percentile: a.target.SLO.Percentile, Latency: a.target.SLO.Latency}
		limit, rate, _, err := capacity.ForSLO(c, slo, capacity.Size{Cores: float64(size.CPU) / 1000, Memory: float64(size.Memory), Share: a.settings.Share, Min: least, Max: most})
		if err != nil {
			*p = podCapacity{} // the former rate belongs to other requests
			return err
		}
		*p = podCapacity{limit, rate, c.Demand.Value, c.Wait.Value, c.MemoryPerRequest.High, size, least, most}
	}
	return nil
}

// most is the largest limit that the target and the guard of memory allow.
func (a *Capacity) most() int {
	most := int32(max(1, min(math.MaxInt32, capacity.Most(a.learner))))
	if r := a.target.Limit; r != (mpa.Range{}) {
		most = r.Clamp(most)
	}
	return int(most)
}

// mean of the rates of a window, or the last one.
func (a *Capacity) mean(now time.Time, window time.Duration) float64 {
	sum, n := 0.0, 0.0
	for _, r := range a.rates {
		if r.time.After(now.Add(-window)) {
			sum, n = sum+r.value, n+1
		}
	}
	if n == 0 {
		return a.rates[len(a.rates)-1].value
	}
	return sum / n
}

// Shift implements [mpa.Shifter].
func (a *Capacity) Shift(d time.Duration) {
	shiftAll(a.rates, d)
	shiftAll(a.wanted, d)
	for i := range a.windows {
		a.windows[i].Time = guard.Moved(a.windows[i].Time, d)
	}
	if a.last != nil {
		a.last.Time = guard.Moved(a.last.Time, d)
	}
	a.blamed.Time, a.other.Since = guard.Moved(a.blamed.Time, d), guard.Moved(a.other.Since, d)
	for _, t := range []*time.Time{&a.doubt.Begun, &a.doubt.Ended, &a.doubt.Tried} {
		*t = guard.Moved(*t, d)
	}
	for i := range a.now {
		a.now[i].Time = guard.Moved(a.now[i].Time, d)
	}
}

type capacityJSON struct {
	Windows []capacity.Window `json:"windows,omitempty"`
	Last    *capacity.Window  `json:"last,omitempty"`
	Blamed  blame             `json:"blamed,omitzero"`
	Other   otherCause        `json:"other,omitzero"`
	Doubt   doubt             `json:"doubt,omitzero"`
	Now     []gateSample      `json:"now,omitempty"`
	Pods    int               `json:"pods,omitempty"`
	Limit   int32             `json:"limit,omitempty"`
	Rates   []timed[float64]  `json:"rates,omitempty"`
	Wanted  []timed[int32]    `json:"wanted,omitempty"`
	Pod     podCapacity       `json:"pod,omitzero"`
}

// MarshalJSON implements [mpa.Stateful].
func (a *Capacity) MarshalJSON() ([]byte, error) {
	return json.Marshal(capacityJSON{a.windows, a.last, a.blamed, a.other, a.doubt, a.now, a.pods, a.limit, a.rates, a.wanted, a.pod})
}

// UnmarshalJSON implements [mpa.Stateful].
func (a *Capacity) UnmarshalJSON(data []byte) error {
	var j capacityJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	a.learn(j.Windows)
	a.last, a.blamed, a.other, a.doubt = j.Last, j.Blamed, j.Other, j.Doubt
	if n := len(a.windows); a.last == nil && n > 0 {
		last := a.windows[n-1]
		a.last = &last
	}
	a.now, a.pods, a.limit, a.rates, a.wanted, a.pod = j.Now, j.Pods, j.Limit, j.Rates, j.Wanted, j.Pod
	return nil
}
