package kube

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/podspec/podtest"
)

// drawSelector draws one that picks by values, by presence, by absence, or nothing.
func drawSelector(d *rand.Rand) metav1.LabelSelector {
	key := fmt.Sprint("k", d.IntN(3))
	values := []string{fmt.Sprint(d.IntN(3)), fmt.Sprint(d.IntN(3))}
	var s metav1.LabelSelector
	switch d.IntN(7) {
	case 0:
		s.MatchLabels = map[string]string{key: values[0], fmt.Sprint("k", d.IntN(3)): values[1]}
	case 1:
		s.MatchLabels = map[string]string{"job-name": values[0]} // changes with every pod
	case 2:
		s.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpExists}}
	case 3:
		s.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: values}}
	case 4:
		s.MatchExpressions = []metav1.LabelSelectorRequirement{
			{Key: "k0", Operator: metav1.LabelSelectorOpDoesNotExist}, {Key: key, Operator: metav1.LabelSelectorOpIn, Values: values},
		}
	default:
		s.MatchLabels = map[string]string{key: values[0]}
	}
	return s
}

func drawGroup(d *rand.Rand, i int) *constraints {
	p := podtest.Pod(fmt.Sprint("p", i))
	p.Namespace = fmt.Sprint("ns", d.IntN(2))
	p.Labels = map[string]string{"job-name": fmt.Sprint(d.IntN(3))}
	for k := range 3 {
		if d.IntN(2) == 0 {
			p.Labels[fmt.Sprint("k", k)] = fmt.Sprint(d.IntN(3))
		}
	}
	if d.IntN(4) == 0 {
		selector := drawSelector(d)
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: v1.LabelHostname, LabelSelector: &selector}},
		}}
	}
	return &constraints{name: p.Name, pod: p, terms: newTerms(p)}
}

// Nothing that a rule or a term pairs is missing among the related groups, and they are
// in the order in which they came, whichever of them changed meanwhile.
func TestRelatedGroups(t *testing.T) {
	pairs, asked := 0, 0
	for seed := range uint64(60) {
		d := rand.New(rand.NewPCG(seed, 2))
		var rules []*Rule
		for range d.IntN(4) {
			spec := v1alpha1.PlacementRuleSpec{PodSet: v1alpha1.PodSet{Selector: drawSelector(d)}}
			for range d.IntN(3) {
				spec.Excludes = append(spec.Excludes, v1alpha1.Exclusion{PodSet: v1alpha1.PodSet{Selector: drawSelector(d)}, Max: int32(d.IntN(2))})
			}
			r, err := NewRule(&v1alpha1.PlacementRule{Spec: spec})
			require.NoError(t, err)
			rules = append(rules, r)
		}
		book := newRuleBook(rules)
		var groups []*constraints
		for i := range 40 {
			c := drawGroup(d, i)
			paired := func(other *constraints) bool {
				return other != c && len(between(rules, c, other))+len(between(rules, other, c)) > 0
			}
			var want []*constraints
			for _, other := range groups {
				if paired(other) {
					want = append(want, other)
				}
			}
			related := book.related(c)
			asked += len(related)
			pairs += len(want)
			require.True(t, slices.Equal(want, slices.DeleteFunc(related, func(o *constraints) bool { return !paired(o) })))
			book.add(c)
			groups = append(groups, c)
			if d.IntN(3) == 0 { // one changes
				changed, other := groups[d.IntN(len(groups))], drawGroup(d, i)
				number := changed.number
				book.remove(changed)
				changed.pod, changed.terms = other.pod, other.terms
				book.add(changed)
				changed.number = number
			}
		}
	}
	require.Greater(t, pairs, 2000)
	require.Less(t, asked, 5*pairs, "few are asked in vain")
}
