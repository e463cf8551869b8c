package kube

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// A ruleBook holds the rules, and the groups that they and anti-affinity may pair: a new group
// is not compared with thousands of others. The ledger stores it as an object.
type ruleBook struct {
	rules    []*Rule
	zones    map[string]string             // of nodes with that label; nil = to be listed again
	subjects map[*Rule][]*constraints      // that a rule with exclusions picks
	excluded map[*exclusion][]*constraints // that an exclusion picks
	labelled map[label][]*constraints      // by the labels of their pods
	selects  map[label][]*constraints      // by a label that one of their terms requires
	all      []*constraints
	loose    []*constraints // with a term that requires no label
	came     int            // groups so far
}

type label struct{ key, value string }

func newRuleBook(rules []*Rule) *ruleBook {
	return &ruleBook{
		rules: rules, subjects: map[*Rule][]*constraints{}, excluded: map[*exclusion][]*constraints{},
		labelled: map[label][]*constraints{}, selects: map[label][]*constraints{},
	}
}

// asked returns labels of which a pod has one if a selector picks it; nil if it may have none of them.
// Labels that change with every pod are skipped.
func asked(s labels.Selector) []label {
	requirements, _ := s.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			if slices.Contains(volatile, r.Key()) {
				continue
			}
			var list []label
			for value := range r.Values() {
				list = append(list, label{r.Key(), value})
			}
			return list
		default:
		}
	}
	return nil
}

// add enters a group.
func (b *ruleBook) add(c *constraints) {
	b.came++
	c.number = b.came
	b.file(c, func(list []*constraints) []*constraints { return append(list, c) })
}

// remove takes a group out, before its pod or terms change.
func (b *ruleBook) remove(c *constraints) {
	b.file(c, func(list []*constraints) []*constraints {
		if i := slices.Index(list, c); i >= 0 {
			list[i] = list[len(list)-1]
			return list[:len(list)-1]
		}
		return list
	})
}

// file changes every list that a group belongs to.
func (b *ruleBook) file(c *constraints, change func([]*constraints) []*constraints) {
	b.all = change(b.all)
	for key, value := range c.pod.Labels {
		if !slices.Contains(volatile, key) {
			fileAt(b.labelled, label{key, value}, change)
		}
	}
	for i := range c.terms {
		keys := asked(c.terms[i].selector)
		for _, at := range keys {
			fileAt(b.selects, at, change)
		}
		if len(keys) == 0 {
			b.loose = change(b.loose)
		}
	}
	b.picked(c.pod, func(r *Rule) { fileAt(b.subjects, r, change) }, func(_ *Rule, e *exclusion) { fileAt(b.excluded, e, change) })
}

func fileAt[K comparable](lists map[K][]*constraints, at K, change func([]*constraints) []*constraints) {
	if list := change(lists[at]); len(list) > 0 {
		lists[at] = list
	} else {
		delete(lists, at)
	}
}

// picked calls subject for the rules that pick a pod, and other for their exclusions.
func (b *ruleBook) picked(pod *v1.Pod, subject func(*Rule), other func(*Rule, *exclusion)) {
	for _, r := range b.rules {
		if len(r.excludes) == 0 {
			continue
		}
		if r.pods.picks(pod) {
			subject(r)
		}
		for i := range r.excludes {
			if e := &r.excludes[i]; e.pods.picks(pod) {
				other(r, e)
			}
		}
	}
}

// related returns the other groups that a rule or a term may pair with c, in order of arrival,
// and some that no rule or term pairs with it.
func (b *ruleBook) related(c *constraints) []*constraints {
	found := map[*constraints]bool{}
	add := func(list []*constraints) {
		for _, other := range list {
			found[other] = true
		}
	}
	b.picked(c.pod, func(r *Rule) {
		for i := range r.excludes {
			add(b.excluded[&r.excludes[i]])
		}
	}, func(r *Rule, _ *exclusion) { add(b.subjects[r]) })
	for i := range c.terms {
		keys := asked(c.terms[i].selector)
		for _, at := range keys {
			add(b.labelled[at])
		}
		if len(keys) == 0 {
			add(b.all)
		}
	}
	if len(b.selects) > 0 {
		for key, value := range c.pod.Labels {
			add(b.selects[label{key, value}])
		}
	}
	add(b.loose)
	return slices.SortedFunc(maps.Keys(found), func(a, b *constraints) int { return cmp.Compare(a.number, b.number) })
}
