package kube

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A Rule is a PlacementRule made ready.
type Rule struct {
	Name       string
	pods       podSet
	maxPerNode int32 // 0 = no limit
	spreadMin  int32
	excludes   []exclusion
}

type exclusion struct {
	pods podSet
	max  int32
}

type podSet struct {
	selector   labels.Selector
	namespaces []string // none = all
}

// NewRule makes a rule ready. The error names the field.
func NewRule(r *v1alpha1.PlacementRule) (*Rule, error) {
	pods, err := newPodSet(&r.Spec.PodSet)
	if err != nil {
		return nil, fmt.Errorf("spec.%w", err)
	}
	out := &Rule{Name: r.Name, pods: pods}
	if r.Spec.MaxPerNode != nil {
		if out.maxPerNode = *r.Spec.MaxPerNode; out.maxPerNode < 1 {
			return nil, fmt.Errorf("spec.maxPerNode %d: want at least 1", out.maxPerNode)
		}
	}
	if r.Spec.SpreadMin != nil {
		if out.spreadMin = *r.Spec.SpreadMin; out.spreadMin < 1 {
			return nil, fmt.Errorf("spec.spreadMin %d: want at least 1", out.spreadMin)
		}
	}
	for i := range r.Spec.Excludes {
		e := &r.Spec.Excludes[i]
		if e.Max < 0 {
			return nil, fmt.Errorf("spec.excludes[%d].max %d: want at least 0", i, e.Max)
		}
		pods, err := newPodSet(&e.PodSet)
		if err != nil {
			return nil, fmt.Errorf("spec.excludes[%d].%w", i, err)
		}
		out.excludes = append(out.excludes, exclusion{pods, e.Max})
	}
	return out, nil
}

func newPodSet(s *v1alpha1.PodSet) (podSet, error) {
	selector, err := metav1.LabelSelectorAsSelector(&s.Selector)
	if err != nil {
		return podSet{}, fmt.Errorf("selector: %w", err)
	}
	return podSet{selector, s.Namespaces}, nil
}

func (s *podSet) picks(pod *v1.Pod) bool {
	return (len(s.namespaces) == 0 || slices.Contains(s.namespaces, pod.Namespace)) &&
		s.selector.Matches(labels.Set(pod.Labels))
}

// A term is a required anti-affinity term on a node, made ready.
type term struct {
	selector   labels.Selector
	namespaces []string
	anywhere   bool // in all namespaces
}

func newTerms(pod *v1.Pod) []term {
	var out []term
	for _, t := range antiAffinity(pod) {
		selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
		if err != nil {
			continue // the API server lets none through
		}
		if len(t.MatchLabelKeys)+len(t.MismatchLabelKeys) > 0 {
			continue // of one revision: left to upstream's filter
		}
		namespaces := t.Namespaces
		if len(namespaces) == 0 {
			namespaces = []string{pod.Namespace}
		}
		// A selector of namespaces by their labels is left to upstream's filter.
		anywhere := t.NamespaceSelector != nil && len(t.NamespaceSelector.MatchLabels)+len(t.NamespaceSelector.MatchExpressions) == 0
		out = append(out, term{selector, namespaces, anywhere})
	}
	return out
}

func (t *term) matches(pod *v1.Pod) bool {
	return (t.anywhere || slices.Contains(t.namespaces, pod.Namespace)) && t.selector.Matches(labels.Set(pod.Labels))
}

// A group is an app as limits and rules count it: pods of any size.
type group struct {
	name  string
	pod   *v1.Pod // the newest of them says what the constraints are
	terms []term  // its anti-affinity
	apps  []*App

	latest *App    // that a pod came of
	peak   float64 // most pods at a time, fading

	limit, spread int32 // to a policy
	limitBy       *Rule // nil = none of limit is a rule's
	spreadBy      *Rule
	pairs         []pair // rules with other groups that the group is part of
	on            map[*node]int32
}

// A pair is a rule (a, b, max) of two groups: by a PlacementRule, or by a's
// anti-affinity where that is nil.
type pair struct {
	a, b *group
	max  int32
	by   *Rule
}

// constrain finds a group's limit and spread.
func (g *group) constrain(rules []*Rule) {
	g.limit, g.spread, g.limitBy, g.spreadBy = 0, 0, nil, nil
	for _, r := range rules {
		if !r.pods.picks(g.pod) {
			continue
		}
		if r.maxPerNode > 0 && (g.limit == 0 || r.maxPerNode < g.limit) {
			g.limit, g.limitBy = r.maxPerNode, r
		}
		if r.spreadMin > g.spread {
			g.spread, g.spreadBy = r.spreadMin, r
		}
	}
	for i := range g.terms {
		if g.terms[i].matches(g.pod) {
			g.limit = 1
		}
	}
}

// between lists the rules (a, b, max) of two different groups.
func between(rules []*Rule, a, b *group) []pair {
	var list []pair
	for i := range a.terms {
		if a.terms[i].matches(b.pod) {
			list = append(list, pair{a, b, 0, nil})
			break
		}
	}
	for _, r := range rules {
		if len(r.excludes) == 0 || !r.pods.picks(a.pod) {
			continue
		}
		for i := range r.excludes {
			if e := &r.excludes[i]; e.pods.picks(b.pod) {
				list = append(list, pair{a, b, e.max, r})
			}
		}
	}
	return list
}

// pairUp adds the rules between two groups to both, and to list.
func pairUp(rules []*Rule, a, b *group, list []ledger.Rule) []ledger.Rule {
	if len(rules)+len(a.terms)+len(b.terms) == 0 { // there may be many groups
		return list
	}
	for _, p := range append(between(rules, a, b), between(rules, b, a)...) {
		a.pairs, b.pairs = append(a.pairs, p), append(b.pairs, p)
		list = append(list, ledger.Rule{App: p.a.name, Other: p.b.name, Max: p.max})
	}
	return list
}
