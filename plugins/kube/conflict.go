package kube

import (
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// find returns the constraints of a pod's group, nil when the group is unknown. It
// emits nothing.
func (t *rulings) find(p *v1.Pod) *constraints {
	g := (*ledger.Group)(nil)
	if known := t.ledger.Pod(string(p.UID)); known != nil && known.Node() != nil && known.Object == any(p) {
		g = known.App().Group()
	} else if podspec.Moves(p) {
		g = t.ledger.Group(podspec.Group(p, t.appLabel))
	}
	if g == nil {
		return nil
	}
	return constraintsOf(g)
}

// Related reports whether a rule lets a pod that has a node keep a waiting pod off that
// node.
func (t *rulings) Related(waits, stands *v1.Pod) bool {
	g, o := t.find(waits), t.find(stands)
	switch {
	case o == nil: // no rule counts it
		return false
	case g == nil: // forgotten meanwhile
		return true
	case g == o:
		return g.by != [domains]strictest{} || len(g.pairs) > 0
	}
	for i := range g.pairs {
		if p := &g.pairs[i]; p.by != nil && p.other(g) == o {
			return true
		}
	}
	return false
}

// Spreads reports whether the arrival of a pod on a node can open other nodes to a
// waiting pod of the same app: the app has to spread.
func (t *rulings) Spreads(waits, came *v1.Pod) bool {
	g := t.find(waits)
	return g != nil && (g.by[node].spread != nil || g.by[zone].spread != nil) && t.find(came) == g
}

// Conflict returns the rule that a pod of another scheduler violates on its node,
// with its text; nil when all rules hold. The pod need not be known. Conflict emits
// nothing.
func (t *rulings) Conflict(p *v1.Pod) (*Rule, string) {
	n := t.ledger.Node(p.Spec.NodeName)
	if n == nil || !podspec.Moves(p) || podspec.Ended(p) || len(t.Rules()) == 0 {
		return nil, ""
	}
	if known := t.ledger.Pod(string(p.UID)); known != nil && known.Node() == n {
		return t.conflict(constraintsOf(known.App().Group()), n, 0)
	}
	c := t.find(p)
	if c == nil {
		c = &constraints{name: podspec.Group(p, t.appLabel), pod: p}
		c.constrain(t.Rules())
		for _, other := range t.others(c) {
			c.pairs = append(append(c.pairs, between(t.Rules(), c, other)...), between(t.Rules(), other, c)...)
		}
	}
	return t.conflict(c, n, 1)
}

// Placed reports whether the ledger has a pod on its node.
func (t *rulings) Placed(p *v1.Pod) bool {
	known := t.ledger.Pod(string(p.UID))
	return known != nil && known.Node() != nil && known.Node().Name() == p.Spec.NodeName
}

// ByZone reports whether a rule by zone binds a group: then the nodes that are open to its pods
// depend on pods on other nodes.
func (t *rulings) ByZone(group string) bool {
	g := t.ledger.Group(group)
	return g != nil && constraintsOf(g).zoned()
}

// zoneOf returns the value of a node's zone label; "" if it has none.
func zoneOf(n *ledger.Node) string {
	object, ok := n.Object.(*v1.Node)
	if !ok {
		return ""
	}
	return object.Labels[v1.LabelTopologyZone]
}

// zones returns the zone by node, for all nodes with one. The map is not changed: it is replaced
// when a node's label changes.
func (t *rulings) zones() map[string]string {
	book := t.book()
	if book.zones == nil {
		book.zones = make(map[string]string, t.ledger.NodeCount())
		for n := range t.ledger.Nodes() {
			if in := zoneOf(n); in != "" {
				book.zones[n.Name()] = in
			}
		}
	}
	return book.zones
}

// conflict returns the rule that a node, or its zone, violates if more pods of a group are placed there.
func (t *rulings) conflict(c *constraints, n *ledger.Node, more int32) (*Rule, string) {
	if r, text := t.conflictIn(c, node, t.on(n), more); r != nil || !c.zoned() || zoneOf(n) == "" {
		return r, text
	}
	return t.conflictIn(c, zone, t.in(zoneOf(n)), more)
}

// countOn returns the number of a group's pods on a node.
func (t *rulings) countOn(c *constraints, n *ledger.Node) int32 {
	if g := t.ledger.Group(c.name); g != nil {
		return g.CountOn(n)
	}
	return 0
}

// on and in count a group's pods on a node and in a zone.
func (t *rulings) on(n *ledger.Node) func(*constraints) int32 {
	return func(c *constraints) int32 { return t.countOn(c, n) }
}

func (t *rulings) in(name string) func(*constraints) int32 {
	return func(c *constraints) (count int32) {
		if g := t.ledger.Group(c.name); g != nil {
			for n, pods := range g.CountsByNode() {
				if zoneOf(n) == name {
					count += pods
				}
			}
		}
		return count
	}
}

// conflictIn returns the rule by one kind of domain that is violated if more pods of a group are
// placed in a domain, whose pods count returns.
func (t *rulings) conflictIn(c *constraints, d domain, count func(*constraints) int32, more int32) (*Rule, string) {
	there := tally{own: count(c), others: map[*constraints]int32{}}
	l := tallies{strictest: strictest{limit: c.by[d].limit}}
	for _, p := range c.pairs {
		if other := p.other(c); p.by != nil && p.in == d && count(other) > 0 {
			l.pairs = append(l.pairs, p)
			there.others[other] = count(other)
		}
	}
	return l.violation(c, there, more, d)
}

// Conflicts counts for each rule the nodes that violate it; for a rule by zone, the zones.
func (t *rulings) Conflicts() map[string]int {
	type where struct {
		rule *Rule
		at   string
	}
	seen := map[where]bool{}
	counts := map[string]int{}
	add := func(r *Rule, at string) {
		if r != nil && !seen[where{r, at}] {
			seen[where{r, at}] = true
			counts[r.Name]++
		}
	}
	for _, g := range t.ledger.Groups() {
		c := constraintsOf(g)
		zones := map[string]bool{"": true}
		for n := range g.CountsByNode() {
			if c.by[node].limit != nil || len(c.pairs) > 0 {
				r, _ := t.conflictIn(c, node, t.on(n), 0)
				add(r, n.Name())
			}
			if in := zoneOf(n); c.zoned() && !zones[in] {
				zones[in] = true
				r, _ := t.conflictIn(c, zone, t.in(in), 0)
				add(r, in)
			}
		}
	}
	return counts
}
