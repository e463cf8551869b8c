package stack

import (
	"cmp"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A claim is a node that does not exist yet, or boots, with the pods planned for it.
type claim struct {
	kinds  []int32 // node types of one zone that hold all of its pods
	demand []int64
	pods   []int32
	// twin is a machine of plans, of type kind, on which the pods are booked while a plan is made; -1 = there are none yet.
	twin, kind int32
}

// newClaim is a node of one of some kinds.
func (c *cluster) newClaim(kinds []int32) *claim {
	return &claim{kinds: kinds, demand: make([]int64, len(c.trace.Instance.Dimensions)), twin: -1}
}

// claimFor plans a pod on a new node: in the zone with the fewest nodes among those that take it; nil = none does.
func (c *cluster) claimFor(item int32, claims []*claim) *claim {
	nodes := make([]int, len(c.zones))
	for _, n := range c.nodes {
		nodes[c.zoneOf[n.kind]]++
	}
	for _, cl := range claims {
		nodes[c.zoneOf[cl.kinds[0]]]++
	}
	order := make([]int, len(c.zones))
	for z := range order {
		order[z] = z
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(nodes[a], nodes[b]) })
	for _, z := range order {
		if c.now < c.closed[z] {
			continue
		}
		if cl := c.newClaim(c.zones[z]); c.add(cl, item) {
			return cl
		}
	}
	return nil
}

// cheaper reports whether some node type costs less than a price.
func (c *cluster) cheaper(price float64) bool {
	return slices.ContainsFunc(c.state.Kinds(), func(k binpack.Kind) bool { return k.Cost < price })
}

