package stack

import (
	"cmp"
	"math"
	"slices"
)

// Karpenter launches and removes nodes as Karpenter 1.x does (karpenter.sh, "Disruption" and "Scheduling").
type Karpenter struct {
	// Underutilized lets it move pods, consolidationPolicy WhenEmptyOrUnderutilized; otherwise it removes empty nodes only.
	Underutilized bool
	// ConsolidateAfter is the time without a change of a node's pods before it may be disrupted, in seconds.
	ConsolidateAfter float64
	// Budget is the largest share of the nodes that is disrupted at a time.
	Budget float64
	// Expire is the age at which a node would expire, in seconds: pods of older nodes are cheaper to disrupt.
	Expire float64
}

// DefaultKarpenter has the defaults of a NodePool.
func DefaultKarpenter() *Karpenter {
	return &Karpenter{Underutilized: true, Budget: .1, Expire: 720 * hour}
}

const (
	karpenterBatch = 1.  // seconds that pods are collected for
	karpenterPoll  = 10. // seconds from a disruption to the next look for one
	karpenterLook  = 60. // seconds between looks at a cluster that has changed: a look takes Karpenter so long
	karpenterRetry = 300 // seconds for which a cluster without a change counts as consolidated
	karpenterMulti = 100 // nodes that are removed together at most
)

type karpenter struct {
	*Karpenter
	c       *cluster
	batched bool
	seen    int     // changes at the last look
	looked  float64 // its time
}

func (k *Karpenter) start(c *cluster) {
	own := &karpenter{Karpenter: k, c: c}
	c.provisioning = own.pendingPods
	c.at(c.now+karpenterPoll, own.disrupt)
}

func (k *Karpenter) pending(c *cluster) { c.provisioning() }

// pendingPods collects the pods of a moment.
func (k *karpenter) pendingPods() {
	k.again(k.c.now + karpenterBatch)
}

// provision plans the waiting pods on the nodes that boot and on new ones, and launches these.
func (k *karpenter) provision() {
	c := k.c
	defer c.undo()
	booting := c.booting()
	items := make([]int32, len(c.waiting))
	for i, w := range c.waiting {
		items[i] = w.item
	}
	c.bySize(items)
	var claims []*claim
	for _, item := range items {
		slices.SortStableFunc(claims, func(a, b *claim) int { return cmp.Compare(len(a.pods), len(b.pods)) })
		takes := func(cl *claim) bool { return c.add(cl, item) }
		if slices.ContainsFunc(booting, takes) || slices.ContainsFunc(claims, takes) {
			continue
		}
		if cl := c.claimFor(item, claims); cl != nil {
			claims = append(claims, cl)
		}
	}
	for _, cl := range claims {
		c.launch(c.cheapest(cl, math.Inf(1)))
	}
	k.again(c.lookAgain())
}

// again looks at the pods that wait by then.
func (k *karpenter) again(at float64) {
	if k.batched || len(k.c.waiting) == 0 {
		return
	}
	k.batched = true
	k.c.at(at, func() {
		k.batched = false
		k.provision()
	})
}

// disrupt removes empty nodes, or else several nodes, or else one: one of these at a time.
func (k *karpenter) disrupt() {
	c := k.c
	if c.changes == k.seen && c.now < k.looked+karpenterRetry {
		c.at(c.now+karpenterPoll, k.disrupt)
		return
	}
	again := karpenterLook
	k.seen, k.looked = c.changes, c.now
	if len(c.waiting) > 0 { // it waits for the nodes that boot
		again = karpenterPoll
	}
	if k.empty() || k.Underutilized && len(c.waiting) == 0 && (k.several() || k.single()) {
		again = karpenterPoll
	}
	c.at(c.now+again, k.disrupt)
}

// allowed is the number of nodes that may be disrupted now.
func (k *karpenter) allowed() int {
	ready, disrupted := 0, 0
	for _, n := range k.c.nodes {
		if !n.ready {
			continue
		}
		if ready++; n.removing {
			disrupted++
		}
	}
	return int(math.Ceil(k.Budget*float64(ready))) - disrupted
}

