package mpa

// A Controller decides for one workload. The same observations give the same decisions.
type Controller struct {
	target Target
	agent  Agent
	guards Guards
	memory Memory
	draft  draft // of the present decision; kept to spare the allocation
}

// NewController returns a controller without memory.
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

// Decide passes an observation through the guards and returns the decision.
func (c *Controller) Decide(o *Observation) Decision {
	// A log does not keep the monotonic reading of a clock, so decisions must not use it.
	if t := o.Time.Round(0); t != o.Time {
		plain := *o
		plain.Time, o = t, &plain
	}
	x := &c.draft
	*x = draft{c: c, o: o, Decision: Decision{Time: o.Time, Next: State{Replicas: o.Replicas}}}
	defer func() { *x = draft{} }()
	for _, g := range guards {
		x.guard = g.guard
		if why := g.run(x); why != "" {
			return x.hold(why)
		}
	}
	return x.act()
}

// act ends a decision with its action, if the guards left one.
func (x *draft) act() Decision {
	x.Reason = x.Recommended.Reason
	if x.Action == nil {
		return x.Decision
	}
	m := &x.c.memory
	switch {
	case x.limits:
		m.LimitChanges = append(m.LimitChanges, x.Time)
		x.Next.Limit = x.Action.Limit
	case x.resizes:
		m.RequestChanges = append(m.RequestChanges, x.Time)
		if x.onlyCPU() {
			m.CPUChanges = append(m.CPUChanges, x.Time)
		}
		x.Next.Containers = x.Action.Containers
	default:
		m.ReplicaChanges = append(m.ReplicaChanges, x.Time)
		x.Next.Replicas = x.Action.Replicas
		// New pods are created as the last one was, in the middle of a rollout too.
		if last := requestsOf(newest(x.live), &x.c.target); last != nil {
			x.Next.Containers = last
		}
	}
	m.Asked = &Asked{Time: x.Time, Action: *x.Action}
	return x.Decision
}