// add plans a pod on a claim, if a node type holds it beside the others.
func (c *cluster) add(cl *claim, item int32) bool {
	app := &c.state.Instance().Apps[c.app[item]]
	var kinds []int32
	for _, k := range cl.kinds {
		kind := &c.state.Kinds()[k]
		if app.MayUse(kind.Type) && !slices.ContainsFunc(dimensions(kind.Capacity), func(d int) bool { return cl.demand[d]+app.Demand[d] > kind.Capacity[d] }) {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		return false
	}
	if cl.twin < 0 || !slices.Contains(kinds, cl.kind) {
		c.rebook(cl, kinds[0])
	}
	if at := c.twinOf(cl); !c.plans.Fits(c.app[item], at) {
		return false
	} else if cl.twin < 0 {
		cl.twin = at
	}
	c.book(item, cl.twin)
	cl.kinds = kinds
	for d, need := range app.Demand {
		cl.demand[d] += need
	}
	cl.pods = append(cl.pods, item)
	return true
}

// twinOf is the machine of plans that a claim's next pod is booked on.
func (c *cluster) twinOf(cl *claim) int32 {
	if cl.twin >= 0 {
		return cl.twin
	}
	return offered(c.plans, cl.kind)
}

// rebook books the pods of a claim on a machine of another type.
func (c *cluster) rebook(cl *claim, kind int32) {
	from := cl.twin
	cl.kind, cl.twin = kind, -1
	if from < 0 {
		return
	}
	for _, item := range cl.pods {
		c.unbook(item, from)
	}
	cl.twin = offered(c.plans, kind)
	for _, item := range cl.pods {
		c.book(item, cl.twin)
	}
}

// A booking is a change of plans that is undone when a plan is made.
type booking struct {
	app, at int32
	added   bool
}

func (c *cluster) book(item, at int32) {
	c.plans.Book(c.app[item], at)
	c.booked = append(c.booked, booking{c.app[item], at, true})
}

func (c *cluster) unbook(item, at int32) {
	c.plans.Remove(c.app[item], at, nil)
	c.booked = append(c.booked, booking{c.app[item], at, false})
}

// undo takes all bookings back.
func (c *cluster) undo() { c.undoTo(0) }

// undoTo takes all bookings but the first ones back.
func (c *cluster) undoTo(first int) {
	for _, b := range slices.Backward(c.booked[first:]) {
		if b.added {
			c.plans.Remove(b.app, b.at, nil)
		} else {
			c.plans.Book(b.app, b.at)
		}
	}
	c.booked = c.booked[:first]
}

// booting are the nodes that boot, as claims.
func (c *cluster) booting() (claims []*claim) {
	for _, n := range c.nodes {
		if !n.ready && !n.cordoned {
			claims = append(claims, c.newClaim([]int32{n.kind}))
		}
	}
	return claims
}

func dimensions(amounts []int64) []int {
	list := make([]int, len(amounts))
	for d := range list {
		list[d] = d
	}
	return list
}

// cheapest is the cheapest of the claim's node types that costs less than a price; -1 = none does.
func (c *cluster) cheapest(cl *claim, below float64) int32 {
	best := int32(-1)
	for _, k := range cl.kinds {
		if cost := c.state.Kinds()[k].Cost; cost < below {
			best, below = k, cost
		}
	}
	return best
}

// bySize sorts pods by cpu and memory, the largest first: Karpenter's and cluster-autoscaler's order is first fit
// decreasing, too.
func (c *cluster) bySize(items []int32) {
	slices.SortStableFunc(items, func(a, b int32) int { return slices.Compare(c.demand(b), c.demand(a)) })
}

// simulate finds places for the pods of nodes that are removed: nodes in use that take pods, in the order of launch, then at
// most a number of new nodes. ok is false if some pod has no place. Nothing changes.
func (c *cluster) simulate(gone []*node, most int) (claims []*claim, ok bool) {
	var items []int32
	for _, n := range gone {
		n.aside = true
		items = append(items, n.pods...)
	}
	defer func() {
		c.undo()
		for _, n := range gone {
			n.aside = false
		}
	}()
	if !c.volumeFits(gone, most) {
		return nil, false
	}
	c.bySize(items)
	for _, item := range items {
		c.unbook(item, c.on[item].twin)
	}
	for _, item := range items {
		if at := c.firstTwin(c.app[item]); at >= 0 {
			c.book(item, at)
			continue
		}
		if slices.ContainsFunc(claims, func(cl *claim) bool { return c.add(cl, item) }) {
			continue
		}
		if len(claims) == most {
			return nil, false
		}
		cl := c.claimFor(item, claims)
		if cl == nil {
			return nil, false
		}
		claims = append(claims, cl)
	}
	return claims, true
}

// volumeFits reports whether the demand on nodes that are removed is at most the free amount of the others and of some new nodes.
func (c *cluster) volumeFits(gone []*node, most int) bool {
	for d := range c.trace.Instance.Dimensions {
		room := int64(0)
		for _, n := range gone {
			if n.machine >= 0 {
				room -= c.state.Capacity(n.machine)[d] - c.state.Free(d)[n.machine]
			}
		}
		if most > 0 {
			room += int64(most) * slices.MaxFunc(c.state.Kinds(), func(a, b binpack.Kind) int { return cmp.Compare(a.Capacity[d], b.Capacity[d]) }).Capacity[d]
		}
		for _, n := range c.nodes {
			if n.machine >= 0 && !n.aside && c.open(n) {
				room += max(0, c.state.Free(d)[n.machine])
			}
		}
		if room < 0 {
			return false
		}
	}
	return true
}

// firstTwin is the node, as machine of plans, that was launched first among those in use that take an app's pod.
func (c *cluster) firstTwin(app int32) int32 {
	var first *node
	for _, m := range c.takers(app) {
		if n := c.byTwin[m]; first == nil || n.number < first.number {
			first = n
		}
	}
	if first == nil {
		return -1
	}
	return first.twin
}

// twins are at most so many nodes in use that take an app's pod.
func (c *cluster) twins(app int32, most int) []int32 {
	list := c.takers(app)
	return slices.Clone(list[:min(most, len(list))])
}

// takers are the nodes in use that take an app's pod, as machines of plans, valid until the next call.
func (c *cluster) takers(app int32) []int32 {
	c.candidates = slices.DeleteFunc(c.plans.Feasible(app, c.candidates[:0]), func(m int32) bool {
		if int(m) >= len(c.byTwin) {
			return true
		}
		n := c.byTwin[m]
		return n == nil || n.aside || !c.open(n) || !c.sparesRoom(n, app)
	})
	return c.candidates
}
