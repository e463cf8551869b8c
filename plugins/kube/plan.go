package kube

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Plan is a parsed PlacementPlan.
type Plan struct {
	Name      string
	Enabled   bool
	Until     float64 // seconds since 1970
	pods      int32
	workloads []*planned
	by        string          // of a chain: the object that reserves its places
	seen      map[string]bool // its nodes that have existed, and were open
}

// planned is a workload of a plan.
type planned struct {
	plan  *Plan
	group string
	pod   *v1.Pod // a model of the workload's pods, with the plan's fields only
	pods  int32
	nodes map[string]int32 // as they are planned now
	again map[string]int32 // of these, pods that were replanned, by node
	stood map[string]bool  // of a chain: UIDs of the pods that were on the node before
	// As of the last review: the pod as a policy sees it.
	app    string
	demand map[string]int64
}

// mostPlanned bounds the number of pods of a plan.
const mostPlanned = 1 << 20

// NewPlan parses a plan; appLabel is the label that names a pod's app. The error names the
// field.
func NewPlan(p *v1alpha1.PlacementPlan, appLabel string) (*Plan, error) {
	if mode := p.Spec.Mode; mode != "" && mode != v1alpha1.PlanDryRun && mode != v1alpha1.PlanEnabled {
		return nil, fmt.Errorf("spec.mode %q: want %s or %s", mode, v1alpha1.PlanDryRun, v1alpha1.PlanEnabled)
	}
	if p.Spec.Deadline.IsZero() {
		return nil, errors.New("spec.deadline is missing")
	}
	if len(p.Spec.Workloads) == 0 {
		return nil, errors.New("spec.workloads is empty")
	}
	out := &Plan{Name: p.Name, Enabled: p.Spec.Mode == v1alpha1.PlanEnabled, Until: seconds(p.Spec.Deadline.Time), seen: map[string]bool{}}
	first := map[string]int{}
	for i := range p.Spec.Workloads {
		w, err := newPlanned(&p.Spec.Workloads[i], appLabel)
		if err != nil {
			return nil, fmt.Errorf("spec.workloads[%d].%w", i, err)
		}
		if before, twice := first[w.group]; twice {
			return nil, fmt.Errorf("spec.workloads[%d]: spec.workloads[%d] is %s already", i, before, w.group)
		}
		first[w.group] = i
		if out.pods += w.pods; out.pods > mostPlanned {
			return nil, fmt.Errorf("spec.workloads: more than %d pods", mostPlanned)
		}
		w.plan = out
		out.workloads = append(out.workloads, w)
	}
	return out, nil
}

func newPlanned(p *v1alpha1.PlannedWorkload, appLabel string) (*planned, error) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace}}
	switch {
	case p.Namespace == "":
		return nil, errors.New("namespace is missing")
	case p.Name == "":
		return nil, errors.New("name is missing")
	case p.Kind != "":
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: p.Kind, Name: p.Name, Controller: new(true)}}
	case appLabel != "":
		pod.Labels = map[string]string{appLabel: p.Name}
	default:
		return nil, errors.New("kind is missing: the scheduler has no appLabel that would name the pods' app without it")
	}
	if !podspec.Moves(pod) {
		return nil, fmt.Errorf("kind %s: its pods have their nodes", p.Kind)
	}
	requests := v1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(p.Requests)) {
		q := p.Requests[name]
		if q.Sign() < 0 {
			return nil, fmt.Errorf("requests.%s %s: want 0 or more", name, q.String())
		}
		requests[v1.ResourceName(name)] = q
	}
	pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: requests}}}
	w := &planned{group: podspec.Group(pod, appLabel), pod: pod, nodes: map[string]int32{}, again: map[string]int32{}}
	if len(p.Nodes) == 0 {
		return nil, errors.New("nodes is empty")
	}
	for i, n := range p.Nodes {
		switch {
		case n.Node == "":
			return nil, fmt.Errorf("nodes[%d].node is missing", i)
		case n.Pods < 1 || n.Pods > 10_000:
			return nil, fmt.Errorf("nodes[%d].pods %d: want 1 to 10000", i, n.Pods)
		case w.nodes[n.Node] > 0:
			return nil, fmt.Errorf("nodes[%d].node %s: it is there twice", i, n.Node)
		}
		w.nodes[n.Node] = n.Pods
		w.pods += n.Pods
	}
	return w, nil
}

