package kube

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Translator compares Kubernetes objects with a ledger and emits the events by
// which they differ. It has no state: the ledger holds the data of the comparison, and
// the objects that may have to be translated again. It serves one goroutine.
type Translator struct {
	Prices *Prices // may be set before the first node
	reservations
}

// view reads pods as a policy sees them.
type view struct {
	appLabel string
	ledger   *ledger.Ledger
	emit     func(*ledger.Event)
}

// rulings find the rules that are broken, or would be.
type rulings struct{ view }

// reservations keep room on nodes for the pods of plans and chains.
type reservations struct {
	rulings
	ensureApp func(*v1.Pod) *ledger.AppEntry // of the Translator
}

// NewTranslator returns a translator for a ledger that has a start. emit must apply
// each event to that ledger before it returns; it may drop an event that the ledger
// refuses.
func NewTranslator(appLabel string, l *ledger.Ledger, emit func(*ledger.Event)) *Translator {
	t := &Translator{reservations: reservations{rulings: rulings{view{appLabel: appLabel, ledger: l, emit: emit}}}}
	t.ensureApp = t.EnsureApp
	return t
}

// An item is a pod as a policy sees it: one of an app, which is all pods of a group
// that are equal in demand and selector.
type item struct {
	app, group string
	demand     map[string]int64
	selector   *podspec.Selector
}

func (t *view) item(p *v1.Pod) item { return t.itemOf(podspec.Group(p, t.appLabel), p) }

func (t *view) itemOf(group string, p *v1.Pod) item {
	i := item{group: group, demand: t.demand(p), selector: podspec.NewSelector(p)}
	i.app = i.group + "@" + podspec.Size(i.demand)
	if i.selector.ID != "" {
		i.app += "," + i.selector.ID
	}
	return i
}

// EnsureApp returns the app of a pod. It emits an app that is new, with its rules and
// the nodes that it cannot use. The newest pod of a group may change the group's
// constraints, which are then emitted too. It returns nil if the ledger refused the app.
func (t *Translator) EnsureApp(p *v1.Pod) *ledger.AppEntry {
	known := t.ledger.Pod(string(p.UID))
	if known != nil {
		before, ok := known.Object.(*v1.Pod) // else its app is outdated
		if ok && (before == p || podspec.Alike(before, p)) {
			a := known.App()
			if before != p || known.Node() == nil { // it changed, or waits
				a.Idle = 0
				t.ensureGroup(a.Group().Name(), p)
			}
			return a
		}
	}
	group := podspec.Group(p, t.appLabel)
	if known == nil {
		if a := t.appOfNewest(group, p); a != nil {
			a.Idle = 0
			t.ensureGroup(group, p)
			return a
		}
	}
	i := t.itemOf(group, p)
	constraints := t.ensureGroup(group, p)
	if a := t.ledger.App(i.app); a != nil {
		a.Idle = 0
		return a
	}
	if t.ledger.Selector(i.selector.ID) == nil {
		t.announce(i.selector)
	}
	t.emitApp(i.app, constraints, i.selector.ID, i.demand)
	a := t.ledger.App(i.app)
	if a != nil {
		a.Group().Object = constraints
		t.ledger.Selector(i.selector.ID).Object = i.selector
	}
	return a
}

// appOfNewest returns the app of a group's newest pod, if it is certain to be that of another pod of the group; else nil.
func (t *Translator) appOfNewest(group string, p *v1.Pod) *ledger.AppEntry {
	g := t.ledger.Group(group)
	if g == nil {
		return nil
	}
	newest := constraintsOf(g).pod
	known := t.ledger.Pod(string(newest.UID))
	if known == nil || known.Object != any(newest) || known.App().Group() != g || !podspec.Siblings(newest, p) {
		return nil
	}
	return known.App()
}

func (t *Translator) emitApp(name string, c *constraints, selector string, demand map[string]int64) {
	t.emit(&ledger.Event{Kind: ledger.KindApp, App: name, Spec: &ledger.App{
		Group: c.name, Selector: selector, Demand: demand, MaxPerMachine: c.limit, SpreadMin: c.spread, Soft: c.soft,
		MaxPerZone: c.byZone.Limit, ZoneSpreadMin: c.byZone.SpreadMin, ZoneSkew: c.byZone.Skew, Sends: c.sends,
	}})
}

