package mpa

import (
	"fmt"
	"time"
)

// A check is a guard: it bounds a decision, or holds it by returning the reason. Checks
// without a name are steps between guards.
type check struct {
	guard string
	run   func(x *draft) (hold string)
}

// guards in the order that an observation meets them.
var guards = []check{
	{"freshness", (*draft).plausible},
	{"", (*draft).remember},
	{"clock", (*draft).steady},
	{"freshness", (*draft).stale},

	{"", (*draft).ask},
	{"bounds", (*draft).switchedOff},
	{"freshness", (*draft).unmeasured},
	{"agent", (*draft).sane},
	{"bounds", (*draft).boundReplicas},
	{"", (*draft).boundSizes}, // by sizeGuards, container by container
	{"bounds", (*draft).boundLimit},
	{"freshness", (*draft).onlyMemory},
	{"freshness", (*draft).filling},

	{"", (*draft).choose},
	{"pending", (*draft).resizing},
	{"pending", (*draft).unseen},
	{"pending", (*draft).underWay},
	{"pending", (*draft).starting},
	{"cool-down", (*draft).budget},
	{"cool-down", (*draft).apart},
	{"cool-down", (*draft).limitApart},
	{"order", (*draft).order},
	{"off", (*draft).off},
}

// A draft is a decision on its way through the guards.
type draft struct {
	Decision
	c     *Controller
	o     *Observation
	guard string // the check that runs

	live  []Pod
	now   []Resources   // requests of the pods; nil = unknown
	fresh bool          // some usage is new enough to act on
	jump  time.Duration // of the clock

	// The recommendation after the guards so far.
	recommended Recommendation
	replicas    int32
	requests    []Resources
	limit       int32 // 0 = as it is
	size        size  // of the container that is bounded now

	// The dimension that changes: the requests, the limit, or the replicas.
	resizes bool
	limits  bool
	shrinks bool
	both    bool   // the other would change as well
	urgent  string // reason that the pending guards do not apply
}

// note records a change by the present guard.
func (x *draft) note(format string, args ...any) { x.noteAs(x.guard, format, args...) }

func (x *draft) noteAs(name, format string, args ...any) {
	x.Guards = append(x.Guards, name+": "+fmt.Sprintf(format, args...))
}

// hold ends a decision without an action.
func (x *draft) hold(why string) Decision {
	x.Reason = why
	if x.guard != "" {
		x.note("%s", why)
	}
	x.Action = nil
	return x.Decision
}

// ask calls the agent.
func (x *draft) ask() string {
	x.Recommended = x.c.agent.Recommend(x.o)
	x.recommended = x.Recommended
	return ""
}

// choose picks the one dimension that changes: a lower limit, which is active at once, then
// more memory after a kill, more replicas, sizes, fewer replicas, and last a higher limit.
func (x *draft) choose() string {
	larger, smaller := compareAll(x.requests, x.now)
	scales, sizes := x.replicas != x.o.Replicas, larger || smaller
	// If a limit changed just now, or no gate applies it, the others do not wait for it.
	first := x.lowers() && !x.limitUnderWay() && x.limitSoon() == ""
	if x.limit != 0 && (first || !scales && !sizes) {
		x.limits, x.both, x.Action = true, scales || sizes, &Action{Limit: x.limit}
		return ""
	}
	if !scales && !sizes {
		return "nothing to change: " + x.Recommended.Reason
	}
	if x.escapesMemory() {
		x.resizes, x.urgent = true, "more memory first: a container ran out of it"
	} else {
		x.resizes = sizes && x.replicas <= x.o.Replicas
	}
	if x.resizes {
		x.shrinks, x.Action = smaller && !larger, &Action{Containers: x.requests}
		return ""
	}
	x.shrinks, x.both, x.Action = x.replicas < x.o.Replicas, sizes, &Action{Replicas: x.replicas}
	return ""
}

// escapesMemory reports whether a container that recently ran out of memory would get more
// of it.
func (x *draft) escapesMemory() bool {
	for i, spec := range x.c.target.Containers {
		if x.requests[i].Memory > x.now[i].Memory && anyContainer(x.live, func(k *Container) bool {
			return k.Name == spec.Name && (Metric{Time: k.Killed}).Known(x.Time, x.c.guards.Patience)
		}) {
			return true
		}
	}
	return false
}

// order records which of two changes is first.
func (x *draft) order() string {
	switch {
	case x.urgent != "":
		x.note("%s", x.urgent)
	case x.both && x.limits:
		x.note("a lower limit first, replicas and sizes next")
	case x.both:
		x.note("replicas first, sizes next")
	}
	return ""
}

// off drops the action in mode Off.
func (x *draft) off() string {
	if x.c.target.Off {
		x.note("nothing is done; %s would be asked for", *x.Action)
		x.Action = nil
	}
	return ""
}

// compareAll reports whether some amount is larger, and whether some is smaller.
func compareAll(a, b []Resources) (larger, smaller bool) {
	for i := range a {
		larger = larger || a[i].CPU > b[i].CPU || a[i].Memory > b[i].Memory
		smaller = smaller || a[i].CPU < b[i].CPU || a[i].Memory < b[i].Memory
	}
	return larger, smaller
}
