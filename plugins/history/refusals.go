package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A span is from an event to another, by their numbers; to = 0: it has not ended.
type span struct{ from, to int }

// end ends the last of some spans, if it has not ended.
func end(spans []span, at int) {
	if n := len(spans); n > 0 && spans[n-1].to == 0 {
		spans[n-1].to = at
	}
}

// meet reports whether two lists of spans, each in order, have an event in common.
func meet(a, b []span) bool {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].to != 0 && a[0].to <= b[0].from:
			a = a[1:]
		case b[0].to != 0 && b[0].to <= a[0].from:
			b = b[1:]
		default:
			return true
		}
	}
	return false
}

// A selector is the log's data on one: for a node that was present while an app had it, whether the
// node refuses it. A thousand selectors of one node each, on a thousand nodes, have a thousand entries.
type selector struct {
	closed bool   // most nodes refuse it
	spans  []span // in which an app had it
}

func (s *selector) inForce() bool { return len(s.spans) > 0 && s.spans[len(s.spans)-1].to == 0 }

// setSelector sets the nodes that list a selector.
func (h *History) setSelector(e *ledger.Event) error {
	if e.Select == nil {
		return errors.New("select is missing")
	}
	id := e.Select.ID
	for _, n := range slices.Collect(maps.Keys(h.lists[id])) {
		h.index(n, false)
		n.spec.RemoveSelectors(func(other string) bool { return other == id })
		h.index(n, true)
	}
	if delete(h.sparse, id); e.Select.Closed {
		h.sparse[id] = true
	}
	for i, name := range e.Select.Nodes {
		n := h.nodes[name]
		if n == nil || n.gone {
			return fmt.Errorf("select.nodes[%d]: node %q is unknown", i, name)
		}
		h.index(n, false)
		n.spec.AddSelector(id, e.Select.Closed)
		h.index(n, true)
	}
	if s := h.selectors[id]; s != nil && s.inForce() {
		end(s.spans, h.seq)
		h.use(id)
	}
	return nil
}

// index files a node under the selectors that it lists, or removes it.
func (h *History) index(n *node, in bool) {
	for _, list := range [][]string{n.spec.Refuses, n.spec.Admits} {
		for _, id := range list {
			switch {
			case !in:
				delete(h.lists[id], n)
			case h.lists[id] == nil:
				h.lists[id] = map[*node]bool{n: true}
			default:
				h.lists[id][n] = true
			}
		}
	}
}

// use records that an app has a selector.
func (h *History) use(id string) {
	s := h.selectors[id]
	if s == nil {
		s = &selector{closed: h.sparse[id]}
		h.selectors[id] = s
	} else if s.inForce() {
		return
	}
	again := len(s.spans) > 0
	s.spans = append(s.spans, span{from: h.seq})
	if s.closed != h.sparse[id] {
		h.turned[id] = true
	}
	if !again {
		for n := range h.lists[id] {
			h.look(n, id)
		}
		return
	}
	for _, n := range h.nodes { // their earlier entries may be outdated
		h.look(n, id)
	}
}

// look records whether a present node differs from most on a selector that is in use.
func (h *History) look(n *node, id string) {
	s := h.selectors[id]
	if s == nil || !s.inForce() || n.gone || n.start != len(h.starts) {
		return
	}
	if refused := !n.spec.Allows(id, h.sparse[id]); refused != s.closed {
		n.listed[id] = true
	} else {
		delete(n.listed, id)
	}
}

// refusals determine the selectors that a node refuses, also those that appeared after the
// removal of the node: for such a selector, nodes decide that are like it in all that is
// known of both. Without such a node, it is refused: a trace must not offer a
// machine that a scheduler would not have taken.
type refusals struct {
	h      *History
	ids    []string // of all selectors
	past   []string // of those that are not in use
	kinds  []*kind
	kindOf map[*node]*kind
}

// A kind is the nodes of equal labels that list the same selectors, as far as the log has them.
type kind struct {
	labels  map[string]string
	listed  map[string]bool
	unknown map[string]bool
	found   bool // listed has the unknown ones too
	lists   []string
}

func newRefusals(h *History) *refusals {
	r := &refusals{h: h, ids: slices.Sorted(maps.Keys(h.selectors)), kindOf: map[*node]*kind{}}
	for _, id := range r.ids {
		if !h.selectors[id].inForce() {
			r.past = append(r.past, id)
		}
	}
	byContent := map[string]*kind{}
	for _, name := range slices.Sorted(maps.Keys(h.nodes)) {
		n := h.nodes[name]
		unknown, may := map[string]bool{}, r.ids
		if !n.gone && n.start == len(h.starts) { // it is present while those in use are
			may = r.past
		}
		for _, id := range may {
			if !meet(n.spans, h.selectors[id].spans) {
				unknown[id] = true
			}
		}
		id := fmt.Sprint(n.spec.Labels, n.listed, unknown) // maps are printed in the order of keys
		k, ok := byContent[id]
		if !ok {
			k = &kind{labels: n.spec.Labels, listed: n.listed, unknown: unknown}
			byContent[id], r.kinds = k, append(r.kinds, k)
		}
		r.kindOf[n] = k
	}
	return r
}

// of sets the selectors that a machine lists to those of a node.
func (r *refusals) of(n *node, m *ledger.Machine) {
	k := r.kindOf[n]
	if !k.found {
		k.found = true
		k.lists = slices.Collect(maps.Keys(k.listed))
		for id := range k.unknown {
			if r.refused(k, id) != r.h.selectors[id].closed {
				k.lists = append(k.lists, id)
			}
		}
		slices.SortFunc(k.lists, strings.Compare)
	}
	m.Refuses, m.Admits = nil, nil
	for _, id := range k.lists {
		if r.h.selectors[id].closed {
			m.Admits = append(m.Admits, id)
		} else {
			m.Refuses = append(m.Refuses, id)
		}
	}
}

func (r *refusals) refused(k *kind, id string) bool {
	closed, takes := r.h.selectors[id].closed, false
	for _, other := range r.kinds {
		if other.unknown[id] || !k.like(other) {
			continue
		}
		if other.listed[id] != closed {
			return true
		}
		takes = true
	}
	return !takes
}

// like reports whether no entry distinguishes two kinds.
func (k *kind) like(other *kind) bool {
	apart := func(a, b *kind) bool {
		for id := range a.listed {
			if !b.listed[id] && !b.unknown[id] {
				return true
			}
		}
		return false
	}
	return maps.Equal(k.labels, other.labels) && !apart(k, other) && !apart(other, k)
}
