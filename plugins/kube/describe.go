package kube

import (
	"maps"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// Describe returns the events after which an empty ledger decides as the translator's
// does from here on.
func (t *Translator) Describe() []*ledger.Event {
	return t.ledger.Describe(func(p *ledger.Pod) (string, int64) {
		object := objectOf(p)
		return name(object), created(object)
	})
}

// Copy brings an empty ledger to the state of the translator's, and returns a translator for it. A change of one does not change the
// other: they share only objects that do not change. Plans are not copied, but their reservations.
func (t *Translator) Copy(l *ledger.Ledger, emit func(*ledger.Event)) *Translator {
	c := NewTranslator(t.appLabel, l, emit)
	c.Prices = t.Prices
	for _, ev := range t.Describe() {
		emit(ev)
	}
	for n := range l.Nodes() {
		n.Object = t.ledger.Node(n.Name()).Object
	}
	for p := range l.Pods() {
		p.Object = t.ledger.Pod(p.UID()).Object
	}
	for s := range l.Selectors() {
		s.Object = t.ledger.Selector(s.ID()).Object
	}
	for _, g := range l.Groups() {
		of := *constraintsOf(t.ledger.Group(g.Name()))
		g.Object = &of
	}
	l.ServedObjects = maps.Clone(t.served())
	book := t.selectors()
	l.SelectorObjects = &selectorBook{nodes: cloneSets(book.nodes), of: maps.Clone(book.of), asks: cloneSets(book.asks), loose: maps.Clone(book.loose)}
	c.SetRules(t.Rules()) // pairs the copied groups
	return c
}

func cloneSets[K comparable](sets map[K]map[string]bool) map[K]map[string]bool {
	sets = maps.Clone(sets)
	for key, set := range sets {
		sets[key] = maps.Clone(set)
	}
	return sets
}
