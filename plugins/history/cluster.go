package history

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

type node struct {
	name   string
	uid    string
	spec   ledger.Machine
	gone   bool
	start  int             // the start after which it was last described
	spans  []span          // in which it has had its present labels
	listed map[string]bool // by selector that was in use then: the node differs from most nodes on that selector
}

type app struct {
	name     string
	spec     ledger.App
	gone     bool
	start    int
	expected float64 // negative: unknown
	declared float64 // now
}

func (h *History) setNode(e *ledger.Event) error {
	if e.Node == "" || e.Machine == nil {
		return errors.New("node or machine is missing")
	}
	h.current = len(h.starts)
	n, ok := h.nodes[e.Node]
	if !ok || n.gone {
		n = &node{name: e.Node, listed: map[string]bool{}}
		h.nodes[e.Node] = n
	}
	if !maps.Equal(n.spec.Labels, e.Machine.Labels) { // the node may take pods that it refused before
		clear(n.listed)
		n.spans = nil
	}
	h.index(n, false)
	n.spec, n.start, n.uid = *e.Machine, h.current, cmp.Or(e.UID, n.uid)
	h.index(n, true)
	if len(n.spans) == 0 || n.spans[len(n.spans)-1].to != 0 {
		n.spans = append(n.spans, span{from: h.seq})
	}
	for s := range n.listed {
		h.look(n, s)
	}
	for _, list := range [][]string{n.spec.Refuses, n.spec.Admits} {
		for _, s := range list {
			h.look(n, s)
		}
	}
	for s := range h.turned {
		h.look(n, s)
	}
	return nil
}

// present reports whether a node exists now.
func (h *History) present(n *node) bool { return !n.gone && n.start >= h.current }

// lostBefore reports whether a node was missing in the description of the cluster
// after a start, before a time.
func (h *History) lostBefore(n *node, at int64) bool {
	return !n.gone && n.start < h.current && h.starts[n.start] < at
}

func (h *History) setApp(e *ledger.Event) error {
	if e.App == "" || e.Spec == nil || e.Spec.Group == "" {
		return errors.New("app, spec or spec.group is missing")
	}
	a, ok := h.apps[e.App]
	if !ok {
		a = &app{name: e.App, expected: -1}
		h.apps[e.App] = a
	}
	if ok && !maps.Equal(a.spec.Demand, e.Spec.Demand) { // the name of an app holds its size
		return fmt.Errorf("the demand of %s changed, and its earlier pods would change with it", e.App)
	}
	before := a.spec.Selector
	a.spec, a.start, a.gone = *e.Spec, len(h.starts), false
	if ok && before != a.spec.Selector {
		h.forgetSelector(before)
	}
	h.use(a.spec.Selector)
	return nil
}

func (h *History) forget(e *ledger.Event) error {
	if e.App != "" {
		a, ok := h.apps[e.App]
		if !ok {
			return fmt.Errorf("app %q is unknown", e.App)
		}
		a.gone = true
		h.endAll(func(p *stay) bool { return p.app == e.App })
		h.forgetSelector(a.spec.Selector)
		return nil
	}
	n, ok := h.nodes[e.Node]
	if !ok {
		return fmt.Errorf("node %q is unknown", e.Node)
	}
	n.gone = true
	end(n.spans, h.seq)
	h.index(n, false)
	h.endAll(func(p *stay) bool { return p.node == e.Node })
	return nil
}

// forgetSelector records that nodes no longer list a selector that they refuse, if no
// app has it.
func (h *History) forgetSelector(selector string) {
	for _, a := range h.apps {
		if !a.gone && a.start == len(h.starts) && a.spec.Selector == selector {
			return
		}
	}
	if s := h.selectors[selector]; s != nil {
		end(s.spans, h.seq)
	}
	delete(h.sparse, selector)
	delete(h.turned, selector)
}

// endAll ends the stays that a function selects.
func (h *History) endAll(which func(*stay) bool) {
	var list []*stay
	for _, p := range h.here {
		if which(p) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *stay) int { return strings.Compare(a.uid, b.uid) })
	for _, p := range list {
		h.end(p)
	}
}

// setRules keeps former rules of groups that are unknown now: they applied while the
// groups existed.
func (h *History) setRules(e *ledger.Event) {
	if e.Reset {
		known := h.knownGroups()
		for _, r := range h.rules {
			if !known[r.App] || !known[r.Other] {
				h.past = append(h.past, r)
			}
		}
		h.rules = nil
	}
	h.rules = append(h.rules, e.Rules...)
}

func (h *History) knownGroups() map[string]bool {
	known := map[string]bool{}
	for _, a := range h.apps {
		if !a.gone && a.start == len(h.starts) {
			known[a.spec.Group] = true
		}
	}
	return known
}

// allRules lists the active rules and the former ones of groups that are unknown
// now.
func (h *History) allRules() []ledger.Rule {
	known, list := h.knownGroups(), slices.Clone(h.rules)
	for _, r := range h.past {
		if !known[r.App] || !known[r.Other] {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(x, y ledger.Rule) int {
		return cmp.Or(strings.Compare(x.App, y.App), strings.Compare(x.Other, y.Other), cmp.Compare(x.Max, y.Max), strings.Compare(x.Scope, y.Scope))
	})
	return slices.Compact(list)
}

// forecast keeps the first number of each app in the window: later ones would reveal
// future pods to a policy. It also keeps the maximum that each group declares at a time in the
// window: a share is of this, as it limits the places of pods, not their number.
func (h *History) forecast(e *ledger.Event) {
	now := map[string]float64{}
	for name, n := range e.Expected {
		a, ok := h.apps[name]
		if !ok {
			continue
		}
		if a.expected < 0 || h.at < h.from {
			a.expected = n
		}
		a.declared = 0
		if h.start.MaxShareOfApp > 0 && !slices.Contains(e.Undeclared, name) { // older logs lack this
			a.declared = max(0, n)
		}
		now[a.spec.Group] = 0
	}
	for _, a := range h.apps {
		if sum, ok := now[a.spec.Group]; ok && !a.gone {
			now[a.spec.Group] = sum + a.declared
		}
	}
	for group, n := range now {
		if h.at >= h.from {
			n = max(n, h.declared[group])
		}
		h.declared[group] = n
	}
}
