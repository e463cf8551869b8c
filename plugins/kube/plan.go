package kube

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
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
	by        string // of a chain: what asks for its places
}

// planned is a workload of a plan.
type planned struct {
	plan  *Plan
	group string
	pod   *v1.Pod // one of the workload's, as far as the plan says
	pods  int32
	nodes map[string]int32
	stood map[string]bool // of a chain: UIDs of the pods that stood on the node before
	// As of the last review: what a policy sees of the pod.
	app    string
	demand map[string]int64
}

// mostPlanned bounds what a plan adds up to.
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
	out := &Plan{Name: p.Name, Enabled: p.Spec.Mode == v1alpha1.PlanEnabled, Until: seconds(p.Spec.Deadline.Time)}
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
	w := &planned{group: podspec.Group(pod, appLabel), pod: pod, nodes: map[string]int32{}}
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

// Clash returns a workload that two plans have; "" = none.
func (p *Plan) Clash(other *Plan) string {
	for _, w := range p.workloads {
		if slices.ContainsFunc(other.workloads, func(o *planned) bool { return o.group == w.group }) {
			return w.group
		}
	}
	return ""
}

// A planBook is the plans, and what they say of each node. The ledger has it as an object.
type planBook struct {
	plans  []*Plan
	chains []*Chain
	on     map[string][]*planned // of the enabled ones, in the order of plans and workloads, then of chains and places
}

func (t *Translator) plans() *planBook {
	if book, ok := t.ledger.PlanObjects.(*planBook); ok {
		return book
	}
	return &noPlans
}

var noPlans planBook

// Plans are those that were set last.
func (t *Translator) Plans() []*Plan { return t.plans().plans }

// SetPlans replaces the plans, of which no two may have the same workload. A chain that has a
// workload of one of them ends. now is the time in seconds since 1970.
func (t *Translator) SetPlans(plans []*Plan, now float64) {
	book := &planBook{plans: plans}
	for _, c := range t.plans().chains {
		if !slices.ContainsFunc(plans, func(p *Plan) bool { return p.Enabled && p.Clash(&c.plan) != "" }) {
			book.chains = append(book.chains, c)
		}
	}
	t.ledger.PlanObjects = book
	t.ReviewPlans(now)
}

// ReviewPlans reserves what plans ask for and there is room for, and ends what is no longer
// due at a time, in seconds since 1970.
func (t *Translator) ReviewPlans(now float64) {
	book, ok := t.ledger.PlanObjects.(*planBook)
	if !ok {
		return
	}
	book.on = map[string][]*planned{}
	ended := map[string]string{} // plans, with the reason
	for _, p := range book.all() {
		for _, w := range p.workloads {
			item := t.item(w.pod)
			w.app, w.demand = item.app, item.demand
		}
		switch {
		case !p.Enabled:
		case p.Until <= now:
			ended[p.source()] = ledger.ReleaseDeadline
		default:
			for _, w := range p.workloads {
				for name := range w.nodes {
					book.on[name] = append(book.on[name], w)
				}
			}
		}
	}
	book.chains = slices.DeleteFunc(book.chains, func(c *Chain) bool { return c.plan.Until <= now })
	names := map[string]bool{}
	for name := range book.on {
		names[name] = true
	}
	for n := range t.ledger.Held() {
		names[n.Name()] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if n := t.ledger.Node(name); n != nil {
			t.settle(n, ended)
		}
	}
}

// source is what reservations name as the one that asked for them.
func (p *Plan) source() string { return cmp.Or(p.by, "PlacementPlan/"+p.Name) }

// settle brings the reservations on a node up to date. ended are plans whose end has
// another reason than that nobody asks for it.
func (t *Translator) settle(n *ledger.Node, ended map[string]string) {
	asks := t.plans().on[n.Name()]
	if len(asks) == 0 && len(n.Reservations()) == 0 {
		return
	}
	due := map[string]bool{} // apps
	room, left := t.room(n), false
	for _, w := range asks {
		if w.stood != nil && !left {
			t.addLeaving(n, room)
			left = true
		}
		t.settleOne(n, w, room)
		due[w.app] = true
	}
	for _, r := range slices.Clone(n.Reservations()) {
		if !due[r.App.Name()] {
			t.release(n, r.App, r.Pods, cmp.Or(ended[r.By], ledger.ReleaseWithdrawn))
		}
	}
}

