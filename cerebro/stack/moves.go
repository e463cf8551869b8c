package stack

import (
	"context"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack/plan/defrag"
)

// EmptyNodes is a Rebalance with the goal EmptyNodes in mode Auto: it empties nodes by few moves, which the provisioner then
// removes.
type EmptyNodes struct {
	Every       float64 // seconds between plans
	Moves       float64 // of a plan, as a share of the pods
	PerHour     int     // moves
	MinReplicas int     // a workload with fewer pods stays
	Takes       float64 // seconds until the replacement of a moved pod is ready and the next one moves
}

// DefaultEmptyNodes has the defaults of a Rebalance.
func DefaultEmptyNodes() *EmptyNodes {
	return &EmptyNodes{Every: hour, Moves: .01, PerHour: 20, MinReplicas: 2, Takes: minute}
}

func (e *EmptyNodes) start(c *cluster) {
	c.every(c.now+e.Every, e.Every, func() { e.plan(c) })
}

// plan finds moves by the short search of a replay with `--rebalance`, and carries them out one after another. Pods of a
// workload of which one moved within the last hour stay, and no node is emptied while pods wait.
func (e *EmptyNodes) plan(c *cluster) {
	most := min(int(e.Moves*float64(c.state.AliveTotal())), e.PerHour)
	if most < 1 || len(c.waiting) > 0 {
		return
	}
	recent := make([]bool, len(c.trace.Instance.Apps))
	for item, at := range c.moved {
		if c.now < at+hour {
			recent[c.app[item]] = true
		}
	}
	model := defrag.NewModel(c.state.Instance(), 1)
	var items []int32 // by number in the model
	nodes := map[defrag.Position]*node{}
	for _, n := range c.nodes {
		if n.machine < 0 || n.cordoned || c.lacks(n) {
			continue
		}
		line, index := c.state.Position(n.machine)
		nodes[defrag.Position{Line: line, Index: index}] = n
		for _, item := range n.pods {
			app := c.app[item]
			slot, err := model.Add(app, line, index, nil)
			if err != nil {
				c.err = err
				return
			}
			items = append(items, item)
			model.Hold(slot, recent[app] || c.state.Alive()[app] < int64(e.MinReplicas))
		}
	}
	moves := model.Drain(context.Background(), most)
	left := map[*node]int{} // by the moves, less those that land
	for _, m := range moves {
		left[nodes[m.From]]++
		left[nodes[m.To]]--
	}
	var emptied []*node
	for _, n := range c.nodes {
		if n.machine >= 0 && left[n] == len(n.pods) {
			n.cordoned = true
			emptied = append(emptied, n)
		}
	}
	givenUp := map[*node]bool{}
	for i, m := range moves {
		from, to, item := nodes[m.From], nodes[m.To], items[m.Item]
		c.at(c.now+float64(i)*e.Takes, func() {
			if !givenUp[from] && !c.move(item, from, to) {
				givenUp[from] = true
				c.uncordon(from)
			}
		})
	}
	ends := c.now + float64(len(moves))*e.Takes
	c.at(ends, func() {
		for _, n := range emptied {
			if len(n.pods) > 0 { // it was given up
				c.uncordon(n)
			}
		}
	})
	c.at(ends+hour, func() {
		for _, n := range emptied {
			c.uncordon(n)
		}
	})
}

// uncordon opens a node that no provisioner removes.
func (c *cluster) uncordon(n *node) {
	if n.cordoned && !n.removing && !n.gone {
		n.cordoned, c.freed = false, true
	}
}

// lacks reports whether the pods of a node request more than it has.
func (c *cluster) lacks(n *node) bool {
	for d := range c.trace.Instance.Dimensions {
		if c.state.Free(d)[n.machine] < 0 {
			return true
		}
	}
	return false
}

// move moves a pod to a node. It reports false if the node no longer takes it; a pod that has left needs no move.
func (c *cluster) move(item int32, from, to *node) bool {
	if c.on[item] != from {
		return true
	}
	if to.machine < 0 || !c.open(to) || !c.state.Fits(c.app[item], to.machine) {
		return false
	}
	c.count(item, Rebalancing)
	c.take(item)
	c.state.Arrive(c.app[item], 1)
	c.put(item, to, to.machine)
	return true
}

// Fit is a Rebalance with the goal Fit in mode Auto: nodes whose pods request more than they have give pods away.
type Fit struct {
	Moves      float64 // a day, as a share of the pods, but at least one
	PerHour    int
	OfWorkload float64 // the largest share of a workload's pods an hour, but at least one pod
}

// DefaultFit has the defaults of a Rebalance.
func DefaultFit() *Fit { return &Fit{Moves: .01, PerHour: 20, OfWorkload: .25} }

func (f *Fit) start(c *cluster) {
	today := 0
	c.every(day*math.Ceil(c.now/day), day, func() { today = 0 })
	c.every(hour*math.Ceil(c.now/hour)+minute, hour, func() {
		today += c.makeFit(Fitting, min(c.aDay(f.Moves)-today, f.PerHour), f.OfWorkload, true)
	})
}

// aDay is the most moves of a day: a share of the pods, but at least one.
func (c *cluster) aDay(share float64) int { return max(1, int(share*float64(c.state.AliveTotal()))) }

