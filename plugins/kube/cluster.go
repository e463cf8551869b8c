package kube

import (
	"maps"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// CostAnnotation of a node is what it costs, in any unit; 1 without it.
const CostAnnotation = "sigma-scheduler.io/cost"

// A Cluster follows nodes and pods and says by events what changed for a policy.
// It serves one goroutine.
type Cluster struct {
	appLabel string
	emit     func(*ledger.Event)

	rules     []*Rule
	groups    map[string]*group
	order     []*group // in which they came
	apps      map[string]*App
	selectors map[string]*Selector
	nodes     map[string]*node
	pods      map[types.UID]*pod
	waiting   map[types.UID]bool // pods that a policy was asked about and that stand nowhere
	expected  map[string]float64 // per app, as said last
}

// An App is a set of pods of one group that are equal to a policy: of one demand
// and one selector.
type App struct {
	Name     string
	group    *group
	selector string
	demand   map[string]int64
	pods     int           // that stand
	idle     time.Duration // without pods and forecast
}

// Group is the name of the app's group.
func (a *App) Group() string { return a.group.name }

type node struct {
	object  *v1.Node
	pods    map[types.UID]*pod // that move
	fixed   map[string]int64   // what those take that do not
	machine ledger.Machine
	pass    uint64
}

type pod struct {
	object *v1.Pod
	app    *App
	node   *node
	pass   uint64
}

// NewCluster is an empty cluster. emit receives the events in order; it keeps
// none of them that it does not copy.
func NewCluster(appLabel string, emit func(*ledger.Event)) *Cluster {
	return &Cluster{
		appLabel: appLabel, emit: emit,
		groups: map[string]*group{}, apps: map[string]*App{}, selectors: map[string]*Selector{},
		nodes: map[string]*node{}, pods: map[types.UID]*pod{}, waiting: map[types.UID]bool{},
	}
}

// App is the app of a pod, made known if it is new.
func (c *Cluster) App(p *v1.Pod) *App {
	if known, ok := c.pods[p.UID]; ok && known.object == p {
		return known.app
	}
	g := c.group(p)
	selector := NewSelector(p)
	demand := Demand(p)
	name := g.name + "@" + size(demand)
	if selector.ID != "" {
		name += "," + selector.ID
	}
	if a, ok := c.apps[name]; ok {
		a.idle = 0 // a pod of it waits, or came
		return a
	}
	c.addSelector(selector)
	a := &App{Name: name, group: g, selector: selector.ID, demand: demand}
	c.apps[name] = a
	g.apps = append(g.apps, a)
	c.emitApp(a)
	return a
}

func (c *Cluster) emitApp(a *App) {
	c.emit(&ledger.Event{Kind: ledger.KindApp, App: a.Name, Spec: &ledger.App{
		Group: a.group.name, Selector: a.selector, Demand: a.demand,
		MaxPerMachine: a.group.limit, SpreadMin: a.group.spread,
	}})
}

// group is the group of a pod with its constraints up to date.
func (c *Cluster) group(p *v1.Pod) *group {
	name := Group(p, c.appLabel)
	g, ok := c.groups[name]
	if !ok {
		g = &group{name: name, pod: p, terms: newTerms(p), on: map[*node]int32{}}
		g.constrain(c.rules)
		var list []ledger.Rule
		for _, other := range c.order {
			list = pairUp(c.rules, g, other, list)
		}
		c.groups[name] = g
		c.order = append(c.order, g)
		if len(list) > 0 {
			c.emit(&ledger.Event{Kind: ledger.KindRule, Rules: list})
		}
		return g
	}
	if p.UID != "" && p.UID == g.pod.UID || newer(p, g.pod) {
		c.speak(g, p)
	}
	return g
}

// speak lets a pod say what its group's constraints are.
func (c *Cluster) speak(g *group, p *v1.Pod) {
	same := sameConstraints(g.pod, p)
	g.pod = p
	if !same {
		g.terms = newTerms(p)
		c.refresh()
	}
}

// silence looks for another pod to speak for a group when one that is gone did.
func (c *Cluster) silence(g *group, gone types.UID) {
	if g.pod.UID != gone {
		return
	}
	var newest *v1.Pod
	for n := range g.on {
		for _, p := range n.pods {
			if p.app.group == g && (newest == nil || newer(p.object, newest)) {
				newest = p.object
			}
		}
	}
	if newest != nil {
		c.speak(g, newest)
	}
}

// SetRules replaces the rules.
func (c *Cluster) SetRules(rules []*Rule) {
	c.rules = rules
	c.refresh()
}

// refresh finds all constraints anew.
func (c *Cluster) refresh() {
	var list []ledger.Rule
	for i, g := range c.order {
		limit, spread := g.limit, g.spread
		g.pairs = nil
		g.constrain(c.rules)
		if g.limit != limit || g.spread != spread {
			for _, a := range g.apps {
				c.emitApp(a)
			}
		}
		for _, other := range c.order[:i] {
			list = pairUp(c.rules, g, other, list)
		}
	}
	c.emit(&ledger.Event{Kind: ledger.KindRule, Rules: list, Reset: true})
}

// addSelector makes a selector known to all nodes.
func (c *Cluster) addSelector(s *Selector) {
	if _, ok := c.selectors[s.ID]; ok {
		return
	}
	c.selectors[s.ID] = s
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		n := c.nodes[name]
		if s.Admits(n.object) {
			continue
		}
		n.machine.Refuses = append(slices.Clone(n.machine.Refuses), s.ID)
		slices.Sort(n.machine.Refuses)
		m := n.machine
		c.emit(&ledger.Event{Kind: ledger.KindNode, Node: name, Machine: &m})
	}
}

