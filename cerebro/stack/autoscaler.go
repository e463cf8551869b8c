package stack

import (
	"math"
	"slices"
)

// Autoscaler launches and removes nodes as cluster-autoscaler does (github.com/kubernetes/autoscaler, FAQ): one node group
// for each node type.
type Autoscaler struct {
	Utilization   float64 // requests ÷ capacity below which a node may be removed
	Unneeded      float64 // seconds that it must be so
	DelayAfterAdd float64 // seconds after a scale-up without a scale-down
	EmptyAtOnce   int     // nodes without pods that are removed together
}

// DefaultAutoscaler has the defaults of cluster-autoscaler's flags.
func DefaultAutoscaler() *Autoscaler {
	return &Autoscaler{Utilization: .5, Unneeded: 600, DelayAfterAdd: 600, EmptyAtOnce: 10}
}

const (
	autoscalerScan = 10. // seconds between scale-ups
	autoscalerLook = 60. // seconds between looks at nodes that may go: its own loop has 10
)

type autoscaler struct {
	*Autoscaler
	c         *cluster
	scheduled bool
	added     float64 // time of the last scale-up
}

func (a *Autoscaler) start(c *cluster) {
	own := &autoscaler{Autoscaler: a, c: c, added: math.Inf(-1)}
	c.provisioning = own.pendingPods
	c.every(c.now+autoscalerLook, autoscalerLook, own.scaleDown)
}

func (a *Autoscaler) pending(c *cluster) { c.provisioning() }

func (a *autoscaler) pendingPods() {
	a.again(a.c.now + autoscalerScan)
}

func (a *autoscaler) again(at float64) {
	if a.scheduled {
		return
	}
	a.scheduled = true
	a.c.at(at, func() {
		a.scheduled = false
		if len(a.c.waiting) > 0 {
			a.scaleUp()
		}
	})
}

// scaleUp launches nodes of one group: the one that wastes least, as the expander least-waste.
func (a *autoscaler) scaleUp() {
	c := a.c
	defer c.undo()
	booting := c.booting()
	var items []int32
	for _, w := range c.waiting {
		items = append(items, w.item)
	}
	c.bySize(items)
	items = slices.DeleteFunc(items, func(item int32) bool {
		return slices.ContainsFunc(booting, func(cl *claim) bool { return c.add(cl, item) })
	})
	before := len(c.booked)
	var best []*claim
	placed, waste := 0, math.Inf(1)
	for kind := range int32(len(c.state.Kinds())) {
		if c.now < c.closed[c.zoneOf[kind]] {
			continue
		}
		var claims []*claim
		n := 0
		for _, item := range items {
			if slices.ContainsFunc(claims, func(cl *claim) bool { return c.add(cl, item) }) {
				n++
			} else if cl := c.newClaim([]int32{kind}); c.add(cl, item) {
				claims = append(claims, cl)
				n++
			}
		}
		c.undoTo(before) // the next group has the same pods
		if w := a.waste(claims, kind); n > 0 && w < waste {
			best, placed, waste = claims, n, w
		}
	}
	for _, cl := range best {
		c.launch(cl.kinds[0])
		a.added = c.now
	}
	if placed < len(items) && placed > 0 {
		a.pendingPods() // the others, in the next loop
	} else if len(c.waiting) > 0 {
		a.again(c.lookAgain())
	}
}

// waste is the mean share of cpu and memory that new nodes leave free.
func (a *autoscaler) waste(claims []*claim, kind int32) float64 {
	capacity := a.c.state.Kinds()[kind].Capacity
	sum := 0.
	for _, cl := range claims {
		for d := range min(2, len(capacity)) {
			sum += 1 - float64(cl.demand[d])/math.Max(1, float64(capacity[d]))
		}
	}
	return sum / float64(max(1, len(claims)))
}

// scaleDown removes nodes that have been unneeded for long: those without pods, or else one other.
func (a *autoscaler) scaleDown() {
	c := a.c
	ripe := func(n *node) bool { return n.unneeded >= 0 && c.now >= n.unneeded+a.Unneeded }
	var empty []*node
	var drained *node
	for _, n := range c.nodes {
		switch {
		case !n.ready || n.removing:
			continue
		case len(n.pods) > 0 && (c.requested(n) >= a.Utilization || !a.movable(n)):
			n.unneeded = -1
			continue
		case n.unneeded < 0:
			n.unneeded = c.now
		}
		switch {
		case !ripe(n) || c.now < a.added+a.DelayAfterAdd:
		case len(n.pods) == 0:
			empty = append(empty, n)
		case drained == nil:
			drained = n
		}
	}
	for _, n := range empty[:min(len(empty), a.EmptyAtOnce)] {
		c.remove(n)
	}
	if len(empty) == 0 && drained != nil {
		c.drain(drained, Consolidation)
	}
}

// movable reports whether the other nodes take a node's pods.
func (a *autoscaler) movable(n *node) bool {
	_, ok := a.c.simulate([]*node{n}, 0)
	return ok
}