// SharedWorkload returns a workload that both plans have, or "".
func (p *Plan) SharedWorkload(other *Plan) string {
	for _, w := range p.workloads {
		if slices.ContainsFunc(other.workloads, func(o *planned) bool { return o.group == w.group }) {
			return w.group
		}
	}
	return ""
}

// A planBook holds the plans, and their workloads by node. The ledger stores it as an object.
type planBook struct {
	plans  []*Plan
	chains []*Chain
	on     map[string][]*planned // of the enabled ones, in the order of plans and workloads, then of chains and places
	failed failure               // of the last attempt to replan
	// reviewed is the time of the last review, in seconds since 1970.
	reviewed float64
}

func (t *reservations) plans() *planBook {
	if book, ok := t.ledger.PlanObjects.(*planBook); ok {
		return book
	}
	return &noPlans
}

var noPlans planBook

// Plans returns the plans that were set last.
func (t *reservations) Plans() []*Plan { return t.plans().plans }

// SetPlans replaces the plans, of which no two may have the same workload. A chain that has a
// workload of one of them ends. now is the time in seconds since 1970.
func (t *reservations) SetPlans(plans []*Plan, now float64) {
	book := &planBook{plans: plans}
	for _, p := range plans {
		for _, before := range t.Plans() {
			if before.Name == p.Name { // a node that its former version saw and that was lost is lost for this one too
				maps.Copy(p.seen, before.seen)
			}
		}
	}
	for _, c := range t.plans().chains {
		if !slices.ContainsFunc(plans, func(p *Plan) bool { return p.inForce(now) && p.SharedWorkload(&c.plan) != "" }) {
			book.chains = append(book.chains, c)
		}
	}
	t.ledger.PlanObjects = book
	t.ReviewPlans(now)
}

// ReviewPlans reserves places of plans as far as there is room, ends reservations that are no longer
// due at a time, in seconds since 1970, and replans pods that have lost their places.
func (t *reservations) ReviewPlans(now float64) {
	book, ok := t.ledger.PlanObjects.(*planBook)
	if !ok {
		return
	}
	book.reviewed = now
	ended := map[string]string{} // plans, with the reason
	for _, p := range book.all() {
		for _, w := range p.workloads {
			item := t.item(w.pod)
			w.app, w.demand = item.app, item.demand
		}
		if p.Enabled && p.Until <= now {
			ended[p.source()] = ledger.ReleaseDeadline
		}
	}
	t.settleAll(book, now, ended)
	book.chains = slices.DeleteFunc(book.chains, func(c *Chain) bool { return c.plan.Until <= now })
	t.replan(book, now)
}

// inForce reports whether a plan is active at a time.
func (p *Plan) inForce(now float64) bool { return p.Enabled && p.Until > now }

// settleAll brings all reservations up to date.
func (t *reservations) settleAll(book *planBook, now float64, ended map[string]string) {
	book.on = map[string][]*planned{}
	names := map[string]bool{}
	for _, p := range book.all() {
		if !p.inForce(now) {
			continue
		}
		for _, w := range p.workloads {
			for name := range w.nodes {
				book.on[name] = append(book.on[name], w)
				names[name] = true
			}
		}
	}
	for n := range t.ledger.ReservedNodes() {
		names[n.Name()] = true
	}
	// Two rounds: a node may reserve pods that a later node releases.
	for range 2 {
		released := false
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if n := t.ledger.Node(name); n != nil {
				released = t.settle(n, ended) || released
			}
		}
		if !released {
			return
		}
	}
}

// source returns the name of a plan in reservations.
func (p *Plan) source() string { return cmp.Or(p.by, "PlacementPlan/"+p.Name) }

// settle brings the reservations on a node up to date, and reports whether some ended. ended
// are plans whose end has a reason other than that they were withdrawn.
func (t *reservations) settle(n *ledger.Node, ended map[string]string) (released bool) {
	asks := t.plans().on[n.Name()]
	if len(asks) == 0 && len(n.Reservations()) == 0 {
		return false
	}
	due := map[string]bool{} // apps
	room, left := t.room(n), false
	for _, w := range asks {
		if w.stood != nil && !left {
			t.addLeaving(n, room)
			left = true
		}
		released = t.settleOne(n, w, room, ended[w.plan.source()]) || released
		due[w.app] = true
	}
	for _, r := range slices.Clone(n.Reservations()) {
		if !due[r.App.Name()] {
			t.release(n, r.App, r.Pods, cmp.Or(ended[r.By], ledger.ReleaseWithdrawn))
			released = true
		}
	}
	return released
}

