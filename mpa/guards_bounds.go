package mpa

import (
	"cmp"
	"math"
	"slices"
)

// switchedOff holds a workload of 0 replicas.
func (x *draft) switchedOff() string {
	if x.o.Replicas == 0 {
		return "0 replicas: the workload is switched off"
	}
	return ""
}

// sane drops recommendations that make no sense.
func (x *draft) sane() string {
	r := &x.recommended
	if r.Replicas < 0 {
		x.note("%d replicas are left out", r.Replicas)
		r.Replicas = 0
	}
	n := len(x.c.target.Containers)
	if len(r.Containers) != 0 && len(r.Containers) != n || slices.ContainsFunc(r.Containers, func(r Resources) bool { return !possible(r) }) {
		x.note("the sizes are left out: want %d, from 0 to what a machine has", n)
		r.Containers = nil
	}
	return ""
}

// boundReplicas keeps the replicas within bounds.
func (x *draft) boundReplicas() string {
	want := x.recommended.Replicas
	want = cmp.Or(want, x.o.Replicas)
	if x.replicas = x.c.target.Replicas.Clamp(want); x.replicas != want {
		x.note("%d replicas become %d", want, x.replicas)
	}
	return ""
}

// boundLimit keeps the limit within bounds, and drops one where no gate could hold it.
func (x *draft) boundLimit() string {
	want, bounds := x.recommended.Limit, x.c.target.Limit
	if want <= 0 || bounds == (Range{}) {
		if want != 0 {
			x.note("a limit of %d is left out", want)
		}
		return ""
	}
	next := bounds.Clamp(want)
	if next != want {
		x.note("a limit of %d becomes %d", want, next)
	}
	x.Wanted.Limit = next
	if next != x.o.Gates.Limit {
		x.limit = next
	}
	return ""
}

// lowers reports whether the limit would fall; 0 is any number.
func (x *draft) lowers() bool { return x.o.Gates.Limit == 0 || x.limit < x.o.Gates.Limit }

// boundSizes passes each container through sizeGuards. Wanted is within bounds and above
// the memory in use; the requests are also within a step and outside the dead band.
func (x *draft) boundSizes() string {
	n := len(x.now)
	wanted := make([]Resources, n)
	x.requests = make([]Resources, n)
	for i, spec := range x.c.target.Containers {
		s := &x.size
		*s = size{draft: x, i: i, spec: spec, now: x.now[i], want: x.now[i]}
		if i < len(x.recommended.Containers) {
			r := x.recommended.Containers[i]
			if r.CPU > 0 && spec.CPU {
				s.want.CPU = r.CPU
			}
			if r.Memory > 0 && spec.Memory {
				s.want.Memory = r.Memory
			}
		}
		for _, g := range sizeGuards {
			g(s)
		}
		wanted[i], x.requests[i] = s.want, s.next
	}
	x.Wanted = State{Replicas: x.replicas, Containers: wanted}
	return ""
}

// A size is a container's request on its way through sizeGuards.
type size struct {
	*draft
	i               int
	spec            ContainerSpec
	now, want, next Resources
}

// sizeGuards in their order.
var sizeGuards = []func(*size){
	(*size).bounds, (*size).infeasible, (*size).pace, (*size).floor,
}

// bounds keeps the spec's bounds.
func (s *size) bounds() {
	next := s.spec.Clamp(s.want)
	if !s.spec.CPU {
		next.CPU = s.now.CPU
	}
	if !s.spec.Memory {
		next.Memory = s.now.Memory
	}
	if next != s.want {
		s.noteAs("bounds", "%s becomes %dm, %d MiB", s.spec.Name, next.CPU, next.Memory>>20)
		s.want = next
	}
}

// infeasible keeps each resource at most at the largest size that nodes could give.
func (s *size) infeasible() {
	top := s.c.memory.Containers[s.i].Ceiling
	if capped := s.want.Min(Resources{cmp.Or(top.CPU, s.want.CPU), cmp.Or(top.Memory, s.want.Memory)}); capped != s.want {
		s.noteAs("infeasible", "%s stays at %dm, %d MiB: its node cannot give more", s.spec.Name, capped.CPU, capped.Memory>>20)
		s.want = capped
	}
}

// pace keeps each resource within a step and outside the dead band.
func (s *size) pace() {
	inside := s.spec.Clamp(s.now)
	s.next = Resources{
		CPU:    s.step(s.spec.Name+" cpu", s.now.CPU, s.want.CPU, inside.CPU != s.now.CPU),
		Memory: s.step(s.spec.Name+" memory", s.now.Memory, s.want.Memory, inside.Memory != s.now.Memory),
	}
}

// step limits the change of a request and drops small ones, unless the request is outside
// its bounds.
func (s *size) step(what string, now, want int64, outside bool) int64 {
	if want == now || now == 0 {
		return want
	}
	g := &s.c.guards
	if !outside && math.Abs(float64(want-now)) < g.DeadBand*float64(now) {
		s.noteAs("dead band", "%s would change by less than %g %%", what, 100*g.DeadBand)
		return now
	}
	low, high := Scale(now, max(0, 1-g.Step)), Scale(now, 1+g.Step)
	next := min(high, max(low, want))
	if next != want {
		s.noteAs("step", "%s changes by %g %% at once", what, 100*g.Step)
	}
	return next
}

// floor keeps memory above its largest use, with headroom.
func (s *size) floor() {
	headroom := s.c.guards.Headroom
	floor := min(Scale(s.c.memory.Containers[s.i].Peaks.Max(), headroom), s.now.Memory)
	if !s.spec.Memory || min(s.next.Memory, s.want.Memory) >= floor {
		return
	}
	if s.next.Memory < floor {
		s.noteAs("memory", "%s stays at %d MiB or more, %g × the largest use", s.spec.Name, floor>>20, headroom)
	}
	s.next.Memory, s.want.Memory = max(s.next.Memory, floor), max(s.want.Memory, floor)
}
