package ledger

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// The entries of a ledger may carry the object that they were translated from.
// The ledger never looks at it and drops it with the entry.

// A Node is a machine of the cluster, cordoned or not.
type Node struct {
	Object any

	name     string
	spec     Machine
	index    int32         // in the columns, -1 = not there
	pods     []*Pod        // that stand on it
	reserved []Reservation // by the names of their apps
	changes  uint64        // of what it is, its pods and reservations
	last     uint64        // placements made when it last took a pod
	opened   uint64        // placements made when it last took one while empty
}

// Name is the node's name.
func (n *Node) Name() string { return n.name }

// Machine is the node as a policy sees it. It must not be changed.
func (n *Node) Machine() *Machine { return &n.spec }

// Pods are those that stand on the node, in no order.
func (n *Node) Pods() []*Pod { return n.pods }

// Changes counts what happened to the node: to what it is, to its pods and reservations.
func (n *Node) Changes() uint64 { return n.changes }

// A Pod stands on a node or waits for one.
type Pod struct {
	Object any
	// Asked is when a policy was last asked about the pod.
	Asked time.Time

	uid     string
	app     *AppEntry
	node    *Node // nil = it waits
	at      int   // index in the node's pods
	arrived bool  // it was counted as an arrival
}

// of says which app a pod is of; nil = none any more.
func (p *Pod) of(a *AppEntry) {
	if p.app != nil {
		p.app.known--
	}
	if p.app = a; a != nil {
		a.known++
	}
}

// UID is the pod's.
func (p *Pod) UID() string { return p.uid }

// App is the app that the pod is of.
func (p *Pod) App() *AppEntry { return p.app }

// Node is where the pod stands, nil when it waits.
func (p *Pod) Node() *Node { return p.node }

// An AppEntry is an app of the cluster.
type AppEntry struct {
	// Idle is how long the app has had neither pods nor a forecast.
	Idle time.Duration

	name                      string
	spec                      App
	group                     *Group
	index                     int32 // in the columns
	seen, requests, sumSquare int64
	pods                      int // that stand
	known                     int // pods of the app, those that wait too
	reserved                  int // pods that room is reserved for
}

// Name is the app's name.
func (a *AppEntry) Name() string { return a.name }

// Spec is the app as a policy sees it. It must not be changed.
func (a *AppEntry) Spec() *App { return &a.spec }

// Group is the group that the app is of.
func (a *AppEntry) Group() *Group { return a.group }

// Known is the number of the app's pods, those that wait too.
func (a *AppEntry) Known() int { return a.known }

// Pods is the number of the app's pods that stand.
func (a *AppEntry) Pods() int { return a.pods }

// A Group is the apps that limits and rules count together.
type Group struct {
	Object any
	// Peak is the most pods that stood at a time, fading.
	Peak float64

	name   string
	at     int         // index in the ledger's order of groups
	apps   []*AppEntry // as they came
	latest *AppEntry   // that a pod was placed of
	on     map[*Node]int32
}

// Name is the group's name.
func (g *Group) Name() string { return g.name }

// Apps are the group's, in the order in which they came.
func (g *Group) Apps() []*AppEntry { return g.apps }

// Latest is the app that a pod of the group was last placed of; nil when there was
// none, or the app is forgotten.
func (g *Group) Latest() *AppEntry { return g.latest }

// Pods is the number of the group's pods that stand.
func (g *Group) Pods() int {
	n := 0
	for _, a := range g.apps {
		n += a.pods
	}
	return n
}

// On counts the group's pods on each node that has one, in no order.
func (g *Group) On() iter.Seq2[*Node, int32] { return maps.All(g.on) }

// CountOn is the number of the group's pods on a node.
func (g *Group) CountOn(n *Node) int32 { return g.on[n] }

// Nodes is the number of nodes on which the group stands.
func (g *Group) Nodes() int { return len(g.on) }

func (g *Group) count(n *Node, by int32) {
	if g.on[n] += by; g.on[n] == 0 {
		delete(g.on, n)
	}
}

// A Selector is a set of nodes that apps may use, known by its name.
type Selector struct {
	Object any

	id   string
	apps int // that have it
}

// Closed reports whether a node refuses the apps of a selector unless it lists the selector.
func (l *Ledger) Closed(selector string) bool { return l.closed[selector] }