// room returns the capacity of a node minus the demand of the pods on it.
func (t *reservations) room(n *ledger.Node) map[string]int64 {
	room := maps.Clone(n.Machine().Capacity)
	for _, p := range n.Pods() {
		for dim, need := range p.App().Spec().Demand {
			room[dim] -= need
		}
	}
	return room
}

// settleOne brings the reservation of a workload on a node up to date, and subtracts it from the
// room. shift is the reason when the plan itself changed. It reports whether some ended.
func (t *reservations) settleOne(n *ledger.Node, w *planned, room map[string]int64, shift string) (released bool) {
	want, reason := t.wanted(n, w)
	for dim, need := range w.demand {
		if k := max(0, room[dim]) / max(1, need); need > 0 && k < int64(want) {
			want, reason = int32(k), ledger.ReleaseNoRoom
		}
	}
	for dim, need := range w.demand {
		room[dim] -= need * int64(want)
	}
	a := t.ledger.App(w.app)
	if a == nil && want > 0 {
		a = t.ensurePlanned(w)
	}
	if a == nil {
		return false
	}
	has := n.ReservedFor(a)
	if has.Pods > 0 && (has.Until != w.plan.Until || has.By != w.plan.source()) {
		t.release(n, a, has.Pods, ledger.ReleaseWithdrawn)
		has.Pods, released = 0, true
	}
	switch {
	case want > has.Pods:
		t.emit(&ledger.Event{Kind: ledger.KindReserve, Node: n.Name(), App: w.app, Reserved: &ledger.Reserved{
			Pods: want - has.Pods, Until: w.plan.Until, By: w.plan.source(),
		}})
	case want < has.Pods:
		t.release(n, a, has.Pods-want, cmp.Or(shift, reason))
		released = true
	}
	return released
}

// ensurePlanned returns the app of a planned workload; nil if the ledger refused it.
func (t *reservations) ensurePlanned(w *planned) *ledger.AppEntry {
	a := t.ensureApp(w.pod)
	if a != nil { // resources that have appeared meanwhile make it another app
		w.app, w.demand = a.Name(), a.Spec().Demand
	}
	return a
}

// wanted returns the number of pods of a workload that a node still expects, given the pods that
// run or are reserved elsewhere, and why it is no larger.
func (t *reservations) wanted(n *ledger.Node, w *planned) (pods int32, reason string) {
	if w.stood != nil {
		return t.toCome(n, w)
	}
	switch {
	case n.Machine().Cordoned:
		return 0, ledger.ReleaseCordoned
	case unready(n):
		return 0, ledger.ReleaseRefused
	}
	here, left := int32(0), w.pods
	g, a := t.ledger.Group(w.group), t.ledger.App(w.app)
	if g != nil {
		here, left = g.CountOn(n), left-int32(g.Pods())
	}
	if a != nil {
		left -= int32(a.Reserved()) - n.ReservedFor(a).Pods
	}
	pods, reason = max(0, w.nodes[n.Name()]-here), ledger.ReleaseTaken
	if left < pods {
		pods, reason = max(0, left), ledger.ReleaseElsewhere
	}
	if g != nil && pods > 0 {
		if most := t.most(g, n); most < pods {
			pods, reason = most, ledger.ReleaseRefused
		}
	}
	return pods, reason
}

// most returns how many more pods of a group rules, anti-affinity and selectors allow on a node.
func (t *reservations) most(g *ledger.Group, n *ledger.Node) int32 {
	if latest := g.Latest(); latest != nil && !t.ledger.Admits(n, latest.Spec().Selector) {
		return 0
	}
	c, here, most := constraintsOf(g), g.CountOn(n), int32(math.MaxInt32)
	if c.limit > 0 {
		most = max(0, c.limit-here)
	}
	for i := range c.pairs {
		p := &c.pairs[i]
		switch others := t.countOn(p.other(c), n); {
		case p.a == c && others > p.max:
			return 0
		case p.b == c && others > 0:
			most = min(most, max(0, p.max-here))
		}
	}
	return most
}

func (t *reservations) release(n *ledger.Node, a *ledger.AppEntry, pods int32, reason string) {
	t.emit(&ledger.Event{Kind: ledger.KindRelease, Node: n.Name(), App: a.Name(), Reserved: &ledger.Reserved{Pods: pods, Reason: reason}})
}
