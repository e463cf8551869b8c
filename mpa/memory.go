package mpa

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa/guard"
)

// Memory is the state of the guards between observations. It is small and can be written as
// JSON, so that another controller, elsewhere, keeps the same limits. Its times are exact to
// the nanosecond.
type Memory struct {
	Time time.Time `json:"time,omitzero"` // of the last observation
	// Blind is the last time at which usage that had been measured before was missing. Equal
	// to Time, it applies until the next observation.
	Blind time.Time `json:"blind,omitzero"`
	// Changes decided within the last hour.
	ReplicaChanges []time.Time `json:"replicaChanges,omitempty"`
	RequestChanges []time.Time `json:"requestChanges,omitempty"`
	// CPUChanges are those of RequestChanges that changed cpu alone, where the guards have a
	// budget of their own for them.
	CPUChanges   []time.Time `json:"cpuChanges,omitempty"`
	LimitChanges []time.Time `json:"limitChanges,omitempty"`
	// Asked is the last action until it is observed to be done.
	Asked      *Asked            `json:"asked,omitempty"`
	Containers []ContainerMemory `json:"containers,omitempty"`
}

// Asked is an action and the time of its decision.
type Asked struct {
	Time   time.Time `json:"time"`
	Action Action    `json:"action"`
}

// ContainerMemory is the memory of one container over all pods.
type ContainerMemory struct {
	Name string `json:"name"`
	// Peaks of memory, one an hour at most, each larger than all after it.
	Peaks Peaks `json:"peaks,omitempty"`
	// Ceiling is the most that a pod had, or was about to get, while nodes could not give most
	// pods more, and the time of that; 0 = no ceiling for this resource.
	Ceiling     Resources `json:"ceiling,omitzero"`
	CeilingTime time.Time `json:"ceilingTime,omitzero"`
}

// A Peak of memory.
type Peak struct {
	Time   time.Time `json:"time"`
	Memory int64     `json:"memory"` // bytes
}

// Memory returns a copy of the guards' state.
func (c *Controller) Memory() Memory { return c.memory.clone() }

func (m *Memory) clone() Memory {
	n := *m
	n.ReplicaChanges, n.RequestChanges = slices.Clone(m.ReplicaChanges), slices.Clone(m.RequestChanges)
	n.CPUChanges, n.LimitChanges = slices.Clone(m.CPUChanges), slices.Clone(m.LimitChanges)
	if m.Asked != nil {
		asked := *m.Asked
		asked.Action.Containers = slices.Clone(asked.Action.Containers)
		n.Asked = &asked
	}
	n.Containers = slices.Clone(m.Containers)
	for i := range n.Containers {
		n.Containers[i].Peaks = slices.Clone(n.Containers[i].Peaks)
	}
	return n
}

// Restore replaces the guards' state. Containers that the target does not have are dropped;
// times later than the memory's own time are set to it.
func (c *Controller) Restore(m Memory) error {
	m = m.clone()
	for i, k := range m.Containers {
		if !possible(k.Ceiling) || slices.ContainsFunc(k.Peaks, func(p Peak) bool { return !possible(Resources{Memory: p.Memory}) }) {
			return fmt.Errorf("memory: containers[%d] %s: an amount is negative or more than any machine has", i, k.Name)
		}
	}
	if m.Time.IsZero() && len(m.ReplicaChanges)+len(m.RequestChanges)+len(m.CPUChanges)+len(m.LimitChanges) > 0 {
		return errors.New("memory: changes without the time that they are remembered at")
	}
	if a := m.Asked; a != nil && (a.Action.Replicas < 0 || a.Action.Limit < 0 || a.Action.dimension() == ofRequests && len(a.Action.Containers) != len(c.target.Containers)) {
		m.Asked = nil // it belongs to another target
	}
	known := m.Containers
	m.Containers = make([]ContainerMemory, len(c.target.Containers))
	for i, spec := range c.target.Containers {
		m.Containers[i].Name = spec.Name
		if j := slices.IndexFunc(known, func(k ContainerMemory) bool { return k.Name == spec.Name }); j >= 0 {
			m.Containers[i] = known[j]
		}
	}
	m.each(func(t *time.Time) {
		if t.After(m.Time) {
			*t = m.Time
		}
	})
	slices.SortFunc(m.ReplicaChanges, time.Time.Compare)
	slices.SortFunc(m.RequestChanges, time.Time.Compare)
	slices.SortFunc(m.CPUChanges, time.Time.Compare)
	slices.SortFunc(m.LimitChanges, time.Time.Compare)
	c.memory = m
	return nil
}

// each visits all remembered times but that of the last observation.
func (m *Memory) each(visit func(t *time.Time)) {
	for _, list := range [][]time.Time{m.ReplicaChanges, m.RequestChanges, m.CPUChanges, m.LimitChanges} {
		for i := range list {
			visit(&list[i])
		}
	}
	visit(&m.Blind)
	if m.Asked != nil {
		visit(&m.Asked.Time)
	}
	for i := range m.Containers {
		k := &m.Containers[i]
		visit(&k.CeilingTime)
		for j := range k.Peaks {
			visit(&k.Peaks[j].Time)
		}
	}
}

