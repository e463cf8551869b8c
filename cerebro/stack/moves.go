package stack

import "slices"

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
