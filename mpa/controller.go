package mpa

import (
	"fmt"
	"math"
	"time"
)

// Guards bound what is done of what an agent would like.
type Guards struct {
	// MaxAge of the newest usage: nothing is done on older data.
	MaxAge time.Duration
	// Step is the largest change of a request at once, as a share of it.
	Step float64
	// DeadBand is the share by which a request has to differ to be changed.
	DeadBand float64
	// ReplicaChanges and RequestChanges are the most in any hour. Shrinking may use
	// half of them, so that there is always one left to grow.
	ReplicaChanges, RequestChanges int
	// CoolDown is the least time between two changes of requests, and between any
	// change and one that shrinks.
	CoolDown time.Duration
	// Headroom over the largest memory that was seen in PeakWindow; memory is never
	// asked for below.
	Headroom   float64
	PeakWindow time.Duration
	// Patience with pods that do not start and resizes that wait for room; then they no
	// longer hold up the other dimension.
	Patience time.Duration
}

// DefaultGuards are those of a controller that is not told otherwise.
func DefaultGuards() Guards {
	return Guards{
		MaxAge: 2 * time.Minute, Step: .5, DeadBand: .1,
		ReplicaChanges: 12, RequestChanges: 6, CoolDown: time.Minute,
		Headroom: 1.2, PeakWindow: 24 * time.Hour, Patience: 5 * time.Minute,
	}
}

// An Action changes one dimension: the number of replicas or the requests of all
// pods.
type Action struct {
	Replicas   int32       `json:"replicas,omitempty"`   // 0 = as they are
	Containers []Resources `json:"containers,omitempty"` // nil = as they are
}

// A Decision is what came of an observation.
type Decision struct {
	Time        time.Time      `json:"time"`
	Recommended Recommendation `json:"recommended"`
	Action      *Action        `json:"action,omitempty"` // nil = hold
	// Guards that changed or stopped what was recommended, in order.
	Guards []string `json:"guards,omitempty"`
	// Reason of the action, or of holding.
	Reason string `json:"reason"`
}

// A Controller decides for one workload. Observations come in order of time; the same
// observations give the same decisions.
type Controller struct {
	target Target
	agent  Agent
	guards Guards

	replicaChanges, requestChanges []time.Time // of the last hour
	peaks                          [][]timed[int64]
	ceilings                       []timed[Resources] // per container: what a node could not give
	last                           time.Time
}

// NewController is a controller that has seen nothing.
func NewController(t Target, a Agent, g Guards) (*Controller, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	return &Controller{
		target: t, agent: a, guards: g,
		peaks: make([][]timed[int64], len(t.Containers)), ceilings: make([]timed[Resources], len(t.Containers)),
	}, nil
}

// Decide takes an observation in and says what to do.
func (c *Controller) Decide(o *Observation) Decision {
	d := Decision{Time: o.Time}
	if o.Time.Before(c.last) {
		return d.hold("clock", "the time %s is before that of the last observation", o.Time.Format(time.RFC3339))
	}
	c.last = o.Time
	c.remember(o)
	if why := c.implausible(o); why != "" {
		return d.hold("freshness", "%s", why)
	}
	d.Recommended = c.agent.Recommend(o)
	if o.Replicas == 0 {
		return d.hold("bounds", "0 replicas: the workload is switched off")
	}
	now := requestsOf(o, c.target)
	if now == nil {
		return d.hold("freshness", "no pod tells the present requests")
	}
	replicas := c.replicas(&d, o)
	requests := c.requests(&d, now)
	grow := replicas > o.Replicas
	larger, smaller := compareAll(requests, now)
	switch {
	case replicas == o.Replicas && !larger && !smaller:
		d.Reason = "nothing to change: " + d.Recommended.Reason
		return d
	case c.escapesMemory(o, requests, now):
		return c.resize(d, o, requests, "more memory first: a container ran out of it")
	case grow:
		return c.scale(d, o, replicas, larger || smaller)
	case larger:
		return c.resize(d, o, requests, "")
	case smaller:
		return c.resize(d, o, requests, "")
	default:
		return c.scale(d, o, replicas, false)
	}
}

func (d *Decision) guard(name, format string, args ...any) {
	d.Guards = append(d.Guards, name+": "+fmt.Sprintf(format, args...))
}

// hold ends a decision without an action.
func (d *Decision) hold(guard, format string, args ...any) Decision {
	d.Reason = fmt.Sprintf(format, args...)
	d.Guards = append(d.Guards, guard+": "+d.Reason)
	d.Action = nil
	return *d
}

