package stack

import (
	"cmp"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A claim is a node that does not exist yet, or boots, with the pods planned for it.
type claim struct {
	kinds  []int32 // node types that hold all of its pods
	demand []int64
	held   map[int32]int32 // pods by group
	pods   []int32
}

// newClaim is a node of one of some kinds.
func (c *cluster) newClaim(kinds []int32) *claim {
	return &claim{kinds: kinds, demand: make([]int64, len(c.trace.Instance.Dimensions)), held: map[int32]int32{}}
}

// allKinds are all node types.
func (c *cluster) allKinds() []int32 {
	kinds := make([]int32, len(c.state.Kinds()))
	for k := range kinds {
		kinds[k] = int32(k)
	}
	return kinds
}

// cheaper reports whether some node type costs less than a price.
func (c *cluster) cheaper(price float64) bool {
	return slices.ContainsFunc(c.state.Kinds(), func(k binpack.Kind) bool { return k.Cost < price })
}

// add plans a pod on a claim, if a node type holds it beside the others.
func (c *cluster) add(cl *claim, item int32) bool {
	app := &c.state.Instance().Apps[c.app[item]]
	group := &c.state.Instance().Groups[app.Group]
	most := group.Limit
	if c.plans.Spread(app.Group) < group.SpreadMin {
		most = 1
	}
	if most > 0 && cl.held[app.Group] >= most {
		return false
	}
	for _, r := range c.rules[app.Group] {
		count := func(g int32) (n int32) {
			if n = cl.held[g]; g == app.Group {
				n++
			}
			return n
		}
		if count(r.A) > 0 && count(r.B) > r.Max {
			return false
		}
	}
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
	cl.kinds = kinds
	for d, need := range app.Demand {
		cl.demand[d] += need
	}
	cl.held[app.Group]++
	cl.pods = append(cl.pods, item)
	return true
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

// A removal is a simulated removal of nodes.
type removal struct {
	claims []*claim
	undo   []booking
}

type booking struct {
	app, at int32
	added   bool
}

// simulate finds places for the pods of nodes that go away: nodes in use that take pods, in the order of launch, then at
// most a number of new nodes. ok is false if some pod has no place. Nothing changes.
func (c *cluster) simulate(gone []*node, most int) (claims []*claim, ok bool) {
	var items []int32
	for _, n := range gone {
		n.aside = true
		items = append(items, n.pods...)
	}
	var r removal
	defer func() {
		for _, b := range slices.Backward(r.undo) {
			if b.added {
				c.plans.Remove(b.app, b.at, nil)
			} else {
				c.plans.Book(b.app, b.at)
			}
		}
		for _, n := range gone {
			n.aside = false
		}
	}()
	if !c.volumeFits(gone, most) {
		return nil, false
	}
	c.bySize(items)
	for _, item := range items {
		r.undo = append(r.undo, booking{c.app[item], c.on[item].twin, false})
		c.plans.Remove(c.app[item], c.on[item].twin, nil)
	}
	for _, item := range items {
		if at := c.firstTwin(c.app[item]); at >= 0 {
			c.plans.Book(c.app[item], at)
			r.undo = append(r.undo, booking{c.app[item], at, true})
			continue
		}
		if slices.ContainsFunc(r.claims, func(cl *claim) bool { return c.add(cl, item) }) {
			continue
		}
		if len(r.claims) == most {
			return nil, false
		}
		cl := c.newClaim(c.allKinds())
		if !c.add(cl, item) {
			return nil, false
		}
		r.claims = append(r.claims, cl)
	}
	return r.claims, true
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
			if n.machine >= 0 && n.ready && !n.cordoned && !n.aside {
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
		return n == nil || n.cordoned || n.aside
	})
	return c.candidates
}