func (t *view) nodesByName() []*ledger.Node {
	return slices.SortedFunc(t.ledger.Nodes(), func(a, b *ledger.Node) int { return cmp.Compare(a.Name(), b.Name()) })
}

// SetNode brings a node and the pods on it up to date. It returns the pods that were
// found there without a decision of this scheduler.
func (t *Translator) SetNode(object *v1.Node, pods []*v1.Pod) (found []*v1.Pod) {
	movable, fixed := split(pods)
	n := t.setMachine(object, fixed)
	if n == nil {
		return nil
	}
	for _, p := range movable {
		if t.setPod(p, n) {
			found = append(found, p)
		}
	}
	if len(n.Pods()) != len(movable) {
		t.removeOthers(n, movable)
	}
	t.settle(n, nil)
	return found
}

// setMachine emits a node if it is new or changed. It returns nil if the ledger refused it.
func (t *Translator) setMachine(object *v1.Node, fixed map[string]int64) *ledger.Node {
	n := t.ledger.Node(object.Name)
	if n != nil && n.Object == any(object) && hasCapacity(object, fixed, n.Machine().Capacity) {
		return n
	}
	m := t.Machine(object, fixed)
	if n == nil || !equalMachines(m, n.Machine()) {
		t.emit(&ledger.Event{Kind: ledger.KindNode, Node: object.Name, Machine: m})
		n = t.ledger.Node(object.Name)
	}
	if n != nil {
		before := n.Object
		n.Object = object
		t.selectors().setNode(object.Name, object)
		if old, ok := before.(*v1.Node); !ok || old.Labels[v1.LabelTopologyZone] != object.Labels[v1.LabelTopologyZone] {
			t.book().zones = nil
		}
		t.countServed(before, object)
	}
	return n
}

// Machine returns a node, also one that the cluster does not have, as a policy sees it. fixed is the demand of immovable pods.
func (t *Translator) Machine(object *v1.Node, fixed map[string]int64) *ledger.Machine {
	cost, _ := t.Prices.Of(object)
	m := machineOf(object, cost, fixed)
	t.listed(object, m)
	return m
}

// setPod emits the node of a pod if that is new, or its app changed. It reports
// whether the pod is new there.
func (t *Translator) setPod(p *v1.Pod, n *ledger.Node) bool {
	known := t.ledger.Pod(string(p.UID))
	here := known != nil && known.Node() == n
	if here && (known.Object == any(p) || t.EnsureApp(p) == known.App()) {
		known.Object = p
		return false
	}
	if a := t.EnsureApp(p); a != nil {
		t.leaveGroup(p, a)
		t.emit(&ledger.Event{Kind: ledger.KindPlace, Pod: name(p), UID: string(p.UID), App: a.Name(), Node: n.Name(), Created: created(p)})
		t.remember(p)
	}
	return !here
}

// remember stores a pod as the object of its entry.
func (t *Translator) remember(p *v1.Pod) {
	if known := t.ledger.Pod(string(p.UID)); known != nil {
		known.Object = p
	}
}

// removeOthers removes the pods from a node that are not in the list.
func (t *Translator) removeOthers(n *ledger.Node, pods []*v1.Pod) {
	stay := make(map[string]bool, len(pods))
	for _, p := range pods {
		stay[string(p.UID)] = true
	}
	var left []*ledger.Pod
	for _, p := range n.Pods() {
		if !stay[p.UID()] {
			left = append(left, p)
		}
	}
	t.remove(left)
}

// remove emits the end of pods that ran on a node, in the order of their UIDs.
func (t *Translator) remove(pods []*ledger.Pod) {
	slices.SortFunc(pods, func(a, b *ledger.Pod) int { return cmp.Compare(a.UID(), b.UID()) })
	for _, p := range pods {
		t.reelect(p)
		t.emit(&ledger.Event{Kind: ledger.KindRemove, Pod: name(p.Object.(*v1.Pod)), UID: p.UID()})
	}
}

