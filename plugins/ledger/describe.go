package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// Describe returns the events after which an empty ledger decides as this one does from
// here on. identify returns the fields of a pod's events in addition to its UID: its name, and
// its creation time, in seconds since 1970.
func (l *Ledger) Describe(identify func(*Pod) (name string, created int64)) []*Event {
	start := l.start
	list := []*Event{{Kind: KindStart, Start: &start}}
	for _, role := range []Role{Primary, Canary} {
		if p, ok := l.policies[role]; ok {
			list = append(list, &Event{Kind: KindPolicy, Role: role, Policy: p.object, Outside: p.outsideObject()})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.closed)) {
		list = append(list, &Event{Kind: KindSelector, Select: &Selection{ID: id, Closed: true}})
	}
	nodes := slices.SortedFunc(l.Nodes(), func(a, b *Node) int { return strings.Compare(a.name, b.name) })
	for _, n := range nodes {
		spec := n.spec
		list = append(list, &Event{Kind: KindNode, Node: n.name, Machine: &spec})
	}
	past := &Counters{Placed: l.placed, Departed: l.departed, Most: l.most, Arrivals: map[string]int64{}, LastUsed: map[string]uint64{}, Opened: map[string]uint64{}}
	if l.last != nil {
		past.Last = l.last.name
	}
	for _, a := range slices.SortedFunc(l.Apps(), func(a, b *AppEntry) int { return strings.Compare(a.name, b.name) }) {
		spec := a.spec
		list = append(list, &Event{Kind: KindApp, App: a.name, Spec: &spec})
		if a.seen > 0 {
			past.Arrivals[a.name] = a.seen
		}
	}
	if len(l.rules) > 0 {
		list = append(list, &Event{Kind: KindRule, Rules: slices.Clone(l.rules), Reset: true})
	}
	if len(l.expected) > 0 {
		list = append(list, &Event{Kind: KindForecast, Expected: maps.Clone(l.expected), Undeclared: slices.Sorted(maps.Keys(l.undeclared))})
	}
	if len(l.windows) > 0 {
		e := &Event{Kind: KindWindow, Windows: map[string]*Window{}}
		for group, w := range l.windows {
			e.Windows[group] = &w
		}
		list = append(list, e)
	}
	pods := func(of []*Pod) {
		slices.SortFunc(of, func(a, b *Pod) int { return strings.Compare(a.uid, b.uid) })
		for _, p := range of {
			list = append(list, p.describe(identify))
		}
	}
	for _, n := range nodes {
		pods(slices.Clone(n.pods))
		if n.last > 0 {
			past.LastUsed[n.name], past.Opened[n.name] = n.last, n.opened
		}
	}
	pods(l.waiting())
	for _, n := range nodes {
		for _, r := range n.reserved {
			list = append(list, &Event{Kind: KindReserve, Node: n.name, App: r.App.name, Reserved: &Reserved{Pods: r.Pods, Until: r.Until, By: r.By}})
		}
	}
	list = append(list, &Event{Kind: KindPast, Past: past})
	for _, role := range []Role{Primary, Canary} {
		if c := l.choice(role); c != nil {
			list = append(list, &Event{Kind: KindChoose, Role: role, Chosen: c})
		}
	}
	return list
}

func (p *policyInUse) outsideObject() *policy.Object {
	if p.outside == nil {
		return nil
	}
	return p.outside.object
}

// waiting returns the pods that have no node.
func (l *cluster) waiting() (list []*Pod) {
	for _, p := range l.pods {
		if p.node == nil {
			list = append(list, p)
		}
	}
	return list
}

// describe returns the event that puts a pod where it is. A pod on a node was counted as an
// arrival if this scheduler decided on the node; a waiting pod almost always was.
func (p *Pod) describe(identify func(*Pod) (name string, created int64)) *Event {
	e := &Event{Kind: KindArrive, UID: p.uid, App: p.app.name}
	if p.node != nil {
		e.Kind, e.Node = KindPlace, p.node.name
	}
	if p.arrived != (e.Kind == KindArrive) {
		e.Arrived = new(p.arrived)
	}
	e.Pod, e.Created = identify(p)
	return e
}

// setPast restores the counts from before a description.
func (l *Ledger) setPast(e *Event) error {
	if e.Past == nil {
		return errors.New("past is missing")
	}
	p := e.Past
	for _, name := range slices.Sorted(maps.Keys(p.Arrivals)) {
		if l.apps[name] == nil || p.Arrivals[name] < 0 {
			return fmt.Errorf("past.arrivals.%s %d: the app is unknown, or the number negative", name, p.Arrivals[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.LastUsed)) {
		if l.machines[name] == nil {
			return fmt.Errorf("past.lastUsed.%s: the node is unknown", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Opened)) {
		if l.machines[name] == nil {
			return fmt.Errorf("past.opened.%s: the node is unknown", name)
		}
	}
	last := l.apps[p.Last]
	if last == nil && p.Last != "" {
		return fmt.Errorf("past.last %q: the app is unknown", p.Last)
	}
	l.placed, l.departed, l.last, l.stale = p.Placed, p.Departed, last, true
	l.most = max(p.Most, int64(l.standing))
	for name, a := range l.apps {
		n := p.Arrivals[name]
		a.seen, a.requests, a.sumSquare = n, n, n
	}
	for name, m := range l.machines {
		m.last, m.opened = p.LastUsed[name], p.Opened[name]
	}
	return nil
}