// implausible says why an observation cannot be acted on.
func (c *Controller) implausible(o *Observation) string {
	fresh := false
	for _, p := range o.live() {
		for _, k := range p.Containers {
			if k.Usage.CPU < 0 || k.Usage.Memory < 0 {
				return fmt.Sprintf("usage of pod %s is negative", p.Name)
			}
			fresh = fresh || k.Usage.Known(o.Time, c.guards.MaxAge) && !k.Usage.Time.After(o.Time.Add(c.guards.MaxAge))
		}
	}
	for _, m := range []struct {
		name string
		Metric
	}{{"rate", o.Rate}, {"latency", o.Latency}, {"throughput", o.Throughput}} {
		if !m.Time.IsZero() && !(m.Value >= 0 && m.Value <= math.MaxFloat64) {
			return m.name + " is not a number from 0 up"
		}
	}
	if !fresh && o.Replicas > 0 {
		return fmt.Sprintf("no usage that is at most %v old", c.guards.MaxAge)
	}
	return ""
}

// remember keeps what the guards need of the past.
func (c *Controller) remember(o *Observation) {
	hour := o.Time.Add(-time.Hour)
	c.replicaChanges = dropUntil(c.replicaChanges, hour)
	c.requestChanges = dropUntil(c.requestChanges, hour)
	for i, spec := range c.target.Containers {
		most := int64(0)
		for _, p := range o.live() {
			for _, k := range p.Containers {
				if k.Name != spec.Name {
					continue
				}
				if k.Usage.Known(o.Time, c.guards.MaxAge) {
					most = max(most, k.Usage.Memory)
				}
				if k.Killed.After(o.Time.Add(-c.guards.PeakWindow)) {
					most = max(most, k.Request.Memory)
				}
				if p.Resize == Infeasible {
					c.ceilings[i] = timed[Resources]{o.Time, k.Actual}
				}
			}
		}
		c.peaks[i] = addPeak(c.peaks[i], o.Time, most, c.guards.PeakWindow)
		if !c.ceilings[i].time.After(hour) {
			c.ceilings[i] = timed[Resources]{}
		}
	}
}

// addPeak keeps one peak an hour.
func addPeak(list []timed[int64], now time.Time, v int64, window time.Duration) []timed[int64] {
	list = since(list, now.Add(-window))
	if n := len(list); n > 0 && list[n-1].time.Truncate(time.Hour).Equal(now.Truncate(time.Hour)) {
		list[n-1] = timed[int64]{now, max(list[n-1].value, v)}
		return list
	}
	return append(list, timed[int64]{now, v})
}

func dropUntil(list []time.Time, t time.Time) []time.Time {
	for len(list) > 0 && !list[0].After(t) {
		list = list[1:]
	}
	return list
}

// replicas are those recommended, within bounds.
func (c *Controller) replicas(d *Decision, o *Observation) int32 {
	want := d.Recommended.Replicas
	if want == 0 {
		want = o.Replicas
	}
	n := c.target.Replicas.Clamp(want)
	if n != want {
		d.guard("bounds", "%d replicas become %d", want, n)
	}
	return n
}

// requests are those recommended, within bounds, steps, dead band and above the
// memory that was used.
func (c *Controller) requests(d *Decision, now []Resources) []Resources {
	out := make([]Resources, len(now))
	for i, spec := range c.target.Containers {
		want := now[i]
		if i < len(d.Recommended.Containers) {
			r := d.Recommended.Containers[i]
			if r.CPU > 0 && spec.CPU {
				want.CPU = r.CPU
			}
			if r.Memory > 0 && spec.Memory {
				want.Memory = r.Memory
			}
		}
		next := c.bounded(d, i, want, now[i])
		cpu := c.step(d, spec.Name+" cpu", now[i].CPU, next.CPU)
		memory := c.step(d, spec.Name+" memory", now[i].Memory, next.Memory)
		if floor := c.floor(i); spec.Memory && memory < floor && memory < now[i].Memory {
			memory = min(floor, now[i].Memory)
			d.guard("memory", "%s stays at %d MiB or more, %g × the largest use", spec.Name, floor>>20, c.guards.Headroom)
		}
		out[i] = Resources{CPU: cpu, Memory: memory}
	}
	return out
}

// bounded keeps the spec's bounds and what a node could not give.
func (c *Controller) bounded(d *Decision, i int, want, now Resources) Resources {
	spec := c.target.Containers[i]
	next := spec.Clamp(want)
	if !spec.CPU {
		next.CPU = now.CPU
	}
	if !spec.Memory {
		next.Memory = now.Memory
	}
	if next != want {
		d.guard("bounds", "%s becomes %dm, %d MiB", spec.Name, next.CPU, next.Memory>>20)
	}
	if top := c.ceilings[i]; !top.time.IsZero() {
		if capped := next.Min(top.value); capped != next {
			d.guard("infeasible", "%s stays at %dm, %d MiB: its node cannot give more", spec.Name, capped.CPU, capped.Memory>>20)
			next = capped
		}
	}
	return next
}

// step limits the change of a request and leaves small ones out.
func (c *Controller) step(d *Decision, what string, now, want int64) int64 {
	if want == now || now == 0 {
		return want
	}
	if math.Abs(float64(want-now)) < c.guards.DeadBand*float64(now) {
		d.guard("dead band", "%s would change by less than %g %%", what, 100*c.guards.DeadBand)
		return now
	}
	low, high := scale(now, 1-c.guards.Step), scale(now, 1+c.guards.Step)
	next := min(high, max(low, want))
	if next != want {
		d.guard("step", "%s changes by %g %% at once", what, 100*c.guards.Step)
	}
	return next
}

