package drain

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestBudgets(t *testing.T) {
	budget := func(app string, allowed int32, change ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
		b := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app, Generation: 2},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, ObservedGeneration: 2},
		}
		for _, f := range change {
			f(b)
		}
		return b
	}
	all := budget("web", 1, func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} })
	for _, tt := range []struct {
		name string
		list []*policyv1.PodDisruptionBudget
		want bool
	}{
		{"none", nil, false},
		{"one allowed", []*policyv1.PodDisruptionBudget{budget("web", 1)}, false},
		{"none allowed", []*policyv1.PodDisruptionBudget{budget("web", 0)}, true},
		{"of others", []*policyv1.PodDisruptionBudget{budget("db", 0)}, false},
		{"of another namespace", []*policyv1.PodDisruptionBudget{budget("web", 0, func(b *policyv1.PodDisruptionBudget) { b.Namespace = "other" })}, false},
		{"two at once", []*policyv1.PodDisruptionBudget{budget("web", 1), all}, true},
		{"not read yet", []*policyv1.PodDisruptionBudget{budget("web", 1, func(b *policyv1.PodDisruptionBudget) { b.Generation = 3 })}, true},
		{"broken", []*policyv1.PodDisruptionBudget{budget("web", 1, func(b *policyv1.PodDisruptionBudget) {
			b.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Operator: "x"}}
		})}, true},
	} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{"app": "web"}}}
		require.Equal(t, tt.want, Budgets(tt.list)(p), tt.name)
	}
}
