package stack

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// kept is the share of the cpu in use that a workload must get.
const kept = .95

// A use looks at all pods step by step.
type use struct {
	c           *cluster
	step        float64
	cpu, memory int                // dimensions
	series      [2][]*trace.Series // by item: cpu, memory
	limit       []float64          // by app: bytes of memory of a pod
	living      []int32
	gone        bool // some of the living have left
	// Of one look.
	used          [2][]float64      // by item of living
	served, wants []float64         // cpu by app
	over, judged  float64           // seconds of nodes
	overfull      map[*node]float64 // since when a node has had too much in use
}

func newUse(c *cluster) (*use, error) {
	u := &use{c: c, cpu: -1, memory: -1, step: math.Inf(1), overfull: map[*node]float64{}}
	for d, dim := range c.trace.Instance.Dimensions {
		switch dim.Name {
		case "cpu":
			u.cpu = d
		case "memory":
			u.memory = d
		}
	}
	if u.cpu < 0 || u.memory < 0 {
		return nil, errors.New("the use of a stack wants the dimensions cpu and memory")
	}
	n := len(c.app)
	u.series = [2][]*trace.Series{make([]*trace.Series, n), make([]*trace.Series, n)}
	byApp := map[[2]int32]*trace.Series{}
	c.cfg.Usage.Items(c.trace, func(s *trace.Series, request, number int32) {
		at := slices.Index([]int{u.cpu, u.memory}, int(s.Dimension))
		if at < 0 {
			return
		}
		u.step = min(u.step, s.Step)
		if number < 0 {
			byApp[[2]int32{int32(at), s.App}] = s
			return
		}
		u.series[at][c.base[request]+number] = s
	})
	if math.IsInf(u.step, 1) {
		return nil, errors.New("usage.csv.gz has no series of the trace's items")
	}
	for item, app := range c.app {
		for at := range u.series {
			if u.series[at][item] == nil {
				u.series[at][item] = byApp[[2]int32{int32(at), app}]
			}
		}
	}
	u.limit = make([]float64, len(c.trace.Instance.Apps))
	for a := range u.limit {
		u.limit[a] = u.amount(u.memory, c.trace.Instance.Apps[a].Demand)
	}
	u.served, u.wants = make([]float64, len(u.limit)), make([]float64, len(u.limit))
	return u, nil
}

func (u *use) amount(d int, demand []int64) float64 {
	return float64(demand[d]) / float64(u.c.trace.Instance.Dimensions[d].One)
}

func (u *use) start() {
	first := u.step * math.Ceil(u.c.now/u.step)
	u.c.every(first, u.step, u.look)
}

// sample is the use of cpu or memory of an item now, 0 without a sample.
func (u *use) sample(of int, item int32) float64 { return u.sampleAt(of, item, u.c.now) }

func (u *use) sampleAt(of int, item int32, at float64) float64 {
	if s := u.series[of][item]; s != nil {
		if v := s.At(at); v == v {
			return float64(v)
		}
	}
	return 0
}

// look judges the moment, and lets the sizer see it.
func (u *use) look() {
	c := u.c
	if u.gone {
		u.living = slices.DeleteFunc(u.living, func(item int32) bool { return c.on[item] == nil && !c.waits(item) })
		u.gone = false
	}
	clear(u.served)
	clear(u.wants)
	for of := range u.used {
		u.used[of] = u.used[of][:0]
		for _, item := range u.living {
			u.used[of] = append(u.used[of], u.sample(of, item))
		}
	}
	load := map[*node]*[2]float64{}
	for i, item := range u.living {
		app := c.app[item]
		u.wants[app] += u.used[0][i]
		n := c.on[item]
		if n == nil {
			continue
		}
		u.served[app] += u.used[0][i]
		if load[n] == nil {
			load[n] = &[2]float64{}
		}
		load[n][0] += u.used[0][i]
		load[n][1] += u.used[1][i]
		if c.cfg.Sizer != nil {
			c.cfg.Sizer.Sample(c.now, app, item, u.used[0][i], u.used[1][i])
		}
	}
	judged := c.now >= c.cfg.From
	for _, n := range slices.Clone(c.nodes) { // a kill may remove one
		if !n.ready || n.gone {
			continue
		}
		if judged {
			u.judged += u.step
		}
		l := load[n]
		if l == nil {
			delete(u.overfull, n)
			continue
		}
		capacity := c.state.Kinds()[n.kind].Capacity
		cpu, memory := u.amount(u.cpu, capacity), u.amount(u.memory, capacity)
		if l[0] <= cpu && l[1] <= memory {
			delete(u.overfull, n)
			continue
		}
		if _, ok := u.overfull[n]; !ok {
			u.overfull[n] = c.now
		}
		if judged {
			u.over += u.step
		}
		if l[0] > cpu {
			u.throttle(n, cpu)
		}
		if l[1] > memory {
			u.kill(n, l[1]-memory)
		}
	}
	if judged {
		for app, wants := range u.wants {
			if wants > 0 {
				c.out.AppMinutes += u.step / minute
				if u.served[app] < kept*wants {
					c.out.Broken += u.step / minute
				}
			}
		}
		c.out.PodHours += float64(len(u.living)) * u.step / hour
	}
	u.limits()
	u.size()
}