// room is what is free on a node beside the pods that stand there.
func (t *Translator) room(n *ledger.Node) map[string]int64 {
	room := maps.Clone(n.Machine().Capacity)
	for _, p := range n.Pods() {
		for dim, need := range p.App().Spec().Demand {
			room[dim] -= need
		}
	}
	return room
}

// settleOne brings the reservation of a workload on a node up to date, and takes it off the
// room.
func (t *Translator) settleOne(n *ledger.Node, w *planned, room map[string]int64) {
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
		if a = t.EnsureApp(w.pod); a != nil { // resources that have come meanwhile make it another app
			w.app, w.demand = a.Name(), a.Spec().Demand
		}
	}
	if a == nil {
		return
	}
	has := n.ReservedFor(a)
	if has.Pods > 0 && (has.Until != w.plan.Until || has.By != w.plan.source()) {
		t.release(n, a, has.Pods, ledger.ReleaseWithdrawn)
		has.Pods = 0
	}
	switch {
	case want > has.Pods:
		t.emit(&ledger.Event{Kind: ledger.KindReserve, Node: n.Name(), App: w.app, Reserved: &ledger.Reserved{
			Pods: want - has.Pods, Until: w.plan.Until, By: w.plan.source(),
		}})
	case want < has.Pods:
		t.release(n, a, has.Pods-want, reason)
	}
}

// wanted is the number of pods of a workload that are still to come to a node, by what
// stands, and why no more are.
func (t *Translator) wanted(n *ledger.Node, w *planned) (pods int32, reason string) {
	if w.stood != nil {
		return t.toCome(n, w)
	}
	here, all := int32(0), 0
	if g := t.ledger.Group(w.group); g != nil {
		here, all = g.CountOn(n), g.Pods()
	}
	switch {
	case n.Machine().Cordoned:
		return 0, ledger.ReleaseCordoned
	case here < w.nodes[n.Name()] && all >= int(w.pods):
		return 0, ledger.ReleaseElsewhere
	}
	return max(0, w.nodes[n.Name()]-here), ledger.ReleaseTaken
}

func (t *Translator) release(n *ledger.Node, a *ledger.AppEntry, pods int32, reason string) {
	t.emit(&ledger.Event{Kind: ledger.KindRelease, Node: n.Name(), App: a.Name(), Reserved: &ledger.Reserved{Pods: pods, Reason: reason}})
}

// A PlanReport says how far a plan is, in pods.
type PlanReport struct {
	Pods, Landed, Reserved, Elsewhere int32
	// Of those that are still to come: with a place that there is room for now (in a plan
	// that is not enabled), on nodes that are not there, that are cordoned, without room.
	HasRoom, NoNode, Cordoned, NoRoom int32
}

// Report says how far a plan is.
func (t *Translator) Report(p *Plan) PlanReport {
	r := PlanReport{Pods: p.pods}
	rooms := map[*ledger.Node]map[string]int64{}
	for _, w := range p.workloads {
		landed := int32(0)
		a, g := t.ledger.App(w.app), t.ledger.Group(w.group)
		for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
			n := t.ledger.Node(name)
			if n == nil {
				r.NoNode += w.nodes[name]
				continue
			}
			if g != nil {
				landed += min(g.CountOn(n), w.nodes[name])
			}
			want, reason := t.wanted(n, w)
			if reason == ledger.ReleaseCordoned {
				r.Cordoned += w.nodes[name]
				continue
			}
			reserved := int32(0)
			if a != nil {
				reserved = n.ReservedFor(a).Pods
			}
			r.Reserved += reserved
			if rooms[n] == nil {
				rooms[n] = t.room(n)
				for _, other := range n.Reservations() {
					for dim, need := range other.App.Spec().Demand {
						if other.By != p.source() {
							rooms[n][dim] -= need * int64(other.Pods)
						}
					}
				}
			}
			fits := want
			for dim, need := range w.demand {
				if need > 0 {
					fits = min(fits, int32(min(max(0, rooms[n][dim])/need, int64(want))))
				}
			}
			for dim, need := range w.demand {
				rooms[n][dim] -= need * int64(fits)
			}
			r.HasRoom += fits
			r.NoRoom += want - fits
		}
		r.Landed += landed
		if g != nil {
			r.Elsewhere += int32(g.Pods()) - landed
		}
	}
	return r
}
