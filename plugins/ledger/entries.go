package ledger

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// The entries of a ledger may carry the object that they were translated from.
// The ledger never reads it and drops it with the entry.

// A Node is a machine of the cluster, cordoned or not.
type Node struct {
	Object any

	name     string
	spec     Machine
	index    int32         // in the columns, -1 = not there
	pods     []*Pod        // that run on it
	reserved []Reservation // by the names of their apps
	changes  uint64        // of its specification, its pods and reservations
	last     uint64        // placements made when it last took a pod
	opened   uint64        // placements made when it last took one while empty
}

// Name returns the node's name.
func (n *Node) Name() string { return n.name }

// Machine returns the node as a policy sees it. It must not be changed.
func (n *Node) Machine() *Machine { return &n.spec }

// Pods returns the pods on the node, in no order.
func (n *Node) Pods() []*Pod { return n.pods }

// Changes counts the changes of the node: of its specification, its pods and reservations.
func (n *Node) Changes() uint64 { return n.changes }

// A Pod runs on a node or waits for one.
type Pod struct {
	Object any
	// RankedAt is the time at which a policy last ranked nodes for the pod.
	RankedAt time.Time

	uid     string
	app     *AppEntry
	node    *Node // nil if it waits
	at      int   // index in the node's pods
	arrived bool  // it was counted as an arrival
}

// of sets the app of a pod; nil removes it.
func (p *Pod) of(a *AppEntry) {
	if p.app != nil {
		p.app.known--
	}
	if p.app = a; a != nil {
		a.known++
	}
}

// UID returns the pod's UID.
func (p *Pod) UID() string { return p.uid }

// App returns the app of the pod.
func (p *Pod) App() *AppEntry { return p.app }

// Node returns the pod's node, nil when it waits.
func (p *Pod) Node() *Node { return p.node }

// An AppEntry is an app of the cluster.
type AppEntry struct {
	// Idle is the time for which the app has had neither pods nor a forecast.
	Idle time.Duration

	name                      string
	spec                      App
	group                     *Group
	index                     int32 // in the columns
	seen, requests, sumSquare int64
	pods                      int // that have a node
	known                     int // pods of the app, including waiting ones
	reserved                  int // pods that room is reserved for
}

// Name returns the app's name.
func (a *AppEntry) Name() string { return a.name }

// Spec returns the app as a policy sees it. It must not be changed.
func (a *AppEntry) Spec() *App { return &a.spec }

// Group returns the group of the app.
func (a *AppEntry) Group() *Group { return a.group }

// TotalPods returns the number of the app's pods, including waiting ones.
func (a *AppEntry) TotalPods() int { return a.known }

// Pods returns the number of the app's pods that have a node.
func (a *AppEntry) Pods() int { return a.pods }

// A Group is the apps that limits and rules count together.
type Group struct {
	Object any
	// Peak is the most pods that ran at a time, fading.
	Peak float64

	name   string
	at     int         // index in the ledger's order of groups
	apps   []*AppEntry // in order of arrival
	latest *AppEntry   // of the pod that was placed last
	on     map[*Node]int32
}

// Name returns the group's name.
func (g *Group) Name() string { return g.name }

// Apps returns the group's apps, in the order of their arrival.
func (g *Group) Apps() []*AppEntry { return g.apps }

// Latest returns the app that a pod of the group was last placed of; nil when no pod
// was placed, or the app is forgotten.
func (g *Group) Latest() *AppEntry { return g.latest }

// Pods returns the number of the group's pods that have a node.
func (g *Group) Pods() int {
	n := 0
	for _, a := range g.apps {
		n += a.pods
	}
	return n
}

// CountsByNode counts the group's pods on each node that has one, in no order.
func (g *Group) CountsByNode() iter.Seq2[*Node, int32] { return maps.All(g.on) }

// CountOn returns the number of the group's pods on a node.
func (g *Group) CountOn(n *Node) int32 { return g.on[n] }

// Nodes returns the number of nodes with pods of the group.
func (g *Group) Nodes() int { return len(g.on) }

func (g *Group) count(n *Node, by int32) {
	if g.on[n] += by; g.on[n] == 0 {
		delete(g.on, n)
	}
}

// A Selector is a set of nodes that apps may use, identified by its name.
type Selector struct {
	Object any

	id   string
	apps int // that have it
}

// Closed reports whether a node refuses the apps of a selector unless it lists the selector.
func (l *cluster) Closed(selector string) bool { return l.closed[selector] }

// Admits reports whether apps with a selector may use a node.
func (l *cluster) Admits(n *Node, selector string) bool {
	return n.spec.Allows(selector, l.closed[selector])
}

// ID returns the name of the selector in apps and machines.
func (s *Selector) ID() string { return s.id }

// Node returns the node of a name, nil when it is unknown.
func (l *cluster) Node(name string) *Node { return l.machines[name] }

// Nodes returns all nodes, in no order.
func (l *cluster) Nodes() iter.Seq[*Node] { return maps.Values(l.machines) }

// NodeCount returns the number of nodes.
func (l *cluster) NodeCount() int { return len(l.machines) }

// Pod returns the pod of a UID, nil when it is unknown.
func (l *cluster) Pod(uid string) *Pod { return l.pods[uid] }

// Pods returns all pods, including waiting ones, in no order.
func (l *cluster) Pods() iter.Seq[*Pod] { return maps.Values(l.pods) }

// Waiting returns the number of waiting pods.
func (l *cluster) Waiting() int { return len(l.pods) - l.standing }

// App returns the app of a name, nil when it is unknown.
func (l *cluster) App(name string) *AppEntry { return l.apps[name] }

// Apps returns all apps, in no order.
func (l *cluster) Apps() iter.Seq[*AppEntry] { return maps.Values(l.apps) }

// AppCount returns the number of apps.
func (l *cluster) AppCount() int { return len(l.apps) }

// Group returns the group of a name, nil when it has no app.
func (l *cluster) Group(name string) *Group { return l.groups[name] }

// Groups returns the groups that have an app, in the order of their arrival. The list
// must not be changed.
func (l *cluster) Groups() []*Group {
	if l.gaps {
		l.gaps = false
		l.groupOrder = slices.DeleteFunc(l.groupOrder, func(g *Group) bool { return g == nil })
		for i, g := range l.groupOrder {
			g.at = i
		}
	}
	return l.groupOrder
}

// Selector returns the selector of an ID, nil when no app has it.
func (l *cluster) Selector(id string) *Selector { return l.selectors[id] }

// Selectors returns the selectors that apps have, in no order.
func (l *cluster) Selectors() iter.Seq[*Selector] { return maps.Values(l.selectors) }

// Expected returns the forecast, by app. It must not be changed.
func (l *cluster) Expected() map[string]float64 { return l.expected }

// Undeclared returns the apps with an expected number that no object declares. It must not be changed.
func (l *cluster) Undeclared() map[string]bool { return l.undeclared }

// describe sets an app's specification and files it under its group and its
// selector.
func (l *cluster) describe(a *AppEntry, spec App) {
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

// unfile removes an app from its group and its selector. A group or selector
// without an app is forgotten.
func (l *cluster) unfile(a *AppEntry, selector string) {
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

// countPods adds the running pods of an app to its group's counts, or subtracts
// them.
func (l *cluster) countPods(a *AppEntry, by int32) {
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