// RemoveNode emits the end of a node and of the pods on it.
func (t *Translator) RemoveNode(nodeName string) {
	if n := t.ledger.Node(nodeName); n != nil {
		t.remove(slices.Clone(n.Pods()))
		t.emit(&ledger.Event{Kind: ledger.KindForget, Node: nodeName})
		t.countServed(n.Object, nil)
		t.selectors().setNode(nodeName, nil)
	}
}

// DeleteNode is RemoveNode for a node whose deletion an informer reported. A new one of its name is kept.
func (t *Translator) DeleteNode(object *v1.Node) {
	if n := t.ledger.Node(object.Name); n != nil && n.Object.(*v1.Node).UID == object.UID {
		t.RemoveNode(object.Name)
	}
}

// ChangeNode brings a known node up to date as far as possible without its pods.
func (t *Translator) ChangeNode(object *v1.Node) {
	n := t.ledger.Node(object.Name)
	if n == nil || n.Object == any(object) || n.Object.(*v1.Node).UID != object.UID {
		return
	}
	fixed := podspec.Amounts(n.Object.(*v1.Node).Status.Allocatable)
	for dim, amount := range n.Machine().Capacity {
		fixed[dim] -= amount
	}
	if t.setMachine(object, fixed) != nil {
		t.settle(n, nil)
	}
}

// Arrive emits that a policy is about to place a pod, and returns the pod's app;
// nil if no scheduler decides on its node, or the ledger refused it.
func (t *Translator) Arrive(p *v1.Pod) *ledger.AppEntry {
	if !podspec.Moves(p) {
		return nil
	}
	a := t.EnsureApp(p)
	if a != nil && t.ledger.Pod(string(p.UID)) == nil {
		t.emit(&ledger.Event{Kind: ledger.KindArrive, Pod: name(p), UID: string(p.UID), App: a.Name(), Created: created(p)})
		t.remember(p)
	}
	return a
}

// Leave emits the end of a waiting pod.
func (t *Translator) Leave(p *v1.Pod) {
	if known := t.ledger.Pod(string(p.UID)); known != nil && known.Node() == nil {
		t.emit(&ledger.Event{Kind: ledger.KindRemove, Pod: name(p), UID: string(p.UID)})
	}
}

// Forget emits the end of a waiting pod whose object is no longer observed.
func (t *Translator) Forget(known *ledger.Pod) {
	ev := &ledger.Event{Kind: ledger.KindRemove, UID: known.UID()}
	if p, ok := known.Object.(*v1.Pod); ok {
		ev.Pod = name(p)
	}
	t.emit(ev)
}

// Decide emits the decision of this scheduler to place a pod on a node. If the node has been
// removed, nothing is emitted: the pod is found elsewhere, or deleted.
func (t *Translator) Decide(p *v1.Pod, nodeName string, d *ledger.Decision) {
	if t.ledger.Node(nodeName) == nil {
		return
	}
	a := t.EnsureApp(p)
	if a == nil {
		return
	}
	t.leaveGroup(p, a)
	d.Request = a.Group().Name()
	t.emit(&ledger.Event{
		Kind: ledger.KindDecide, Pod: name(p), UID: string(p.UID), App: a.Name(), Node: nodeName, Decision: d,
	})
	t.remember(p)
	if n := t.ledger.Node(nodeName); n != nil {
		t.settle(n, nil)
	}
}

// Undo emits that a binding failed: the pod waits again.
func (t *Translator) Undo(p *v1.Pod) {
	if known := t.ledger.Pod(string(p.UID)); known != nil && known.Node() != nil {
		n := known.Node()
		t.reelect(known)
		t.emit(&ledger.Event{Kind: ledger.KindFailed, Pod: name(p), UID: string(p.UID)})
		t.settle(n, nil)
	}
}

func name(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// created returns the creation time of a pod in seconds since 1970; 0 when that is unknown.
func created(p *v1.Pod) int64 {
	if p.CreationTimestamp.IsZero() {
		return 0
	}
	return p.CreationTimestamp.Unix()
}
