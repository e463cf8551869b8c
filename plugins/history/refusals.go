package history

import (
	"fmt"
	"maps"
	"slices"
)

// refusals say which selectors a node refuses, those included that came after the
// node was gone: of such a one the nodes decide that are like it in all that is
// known of both. Where there is none, it is refused: a trace must not offer a
// machine that a scheduler would not have taken.
type refusals struct {
	selectors []string
	kinds     []*kind
	kindOf    map[*node]*kind
}

// A kind is the nodes of equal labels that refuse the same selectors, as far as
// the log says.
type kind struct {
	labels  map[string]string
	known   map[string]bool // selector: refused
	refuses []string        // nil: not found yet
}

func newRefusals(h *History) *refusals {
	r := &refusals{selectors: slices.Sorted(maps.Keys(h.selectors)), kindOf: map[*node]*kind{}}
	byContent := map[string]*kind{}
	for _, name := range slices.Sorted(maps.Keys(h.nodes)) {
		n := h.nodes[name]
		id := fmt.Sprint(n.spec.Labels, n.refuses) // maps are printed in the order of keys
		k, ok := byContent[id]
		if !ok {
			k = &kind{labels: n.spec.Labels, known: n.refuses}
			byContent[id], r.kinds = k, append(r.kinds, k)
		}
		r.kindOf[n] = k
	}
	return r
}

// of lists the selectors that a node refuses.
func (r *refusals) of(n *node) []string {
	k := r.kindOf[n]
	if k.refuses == nil {
		k.refuses = []string{}
		for _, selector := range r.selectors {
			if r.refused(k, selector) {
				k.refuses = append(k.refuses, selector)
			}
		}
	}
	return k.refuses
}

func (r *refusals) refused(k *kind, selector string) bool {
	if refused, ok := k.known[selector]; ok {
		return refused
	}
	takes := false
	for _, other := range r.kinds {
		refused, ok := other.known[selector]
		if !ok || !k.like(other) {
			continue
		}
		if refused {
			return true
		}
		takes = true
	}
	return !takes
}

// like reports whether nothing tells two kinds apart.
func (k *kind) like(other *kind) bool {
	if !maps.Equal(k.labels, other.labels) {
		return false
	}
	for selector, refused := range k.known {
		if theirs, ok := other.known[selector]; ok && theirs != refused {
			return false
		}
	}
	return true
}
