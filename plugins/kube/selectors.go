package kube

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A selectorBook indexes the nodes by their labels, and the selectors by the labels that they require: a
// thousand selectors of one node each are not compared with a thousand nodes. The ledger stores it as
// an object.
type selectorBook struct {
	nodes map[podspec.Label]map[string]bool // names
	of    map[string]*v1.Node               // that nodes has
	asks  map[podspec.Label]map[string]bool // closed selectors that admit only nodes with such labels
	loose map[string]bool                   // all others
}

func (t *Translator) selectors() *selectorBook {
	if book, ok := t.ledger.SelectorObjects.(*selectorBook); ok {
		return book
	}
	book := &selectorBook{
		nodes: map[podspec.Label]map[string]bool{}, of: map[string]*v1.Node{},
		asks: map[podspec.Label]map[string]bool{}, loose: map[string]bool{},
	}
	t.ledger.SelectorObjects = book
	return book
}

// setNode enters a node, or its labels; nil takes it out.
func (b *selectorBook) setNode(name string, object *v1.Node) {
	if before := b.of[name]; before != nil {
		for l := range podspec.LabelsOf(before) {
			if delete(b.nodes[l], name); len(b.nodes[l]) == 0 {
				delete(b.nodes, l)
			}
		}
		delete(b.of, name)
	}
	if object == nil {
		return
	}
	b.of[name] = object
	for l := range podspec.LabelsOf(object) {
		enter(b.nodes, l, name)
	}
}

func enter(in map[podspec.Label]map[string]bool, l podspec.Label, name string) {
	if in[l] == nil {
		in[l] = map[string]bool{}
	}
	in[l][name] = true
}

// listed adds the selectors in use that a node lists: the closed ones that it admits, and others that it
// refuses.
func (t *Translator) listed(n *v1.Node, m *ledger.Machine) {
	book := t.selectors()
	look := func(ids map[string]bool) {
		for id := range ids {
			s := t.ledger.Selector(id)
			if s == nil { // no app has it any more
				delete(ids, id)
				continue
			}
			if closed := t.ledger.Closed(id); s.Object.(*podspec.Selector).Admits(n) == closed {
				list := &m.Refuses
				if closed {
					list = &m.Admits
				}
				if !slices.Contains(*list, id) {
					*list = append(*list, id)
				}
			}
		}
	}
	look(book.loose)
	for l := range podspec.LabelsOf(n) {
		look(book.asks[l])
	}
	slices.Sort(m.Refuses)
	slices.Sort(m.Admits)
}

// announce emits the nodes that list a new selector: it is closed if few admit it.
func (t *Translator) announce(s *podspec.Selector) {
	book := t.selectors()
	var admits []string
	asked, count := []podspec.Label(nil), t.ledger.NodeCount()+1
	for _, one := range s.Asks() {
		n := 0
		for _, l := range one {
			n += len(book.nodes[l])
		}
		if n < count {
			asked, count = one, n
		}
	}
	found := map[string]bool{}
	take := func(name string) {
		if n := book.of[name]; n != nil && !found[name] && s.Admits(n) {
			found[name] = true
			admits = append(admits, name)
		}
	}
	if asked == nil {
		for name := range book.of {
			take(name)
		}
	}
	for _, l := range asked {
		for name := range book.nodes[l] {
			take(name)
		}
	}
	of := &ledger.Selection{ID: s.ID, Nodes: admits, Closed: 2*len(admits) < t.ledger.NodeCount()}
	if !of.Closed {
		of.Nodes = nil
		for name := range book.of {
			if !found[name] {
				of.Nodes = append(of.Nodes, name)
			}
		}
	}
	slices.Sort(of.Nodes)
	if of.Closed && asked != nil {
		for _, l := range asked {
			enter(book.asks, l, s.ID)
		}
	} else {
		book.loose[s.ID] = true
	}
	if of.Closed || len(of.Nodes) > 0 {
		t.emit(&ledger.Event{Kind: ledger.KindSelector, Select: of})
	}
}
