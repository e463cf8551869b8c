package mpa

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Guards bound what is done of what an agent would like.
type Guards struct {
	// MaxAge of the newest usage: nothing is done on older data.
	MaxAge time.Duration `json:"maxAgeNanoseconds"`
	// Step is the largest change of a request at once, as a share of it.
	Step float64 `json:"step"`
	// DeadBand is the share by which a request has to differ to be changed.
	DeadBand float64 `json:"deadBand"`
	// ReplicaChanges and RequestChanges are the most in any hour. Shrinking may use
	// half of them, so that there is always one left to grow.
	ReplicaChanges int `json:"replicaChanges"`
	RequestChanges int `json:"requestChanges"`
	// CoolDown is the least time between two changes of requests, and between any
	// change and one that shrinks.
	CoolDown time.Duration `json:"coolDownNanoseconds"`
	// Headroom over the largest memory that was seen in PeakWindow; memory is never
	// asked for below.
	Headroom   float64       `json:"headroom"`
	PeakWindow time.Duration `json:"peakWindowNanoseconds"`
	// Gap between two observations from which on, as when time goes back, the clock is
	// taken to have jumped: nothing is done at once, and the time in between counts
	// for no limit.
	Gap time.Duration `json:"gapNanoseconds"`
	// Patience with pods that do not start and resizes that wait for room; then they no
	// longer hold up the other dimension. With usage that was missing too: nothing
	// shrinks until it has been back for that long, or for its window if that is longer.
	Patience time.Duration `json:"patienceNanoseconds"`
}

// DefaultGuards are those of a controller that is not told otherwise.
func DefaultGuards() Guards {
	return Guards{
		MaxAge: 2 * time.Minute, Step: .5, DeadBand: .1,
		ReplicaChanges: 12, RequestChanges: 6, CoolDown: time.Minute,
		Headroom: 1.2, PeakWindow: 24 * time.Hour, Gap: 10 * time.Minute, Patience: 5 * time.Minute,
	}
}

// Validate reports the first thing that is wrong with guards.
func (g *Guards) Validate() error {
	switch {
	case g.MaxAge <= 0 || g.Gap <= 0 || g.PeakWindow <= 0:
		return fmt.Errorf("guards: maxAge %v, gap %v, peakWindow %v: want more than 0", g.MaxAge, g.Gap, g.PeakWindow)
	case g.CoolDown < 0 || g.Patience < 0:
		return fmt.Errorf("guards: coolDown %v, patience %v: want at least 0", g.CoolDown, g.Patience)
	case !(g.Step > 0) || !(g.DeadBand >= 0):
		return fmt.Errorf("guards: step %v, deadBand %v: want more than 0, at least 0", g.Step, g.DeadBand)
	case !(g.Headroom >= 0 && g.Headroom <= math.MaxFloat64):
		return fmt.Errorf("guards: headroom %v: want a number from 0 up", g.Headroom)
	case g.ReplicaChanges < 0 || g.RequestChanges < 0:
		return fmt.Errorf("guards: replicaChanges %d, requestChanges %d: want at least 0", g.ReplicaChanges, g.RequestChanges)
	}
	return nil
}

// An Action changes one dimension: the number of replicas or the requests of all
// pods. It says what there is to be, so doing it twice is doing it once.
type Action struct {
	Replicas   int32       `json:"replicas,omitempty"`   // 0 = as they are
	Containers []Resources `json:"containers,omitempty"` // in the target's order; nil = as they are
}

// A State of a workload: replicas and the requests of each pod, in the order of the
// target's containers.
type State struct {
	Replicas   int32       `json:"replicas"`
	Containers []Resources `json:"containers,omitempty"` // nil = not known
}

// A Decision is what came of an observation.
type Decision struct {
	Time        time.Time      `json:"time"`
	Recommended Recommendation `json:"recommended"`
	// Wanted is what was recommended within bounds, above the memory in use and below
	// what no node can give: where the steps lead to. Zero when nothing could be said.
	Wanted State `json:"wanted,omitzero"`
	// Next is all that is to be when the action is done; without one, what is.
	Next   State   `json:"next"`
	Action *Action `json:"action,omitempty"` // the dimension that changes; nil = hold
	// Guards that changed or stopped what was recommended, in order.
	Guards []string `json:"guards,omitempty"`
	// Reason of the action, or of holding.
	Reason string `json:"reason"`
}

// A Controller decides for one workload. The same observations give the same decisions.
type Controller struct {
	target Target
	agent  Agent
	guards Guards
	memory Memory
}

