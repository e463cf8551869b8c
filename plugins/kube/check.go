package kube

import (
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
)

// A Check says which nodes PlacementRules close to one pod. Anti-affinity is not
// part of it: upstream's filter heeds it.
type Check struct {
	own    *group
	limit  *Rule
	spread *Rule
	pairs  []pair
	on     map[string]tally // by node, where the pod's app or one of a pair stands
	nodes  int32            // on which the pod's app stands
}

// tally counts the pods on a node that matter to a check.
type tally struct {
	own    int32
	others map[*group]int32 // of pairs
}

// Check is what a pod is to be checked by; nil when no rule is about it.
func (c *Cluster) Check(p *v1.Pod) *Check {
	g := c.App(p).group
	k := &Check{own: g, limit: g.limitBy, spread: g.spreadBy}
	for _, pair := range g.pairs {
		if pair.by != nil {
			k.pairs = append(k.pairs, pair)
		}
	}
	if k.limit == nil && k.spread == nil && len(k.pairs) == 0 {
		return nil
	}
	k.on = make(map[string]tally, len(g.on))
	for n, count := range g.on {
		k.add(n.object.Name, g, count)
	}
	counted := map[*group]bool{g: true}
	for i := range k.pairs {
		other := k.pairs[i].other(g)
		if counted[other] {
			continue
		}
		counted[other] = true
		for n, count := range other.on {
			k.add(n.object.Name, other, count)
		}
	}
	return k
}

// other is the group of a pair that is not g.
func (p *pair) other(g *group) *group {
	if p.a == g {
		return p.b
	}
	return p.a
}

func (k *Check) add(nodeName string, g *group, count int32) {
	t := k.on[nodeName]
	if g == k.own {
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
			t.others = map[*group]int32{}
		}
		t.others[g] += count
	}
	k.on[nodeName] = t
}

// With is the check as if a pod that stands came to a node, or with count -1 left
// it.
func (c *Cluster) With(k *Check, p *v1.Pod, nodeName string, count int32) {
	g := c.find(p)
	if g == nil {
		return
	}
	if g != k.own {
		related := false
		for i := range k.pairs {
			related = related || k.pairs[i].other(k.own) == g
		}
		if !related {
			return
		}
	}
	k.add(nodeName, g, count)
}

// Clone is a copy that may be changed.
func (k *Check) Clone() *Check {
	c := *k
	c.on = maps.Clone(k.on)
	return &c
}

// Refuses says why a node is closed to the pod; "" when it is not.
func (k *Check) Refuses(nodeName string) string {
	t, ok := k.on[nodeName]
	if !ok {
		return ""
	}
	rule, text := violation(k.own, t, k.limit, k.spread, k.pairs, k.nodes, 1)
	if rule == nil {
		return ""
	}
	return fmt.Sprintf("placement rule %s: %s", rule.Name, text)
}

// violation is the first rule that does not hold on a node for a group when more
// of it came there.
func violation(own *group, t tally, limit, spread *Rule, pairs []pair, nodes, more int32) (*Rule, string) {
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

// find is the group of a pod if it is known; it makes none known.
func (c *Cluster) find(p *v1.Pod) *group {
	if known, ok := c.pods[p.UID]; ok && known.object == p {
		return known.app.group
	}
	if !Moves(p) {
		return nil
	}
	return c.groups[Group(p, c.appLabel)]
}

// Related reports whether a pod that stands can be in the way of one that waits,
// by a rule.
func (c *Cluster) Related(waits, stands *v1.Pod) bool {
	g, o := c.find(waits), c.find(stands)
	switch {
	case o == nil: // it counts nowhere
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

// Spreads reports whether a pod that came to a node may let one that waits follow
// that is of the same app and has to spread.
func (c *Cluster) Spreads(waits, came *v1.Pod) bool {
	g := c.find(waits)
	return g != nil && g.spreadBy != nil && c.find(came) == g
}

// Conflict is the rule that does not hold on a node with a pod there that somebody
// else put, with what it says; nil when all hold. The pod need not have been seen
// before, and is not noted.
func (c *Cluster) Conflict(p *v1.Pod) (*Rule, string) {
	n, ok := c.nodes[p.Spec.NodeName]
	if !ok || !Moves(p) || Ended(p) || len(c.rules) == 0 {
		return nil, ""
	}
	if known, ok := c.pods[p.UID]; ok && known.node == n {
		return conflictOf(known.app.group, n, 0)
	}
	g := c.find(p)
	if g == nil {
		g = &group{name: Group(p, c.appLabel), pod: p}
		g.constrain(c.rules)
		for _, other := range c.groups {
			g.pairs = append(append(g.pairs, between(c.rules, g, other)...), between(c.rules, other, g)...)
		}
	}
	return conflictOf(g, n, 1)
}

// Stands reports whether a pod is known to stand on its node.
func (c *Cluster) Stands(p *v1.Pod) bool {
	known, ok := c.pods[p.UID]
	return ok && known.node.object.Name == p.Spec.NodeName
}

// conflictOf is the rule that does not hold on a node with more of a group there.
func conflictOf(g *group, n *node, more int32) (*Rule, string) {
	t := tally{own: g.on[n], others: map[*group]int32{}}
	var pairs []pair
	for _, p := range g.pairs {
		if other := p.other(g); p.by != nil && other.on[n] > 0 {
			pairs = append(pairs, p)
			t.others[other] = other.on[n]
		}
	}
	return violation(g, t, g.limitBy, nil, pairs, 0, more)
}

// Conflicts counts for each rule the nodes on which it does not hold.
func (c *Cluster) Conflicts() map[string]int {
	type where struct {
		rule *Rule
		node *node
	}
	seen := map[where]bool{}
	counts := map[string]int{}
	for _, g := range c.groups {
		if g.limitBy == nil && len(g.pairs) == 0 {
			continue
		}
		for n := range g.on {
			if r, _ := conflictOf(g, n, 0); r != nil && !seen[where{r, n}] {
				seen[where{r, n}] = true
				counts[r.Name]++
			}
		}
	}
	return counts
}
