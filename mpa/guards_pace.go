package mpa

import (
	"fmt"
	"time"

	"github.com/sigma-scheduler/sigma/mpa/guard"
)

// grows reports whether the action is more replicas. They serve while resizes wait.
func (x *draft) grows() bool { return !x.resizes && !x.limits && !x.shrinks }

// resizing holds while a resize is under way and may still be completed, unless the replicas
// grow.
func (x *draft) resizing() string {
	if x.urgent != "" || x.limits || x.grows() {
		return ""
	}
	for i := range x.live {
		p := &x.live[i]
		if x.awaits(p) {
			return fmt.Sprintf("pod %s is being resized", p.Name)
		}
	}
	return ""
}

// awaits reports whether a pod's resize may still be completed.
func (x *draft) awaits(p *Pod) bool {
	if p.Resize == NoResize || p.Resize == Infeasible {
		return false
	}
	// A time far ahead is of another clock and is ignored.
	age := x.o.Time.Sub(p.ResizeSince)
	return age < x.c.guards.Patience && age > -x.c.guards.Patience
}

// unseen holds while the last action is not observed yet: the same dimension for Guards.Patience, the other one for a cool-down. More
// replicas wait for replicas only, and more memory after a kill only where as much was asked for, for a cool-down.
func (x *draft) unseen() string {
	a := x.c.memory.Asked
	if a == nil {
		return ""
	}
	age := x.Time.Sub(a.Time)
	if x.urgent != "" && (age >= x.c.guards.CoolDown || moreMemory(x.requests, a.Action.Containers)) {
		return ""
	}
	if a.Action.dimension() != x.Action.dimension() && (x.grows() || age >= x.c.guards.CoolDown) || x.limits && x.lowers() {
		return ""
	}
	return fmt.Sprintf("%s: asked for %v ago and not there yet", a.Action, age)
}

// moreMemory reports whether some container is to get more memory than was asked for.
func moreMemory(requests, asked []Resources) bool {
	for i := range requests {
		if i >= len(asked) || requests[i].Memory > asked[i].Memory {
			return true
		}
	}
	return false
}

// underWay holds while pods are still getting the size that was asked for within the last
// hour: the newest pod has it, most others do not.
func (x *draft) underWay() string {
	if !x.resizes || x.urgent != "" || len(x.c.memory.RequestChanges) == 0 || x.c.target.Newest {
		return ""
	}
	for _, p := range newest(x.live) {
		if !x.c.done(&Observation{Pods: []Pod{p}}, x.Action) {
			return ""
		}
	}
	return "the newest pod has this size, and others are to get it"
}

// starting holds while replicas are not ready, unless their number grows.
func (x *draft) starting() string {
	changes, patience := x.c.memory.ReplicaChanges, x.c.guards.Patience
	if x.urgent != "" || x.limits || x.grows() || guard.CoolDown(patience).Over(changes, x.Time) {
		return ""
	}
	ready := int32(0)
	for i := range x.live {
		if p := &x.live[i]; p.Phase == Running && p.Ready {
			ready++
		}
	}
	if ready != x.o.Replicas {
		return fmt.Sprintf("%d of %d replicas are ready", ready, x.o.Replicas)
	}
	return ""
}

// budget limits the changes in an hour, and keeps the time between any change and one that
// shrinks. Growth that restarts no pod has no budget: the shrinks between bound flapping.
func (x *draft) budget() string {
	if x.limits {
		return ""
	}
	changes, most := x.c.memory.ReplicaChanges, x.c.guards.ReplicaChanges
	switch {
	case !x.resizes:
	case x.onlyCPU():
		changes, most = x.c.memory.CPUChanges, x.c.guards.CPUChanges
	default:
		changes, most = x.c.memory.otherRequests(), x.c.guards.RequestChanges
	}
	why := guard.Budget{PerHour: most, CoolDown: guard.CoolDown(x.c.guards.CoolDown)}.Refuse(changes, x.Time, x.shrinks)
	if why == "" || x.shrinks || x.resizes && x.urgent == "" && x.c.guards.CPUChanges == 0 {
		return why
	}
	for i := range x.requests { // the action's
		x.requests[i] = x.requests[i].Max(x.now[i])
	}
	return ""
}

// limitApart keeps the time between two changes of the limit. A lower one is let pass where
// a container has just run out of memory.
func (x *draft) limitApart() string {
	if !x.limits {
		return ""
	}
	return x.limitSoon()
}

func (x *draft) limitSoon() string {
	g := &x.c.guards
	if guard.CoolDown(g.CoolDown).Over(x.c.memory.LimitChanges, x.Time) || x.lowers() && x.killed(g.CoolDown) {
		return ""
	}
	return fmt.Sprintf("the limit changed less than %v ago", g.CoolDown)
}

// limitUnderWay reports whether so low a limit was asked for last, and no gate has it yet.
func (x *draft) limitUnderWay() bool {
	a := x.c.memory.Asked
	return a != nil && a.Action.Limit != 0 && x.limit >= a.Action.Limit
}

// onlyCPU reports whether the action changes cpu alone and the guards have a budget for
// that: an in-place change restarts no container.
func (x *draft) onlyCPU() bool {
	if x.c.guards.CPUChanges == 0 || !x.resizes {
		return false
	}
	for i := range x.requests {
		if x.requests[i].Memory != x.now[i].Memory {
			return false
		}
	}
	return true
}

// otherRequests returns the changes of requests that did not change cpu alone.
func (m *Memory) otherRequests() []time.Time {
	if len(m.CPUChanges) == 0 {
		return m.RequestChanges
	}
	cpu, i := m.CPUChanges, 0
	var list []time.Time
	for _, t := range m.RequestChanges {
		for i < len(cpu) && cpu[i].Before(t) {
			i++
		}
		if i == len(cpu) || !cpu[i].Equal(t) {
			list = append(list, t)
		}
	}
	return list
}

// apart keeps the time between two changes of requests.
func (x *draft) apart() string {
	if !x.resizes || x.urgent != "" || guard.CoolDown(x.c.guards.CoolDown).Over(x.c.memory.RequestChanges, x.Time) {
		return ""
	}
	return fmt.Sprintf("requests changed less than %v ago", x.c.guards.CoolDown)
}
