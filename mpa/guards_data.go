package mpa

import (
	"fmt"
	"slices"
	"time"
)

const (
	// No container is larger and no workload is asked more: higher numbers are mistakes.
	mostCPU  = 1e9 // millicores
	mostRate = 1e12
	// longestWindow of a usage.
	longestWindow = 24 * time.Hour
)

// plausible holds an observation that cannot be true.
func (x *draft) plausible() string {
	o := x.o
	if y := o.Time.Year(); y < 1970 || y > 2200 {
		return fmt.Sprintf("it is not the year %d", y)
	}
	if o.Replicas < 0 {
		return fmt.Sprintf("there are %d replicas", o.Replicas)
	}
	if o.Gates.Limit < 0 {
		return fmt.Sprintf("the limit is %d", o.Gates.Limit)
	}
	for i := range o.Pods {
		p := &o.Pods[i]
		// Pods are sorted by name. One out of order is compared with all before it.
		if i > 0 && o.Pods[i-1].Name >= p.Name && slices.ContainsFunc(o.Pods[:i], func(q Pod) bool { return q.Name == p.Name }) {
			return fmt.Sprintf("pod %s is listed twice", p.Name)
		}
		if why := implausiblePod(p); why != "" {
			return why
		}
	}
	for _, m := range []struct {
		name string
		Metric
	}{
		{"rate", o.Rate},
		{"latency", o.Latency},
		{"throughput", o.Throughput},
		{"number inside", o.Gates.Inside},
		{"number waiting", o.Gates.Waiting},
		{"rate of the gates", o.Gates.Rate},
		{"rate of failures", o.Gates.Failed},
	} {
		if !m.Time.IsZero() && !(m.Value >= 0 && m.Value <= mostRate) {
			return fmt.Sprintf("%s is not a number from 0 to %g", m.name, float64(mostRate))
		}
	}
	return ""
}

// possible reports whether a container can have an amount.
func possible(r Resources) bool {
	return r.CPU >= 0 && r.CPU <= mostCPU && r.Memory >= 0 && r.Memory <= mostAmount
}

// implausiblePod returns a value of a pod that cannot be true.
func implausiblePod(p *Pod) string {
	for j := range p.Containers {
		k := &p.Containers[j]
		if slices.ContainsFunc(p.Containers[:j], func(l Container) bool { return l.Name == k.Name }) {
			return fmt.Sprintf("container %s of pod %s is listed twice", k.Name, p.Name)
		}
		switch {
		case k.Usage.CPU < 0 || k.Usage.Memory < 0:
			return fmt.Sprintf("usage of pod %s is negative", p.Name)
		case !possible(k.Usage.Resources):
			return fmt.Sprintf("usage of pod %s is more than any machine has", p.Name)
		case !possible(k.Request) || !possible(k.Actual):
			return fmt.Sprintf("requests of pod %s are negative or more than any machine has", p.Name)
		case k.Usage.Window < 0 || k.Usage.Window > longestWindow:
			return fmt.Sprintf("usage of pod %s is of a window of %v", p.Name, k.Usage.Window)
		}
	}
	return ""
}

// remember adds the observation and its time to the memory of the guards.
func (x *draft) remember() string {
	x.Next.Containers, x.Next.Limit = x.o.Requests(&x.c.target), x.o.Gates.Limit
	x.now, x.live = x.Next.Containers, x.o.Live()
	x.fresh = anyContainer(x.live, func(k *Container) bool { return k.Usage.Known(x.Time, x.c.guards.MaxAge) })
	x.jump = x.c.tick(x.Time)
	x.c.remember(x)
	return ""
}

// anyContainer reports whether a container of some pod has a property.
func anyContainer(pods []Pod, has func(k *Container) bool) bool {
	for i := range pods {
		for j := range pods[i].Containers {
			if has(&pods[i].Containers[j]) {
				return true
			}
		}
	}
	return false
}

// steady holds after a jump of the clock.
func (x *draft) steady() string {
	if x.jump == 0 {
		return ""
	}
	return fmt.Sprintf("%v since the last observation: what is remembered keeps its age, nothing is done at once", x.jump)
}

// stale holds without fresh usage, unless a container has just run out of memory: one that
// is killed again and again does not run for long enough to be measured.
func (x *draft) stale() string {
	if x.o.Replicas == 0 || x.fresh || x.killed(x.c.guards.MaxAge) {
		return ""
	}
	return fmt.Sprintf("no usage that is at most %v old", x.c.guards.MaxAge)
}

// killed reports whether a container ran out of memory within some time.
func (x *draft) killed(within time.Duration) bool {
	return anyContainer(x.live, func(k *Container) bool { return (Metric{Time: k.Killed}).Known(x.Time, within) })
}

// unmeasured holds while the present requests are unknown.
func (x *draft) unmeasured() string {
	if x.now == nil {
		return "no pod tells the present requests"
	}
	return ""
}

// onlyMemory allows only more memory after a kill without fresh usage.
func (x *draft) onlyMemory() string {
	if x.fresh {
		return ""
	}
	x.replicas = x.o.Replicas
	if !x.lowers() {
		x.limit = 0
	}
	for i := range x.requests {
		x.requests[i] = Resources{CPU: x.now[i].CPU, Memory: max(x.requests[i].Memory, x.now[i].Memory)}
	}
	x.note("no usage that is at most %v old: only more memory, because a container ran out of it", x.c.guards.MaxAge)
	return ""
}

// filling lets nothing shrink until usage has been back for Guards.Patience, and for its
// window if that is longer: the mean over a window that is not filled yet is too low.
func (x *draft) filling() string {
	long := x.c.guards.Patience
	for i := range x.live {
		for _, k := range x.live[i].Containers {
			long = max(long, k.Usage.Window)
		}
	}
	since := x.Time.Sub(x.c.memory.Blind)
	if !x.fresh || since >= long {
		return ""
	}
	_, smaller := compareAll(x.requests, x.now)
	if x.replicas < x.o.Replicas || smaller {
		x.note("usage was not seen %v ago: nothing shrinks for %v", since.Round(time.Second), long)
	}
	x.replicas = max(x.replicas, x.c.target.Replicas.Clamp(x.o.Replicas))
	for i, spec := range x.c.target.Containers {
		x.requests[i] = x.requests[i].Max(spec.Clamp(x.now[i]).Min(x.now[i]))
	}
	return ""
}
