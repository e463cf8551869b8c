package kube

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Chain reserves the places of pods that are evicted one after the other, and of the pod that
// they make room for. All places are reserved at once, also those that other pods still occupy.
type Chain struct{ plan Plan }

// A Place assigns a node to one more pod: a waiting pod, or the replacement of an evicted one. A
// chain whose places are queried by [Translator.PlaceOf] has no two of one workload or on one node.
type Place struct {
	Pod  *v1.Pod
	Node string
}

// NewChain returns a chain with places in the order in which they are taken. by names the object
// that reserves them, until the deadline in seconds since 1970; appLabel is the label that names a
// pod's app.
func NewChain(by string, until float64, places []Place, appLabel string) *Chain {
	c := &Chain{Plan{Enabled: true, Until: until, by: by}}
	for _, p := range places {
		group := podspec.Group(p.Pod, appLabel)
		if i := slices.IndexFunc(c.plan.workloads, func(w *planned) bool { return w.group == group && w.nodes[p.Node] > 0 }); i >= 0 {
			c.plan.workloads[i].pods++
			c.plan.workloads[i].nodes[p.Node]++
			continue
		}
		c.plan.workloads = append(c.plan.workloads, &planned{
			plan: &c.plan, group: group, pod: p.Pod, pods: 1, nodes: map[string]int32{p.Node: 1},
		})
	}
	return c
}

// all returns the plans, including those of the chains.
func (b *planBook) all() []*Plan {
	all := slices.Clone(b.plans)
	for _, c := range b.chains {
		all = append(all, &c.plan)
	}
	return all
}

// Claimed reports whether a plan that was active at the last review, or a chain, has a workload.
func (t *reservations) Claimed(group string) bool { return t.ClaimedExcept(group, nil) }

// ClaimedExcept is Claimed without the chains others.
func (t *reservations) ClaimedExcept(group string, others []*Chain) bool {
	book := t.plans()
	return slices.ContainsFunc(book.all(), func(p *Plan) bool {
		other := slices.ContainsFunc(others, func(c *Chain) bool { return &c.plan == p })
		return p.inForce(book.reviewed) && !other && slices.ContainsFunc(p.workloads, func(w *planned) bool { return w.group == group })
	})
}

// Reserve reserves the chain's places as far as there is room. No plan and no other chain may have
// a workload of it. now is the time in seconds since 1970.
func (t *reservations) Reserve(c *Chain, now float64) {
	for _, w := range c.plan.workloads {
		w.stood = map[string]bool{}
		for node := range w.nodes {
			for _, uid := range t.standing(node, w.group) {
				w.stood[uid] = true
			}
		}
	}
	book := t.plans()
	t.ledger.PlanObjects = &planBook{plans: book.plans, chains: append(slices.Clone(book.chains), c)}
	t.ReviewPlans(now)
}

// Release releases the reservations of a chain.
func (t *reservations) Release(c *Chain, now float64) {
	book := t.plans()
	if i := slices.Index(book.chains, c); i >= 0 {
		book.chains = slices.Delete(book.chains, i, i+1)
		t.ReviewPlans(now)
	}
}

// Active reports whether a chain is still active: it has not ended, its deadline has not passed,
// and no plan has taken over one of its workloads.
func (t *reservations) Active(c *Chain) bool { return slices.Contains(t.plans().chains, c) }

// A PlaceState is the progress of a place of a chain.
type PlaceState int

// The states of places.
const (
	PlaceLost     PlaceState = iota // nothing is reserved: the room or the node was lost, or the chain has ended
	PlaceOccupied                   // it is reserved, and another pod of the chain still occupies it
	PlaceFree                       // it is reserved and free
	PlaceTaken                      // a pod of the workload runs in it
)

// PlaceOf returns the state of a place by its number. An earlier pod of the chain may occupy it.
func (t *reservations) PlaceOf(c *Chain, number int) PlaceState {
	w := c.plan.workloads[number]
	state := PlaceLost
	for node := range w.nodes {
		n := t.ledger.Node(node)
		if n == nil || !t.Active(c) {
			return PlaceLost
		}
		if want, reason := t.toCome(n, w); want == 0 && reason == ledger.ReleaseTaken {
			return PlaceTaken
		}
		if slices.ContainsFunc(n.Reservations(), func(r ledger.Reservation) bool {
			return r.By == c.plan.by && r.App.Group().Name() == w.group
		}) {
			state = PlaceFree
		}
		if state == PlaceFree && slices.ContainsFunc(c.plan.workloads[:number], func(w *planned) bool { return t.leaves(w, n) != nil }) {
			state = PlaceOccupied
		}
	}
	return state
}

// Occupant returns a pod that has taken the place of a number, as last observed; nil if no pod has.
func (t *reservations) Occupant(c *Chain, number int) *v1.Pod {
	w := c.plan.workloads[number]
	for node := range w.nodes {
		for _, uid := range t.standing(node, w.group) {
			if pod, ok := t.ledger.Pod(uid).Object.(*v1.Pod); ok && !w.stood[uid] {
				return pod
			}
		}
	}
	return nil
}

// PlacedPods returns the pods of a pod's group that have a node, as last observed, in no order.
func (t *reservations) PlacedPods(pod *v1.Pod) (pods []*v1.Pod) {
	g := t.ledger.Group(podspec.Group(pod, t.appLabel))
	if g == nil {
		return nil
	}
	for n := range g.CountsByNode() {
		for _, uid := range t.standing(n.Name(), g.Name()) {
			if p, ok := t.ledger.Pod(uid).Object.(*v1.Pod); ok {
				pods = append(pods, p)
			}
		}
	}
	return pods
}

// leaves returns the pod of a chain's place that is to leave a node and still runs there, or nil.
func (t *reservations) leaves(w *planned, n *ledger.Node) *ledger.Pod {
	if p := t.ledger.Pod(string(w.pod.UID)); p != nil && p.Node() == n && w.pod.Spec.NodeName == n.Name() {
		return p
	}
	return nil
}

// addLeaving adds the demand of the pods that chains will evict from a node to the room: the pods
// that take their room reserve it before they leave.
func (t *reservations) addLeaving(n *ledger.Node, room map[string]int64) {
	for _, c := range t.plans().chains {
		for _, w := range c.plan.workloads {
			if p := t.leaves(w, n); p != nil {
				for dim, need := range p.App().Spec().Demand {
					room[dim] += need
				}
			}
		}
	}
}

// toCome is wanted for a place of a chain: its pods, minus those that run there now and did not
// when the chain began.
func (t *reservations) toCome(n *ledger.Node, w *planned) (pods int32, reason string) {
	pods = w.nodes[n.Name()]
	for _, uid := range t.standing(n.Name(), w.group) {
		if !w.stood[uid] {
			pods--
		}
	}
	if pods > 0 && n.Machine().Cordoned {
		return 0, ledger.ReleaseCordoned
	}
	if a := t.ledger.App(w.app); unready(n) || a != nil && !t.ledger.Admits(n, a.Spec().Selector) {
		return 0, ledger.ReleaseRefused
	}
	return max(0, pods), ledger.ReleaseTaken
}

// standing returns the UIDs of a group's pods on a node.
func (t *reservations) standing(node, group string) (uids []string) {
	n, g := t.ledger.Node(node), t.ledger.Group(group)
	if n == nil || g == nil || g.CountOn(n) == 0 {
		return nil
	}
	for _, p := range n.Pods() {
		if p.App().Group() == g {
			uids = append(uids, p.UID())
		}
	}
	return uids
}
