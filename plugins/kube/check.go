package kube

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Check says which nodes PlacementRules and reservations for others close to one pod.
// Anti-affinity between pods that are there is not part of it: upstream's filter checks that.
type Check struct {
	own    *constraints
	limit  *Rule
	spread *Rule
	pairs  []pair
	on     map[string]tally // by node, where the pod's app or one of a pair stands
	nodes  int32            // on which the pod's app stands
	demand map[string]int64 // of the pod

	holds     map[string]*hold // by node with reservations
	closed    map[string]bool  // of these
	changed   map[string]held  // of these, with pods that the check was changed by
	group     *ledger.Group    // of the pod
	nominated string           // the pod's nominated node
}

// tally counts the pods on a node that matter to a check.
type tally struct {
	own    int32
	others map[*constraints]int32 // of pairs
}

// Check returns the check of a pod; nil when no rule selects the pod and nothing is
// reserved for others, or no scheduler decides where it goes.
func (t *Translator) Check(p *v1.Pod) *Check {
	if len(t.Rules()) == 0 && !t.ledger.Holds() || !podspec.Moves(p) {
		return nil
	}
	a := t.EnsureApp(p)
	if a == nil {
		return nil
	}
	own := constraintsOf(a.Group())
	k := &Check{
		own: own, limit: own.limitBy, spread: own.spreadBy, demand: a.Spec().Demand,
		holds: t.holds(), closed: t.closedTo(a), group: a.Group(), nominated: p.Status.NominatedNodeName,
	}
	for _, pair := range own.pairs {
		if pair.by != nil {
			k.pairs = append(k.pairs, pair)
		}
	}
	if k.limit == nil && k.spread == nil && len(k.pairs) == 0 && len(k.holds) == 0 {
		return nil
	}
	k.on = make(map[string]tally, a.Group().Nodes())
	k.addAll(own, a.Group())
	counted := map[*constraints]bool{own: true}
	for i := range k.pairs {
		other := k.pairs[i].other(own)
		if !counted[other] {
			counted[other] = true
			k.addAll(other, t.ledger.Group(other.name))
		}
	}
	return k
}

func (k *Check) addAll(c *constraints, g *ledger.Group) {
	for n, count := range g.On() {
		k.add(n.Name(), c, count)
	}
}

func (k *Check) add(nodeName string, c *constraints, count int32) {
	t := k.on[nodeName]
	if c == k.own {
		had := t.own > 0
		t.own += count
		switch {
		case !had && t.own > 0:
			k.nodes++
		case had && t.own <= 0:
			k.nodes--
		}
	} else {
		t.others = maps.Clone(t.others) // a copy of the check may share it
		if t.others == nil {
			t.others = map[*constraints]int32{}
		}
		t.others[c] += count
	}
	k.on[nodeName] = t
}

// With changes a check as if a pod came to a node, or with count -1 left it.
func (t *Translator) With(k *Check, p *v1.Pod, nodeName string, count int32) {
	if h, ok := k.heldOn(nodeName); ok && podspec.Moves(p) {
		if k.changed == nil {
			k.changed = map[string]held{}
		}
		k.changed[nodeName] = h.with(t.demandOf(p), count)
	}
	c := t.find(p)
	if c == nil || c != k.own && !slices.ContainsFunc(k.pairs, func(p pair) bool { return p.other(k.own) == c }) {
		return
	}
	k.add(nodeName, c, count)
}

// Clone is a copy that may be changed.
func (k *Check) Clone() *Check {
	c := *k
	c.on, c.changed = maps.Clone(k.on), maps.Clone(k.changed)
	return &c
}

// Refuses returns why a node is closed to the pod; "" when it is open.
func (k *Check) Refuses(nodeName string) string {
	if t, ok := k.on[nodeName]; ok {
		if rule, text := violation(k.own, t, k.limit, k.spread, k.pairs, k.nodes, 1); rule != nil {
			return fmt.Sprintf("placement rule %s: %s", rule.Name, text)
		}
	}
	if h, ok := k.heldOn(nodeName); ok {
		return h.refuses(k.demand)
	}
	return ""
}

