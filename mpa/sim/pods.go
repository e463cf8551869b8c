package sim

import (
	"fmt"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

// An instance is a pod of the cluster.
type instance struct {
	loadsim.Pod
	name    string
	slot    int32 // in the engine, −1 = takes no requests
	node    int   // −1 = no node has room
	request mpa.Resources
	actual  mpa.Resources
	due     float64 // end of its start, resize or grace
	created float64
	started float64 // −1 = not yet
	ready   float64 // since when; −1 = not ready
	ending  bool
	resize  mpa.Resize
	since   float64
	killed  float64 // −1 = never
	crashes int     // in a row
	seen    []usageSeen
	base    int64 // served before the last restart
	version int   // of the application
}

type usageSeen struct{ at, busy, memory float64 }

// turn moves each pod on by a tick: place, start, resize, restart, end.
func (s *simulation) turn(now float64) {
	for i := 0; i < len(s.pods); i++ {
		p := s.pods[i]
		switch {
		case p.node < 0:
			s.place(p, now)
		case p.ending:
			if p.Inside()+p.Waiting() == 0 || now >= p.due {
				s.remove(p)
				s.pods = slices.Delete(s.pods, i, i+1)
				i--
			}
		case p.ready < 0:
			if p.started >= 0 {
				s.advanceResize(p, now)
			}
			if now >= p.due {
				p.ready = now
				if p.started < 0 {
					p.started = now
				}
				s.open(p)
			}
		default:
			s.advanceResize(p, now)
			if limit := s.memoryLimit(p); s.memory(p) > limit {
				s.outOfMemory(p, now)
			}
			s.collect(p)
			if s.mayEvict(p, now) {
				s.evict(p, now)
			}
		}
	}
}

// memory of a pod in bytes.
func (s *simulation) memory(p *instance) float64 {
	inside := float64(p.Inside())
	if p.version > 0 {
		inside *= s.cfg.memoryOf(p.version)
	}
	return s.cfg.App.memory(float64(p.Served()-p.base), inside)
}

// collect sets the cpu factor of the pod's requests by its garbage collection.
func (s *simulation) collect(p *instance) {
	if m := &s.cfg.App.Memory; m.Collector {
		p.Factor = s.cfg.cpuOf(p.version) * m.collecting(s.memory(p), s.memoryLimit(p))
	}
}

func (s *simulation) memoryLimit(p *instance) float64 {
	return float64(p.actual.Memory) * s.cfg.App.limitRatio()
}

// outOfMemory restarts a pod's container: at first at once, then after pauses that double
// up to five minutes, until the container has run for ten.
func (s *simulation) outOfMemory(p *instance, now float64) {
	s.result.Kills++
	s.e.Close(p.slot)
	s.e.Kill(p.slot)
	s.e.Forget(p.slot)
	p.slot = -1
	pause := 0.0
	if now-p.ready > 600 {
		p.crashes = 0
	} else if p.crashes > 0 {
		pause = min(300, 10*math.Exp2(float64(p.crashes-1)))
	}
	p.crashes++
	p.killed, p.ready, p.base, p.seen = now, -1, p.Served(), nil
	p.due = now + pause + s.draw(s.cfg.Site.Start)
}

func (s *simulation) draw(d loadsim.Dist) float64 { return d.Draw(s.rng) }

// mayEvict reports whether a resize has waited long enough, another node has room, and no
// other pod is starting.
func (s *simulation) mayEvict(p *instance, now float64) bool {
	after := s.cfg.Site.EvictAfter
	if p.resize != mpa.Deferred || after == 0 || now < p.since+after {
		return false
	}
	ready := 0
	for _, o := range s.pods {
		if o.ready < 0 {
			return false
		}
		if !o.ending {
			ready++
		}
	}
	return ready > 1 && slices.ContainsFunc(s.free, func(free mpa.Resources) bool {
		return free.CPU >= p.request.CPU && free.Memory >= p.request.Memory
	})
}

// evict ends a pod and makes another one.
func (s *simulation) evict(p *instance, now float64) {
	s.result.Evictions++
	p.ending, p.due = true, now+s.cfg.Site.Grace
	s.e.Close(p.slot)
	s.match()
}

// open lets a pod take requests.
func (s *simulation) open(p *instance) {
	s.apply(p)
	p.slot = s.e.Open(&p.Pod)
}

// apply sets the pod's cores, quota and workers.
func (s *simulation) apply(p *instance) {
	p.Cores, p.Workers, p.Quantum = s.cfg.App.Cores(), s.limit, s.cfg.App.Quantum
	p.Quota = float64(p.actual.CPU) / 1000 * s.cfg.App.limitRatio()
	p.Factor, p.Slower = s.cfg.cpuOf(p.version), s.cfg.waitOf(p.version)
}

// match makes new pods, or ends the youngest, until their number is that of the replicas.
func (s *simulation) match() {
	var alive []*instance
	for _, p := range s.pods {
		if !p.ending {
			alive = append(alive, p)
		}
	}
	for n := len(alive); n < int(s.replicas); n++ {
		s.make()
	}
	// Those that are not ready first, then the youngest.
	slices.SortStableFunc(alive, func(a, b *instance) int {
		if (a.ready < 0) != (b.ready < 0) {
			if a.ready < 0 {
				return -1
			}
			return 1
		}
		return int(math.Copysign(1, b.created-a.created))
	})
	for i := 0; len(alive)-i > int(s.replicas); i++ {
		p := alive[i]
		p.ending, p.due = true, s.e.Now()+s.cfg.Site.Grace
		if p.slot >= 0 {
			s.e.Close(p.slot)
		}
	}
}

// make adds a pod.
func (s *simulation) make() {
	p := &instance{
		name: fmt.Sprintf("%s-%05d", s.cfg.App.Name, s.made), slot: -1, node: -1, created: s.e.Now(),
		request: s.requests[0], actual: s.requests[0], started: -1, ready: -1, killed: -1, version: s.version,
	}
	s.made++
	s.pods = append(s.pods, p)
	s.place(p, s.e.Now())
}

// place puts a pod on the first node with room.
func (s *simulation) place(p *instance, now float64) {
	if p.ending {
		p.node = len(s.free) // it takes no room
		return
	}
	for i, free := range s.free {
		if free.CPU >= p.request.CPU && free.Memory >= p.request.Memory {
			s.free[i] = subtract(free, p.request)
			p.node = i
			p.due = now + s.draw(s.cfg.Site.Start)
			return
		}
	}
}

func subtract(a, b mpa.Resources) mpa.Resources {
	return mpa.Resources{CPU: a.CPU - b.CPU, Memory: a.Memory - b.Memory}
}

// remove ends a pod.
func (s *simulation) remove(p *instance) {
	if p.slot >= 0 {
		s.e.Kill(p.slot)
		s.e.Forget(p.slot)
		s.busy += p.Busy()
	}
	if p.node >= 0 && p.node < len(s.free) {
		s.free[p.node] = s.free[p.node].Add(p.actual.Max(p.held()))
	}
}

// held returns the resources that a pod holds on its node.
func (p *instance) held() mpa.Resources {
	if p.resize == mpa.InProgress {
		return p.request.Max(p.actual)
	}
	return p.actual
}

// advanceResize advances a resize as a kubelet does.
func (s *simulation) advanceResize(p *instance, now float64) {
	if p.request == p.actual {
		p.resize = mpa.NoResize
		return
	}
	state := func(r mpa.Resize) {
		if p.resize != r {
			p.resize, p.since = r, now
		}
	}
	node := s.cfg.Site.Nodes[p.node]
	switch {
	case p.resize == mpa.InProgress:
		if now < p.due || float64(p.request.Memory)*s.cfg.App.limitRatio() < s.memory(p) {
			return // under way, or the limit would be below the memory in use
		}
		// The pod returns the resources that it no longer holds.
		s.free[p.node] = s.free[p.node].Add(subtract(p.held(), p.request))
		p.actual = p.request
		p.Advance(s.e.Now())
		s.apply(p)
		if p.slot >= 0 {
			s.e.Update(p.slot)
		}
		state(mpa.NoResize)
	case p.request.CPU > node.CPU || p.request.Memory > node.Memory:
		state(mpa.Infeasible)
	default:
		more := subtract(p.request.Max(p.actual), p.actual)
		if free := s.free[p.node]; more.CPU > free.CPU || more.Memory > free.Memory {
			state(mpa.Deferred)
			return
		}
		s.free[p.node] = subtract(s.free[p.node], more)
		state(mpa.InProgress)
		p.due = now + s.draw(s.cfg.Site.Resize)
	}
}

// ask sets a new request of a pod. A running pod is resized. A pod that has not started gets
// it at once, as from the admission webhook.
func (s *simulation) ask(p *instance, request mpa.Resources) {
	if p.node >= 0 && p.resize == mpa.InProgress {
		s.free[p.node] = s.free[p.node].Add(subtract(p.held(), p.actual))
		p.resize = mpa.NoResize
	}
	p.request = request
	switch {
	case p.node < 0:
		p.actual = request
		s.place(p, s.e.Now())
	case p.started < 0:
		s.free[p.node] = s.free[p.node].Add(p.actual)
		p.actual = request
		if free := s.free[p.node]; free.CPU >= request.CPU && free.Memory >= request.Memory {
			s.free[p.node] = subtract(free, request)
			return
		}
		p.node = -1
		s.place(p, s.e.Now())
	}
}
