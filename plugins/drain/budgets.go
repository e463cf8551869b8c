package drain

import (
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Budgets returns which pods disruption budgets keep where they are: a budget that allows
// nothing, that its controller has not read, or whose selector is broken; and two budgets at once, which the API
// server refuses to serve.
func Budgets(list []*policyv1.PodDisruptionBudget) func(*v1.Pod) bool {
	type budget struct {
		selector labels.Selector
		allows   bool
	}
	in := map[string][]budget{}
	for _, b := range list {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			selector = labels.Everything()
		}
		in[b.Namespace] = append(in[b.Namespace], budget{
			selector, err == nil && b.Status.DisruptionsAllowed > 0 && b.Status.ObservedGeneration >= b.Generation,
		})
	}
	return func(p *v1.Pod) bool {
		found := 0
		for _, b := range in[p.Namespace] {
			if b.selector.Matches(labels.Set(p.Labels)) {
				if found++; found > 1 || !b.allows {
					return true
				}
			}
		}
		return false
	}
}