// violation is the first rule that a node violates for a group if more pods of the
// group come there.
func violation(own *constraints, t tally, limit, spread *Rule, pairs []pair, nodes, more int32) (*Rule, string) {
	if limit != nil && t.own+more > limit.maxPerNode {
		return limit, fmt.Sprintf("at most %d of %s on a node", limit.maxPerNode, own.name)
	}
	for i := range pairs {
		p := &pairs[i]
		others := t.others[p.other(own)]
		switch {
		case p.a == own && others > p.max:
			return p.by, fmt.Sprintf("%s excludes %s", own.name, p.b.name)
		case p.b == own && others > 0 && t.own+more > p.max:
			return p.by, fmt.Sprintf("%s excludes %s", p.a.name, own.name)
		}
	}
	if spread != nil && more > 0 && t.own > 0 && nodes < spread.spreadMin {
		return spread, fmt.Sprintf("%s stands on %d nodes and has to stand on %d before two share one", own.name, nodes, spread.spreadMin)
	}
	return nil, ""
}

// find returns the constraints of a pod's group, nil when the group is unknown. It
// emits nothing.
func (t *Translator) find(p *v1.Pod) *constraints {
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

// Related reports whether a rule lets a pod that stands keep a waiting pod off its
// node.
func (t *Translator) Related(waits, stands *v1.Pod) bool {
	g, o := t.find(waits), t.find(stands)
	switch {
	case o == nil: // no rule counts it
		return false
	case g == nil: // forgotten meanwhile
		return true
	case g == o:
		return g.limitBy != nil || g.spreadBy != nil || len(g.pairs) > 0
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
func (t *Translator) Spreads(waits, came *v1.Pod) bool {
	g := t.find(waits)
	return g != nil && g.spreadBy != nil && t.find(came) == g
}

// Conflict returns the rule that a pod of another scheduler violates on its node,
// with its text; nil when all rules hold. The pod need not be known. Conflict emits
// nothing.
func (t *Translator) Conflict(p *v1.Pod) (*Rule, string) {
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

// Stands reports whether a pod is known to stand on its node.
func (t *Translator) Stands(p *v1.Pod) bool {
	known := t.ledger.Pod(string(p.UID))
	return known != nil && known.Node() != nil && known.Node().Name() == p.Spec.NodeName
}

// conflict is the rule that a node violates if more pods of a group come there.
func (t *Translator) conflict(c *constraints, n *ledger.Node, more int32) (*Rule, string) {
	on := tally{own: t.countOn(c, n), others: map[*constraints]int32{}}
	var pairs []pair
	for _, p := range c.pairs {
		if other := p.other(c); p.by != nil && t.countOn(other, n) > 0 {
			pairs = append(pairs, p)
			on.others[other] = t.countOn(other, n)
		}
	}
	return violation(c, on, c.limitBy, nil, pairs, 0, more)
}

// countOn is the number of a group's pods on a node.
func (t *Translator) countOn(c *constraints, n *ledger.Node) int32 {
	if g := t.ledger.Group(c.name); g != nil {
		return g.CountOn(n)
	}
	return 0
}

// Conflicts counts for each rule the nodes that violate it.
func (t *Translator) Conflicts() map[string]int {
	type where struct {
		rule *Rule
		node *ledger.Node
	}
	seen := map[where]bool{}
	counts := map[string]int{}
	for _, g := range t.ledger.Groups() {
		c := constraintsOf(g)
		if c.limitBy == nil && len(c.pairs) == 0 {
			continue
		}
		for n := range g.On() {
			if r, _ := t.conflict(c, n, 0); r != nil && !seen[where{r, n}] {
				seen[where{r, n}] = true
				counts[r.Name]++
			}
		}
	}
	return counts
}