// floor is the memory that container i is not asked to go below.
func (c *Controller) floor(i int) int64 {
	most := int64(0)
	for _, p := range c.peaks[i] {
		most = max(most, p.value)
	}
	return scale(most, c.guards.Headroom)
}

// escapesMemory reports whether a container was killed lately and would get more
// memory.
func (c *Controller) escapesMemory(o *Observation, requests, now []Resources) bool {
	for _, p := range o.live() {
		for _, k := range p.Containers {
			for i, spec := range c.target.Containers {
				if spec.Name == k.Name && requests[i].Memory > now[i].Memory && k.Killed.After(o.Time.Add(-c.guards.Patience)) {
					return true
				}
			}
		}
	}
	return false
}

// scale changes the replicas, if nothing speaks against it.
func (c *Controller) scale(d Decision, o *Observation, replicas int32, more bool) Decision {
	shrink := replicas < o.Replicas
	if why := c.resizing(o); why != "" {
		return d.hold("pending", "%s", why)
	}
	if why := c.starting(o); why != "" && shrink {
		return d.hold("pending", "%s", why)
	}
	if why := c.tooSoon(o.Time, c.replicaChanges, c.guards.ReplicaChanges, shrink); why != "" {
		return d.hold("cool-down", "%s", why)
	}
	c.replicaChanges = append(c.replicaChanges, o.Time)
	d.Action = &Action{Replicas: replicas}
	d.Reason = d.Recommended.Reason
	if more {
		d.guard("order", "replicas first, sizes next")
	}
	return d
}

// resize changes the requests, if nothing speaks against it.
func (c *Controller) resize(d Decision, o *Observation, requests []Resources, why string) Decision {
	urgent := why != ""
	now := requestsOf(o, c.target)
	larger, smaller := compareAll(requests, now)
	shrink := smaller && !larger
	if why := c.resizing(o); why != "" && !urgent {
		return d.hold("pending", "%s", why)
	}
	if why := c.starting(o); why != "" && !urgent {
		return d.hold("pending", "%s", why)
	}
	if why := c.tooSoon(o.Time, c.requestChanges, c.guards.RequestChanges, shrink); why != "" {
		return d.hold("cool-down", "%s", why)
	}
	if n := len(c.requestChanges); n > 0 && !urgent && o.Time.Before(c.requestChanges[n-1].Add(c.guards.CoolDown)) {
		return d.hold("cool-down", "requests changed less than %v ago", c.guards.CoolDown)
	}
	c.requestChanges = append(c.requestChanges, o.Time)
	d.Action = &Action{Containers: requests}
	d.Reason = d.Recommended.Reason
	if urgent {
		d.guard("order", "%s", why)
	}
	return d
}

// tooSoon keeps the number of changes in an hour.
func (c *Controller) tooSoon(now time.Time, changes []time.Time, most int, shrink bool) string {
	if shrink {
		most = (most + 1) / 2
		if n := len(changes); n > 0 && now.Before(changes[n-1].Add(c.guards.CoolDown)) {
			return fmt.Sprintf("changed less than %v ago", c.guards.CoolDown)
		}
	}
	if len(changes) >= most {
		return fmt.Sprintf("%d changes within an hour", len(changes))
	}
	return ""
}

// resizing says that a resize is under way and may still come to an end.
func (c *Controller) resizing(o *Observation) string {
	for _, p := range o.live() {
		if p.Resize == NoResize || p.Resize == Infeasible {
			continue
		}
		if o.Time.Before(p.ResizeSince.Add(c.guards.Patience)) {
			return fmt.Sprintf("pod %s is being resized", p.Name)
		}
	}
	return ""
}

// starting says that replicas are on their way.
func (c *Controller) starting(o *Observation) string {
	if n := len(c.replicaChanges); n == 0 || !o.Time.Before(c.replicaChanges[n-1].Add(c.guards.Patience)) {
		return ""
	}
	ready := int32(0)
	for _, p := range o.live() {
		if p.Phase == Running && p.Ready {
			ready++
		}
	}
	if ready != o.Replicas {
		return fmt.Sprintf("%d of %d replicas are ready", ready, o.Replicas)
	}
	return ""
}

// compareAll tells whether some amount is larger, and some smaller.
func compareAll(a, b []Resources) (larger, smaller bool) {
	for i := range a {
		larger = larger || a[i].CPU > b[i].CPU || a[i].Memory > b[i].Memory
		smaller = smaller || a[i].CPU < b[i].CPU || a[i].Memory < b[i].Memory
	}
	return larger, smaller
}

func equal(a, b []Resources) bool {
	if len(a) != len(b) {
		return false
	}
	larger, smaller := compareAll(a, b)
	return !larger && !smaller
}
