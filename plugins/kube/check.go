package kube

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Check lists the nodes that PlacementRules and reservations for others close to one pod.
// Anti-affinity between running pods is not part of it: upstream's filter checks that.
type Check struct {
	own    *constraints
	by     [domains]tallies
	zones  map[string]string // by node; nil where no rule by zone binds the pod
	demand map[string]int64  // of the pod
	strict *Check            // with the rules that gave way to the pod; nil if no rule did

	holds     map[string]*hold // by node with reservations
	closed    map[string]bool  // of these
	changed   map[string]held  // of these, with pods that the check was changed by
	group     *ledger.Group    // of the pod
	nominated string           // the pod's nominated node
}

// tallies are the rules of a check by one kind of domain, with the pods that they count.
type tallies struct {
	strictest
	pairs []pair
	on    map[string]tally // by domain, where the pod's app or one of a pair runs
	holds int32            // domains that hold the pod's app
}

// tally counts the pods in a domain that matter to a check.
type tally struct {
	own    int32
	others map[*constraints]int32 // of pairs
}

// Check returns the check of a pod; nil when no rule selects the pod and nothing is
// reserved for others, or no scheduler decides on its node. A rule with afterMinutes is
// left out once that time has passed since the pod was created.
func (t *Translator) Check(p *v1.Pod, now time.Time) *Check {
	if len(t.Rules()) == 0 && !t.ledger.HasReservations() || !podspec.Moves(p) {
		return nil
	}
	a := t.EnsureApp(p)
	if a == nil {
		return nil
	}
	all := t.check(a, p, t.Rules())
	gone := func(r *Rule) bool { return r.gaveWay(p, now) }
	if all == nil || !slices.ContainsFunc(t.Rules(), gone) {
		return all
	}
	k := t.check(a, p, slices.DeleteFunc(slices.Clone(t.Rules()), gone))
	if k == nil { // its rules all gave way
		k = &Check{own: all.own}
	}
	k.strict = all
	return k
}

// check returns the check of a pod by some of the rules.
func (t *Translator) check(a *ledger.AppEntry, p *v1.Pod, rules []*Rule) *Check {
	own := constraintsOf(a.Group())
	whole := len(rules) == len(t.Rules())
	k := &Check{
		own: own, demand: a.Spec().Demand,
		holds: t.holds(), closed: t.closedTo(a), group: a.Group(), nominated: p.Status.NominatedNodeName,
	}
	bound := len(k.holds) > 0
	for _, pair := range own.pairs {
		if pair.by != nil && (whole || slices.Contains(rules, pair.by)) {
			of := &k.by[pair.in]
			of.pairs = append(of.pairs, pair)
			bound = true
		}
	}
	strict := own.by
	if !whole {
		strict = among(rules, own.pod)
	}
	for d := range k.by {
		k.by[d].strictest = strict[d]
		bound = bound || strict[d] != strictest{}
	}
	if !bound {
		return nil
	}
	k.by[node].on = make(map[string]tally, a.Group().Nodes())
	if k.by[zone].binds() {
		k.by[zone].on, k.zones = map[string]tally{}, t.zones()
	}
	k.addAll(own, a.Group())
	counted := map[*constraints]bool{own: true}
	for d := range k.by {
		for i := range k.by[d].pairs {
			other := k.by[d].pairs[i].other(own)
			if !counted[other] {
				counted[other] = true
				k.addAll(other, t.ledger.Group(other.name))
			}
		}
	}
	if len(k.by[zone].pairs) > 0 {
		k.addReserved(t.ledger, counted)
	}
	return k
}

// addReserved counts in zones the pods of other groups that room is reserved for. For nodes,
// closedTo has the effect of these pods already.
func (k *Check) addReserved(l *ledger.Ledger, counted map[*constraints]bool) {
	for n := range l.ReservedNodes() {
		for _, r := range n.Reservations() {
			c, in := constraintsOf(r.App.Group()), k.zones[n.Name()]
			if c != k.own && counted[c] && in != "" {
				k.by[zone].add(in, c, r.Pods, false)
			}
		}
	}
}

func (l *tallies) binds() bool { return l.limit != nil || l.spread != nil || len(l.pairs) > 0 }

func (k *Check) addAll(c *constraints, g *ledger.Group) {
	for n, count := range g.CountsByNode() {
		k.add(n.Name(), c, count)
	}
}

func (k *Check) add(nodeName string, c *constraints, count int32) {
	k.by[node].add(nodeName, c, count, c == k.own)
	if in := k.zones[nodeName]; in != "" {
		k.by[zone].add(in, c, count, c == k.own)
	}
}

func (l *tallies) add(at string, c *constraints, count int32, own bool) {
	t := l.on[at]
	if own {
		had := t.own > 0
		t.own += count
		switch {
		case !had && t.own > 0:
			l.holds++
		case had && t.own <= 0:
			l.holds--
		}
	} else {
		t.others = maps.Clone(t.others) // a copy of the check may share it
		if t.others == nil {
			t.others = map[*constraints]int32{}
		}
		t.others[c] += count
	}
	l.on[at] = t
}