// tick sets the time of the last observation and returns by how much the clock jumped.
func (c *Controller) tick(now time.Time) time.Duration {
	m := &c.memory
	last, blind := m.Time, m.Blind.Equal(m.Time)
	m.Time = now
	jump := guard.Clock(c.guards.Gap).Jump(last, now)
	if jump != 0 {
		m.each(func(t *time.Time) { *t = guard.Moved(*t, jump) })
		Shift(c.agent, jump)
	}
	if blind && !last.IsZero() && now.Sub(last) > c.guards.MaxAge {
		m.Blind = now.Add(-time.Microsecond) // missing since the last observation, until now
	}
	return jump
}

// remember stores the guards' part of an observation.
func (c *Controller) remember(x *draft) {
	m, o := &c.memory, x.o
	m.ReplicaChanges = guard.LastHour(m.ReplicaChanges, o.Time)
	m.RequestChanges = guard.LastHour(m.RequestChanges, o.Time)
	m.CPUChanges = guard.LastHour(m.CPUChanges, o.Time)
	m.LimitChanges = guard.LastHour(m.LimitChanges, o.Time)
	if m.Asked != nil && (c.done(o, &m.Asked.Action) || !o.Time.Before(m.Asked.Time.Add(c.guards.Patience))) {
		m.Asked = nil
	}
	known := slices.ContainsFunc(m.Containers, func(k ContainerMemory) bool { return len(k.Peaks) > 0 })
	if (known || !m.Blind.IsZero()) && o.Replicas > 0 && !x.fresh {
		m.Blind = o.Time
	}
	for i := range m.Containers {
		k := &m.Containers[i]
		k.seen(x, &c.guards)
		if k.Ceiling == (Resources{}) || !k.CeilingTime.After(o.Time.Add(-time.Hour)) {
			k.Ceiling, k.CeilingTime = Resources{}, time.Time{}
		}
	}
}

// seen adds an observation of a container.
func (m *ContainerMemory) seen(x *draft, g *Guards) {
	most, o := int64(0), x.o
	for i := range x.live {
		p := &x.live[i]
		for j := range p.Containers {
			k := &p.Containers[j]
			if k.Name != m.Name {
				continue
			}
			if k.Usage.Known(o.Time, g.MaxAge) {
				most = max(most, k.Usage.Memory)
			}
			if k.Killed.After(o.Time.Add(-g.PeakWindow)) {
				most = max(most, k.Request.Memory)
			}
		}
	}
	m.Peaks.Add(o.Time, most, g.PeakWindow)
	if slices.ContainsFunc(x.live, func(p Pod) bool { return p.Resize == Infeasible }) {
		m.Ceiling.CPU = x.ceiling(m.Name, func(r Resources) int64 { return r.CPU })
		m.Ceiling.Memory = x.ceiling(m.Name, func(r Resources) int64 { return r.Memory })
		m.CeilingTime = o.Time
	}
}

// ceiling returns the ceiling of one resource of a container. It is 0 where at least as many
// running pods have more than those with an infeasible resize, or wait for more, as there are of
// these: the nodes differ, and the size is not that of a few pods. Otherwise it is the most that
// any pod has. A size that a pod waits for is one of these within Guards.Patience only.
func (x *draft) ceiling(container string, of func(Resources) int64) int64 {
	top, most, refused, more := int64(0), int64(0), 0, 0
	each := func(visit func(p *Pod, has, asks int64)) {
		for i := range x.live {
			for _, k := range x.live[i].Containers {
				if k.Name == container {
					visit(&x.live[i], of(k.Actual), of(k.Request))
				}
			}
		}
	}
	each(func(p *Pod, has, _ int64) {
		if p.Resize == Infeasible {
			refused++
			top = max(top, has)
		}
	})
	each(func(p *Pod, has, asks int64) {
		if p.Resize == Infeasible || p.Phase != Running {
			return
		}
		if max(has, asks) > top {
			more++
		}
		if p.Resize == NoResize || x.awaits(p) {
			has = max(has, asks)
		}
		most = max(most, has)
	})
	if more >= refused {
		return 0
	}
	return max(top, most)
}

// Peaks of memory, ascending in time, each larger than all after it.
type Peaks []Peak

// Add adds the memory observed now; 0 = no measurement. It keeps the peaks of a window that
// no later one exceeds, one an hour.
func (p *Peaks) Add(now time.Time, memory int64, window time.Duration) {
	old := now.Add(-window)
	list := slices.DeleteFunc(*p, func(p Peak) bool { return !p.Time.After(old) || p.Memory <= memory })
	switch n := len(list); {
	case memory == 0:
	case n > 0 && list[n-1].Time.Truncate(time.Hour).Equal(now.Truncate(time.Hour)):
		list[n-1].Time = now // one peak, the largest, represents an hour
	default:
		list = append(list, Peak{now, memory})
	}
	*p = list
}

// Max returns the largest peak in bytes, 0 without one.
func (p *Peaks) Max() int64 {
	most := int64(0)
	for _, k := range *p {
		most = max(most, k.Memory)
	}
	return most
}

// done reports whether an observation shows an action as done; a change of requests, in
// all pods.
func (c *Controller) done(o *Observation, a *Action) bool {
	switch a.dimension() {
	case ofReplicas:
		return o.Replicas == a.Replicas
	case ofLimit:
		return o.Gates.Limit == a.Limit
	case ofRequests:
	}
	for _, p := range o.Live() {
		for _, k := range p.Containers {
			for i, spec := range c.target.Containers {
				if spec.Name == k.Name && (spec.CPU && k.Request.CPU != a.Containers[i].CPU || spec.Memory && k.Request.Memory != a.Containers[i].Memory) {
					return false
				}
			}
		}
	}
	return true
}
