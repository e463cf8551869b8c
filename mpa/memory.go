package mpa

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa/guard"
)

// Memory is what the guards go by besides an observation. It is small and goes through
// JSON, so that a controller that begins anew, elsewhere, keeps the limits. Its times
// are exact to the nanosecond.
type Memory struct {
	Time time.Time `json:"time,omitzero"` // of the last observation
	// Blind is when usage was missing last that had been known before. If that was the last
	// observation, and long ago, it means all the time since.
	Blind time.Time `json:"blind,omitzero"`
	// Changes that were decided within the last hour.
	ReplicaChanges []time.Time `json:"replicaChanges,omitempty"`
	RequestChanges []time.Time `json:"requestChanges,omitempty"`
	// Asked is the last action while it is not seen to be done.
	Asked      *Asked            `json:"asked,omitempty"`
	Containers []ContainerMemory `json:"containers,omitempty"`
}

// Asked is an action and when it was decided.
type Asked struct {
	Time   time.Time `json:"time"`
	Action Action    `json:"action"`
}

// ContainerMemory is what is remembered of a container over all pods.
type ContainerMemory struct {
	Name string `json:"name"`
	// Peaks of memory, one an hour at most, each larger than all after it.
	Peaks Peaks `json:"peaks,omitempty"`
	// Ceiling is what a node gave when it could not give more, and when.
	Ceiling     Resources `json:"ceiling,omitzero"`
	CeilingTime time.Time `json:"ceilingTime,omitzero"`
}

// A Peak of memory.
type Peak struct {
	Time   time.Time `json:"time"`
	Memory int64     `json:"memory"` // bytes
}

// Memory is a copy of what the controller remembers.
func (c *Controller) Memory() Memory { return c.memory.clone() }

func (m *Memory) clone() Memory {
	n := *m
	n.ReplicaChanges, n.RequestChanges = slices.Clone(m.ReplicaChanges), slices.Clone(m.RequestChanges)
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

// Restore makes a controller that has seen nothing remember. Containers that the
// target does not have are left out; a time after the memory's own counts as that.
func (c *Controller) Restore(m Memory) error {
	m = m.clone()
	for i, k := range m.Containers {
		if !possible(k.Ceiling) || slices.ContainsFunc(k.Peaks, func(p Peak) bool { return !possible(Resources{Memory: p.Memory}) }) {
			return fmt.Errorf("memory: containers[%d] %s: an amount is negative or more than any machine has", i, k.Name)
		}
	}
	if m.Time.IsZero() && (len(m.ReplicaChanges) > 0 || len(m.RequestChanges) > 0) {
		return errors.New("memory: changes without the time that they are remembered at")
	}
	if a := m.Asked; a != nil && (a.Action.Replicas < 0 || a.Action.Replicas == 0 && len(a.Action.Containers) != len(c.target.Containers)) {
		m.Asked = nil // of a target that was another
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
	c.memory = m
	return nil
}

// each visits the times of what is remembered.
func (m *Memory) each(visit func(t *time.Time)) {
	for _, list := range [][]time.Time{m.ReplicaChanges, m.RequestChanges} {
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

// tick takes the time of an observation in and says by how much the clock jumped.
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
		m.Blind = now.Add(-time.Microsecond) // what was missing at the last look was missing until now
	}
	return jump
}

// remember keeps what the guards need of an observation.
func (c *Controller) remember(x *draft) {
	m, o := &c.memory, x.o
	m.ReplicaChanges = guard.LastHour(m.ReplicaChanges, o.Time)
	m.RequestChanges = guard.LastHour(m.RequestChanges, o.Time)
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
		if !k.CeilingTime.After(o.Time.Add(-time.Hour)) {
			k.Ceiling, k.CeilingTime = Resources{}, time.Time{}
		}
	}
}

// seen takes in what pods tell of a container.
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
			if p.Resize == Infeasible {
				m.Ceiling, m.CeilingTime = k.Actual, o.Time
			}
		}
	}
	m.Peaks.Add(o.Time, most, g.PeakWindow)
}

// Peaks of memory, ascending in time, each larger than all after it.
type Peaks []Peak

// Add takes in the memory seen now; 0 = none was. It keeps the peaks of a window
// that no later one exceeds, one an hour.
func (p *Peaks) Add(now time.Time, memory int64, window time.Duration) {
	old := now.Add(-window)
	list := slices.DeleteFunc(*p, func(p Peak) bool { return !p.Time.After(old) || p.Memory <= memory })
	switch n := len(list); {
	case memory == 0:
	case n > 0 && list[n-1].Time.Truncate(time.Hour).Equal(now.Truncate(time.Hour)):
		list[n-1].Time = now // the larger of an hour stands for all of it
	default:
		list = append(list, Peak{now, memory})
	}
	*p = list
}

// Max is the largest peak in bytes, 0 without one.
func (p Peaks) Max() int64 {
	most := int64(0)
	for _, k := range p {
		most = max(most, k.Memory)
	}
	return most
}

// done reports whether an action is seen to be done: by all pods when it is of their
// requests.
func (c *Controller) done(o *Observation, a *Action) bool {
	if a.Replicas != 0 {
		return o.Replicas == a.Replicas
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
