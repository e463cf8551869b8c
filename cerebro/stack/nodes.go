package stack

import "slices"

// A node exists from its launch to its removal.
type node struct {
	number   int // in the order of launch
	kind     int32
	launched float64
	ready    bool
	cordoned bool
	removing bool // its provisioner drains it
	gone     bool
	aside    bool // it counts as gone while a removal is simulated
	// machine is that of the node in the state, and twin in the state of plans; -1 while it has no pod.
	machine, twin int32
	since         float64 // of the last change of its pods
	closed        float64 // until then it takes no pod, since its memory was full
	unneeded      float64 // since then the autoscaler would remove it; negative = it would not
	pods          []int32 // items, in the order of arrival
	reserved      []int64 // for pods that move to it; others have the rest of its room
}

// reserve adds a demand to the reserved amounts, or takes it away.
func (n *node) reserve(demand []int64, sign int64) {
	if n.reserved == nil {
		n.reserved = make([]int64, len(demand))
	}
	for d, amount := range demand {
		n.reserved[d] += sign * amount
	}
}

// sparesRoom reports whether a node has room for a pod of an app beside the reserved amounts.
func (c *cluster) sparesRoom(n *node, app int32) bool {
	for d, amount := range n.reserved {
		if amount > 0 && n.machine >= 0 && c.state.Free(d)[n.machine]-amount < c.state.Instance().Apps[app].Demand[d] {
			return false
		}
	}
	return true
}

// count counts an eviction.
func (c *cluster) count(item int32, cause Cause) {
	if c.now >= c.cfg.From {
		c.out.Evicted[cause]++
	}
	if cause != Lost && cause != OutOfMemory {
		c.moved[item] = c.now
	}
}

// moveTo moves a pod to a node that takes it.
func (c *cluster) moveTo(item int32, to *node, cause Cause) {
	c.count(item, cause)
	c.take(item)
	c.state.Arrive(c.app[item], 1)
	c.put(item, to, to.machine)
}

// evictElsewhere evicts a pod that does not return to its node.
func (c *cluster) evictElsewhere(item int32, cause Cause) {
	n := c.on[item]
	was := n.cordoned
	n.cordoned = true
	c.evict(item, cause)
	n.cordoned = was
}

// open reports whether a node takes pods.
func (c *cluster) open(n *node) bool { return n.ready && !n.cordoned && c.now >= n.closed }

// uncordon opens a node that no provisioner removes.
func (c *cluster) uncordon(n *node) {
	if n.cordoned && !n.removing && !n.gone {
		n.cordoned, c.freed = false, true
	}
}

// launch launches a node.
func (c *cluster) launch(kind int32) {
	c.launches++
	n := &node{number: c.launches, kind: kind, launched: c.now, machine: -1, twin: -1, unneeded: -1}
	c.nodes = append(c.nodes, n)
	if c.now >= c.cfg.From {
		c.out.Launched++
	}
	c.at(c.now+c.cfg.Boot, func() {
		n.ready, n.since, c.freed = true, c.now, true
		c.changes++
	})
}

// drain evicts all pods of a node, and removes it.
func (c *cluster) drain(n *node, cause Cause) {
	n.cordoned, n.removing = true, true
	for _, item := range slices.Clone(n.pods) {
		c.evict(item, cause)
	}
	c.drained(n)
}

// drained removes a node that its provisioner drains once it has no pod.
func (c *cluster) drained(n *node) {
	if n.removing && len(n.pods) == 0 {
		c.remove(n)
	}
}

// remove ends a node, and its cost.
func (c *cluster) remove(n *node) {
	if n.gone {
		return
	}
	n.gone = true
	c.changes++
	c.charge(n)
	c.nodes = slices.Delete(c.nodes, slices.Index(c.nodes, n), slices.Index(c.nodes, n)+1)
}

func (c *cluster) charge(n *node) {
	hours := c.judged(n.launched, c.now) / hour
	c.out.NodeHours += hours
	c.out.Cost += hours * c.state.Kinds()[n.kind].Cost
}

// lose takes nodes away with their pods, which wait.
func (c *cluster) lose(l Loss) {
	var lost []*node
	zone := slices.Index(c.zoneNames, l.Zone)
	if l.Zone != "" && zone >= 0 {
		c.closed[zone] = l.Until
	}
	for i, n := range c.nodes {
		if l.Lost != nil && l.Lost(i, len(c.nodes)) || l.Zone != "" && int(c.zoneOf[n.kind]) == zone {
			n.cordoned, n.removing = true, true
			lost = append(lost, n)
		}
	}
	for _, n := range lost {
		for _, item := range slices.Clone(n.pods) {
			c.evict(item, Lost)
		}
		c.drained(n)
	}
}