// throttle takes from a full node's pods the cpu that it lacks: each gets its use up to a level by its request.
func (u *use) throttle(n *node, cpu float64) {
	c := u.c
	type pod struct {
		use, request float64
		app          int32
	}
	pods := make([]pod, len(n.pods))
	for i, item := range n.pods {
		pods[i] = pod{u.sample(0, item), u.amount(u.cpu, c.demand(item)), c.app[item]}
	}
	slices.SortStableFunc(pods, func(a, b pod) int { return cmp.Compare(a.use*b.request, b.use*a.request) })
	shares := 0.
	for _, p := range pods {
		shares += p.request
	}
	for _, p := range pods { // those with the least use for their request first
		gets := p.use
		if shares > 0 {
			gets = min(p.use, cpu*p.request/shares)
		}
		u.served[p.app] -= p.use - gets
		cpu, shares = cpu-gets, shares-p.request
	}
}

// pressure is the time for which the kubelet keeps the taint of memory pressure, in seconds.
const pressure = 300.

// kill evicts the pods that exceed their memory request most, until a node has enough: the kubelet's order.
func (u *use) kill(n *node, excess float64) {
	c := u.c
	n.closed = c.now + pressure
	c.at(n.closed, func() { c.freed = true })
	pods := slices.Clone(n.pods)
	above := func(item int32) float64 { return u.sample(1, item) - u.amount(u.memory, c.demand(item)) }
	slices.SortStableFunc(pods, func(a, b int32) int { return cmp.Compare(above(b), above(a)) })
	for _, item := range pods {
		if excess <= 0 {
			return
		}
		excess -= u.sample(1, item)
		u.killed(item)
		c.evict(item, OutOfMemory)
	}
}

func (u *use) killed(item int32) {
	if u.c.now >= u.c.cfg.From {
		u.c.out.Killed++
	}
	if u.c.cfg.Sizer != nil {
		u.c.cfg.Sizer.Killed(u.c.now, u.c.app[item], item)
	}
}

// limits kills containers above their memory limit, which start again where they are.
func (u *use) limits() {
	for i, item := range u.living {
		if u.c.on[item] != nil && u.used[1][i] > u.limit[u.c.app[item]]*(1+1e-6) {
			u.killed(item)
		}
	}
}

// size carries out the sizer's changes.
func (u *use) size() {
	c := u.c
	if c.cfg.Sizer == nil {
		return
	}
	for app := range int32(len(u.wants)) {
		present := c.state.Instance().Apps[app].Demand
		demand := c.cfg.Sizer.Demand(c.now, app, present)
		if demand == nil || slices.Equal(demand, present) {
			continue
		}
		c.resize(app, demand)
		if c.cfg.Sizer.ScalesLimits() {
			u.limit[app] = u.amount(u.memory, demand)
		}
	}
	if c.cfg.Sizer.Evicts() {
		c.at(c.now+resizeWaits, func() { c.makeFit(Resizing, math.MaxInt, .5, newDaily(c), false) })
	}
}

// resizeWaits is the time that VPA gives a resize in place before it evicts the pod.
const resizeWaits = 300.

func (u *use) finish() {
	if u.judged > 0 {
		u.c.out.Over = u.over / u.judged
	}
}

// waits reports whether a pod waits for a node.
func (c *cluster) waits(item int32) bool {
	return slices.ContainsFunc(c.waiting, func(w waiting) bool { return w.item == item })
}

// overfull is the node whose requests exceed its capacity by the largest share, with the dimension.
func (c *cluster) overfull(except map[*node]bool) (found *node, dimension int, excess int64) {
	worst := 0.
	for _, n := range c.nodes {
		if n.machine < 0 || except[n] {
			continue
		}
		for d := range c.trace.Instance.Dimensions {
			if free := c.state.Free(d)[n.machine]; free < 0 {
				if share := float64(-free) / math.Max(1, float64(c.state.Capacity(n.machine)[d])); share > worst {
					worst, found, dimension, excess = share, n, d, -free
				}
			}
		}
	}
	return found, dimension, excess
}