func (k *karpenter) empty() bool {
	left := k.allowed()
	found := false
	for _, n := range slices.Clone(k.c.nodes) {
		if left > 0 && n.ready && !n.removing && len(n.pods) == 0 && k.c.now >= n.since+k.ConsolidateAfter {
			k.c.remove(n)
			left--
			found = true
		}
	}
	return found
}

// nodesByCost are the nodes that may be disrupted, those whose disruption costs least first: a pod costs 1, less on a
// node that expires soon.
func (k *karpenter) nodesByCost() []*node {
	var list []*node
	costs := map[*node]float64{}
	for _, n := range k.c.nodes {
		if n.ready && !n.cordoned && len(n.pods) > 0 && k.c.now >= n.since+k.ConsolidateAfter {
			list = append(list, n)
			costs[n] = float64(len(n.pods)) * max(0, 1-(k.c.now-n.launched)/k.Expire)
		}
	}
	slices.SortStableFunc(list, func(a, b *node) int { return cmp.Compare(costs[a], costs[b]) })
	return list
}

// several removes as many nodes at once as a binary search finds, with at most one new node that is cheaper.
func (k *karpenter) several() bool {
	list := k.nodesByCost()
	list = list[:max(0, min(len(list), k.allowed(), karpenterMulti))]
	var found []*node
	kind := int32(-1)
	for low, high := 2, len(list); low <= high; {
		mid := (low + high) / 2
		if to, ok := k.replacement(list[:mid], true); ok {
			found, kind, low = list[:mid], to, mid+1
		} else {
			high = mid - 1
		}
	}
	if found == nil {
		return false
	}
	k.replace(found, kind)
	return true
}

func (k *karpenter) single() bool {
	if k.allowed() < 1 {
		return false
	}
	list := k.nodesByCost()
	fits := map[int32][]int32{} // nodes that take one more pod, by app: at most two
	for _, n := range list {
		if k.stuck(n, fits) {
			continue
		}
		if to, ok := k.replacement([]*node{n}, false); ok {
			k.replace([]*node{n}, to)
			return true
		}
	}
	return false
}

// stuck reports whether a pod of a node fits on no other node and no cheaper one could take its place: a short-cut.
func (k *karpenter) stuck(n *node, fits map[int32][]int32) bool {
	c := k.c
	if c.cheaper(c.state.Kinds()[n.kind].Cost) {
		return false
	}
	for _, item := range n.pods {
		app := c.app[item]
		list, ok := fits[app]
		if !ok {
			list = c.twins(app, 2)
			fits[app] = list
		}
		if len(list) == 0 || len(list) == 1 && list[0] == n.twin {
			return true
		}
	}
	return false
}

// replacement is the node type that replaces some nodes, -1 for none; ok reports whether that is cheaper.
func (k *karpenter) replacement(list []*node, several bool) (kind int32, ok bool) {
	c := k.c
	price := 0.
	for _, n := range list {
		price += c.state.Kinds()[n.kind].Cost
	}
	most := 0
	if c.cheaper(price) {
		most = 1
	}
	claims, ok := c.simulate(list, most)
	if !ok || len(claims) == 0 {
		return -1, ok
	}
	if several { // a node of a removed type must be cheaper than the cheapest of that type
		for _, n := range list {
			if slices.Contains(claims[0].kinds, n.kind) {
				price = min(price, c.state.Kinds()[n.kind].Cost)
			}
		}
	}
	kind = c.cheapest(claims[0], price)
	return kind, kind >= 0
}

// replace drains nodes, after a new one is ready if there is one.
func (k *karpenter) replace(list []*node, kind int32) {
	c := k.c
	drain := func() {
		for _, n := range list {
			if !n.gone {
				c.drain(n, Consolidation)
			}
		}
	}
	if kind < 0 {
		for _, n := range list {
			n.cordoned = true
		}
		drain()
		return
	}
	for _, n := range list {
		n.cordoned, n.removing = true, true
	}
	c.launch(kind)
	c.at(c.now+c.cfg.Boot, drain)
}
