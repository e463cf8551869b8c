package kube

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// constraints are the requirements of anti-affinity and rules on a group. The ledger
// stores them as the group's object.
type constraints struct {
	name   string
	number int     // in order of arrival
	pod    *v1.Pod // the newest of the group: its labels and terms count
	terms  []term  // its anti-affinity

	limit, spread int32 // as a policy sees them
	byZone        binpack.ZoneLimits
	soft          []string
	sends         []string
	by            [domains]strictest
	pairs         []pair // rules with other groups that the group is part of
}

// strictest are the rules of one kind of domain that bind a group most; nil = no rule.
type strictest struct{ limit, spread *Rule }

// among finds the strictest of the rules that pick a pod, by domain.
func among(rules []*Rule, pod *v1.Pod) (by [domains]strictest) {
	for _, r := range rules {
		s := &by[r.domain]
		limits, spreads := r.maxPerNode > 0 && (s.limit == nil || r.maxPerNode < s.limit.maxPerNode), r.spreadMin > 0 && (s.spread == nil || r.spreadMin > s.spread.spreadMin)
		if !limits && !spreads || !r.pods.picks(pod) {
			continue
		}
		if limits {
			s.limit = r
		}
		if spreads {
			s.spread = r
		}
	}
	return by
}

// zoned reports whether a rule by zone binds the group.
func (c *constraints) zoned() bool {
	return c.by[zone] != strictest{} || slices.ContainsFunc(c.pairs, func(p pair) bool { return p.in == zone && p.by != nil })
}

func constraintsOf(g *ledger.Group) *constraints { return g.Object.(*constraints) }

// A pair is a rule (a, b, max) of two groups. It stems from a PlacementRule, or, where
// by is nil, from the anti-affinity of a.
type pair struct {
	a, b *constraints
	max  int32
	by   *Rule
	in   domain // that the pods do not share
}

// other returns the group of a pair that is not c.
func (p *pair) other(c *constraints) *constraints {
	if p.a == c {
		return p.b
	}
	return p.a
}

// Rules returns the rules that were set last.
func (t *rulings) Rules() []*Rule { return t.book().rules }

func (t *rulings) book() *ruleBook {
	book, ok := t.ledger.RuleObjects.(*ruleBook)
	if !ok {
		book = newRuleBook(nil)
		t.ledger.RuleObjects = book
	}
	return book
}

// SetRules replaces the rules.
func (t *Translator) SetRules(rules []*Rule) {
	t.ledger.RuleObjects = newRuleBook(rules)
	t.refresh()
}

// ensureGroup returns the constraints of a pod's group. For a new group it emits the
// rules; those of a known group it updates if the pod is the newest.
func (t *Translator) ensureGroup(name string, p *v1.Pod) *constraints {
	if g := t.ledger.Group(name); g != nil {
		c := constraintsOf(g)
		if p.UID != "" && p.UID == c.pod.UID || podspec.Newer(p, c.pod) {
			t.updateSpec(c, p)
		}
		return c
	}
	c := &constraints{name: name, pod: p, terms: newTerms(p)}
	c.constrain(t.Rules())
	var list []ledger.Rule
	for _, other := range t.others(c) {
		list = pairUp(t.Rules(), c, other, list)
	}
	t.book().add(c)
	if len(list) > 0 {
		t.emit(&ledger.Event{Kind: ledger.KindRule, Rules: list})
	}
	return c
}

// others returns the groups that a group may be paired with.
func (t *rulings) others(c *constraints) []*constraints {
	return slices.DeleteFunc(t.book().related(c), func(other *constraints) bool {
		g := t.ledger.Group(other.name)
		return other == c || g == nil || g.Object != any(other) // the ledger forgot or refused it
	})
}

// updateSpec takes a group's constraints from a pod.
func (t *Translator) updateSpec(c *constraints, p *v1.Pod) {
	if sameConstraints(c.pod, p) {
		c.pod = p
		return
	}
	before, number := *c, c.number
	t.book().remove(c)
	c.pod, c.terms, c.pairs = p, newTerms(p), nil
	c.constrain(t.Rules())
	for _, other := range t.others(c) {
		c.pairs = append(append(c.pairs, between(t.Rules(), c, other)...), between(t.Rules(), other, c)...)
	}
	same := slices.Equal(c.soft, before.soft) && slices.Equal(c.sends, before.sends) && c.limit == before.limit && c.spread == before.spread && c.byZone == before.byZone && c.by == before.by &&
		samePairs(c.pairs, before.pairs)
	c.limit, c.spread, c.byZone, c.soft, c.sends, c.pairs = before.limit, before.spread, before.byZone, before.soft, before.sends, before.pairs // as they were emitted
	if !same {
		t.refresh()
		return
	}
	t.book().add(c)
	c.number = number
}