// Admits reports whether apps with a selector may use a node.
func (l *Ledger) Admits(n *Node, selector string) bool {
	return n.spec.Allows(selector, l.closed[selector])
}

// ID is what apps and machines call the selector.
func (s *Selector) ID() string { return s.id }

// Node is the one of a name, nil when it is unknown.
func (l *Ledger) Node(name string) *Node { return l.machines[name] }

// Nodes are all nodes, in no order.
func (l *Ledger) Nodes() iter.Seq[*Node] { return maps.Values(l.machines) }

// NodeCount is the number of nodes.
func (l *Ledger) NodeCount() int { return len(l.machines) }

// Pod is the one of a UID, nil when it is unknown.
func (l *Ledger) Pod(uid string) *Pod { return l.pods[uid] }

// Pods are all pods, those that wait too, in no order.
func (l *Ledger) Pods() iter.Seq[*Pod] { return maps.Values(l.pods) }

// Waiting is the number of pods that wait.
func (l *Ledger) Waiting() int { return len(l.pods) - l.standing }

// App is the one of a name, nil when it is unknown.
func (l *Ledger) App(name string) *AppEntry { return l.apps[name] }

// Apps are all apps, in no order.
func (l *Ledger) Apps() iter.Seq[*AppEntry] { return maps.Values(l.apps) }

// AppCount is the number of apps.
func (l *Ledger) AppCount() int { return len(l.apps) }

// Group is the one of a name, nil when it has no app.
func (l *Ledger) Group(name string) *Group { return l.groups[name] }

// Groups are those that have an app, in the order in which they came. The list
// must not be changed.
func (l *Ledger) Groups() []*Group {
	if l.gaps {
		l.gaps = false
		l.groupOrder = slices.DeleteFunc(l.groupOrder, func(g *Group) bool { return g == nil })
		for i, g := range l.groupOrder {
			g.at = i
		}
	}
	return l.groupOrder
}

// Selector is the one of an ID, nil when no app has it.
func (l *Ledger) Selector(id string) *Selector { return l.selectors[id] }

// Selectors are those that apps have, in no order.
func (l *Ledger) Selectors() iter.Seq[*Selector] { return maps.Values(l.selectors) }

// Expected is the forecast, by app. It must not be changed.
func (l *Ledger) Expected() map[string]float64 { return l.expected }

// Undeclared are the apps of which something is expected that nothing declares. It must not be changed.
func (l *Ledger) Undeclared() map[string]bool { return l.undeclared }

// describe gives an app its specification and files it under its group and its
// selector.
func (l *Ledger) describe(a *AppEntry, spec App) {
	before, known := a.spec, a.group != nil
	a.spec = spec
	if known && before.Group == spec.Group && before.Selector == spec.Selector {
		return
	}
	s, ok := l.selectors[spec.Selector]
	if !ok {
		s = &Selector{id: spec.Selector}
		l.selectors[spec.Selector] = s
	}
	s.apps++
	if known {
		l.unfile(a, before.Selector)
	}
	g, ok := l.groups[spec.Group]
	if !ok {
		g = &Group{name: spec.Group, at: len(l.groupOrder), on: map[*Node]int32{}}
		l.groups[spec.Group] = g
		l.groupOrder = append(l.groupOrder, g)
	}
	a.group = g
	g.apps = append(g.apps, a)
	l.countPods(a, 1)
}

// unfile takes an app out of its group and off its selector. A group or selector
// without an app is forgotten.
func (l *Ledger) unfile(a *AppEntry, selector string) {
	l.countPods(a, -1)
	g := a.group
	g.apps = slices.DeleteFunc(g.apps, func(b *AppEntry) bool { return a == b })
	if g.latest == a {
		g.latest = nil
	}
	if len(g.apps) == 0 {
		delete(l.groups, g.name)
		l.groupOrder[g.at] = nil // a sweep forgets thousands
		l.gaps = true
	}
	s := l.selectors[selector]
	if s.apps--; s.apps == 0 {
		delete(l.selectors, selector)
		delete(l.closed, selector)
	}
}

// countPods adds the standing pods of an app to its group's counts, or takes them
// off.
func (l *Ledger) countPods(a *AppEntry, by int32) {
	if a.pods == 0 {
		return
	}
	for _, n := range l.machines {
		for _, p := range n.pods {
			if p.app == a {
				a.group.count(n, by)
			}
		}
	}
}