// minReplicas is the least number of pods of a workload of which Fit, Relief and VPA's updater evict one.
const minReplicas = 2

// makeFit evicts pods of nodes that lack room for the requests of their pods, and returns their number: at most a share of
// those of a workload, and, where placed is set, only pods that another node takes.
func (c *cluster) makeFit(cause Cause, most int, ofWorkload float64, placed bool) (moved int) {
	stuck := map[*node]bool{}
	movedOf := map[int32]int{} // by app
	for moved < most {
		n, d, excess := c.overfull(stuck)
		if n == nil {
			break
		}
		sizes := make([]float64, len(n.pods))
		for i, item := range n.pods {
			sizes[i] = float64(c.demand(item)[d])
		}
		item := int32(-1)
		n.aside = true
		for _, i := range defrag.LeaveOrder(sizes, float64(excess)) {
			app := c.app[n.pods[i]]
			alive := c.state.Alive()[app]
			if sizes[i] > 0 && alive >= minReplicas && movedOf[app] < max(1, int(ofWorkload*float64(alive))) && (!placed || c.firstTwin(app) >= 0) {
				item = n.pods[i]
				break
			}
		}
		n.aside = false
		if item < 0 {
			stuck[n] = true
			continue
		}
		movedOf[c.app[item]]++
		moved++
		c.evictElsewhere(item, cause)
	}
	return moved
}

// Relief is a Rebalance with the goal Relief in mode Auto: a node that has had more cpu or memory in use than it has for a
// time gives one pod away.
type Relief struct {
	After float64 // seconds
	Moves float64 // a day, as a share of the pods, but at least one
}

// DefaultRelief has the defaults of a Rebalance.
func DefaultRelief() *Relief { return &Relief{After: 600, Moves: .01} }

func (r *Relief) start(c *cluster) {
	today := 0
	c.every(day*math.Ceil(c.now/day), day, func() { today = 0 })
	if c.use == nil {
		return
	}
	c.every(c.now+c.use.step, c.use.step, func() {
		for _, n := range slices.Clone(c.nodes) {
			if since, over := c.use.overfull[n]; over && today < c.aDay(r.Moves) && len(n.pods) > 1 && c.now >= since+r.After && c.relieve(n) {
				today++
				c.use.overfull[n] = c.now
			}
		}
	})
}

// relieve evicts one pod of a node: the smallest by use that is no less than the excess, else the largest, that another
// node takes.
func (c *cluster) relieve(n *node) bool {
	u := c.use
	worst, excess := 0, 0.
	for of, d := range []int{u.cpu, u.memory} {
		load := 0.
		for _, item := range n.pods {
			load += u.sample(of, item)
		}
		capacity := u.amount(d, c.state.Kinds()[n.kind].Capacity)
		if load/capacity-1 > excess {
			worst, excess = of, load/capacity-1
		}
	}
	capacity := u.amount([]int{u.cpu, u.memory}[worst], c.state.Kinds()[n.kind].Capacity)
	sizes := make([]float64, len(n.pods))
	for i, item := range n.pods {
		sizes[i] = u.sample(worst, item)
	}
	item := int32(-1)
	n.aside = true
	for _, i := range defrag.LeaveOrder(sizes, excess*capacity) {
		if app := c.app[n.pods[i]]; sizes[i] > 0 && c.state.Alive()[app] >= minReplicas && c.firstTwin(app) >= 0 {
			item = n.pods[i]
			break
		}
	}
	n.aside = false
	if item >= 0 {
		c.evictElsewhere(item, Relieving)
	}
	return item >= 0
}

// HighNodeUtilization is the descheduler's strategy: nodes below all thresholds give their pods away, so that a
// scheduler with MostAllocated packs them (sigs.k8s.io/descheduler).
type HighNodeUtilization struct {
	Every     float64 // seconds
	Threshold float64 // share of requests below which a node counts as underutilized
}

// DefaultHighNodeUtilization has the thresholds of the descheduler's own example and its interval.
func DefaultHighNodeUtilization() *HighNodeUtilization {
	return &HighNodeUtilization{Every: 300, Threshold: .2}
}

func (h *HighNodeUtilization) start(c *cluster) {
	c.every(c.now+h.Every, h.Every, func() { h.run(c) })
}

func (h *HighNodeUtilization) run(c *cluster) {
	var under []*node
	ready := 0
	for _, n := range c.nodes {
		if !c.open(n) || n.machine < 0 {
			continue
		}
		if ready++; c.requested(n) < h.Threshold {
			under = append(under, n)
		}
	}
	if len(under) == ready {
		return
	}
	for _, n := range under {
		n.aside = true
	}
	for _, n := range under {
		for _, item := range slices.Clone(n.pods) {
			if c.on[item] == n && c.firstTwin(c.app[item]) >= 0 {
				c.evict(item, Descheduling)
			}
		}
	}
	for _, n := range under {
		n.aside = false
	}
}

// requested is the largest share of a node's capacity that its pods request.
func (c *cluster) requested(n *node) (share float64) {
	if n.machine < 0 {
		return 0
	}
	for d, has := range c.state.Capacity(n.machine) {
		if has > 0 {
			share = max(share, float64(has-c.state.Free(d)[n.machine])/float64(has))
		}
	}
	return share
}