// samePairs compares pairs in any order.
func samePairs(a, b []pair) bool {
	count := map[pair]int{}
	for _, p := range a {
		count[p]++
	}
	for _, p := range b {
		count[p]--
	}
	return len(a) == len(b) && !slices.ContainsFunc(b, func(p pair) bool { return count[p] != 0 })
}

// leaveGroup calls reelect if a pod on a node changes its group.
func (t *Translator) leaveGroup(p *v1.Pod, to *ledger.AppEntry) {
	if known := t.ledger.Pod(string(p.UID)); known != nil && known.Node() != nil && known.App().Group() != to.Group() {
		t.reelect(known)
	}
}

// reelect takes a group's constraints from the newest remaining pod, if the pod
// that leaves defined them.
func (t *Translator) reelect(leaves *ledger.Pod) {
	g := leaves.App().Group()
	c := constraintsOf(g)
	if string(c.pod.UID) != leaves.UID() {
		return
	}
	var newest *v1.Pod
	for n := range g.CountsByNode() {
		for _, p := range n.Pods() {
			if p == leaves || p.App().Group() != g {
				continue
			}
			if object := p.Object.(*v1.Pod); newest == nil || podspec.Newer(object, newest) {
				newest = object
			}
		}
	}
	if newest != nil {
		t.updateSpec(c, newest)
	}
}

// refresh computes the constraints of all groups again and emits them.
func (t *Translator) refresh() {
	rules := t.Rules()
	book := newRuleBook(rules)
	t.ledger.RuleObjects = book
	var list []ledger.Rule
	for _, g := range t.ledger.Groups() {
		c := constraintsOf(g)
		limit, spread, byZone, soft, sends := c.limit, c.spread, c.byZone, c.soft, c.sends
		c.pairs = nil
		c.constrain(rules)
		if c.limit != limit || c.spread != spread || c.byZone != byZone || !slices.Equal(c.soft, soft) || !slices.Equal(c.sends, sends) {
			for _, a := range g.Apps() {
				t.emitApp(a.Name(), c, a.Spec().Selector, a.Spec().Demand)
			}
		}
		for _, other := range t.others(c) {
			list = pairUp(rules, c, other, list)
		}
		book.add(c)
	}
	t.emit(&ledger.Event{Kind: ledger.KindRule, Rules: list, Reset: true})
}

// constrain finds a group's limit, spread, preferences and traffic.
func (c *constraints) constrain(rules []*Rule) {
	c.limit, c.spread, c.by = 0, 0, among(rules, c.pod)
	c.soft, c.byZone, c.sends = softTerms(c.pod), evenZones(c.pod), sendsOf(c.pod)
	if r := c.by[zone].limit; r != nil {
		c.byZone = c.byZone.And(binpack.ZoneLimits{Limit: r.maxPerNode})
	}
	if r := c.by[zone].spread; r != nil {
		c.byZone.SpreadMin = r.spreadMin
	}
	if r := c.by[node].limit; r != nil {
		c.limit = r.maxPerNode
	}
	if r := c.by[node].spread; r != nil {
		c.spread = r.spreadMin
	}
	for i := range c.terms {
		switch t := &c.terms[i]; {
		case !t.matches(c.pod):
		case t.domain == zone:
			c.byZone.Limit = 1
		default:
			c.limit = 1
		}
	}
}

// between lists the rules (a, b, max) of two different groups.
func between(rules []*Rule, a, b *constraints) []pair {
	var list []pair
	apart := [domains]bool{}
	for i := range a.terms {
		if t := &a.terms[i]; !apart[t.domain] && t.matches(b.pod) {
			list = append(list, pair{a, b, 0, nil, t.domain})
			apart[t.domain] = true
		}
	}
	for _, r := range rules {
		if len(r.excludes) == 0 || !r.pods.picks(a.pod) {
			continue
		}
		for i := range r.excludes {
			if e := &r.excludes[i]; e.pods.picks(b.pod) {
				list = append(list, pair{a, b, e.max, r, r.domain})
			}
		}
	}
	return list
}

// pairUp adds the rules between two groups to both, and to list.
func pairUp(rules []*Rule, a, b *constraints, list []ledger.Rule) []ledger.Rule {
	for _, p := range append(between(rules, a, b), between(rules, b, a)...) {
		a.pairs, b.pairs = append(a.pairs, p), append(b.pairs, p)
		scope := [domains]string{"", ledger.ZoneScope}[p.in]
		list = append(list, ledger.Rule{App: p.a.name, Other: p.b.name, Max: p.max, Scope: scope})
	}
	return list
}