// NewController is a controller that has seen nothing.
func NewController(t Target, a Agent, g Guards) (*Controller, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	if err := g.Validate(); err != nil {
		return nil, err
	}
	c := &Controller{target: t, agent: a, guards: g}
	for _, spec := range t.Containers {
		c.memory.Containers = append(c.memory.Containers, ContainerMemory{Name: spec.Name})
	}
	return c, nil
}

// Decide takes an observation in and says what to do.
func (c *Controller) Decide(o *Observation) Decision {
	// A log does not keep the monotonic reading of a clock, so nothing may go by it.
	if t := o.Time.Round(0); t != o.Time {
		plain := *o
		plain.Time, o = t, &plain
	}
	d := Decision{Time: o.Time, Next: State{Replicas: o.Replicas}}
	if why := implausible(o); why != "" {
		return d.hold("freshness", "%s", why)
	}
	now := o.Requests(&c.target)
	d.Next.Containers = now
	jump := c.tick(o.Time)
	c.remember(o)
	switch {
	case jump != 0:
		return d.hold("clock", "%v since the last observation: what is remembered keeps its age, nothing is done at once", jump)
	case o.Replicas > 0 && !c.fresh(o) && !c.killed(o):
		return d.hold("freshness", "no usage that is at most %v old", c.guards.MaxAge)
	}
	d.Recommended = c.agent.Recommend(o)
	switch {
	case o.Replicas == 0:
		return d.hold("bounds", "0 replicas: the workload is switched off")
	case now == nil:
		return d.hold("freshness", "no pod tells the present requests")
	}
	r := c.sane(&d)
	replicas := c.replicas(&d, o, r.Replicas)
	wanted, requests := c.requests(&d, now, r.Containers)
	d.Wanted = State{Replicas: replicas, Containers: wanted}
	switch {
	case o.Replicas > 0 && !c.fresh(o):
		replicas = o.Replicas
		for i := range requests {
			requests[i] = Resources{CPU: now[i].CPU, Memory: max(requests[i].Memory, now[i].Memory)}
		}
		d.guard("freshness", "no usage that is at most %v old: only more memory, because a container ran out of it", c.guards.MaxAge)
	case o.Time.Sub(c.memory.Blind) < c.filling(o):
		// A rate over a window that is not filled yet tells less than there is.
		_, smaller := compareAll(requests, now)
		if replicas < o.Replicas || smaller {
			d.guard("freshness", "usage was not seen %v ago: nothing shrinks for %v", o.Time.Sub(c.memory.Blind).Round(time.Second), c.filling(o))
		}
		replicas = max(replicas, c.target.Replicas.Clamp(o.Replicas))
		for i, spec := range c.target.Containers {
			requests[i] = requests[i].Max(spec.Clamp(now[i]).Min(now[i]))
		}
	}
	larger, smaller := compareAll(requests, now)
	switch {
	case replicas == o.Replicas && !larger && !smaller:
		d.Reason = "nothing to change: " + d.Recommended.Reason
		return d
	case c.escapesMemory(o, requests, now):
		return c.resize(d, o, requests, "more memory first: a container ran out of it")
	case replicas > o.Replicas:
		return c.scale(d, o, replicas, larger || smaller)
	case larger || smaller:
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

const (
	// What no container has and no workload is asked: numbers above are mistakes.
	mostCPU  = 1e9 // millicores
	mostRate = 1e12
	// longestWindow that usage can be averaged over.
	longestWindow = 24 * time.Hour
)

// implausible says why an observation cannot be true.
func implausible(o *Observation) string {
	if y := o.Time.Year(); y < 1970 || y > 2200 {
		return fmt.Sprintf("it is not the year %d", y)
	}
	if o.Replicas < 0 {
		return fmt.Sprintf("there are %d replicas", o.Replicas)
	}
	for i := range o.Pods {
		p := &o.Pods[i]
		// Pods come by name; out of order they are compared with all before.
		if i > 0 && o.Pods[i-1].Name >= p.Name && slices.ContainsFunc(o.Pods[:i], func(q Pod) bool { return q.Name == p.Name }) {
			return fmt.Sprintf("pod %s is listed twice", p.Name)
		}
		for j := range p.Containers {
			k := &p.Containers[j]
			if slices.ContainsFunc(p.Containers[:j], func(l Container) bool { return l.Name == k.Name }) {
				return fmt.Sprintf("container %s of pod %s is listed twice", k.Name, p.Name)
			}
			switch {
			case k.Usage.CPU < 0 || k.Usage.Memory < 0:
				return fmt.Sprintf("usage of pod %s is negative", p.Name)
			case !plausible(k.Usage.Resources):
				return fmt.Sprintf("usage of pod %s is more than any machine has", p.Name)
			case !plausible(k.Request) || !plausible(k.Actual):
				return fmt.Sprintf("requests of pod %s are negative or more than any machine has", p.Name)
			case k.Usage.Window < 0 || k.Usage.Window > longestWindow:
				return fmt.Sprintf("usage of pod %s is of a window of %v", p.Name, k.Usage.Window)
			}
		}
	}
	for _, m := range []struct {
		name string
		Metric
	}{{"rate", o.Rate}, {"latency", o.Latency}, {"throughput", o.Throughput}} {
		if !m.Time.IsZero() && !(m.Value >= 0 && m.Value <= mostRate) {
			return fmt.Sprintf("%s is not a number from 0 to %g", m.name, float64(mostRate))
		}
	}
	return ""
}

func plausible(r Resources) bool {
	return r.CPU >= 0 && r.CPU <= mostCPU && r.Memory >= 0 && r.Memory <= mostAmount
}

// fresh reports whether some usage is new enough to act on.
func (c *Controller) fresh(o *Observation) bool {
	return slices.ContainsFunc(o.Live(), func(p Pod) bool {
		return slices.ContainsFunc(p.Containers, func(k Container) bool { return k.Usage.Known(o.Time, c.guards.MaxAge) })
	})
}

// killed reports whether a container ran out of memory just now. In a row of kills there
// is no other news: what does not run for long is not measured.
func (c *Controller) killed(o *Observation) bool {
	return slices.ContainsFunc(o.Live(), func(p Pod) bool {
		return slices.ContainsFunc(p.Containers, func(k Container) bool { return (Metric{Time: k.Killed}).Known(o.Time, c.guards.MaxAge) })
	})
}

// filling is how long usage that is back may tell less than there is: as long as there is
// patience, and as its window is long.
func (c *Controller) filling(o *Observation) time.Duration {
	long := c.guards.Patience
	for _, p := range o.Live() {
		for _, k := range p.Containers {
			long = max(long, k.Usage.Window)
		}
	}
	return long
}

// sane is a recommendation without what no agent can mean.
func (c *Controller) sane(d *Decision) Recommendation {
	r := d.Recommended
	if r.Replicas < 0 {
		d.guard("agent", "%d replicas are left out", r.Replicas)
		r.Replicas = 0
	}
	n := len(c.target.Containers)
	if len(r.Containers) != 0 && len(r.Containers) != n || slices.ContainsFunc(r.Containers, func(r Resources) bool { return !plausible(r) }) {
		d.guard("agent", "the sizes are left out: want %d, from 0 to what a machine has", n)
		r.Containers = nil
	}
	return r
}

// replicas are those recommended, within bounds.
func (c *Controller) replicas(d *Decision, o *Observation, want int32) int32 {
	if want == 0 {
		want = o.Replicas
	}
	n := c.target.Replicas.Clamp(want)
	if n != want {
		d.guard("bounds", "%d replicas become %d", want, n)
	}
	return n
}

// requests are those recommended: wanted within bounds and above the memory that was
// used, next also within a step and outside the dead band.
func (c *Controller) requests(d *Decision, now, recommended []Resources) (wanted, next []Resources) {
	wanted, next = make([]Resources, len(now)), make([]Resources, len(now))
	for i, spec := range c.target.Containers {
		want := now[i]
		if i < len(recommended) {
			r := recommended[i]
			if r.CPU > 0 && spec.CPU {
				want.CPU = r.CPU
			}
			if r.Memory > 0 && spec.Memory {
				want.Memory = r.Memory
			}
		}
		want = c.bounded(d, i, want, now[i])
		inside := spec.Clamp(now[i])
		to := Resources{
			CPU:    c.step(d, spec.Name+" cpu", now[i].CPU, want.CPU, inside.CPU != now[i].CPU),
			Memory: c.step(d, spec.Name+" memory", now[i].Memory, want.Memory, inside.Memory != now[i].Memory),
		}
		if floor := min(c.floor(i), now[i].Memory); spec.Memory && min(to.Memory, want.Memory) < floor {
			if to.Memory < floor {
				d.guard("memory", "%s stays at %d MiB or more, %g × the largest use", spec.Name, floor>>20, c.guards.Headroom)
			}
			to.Memory, want.Memory = max(to.Memory, floor), max(want.Memory, floor)
		}
		wanted[i], next[i] = want, to
	}
	return wanted, next
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
	if top := c.memory.Containers[i].Ceiling; top != (Resources{}) {
		if capped := next.Min(top); capped != next {
			d.guard("infeasible", "%s stays at %dm, %d MiB: its node cannot give more", spec.Name, capped.CPU, capped.Memory>>20)
			next = capped
		}
	}
	return next
}

// step limits the change of a request and leaves small ones out, unless the request
// has to come back within its bounds.
func (c *Controller) step(d *Decision, what string, now, want int64, outside bool) int64 {
	if want == now || now == 0 {
		return want
	}
	if !outside && math.Abs(float64(want-now)) < c.guards.DeadBand*float64(now) {
		d.guard("dead band", "%s would change by less than %g %%", what, 100*c.guards.DeadBand)
		return now
	}
	low, high := Scale(now, max(0, 1-c.guards.Step)), Scale(now, 1+c.guards.Step)
	next := min(high, max(low, want))
	if next != want {
		d.guard("step", "%s changes by %g %% at once", what, 100*c.guards.Step)
	}
	return next
}

// floor is the memory that container i is not asked to go below.
func (c *Controller) floor(i int) int64 {
	return Scale(c.memory.Containers[i].Peaks.Max(), c.guards.Headroom)
}

// escapesMemory reports whether a container was killed lately and would get more
// memory.
func (c *Controller) escapesMemory(o *Observation, requests, now []Resources) bool {
	for _, p := range o.Live() {
		for _, k := range p.Containers {
			for i, spec := range c.target.Containers {
				if spec.Name == k.Name && requests[i].Memory > now[i].Memory && (Metric{Time: k.Killed}).Known(o.Time, c.guards.Patience) {
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
	if why := c.unseen(o, true); why != "" {
		return d.hold("pending", "%s", why)
	}
	if why := c.starting(o); why != "" && shrink {
		return d.hold("pending", "%s", why)
	}
	if why := c.tooSoon(o.Time, c.memory.ReplicaChanges, c.guards.ReplicaChanges, shrink); why != "" {
		return d.hold("cool-down", "%s", why)
	}
	if more {
		d.guard("order", "replicas first, sizes next")
	}
	return c.act(d, Action{Replicas: replicas})
}

// resize changes the requests, if nothing speaks against it.
func (c *Controller) resize(d Decision, o *Observation, requests []Resources, urgent string) Decision {
	larger, smaller := compareAll(requests, d.Next.Containers)
	shrink := smaller && !larger
	if urgent == "" {
		for _, why := range []string{c.resizing(o), c.unseen(o, false), c.starting(o)} {
			if why != "" {
				return d.hold("pending", "%s", why)
			}
		}
	}
	if why := c.tooSoon(o.Time, c.memory.RequestChanges, c.guards.RequestChanges, shrink); why != "" {
		return d.hold("cool-down", "%s", why)
	}
	if n := len(c.memory.RequestChanges); n > 0 && urgent == "" && o.Time.Before(c.memory.RequestChanges[n-1].Add(c.guards.CoolDown)) {
		return d.hold("cool-down", "requests changed less than %v ago", c.guards.CoolDown)
	}
	if urgent != "" {
		d.guard("order", "%s", urgent)
	}
	return c.act(d, Action{Containers: requests})
}

// act ends a decision with an action, or with what it would have been.
func (c *Controller) act(d Decision, a Action) Decision {
	d.Reason = d.Recommended.Reason
	if c.target.Off {
		d.guard("off", "nothing is done; %s would be asked for", a)
		return d
	}
	if a.Replicas != 0 {
		c.memory.ReplicaChanges = append(c.memory.ReplicaChanges, d.Time)
		d.Next.Replicas = a.Replicas
	} else {
		c.memory.RequestChanges = append(c.memory.RequestChanges, d.Time)
		d.Next.Containers = a.Containers
	}
	c.memory.Asked = &Asked{Time: d.Time, Action: a}
	d.Action = &a
	return d
}

// String is the action in a few words.
func (a Action) String() string {
	if a.Replicas != 0 {
		return fmt.Sprintf("%d replicas", a.Replicas)
	}
	sizes := make([]string, len(a.Containers))
	for i, r := range a.Containers {
		sizes[i] = fmt.Sprintf("%dm, %d MiB", r.CPU, r.Memory>>20)
	}
	return strings.Join(sizes, "; ")
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
	for _, p := range o.Live() {
		if p.Resize == NoResize || p.Resize == Infeasible {
			continue
		}
		// A time far ahead is of another clock and says nothing.
		if age := o.Time.Sub(p.ResizeSince); age < c.guards.Patience && age > -c.guards.Patience {
			return fmt.Sprintf("pod %s is being resized", p.Name)
		}
	}
	return ""
}

// starting says that replicas are on their way.
func (c *Controller) starting(o *Observation) string {
	if n := len(c.memory.ReplicaChanges); n == 0 || !o.Time.Before(c.memory.ReplicaChanges[n-1].Add(c.guards.Patience)) {
		return ""
	}
	ready := int32(0)
	for _, p := range o.Live() {
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