// Adjust changes a check as if a pod were placed on a node, or with count -1 removed from it.
func (t *Translator) Adjust(k *Check, p *v1.Pod, nodeName string, count int32) {
	if h, ok := k.heldOn(nodeName); ok && podspec.Moves(p) {
		if k.changed == nil {
			k.changed = map[string]held{}
		}
		k.changed[nodeName] = h.with(t.demandOf(p), count)
	}
	c := t.find(p)
	relates := func(p pair) bool { return p.other(k.own) == c }
	if c != nil && (c == k.own || slices.ContainsFunc(k.by[node].pairs, relates) || slices.ContainsFunc(k.by[zone].pairs, relates)) {
		k.add(nodeName, c, count)
	}
}

// Clone returns a copy that may be changed.
func (k *Check) Clone() *Check {
	c := *k
	c.changed = maps.Clone(k.changed)
	for d := range c.by {
		c.by[d].on = maps.Clone(k.by[d].on)
	}
	return &c
}

// Refusal returns why a node is closed to the pod; "" when it is open.
func (k *Check) Refusal(nodeName string) string {
	if text := k.closedBy(nodeName); text != "" {
		return text
	}
	if h, ok := k.heldOn(nodeName); ok {
		return h.refuses(k.demand)
	}
	return ""
}

// closedBy returns the text of the rule that closes a node to the pod; "" if no rule does.
func (k *Check) closedBy(nodeName string) string {
	if text := k.by[node].refuses(k.own, nodeName, node); text != "" || !k.by[zone].binds() {
		return text
	}
	return k.by[zone].refuses(k.own, k.zones[nodeName], zone)
}

// ExpiredRule returns the text of the rule that would close a node to a pod and no longer binds it;
// "" if there is no such rule.
func (t *Translator) ExpiredRule(p *v1.Pod, nodeName string, now time.Time) string {
	if !slices.ContainsFunc(t.Rules(), func(r *Rule) bool { return r.gaveWay(p, now) }) {
		return ""
	}
	if k := t.Check(p, now); k != nil && k.strict != nil && k.closedBy(nodeName) == "" {
		return k.strict.closedBy(nodeName)
	}
	return ""
}

// Expiry returns the time at which the next rule gives way to the pod of the check; false if no rule will.
func (k *Check) Expiry(p *v1.Pod) (at time.Time, ok bool) {
	soon := func(r *Rule) {
		if r == nil || r.after == 0 || p.CreationTimestamp.IsZero() {
			return
		}
		if when := p.CreationTimestamp.Add(r.after); !ok || when.Before(at) {
			at, ok = when, true
		}
	}
	for d := range k.by {
		soon(k.by[d].limit)
		soon(k.by[d].spread)
		for i := range k.by[d].pairs {
			soon(k.by[d].pairs[i].by)
		}
	}
	return at, ok
}

// refuses returns the text of the rule that closes a domain to a pod; "" when it is open. A node
// without the label is in no domain: it is closed to a pod whose app is limited or has to spread,
// and open to one that only excludes others, as it shares no domain with them.
func (l *tallies) refuses(own *constraints, at string, d domain) string {
	if at == "" {
		if by := cmp.Or(l.limit, l.spread); by != nil {
			return fmt.Sprintf("placement rule %s: the node has no label %s", by.Name, v1.LabelTopologyZone)
		}
		return ""
	}
	if t, ok := l.on[at]; ok {
		if rule, text := l.violation(own, t, 1, d); rule != nil {
			return fmt.Sprintf("placement rule %s: %s", rule.Name, text)
		}
	}
	return ""
}

// violation returns the first rule that a domain violates for a group if more pods of the
// group are placed there.
func (l *tallies) violation(own *constraints, t tally, more int32, d domain) (*Rule, string) {
	where := [domains]string{"", " in a zone"}[d]
	var most binpack.ZoneLimits
	if l.limit != nil {
		most.Limit = l.limit.maxPerNode
	}
	if l.spread != nil {
		most.SpreadMin = l.spread.spreadMin
	}
	refused := most.Refuses(t.own, more, l.holds, 0)
	if refused == binpack.LimitReached {
		return l.limit, fmt.Sprintf("at most %d of %s %s", l.limit.maxPerNode, own.name, [domains]string{"on a node", "in a zone"}[d])
	}
	for i := range l.pairs {
		p := &l.pairs[i]
		rule, others := binpack.Rule{Max: p.max}, t.others[p.other(own)]
		if p.a == own && rule.Forbids(t.own+more, others) || p.b == own && rule.Forbids(others, t.own+more) {
			return p.by, fmt.Sprintf("%s excludes %s%s", p.a.name, p.b.name, where)
		}
	}
	if refused == binpack.SpreadWanted {
		return l.spread, fmt.Sprintf("%s stands %s and has to stand on %d before two share one", own.name, fmt.Sprintf([domains]string{"on %d nodes", "in %d zones"}[d], l.holds), l.spread.spreadMin)
	}
	return nil, ""
}