// emitNode says what a node is to a policy, if that changed.
func (c *Cluster) emitNode(n *node) {
	m := ledger.Machine{Capacity: amounts(n.object.Status.Allocatable), Cost: cost(n.object), Cordoned: n.object.Spec.Unschedulable}
	for dim, used := range n.fixed {
		if m.Capacity[dim] -= used; m.Capacity[dim] <= 0 {
			delete(m.Capacity, dim)
		}
	}
	for id, s := range c.selectors {
		if !s.Admits(n.object) {
			m.Refuses = append(m.Refuses, id)
		}
	}
	slices.Sort(m.Refuses)
	if n.machine.Capacity != nil && m.Cost == n.machine.Cost && m.Cordoned == n.machine.Cordoned &&
		slices.Equal(m.Refuses, n.machine.Refuses) && maps.Equal(m.Capacity, n.machine.Capacity) {
		return
	}
	n.machine = m
	c.emit(&ledger.Event{Kind: ledger.KindNode, Node: n.object.Name, Machine: &m})
}

// cost is the node's by its annotation. One that is no positive number counts as
// none: it must not keep the node from being used.
func cost(n *v1.Node) float64 {
	v, err := strconv.ParseFloat(n.Annotations[CostAnnotation], 64)
	if err != nil || !(v > 0) || v > 1e12 {
		return 1
	}
	return v
}

// SetNode brings a node and the pods on it up to date. It reports the pods that
// were found there without a decision of ours.
func (c *Cluster) SetNode(object *v1.Node, pods []*v1.Pod) (found []*v1.Pod) {
	n, ok := c.nodes[object.Name]
	if !ok {
		n = &node{pods: map[types.UID]*pod{}}
		c.nodes[object.Name] = n
	}
	changed := n.object != object
	n.object = object
	n.pass++
	fixed := map[string]int64(nil)
	for _, p := range pods {
		if Ended(p) {
			continue
		}
		if Moves(p) {
			continue
		}
		if fixed == nil {
			fixed = map[string]int64{}
		}
		for dim, v := range Demand(p) {
			fixed[dim] += v
		}
	}
	if changed || !maps.Equal(fixed, n.fixed) {
		n.fixed = fixed
		c.emitNode(n)
	}
	for _, p := range pods {
		if !Ended(p) && Moves(p) && c.stands(p, n) {
			found = append(found, p)
		}
	}
	for uid, p := range n.pods {
		if p.pass != n.pass {
			c.remove(uid, p)
		}
	}
	return found
}

// stands notes that a pod stands on a node and reports whether that is news.
func (c *Cluster) stands(object *v1.Pod, n *node) bool {
	p, ok := c.pods[object.UID]
	if ok && p.node == n && (p.object == object || c.App(object) == p.app) {
		p.object, p.pass = object, n.pass
		return false
	}
	a := c.App(object)
	news := !ok || p.node != n
	c.put(object, a, n)
	c.emit(&ledger.Event{Kind: ledger.KindPlace, Pod: name(object), UID: string(object.UID), App: a.Name, Node: n.object.Name})
	return news
}

// put notes where a pod stands.
func (c *Cluster) put(object *v1.Pod, a *App, n *node) {
	p, ok := c.pods[object.UID]
	if !ok {
		p = &pod{}
		c.pods[object.UID] = p
	}
	delete(c.waiting, object.UID)
	if p.node != nil {
		c.leave(object.UID, p)
		if p.app.group != a.group {
			c.silence(p.app.group, object.UID)
		}
	}
	a.pods++
	a.group.on[n]++
	a.group.latest = a
	p.object, p.app, p.node, p.pass = object, a, n, n.pass
	n.pods[object.UID] = p
}

func (c *Cluster) remove(uid types.UID, p *pod) {
	c.drop(uid, p)
	c.emit(&ledger.Event{Kind: ledger.KindRemove, Pod: name(p.object), UID: string(uid)})
}

func (c *Cluster) drop(uid types.UID, p *pod) {
	c.leave(uid, p)
	delete(c.pods, uid)
	c.silence(p.app.group, uid)
}

// leave takes a pod off its node.
func (c *Cluster) leave(uid types.UID, p *pod) {
	p.app.pods--
	delete(p.node.pods, uid)
	on := p.app.group.on
	if on[p.node]--; on[p.node] == 0 {
		delete(on, p.node)
	}
}

// RemoveNode forgets a node and what stands on it.
func (c *Cluster) RemoveNode(nodeName string) {
	n, ok := c.nodes[nodeName]
	if !ok {
		return
	}
	for _, uid := range slices.Sorted(maps.Keys(n.pods)) {
		c.remove(uid, n.pods[uid])
	}
	delete(c.nodes, nodeName)
	c.emit(&ledger.Event{Kind: ledger.KindForget, Node: nodeName})
}

// Nodes are the names of the nodes, in no order.
func (c *Cluster) Nodes() []string { return slices.Collect(maps.Keys(c.nodes)) }

// Arrive notes that a policy is about to be asked about a pod.
func (c *Cluster) Arrive(object *v1.Pod) {
	if c.waiting[object.UID] || c.pods[object.UID] != nil {
		return
	}
	c.waiting[object.UID] = true
	c.emit(&ledger.Event{Kind: ledger.KindArrive, Pod: name(object), UID: string(object.UID), App: c.App(object).Name})
}

// Leave notes that a pod is gone that may have waited.
func (c *Cluster) Leave(object *v1.Pod) {
	if c.waiting[object.UID] {
		delete(c.waiting, object.UID)
		c.emit(&ledger.Event{Kind: ledger.KindRemove, Pod: name(object), UID: string(object.UID)})
	}
}

// Decide notes that a pod goes to a node by a decision of ours.
func (c *Cluster) Decide(object *v1.Pod, nodeName string, d *ledger.Decision) {
	n, ok := c.nodes[nodeName]
	if !ok {
		return // it went away; the pod will be found or not
	}
	a := c.App(object)
	c.put(object, a, n)
	d.Request = a.group.name
	c.emit(&ledger.Event{
		Kind: ledger.KindDecide, Pod: name(object), UID: string(object.UID), App: a.Name, Node: nodeName, Decision: d,
	})
}

// Undo notes that a decision came to nothing.
func (c *Cluster) Undo(object *v1.Pod) {
	p, ok := c.pods[object.UID]
	if !ok {
		return
	}
	c.drop(object.UID, p)
	c.waiting[object.UID] = true
	c.emit(&ledger.Event{Kind: ledger.KindFailed, Pod: name(object), UID: string(object.UID)})
}

func name(p *v1.Pod) string { return p.Namespace + "/" + p.Name }
