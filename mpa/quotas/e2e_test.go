//go:build e2e

package quotas

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// A pod that grows is refused by the API server if and only if Exceeded says so, whatever scopes a
// quota has and whatever pod it is.
func TestAPIServerAgrees(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	require.NoError(t, err)
	c := kubernetes.NewForConfigOrDie(config)
	core, ctx := c.CoreV1(), t.Context()
	_, err = core.Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "quotas"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "batch"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(t *assert.CollectT) { // without which there are no pods
		_, err := core.ServiceAccounts("quotas").Get(ctx, "default", metav1.GetOptions{})
		require.NoError(t, err)
	}, 10*time.Second, 20*time.Millisecond)
	cpu := func(n string) v1.ResourceList { return v1.ResourceList{"requests.cpu": resource.MustParse(n)} }
	pod := func(amount string, edit func(*v1.PodSpec)) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "quotas", Name: "web"}, Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "web", Image: "web", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse(amount)}},
		}}, AutomountServiceAccountToken: new(false)}}
		edit(&p.Spec)
		return p
	}
	quota := func(scopes ...v1.ResourceQuotaScope) v1.ResourceQuotaSpec {
		return v1.ResourceQuotaSpec{Hard: cpu("600m"), Scopes: scopes}
	}
	class := func(operator v1.ScopeSelectorOperator, values ...string) v1.ResourceQuotaSpec {
		return v1.ResourceQuotaSpec{Hard: cpu("600m"), ScopeSelector: &v1.ScopeSelector{MatchExpressions: []v1.ScopedResourceSelectorRequirement{
			{ScopeName: v1.ResourceQuotaScopePriorityClass, Operator: operator, Values: values},
		}}}
	}
	pods := map[string]func(*v1.PodSpec){
		"a pod": func(*v1.PodSpec) {},
		"a job": func(s *v1.PodSpec) { s.ActiveDeadlineSeconds = new(int64(60)) },
		"an affinity": func(s *v1.PodSpec) {
			s.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
				{TopologyKey: "zone", NamespaceSelector: &metav1.LabelSelector{}, LabelSelector: &metav1.LabelSelector{}},
			}}}
		},
		"a batch": func(s *v1.PodSpec) { s.PriorityClassName = "batch" },
		"a start that needs more": func(s *v1.PodSpec) {
			s.InitContainers = []v1.Container{{Name: "init", Image: "init", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("601m")}}}}
		},
	}
	refused := 0
	for name, spec := range map[string]v1.ResourceQuotaSpec{
		"all": quota(), "terminating": quota(v1.ResourceQuotaScopeTerminating), "others": quota(v1.ResourceQuotaScopeNotTerminating),
		"not-best-effort": quota(v1.ResourceQuotaScopeNotBestEffort), "two": quota(v1.ResourceQuotaScopeNotBestEffort, v1.ResourceQuotaScopeTerminating),
		"affine": quota(v1.ResourceQuotaScopeCrossNamespacePodAffinity),
		"class":  class(v1.ScopeSelectorOpExists), "no-class": class(v1.ScopeSelectorOpDoesNotExist), "batch": class(v1.ScopeSelectorOpIn, "batch"), "not-batch": class(v1.ScopeSelectorOpNotIn, "batch"),
	} {
		made, err := core.ResourceQuotas("quotas").Create(ctx, &v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.EventuallyWithT(t, func(t *assert.CollectT) { // by its controller
			made, err = core.ResourceQuotas("quotas").Get(ctx, name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.NotEmpty(t, made.Status.Used)
		}, 10*time.Second, 20*time.Millisecond)
		for kind, edit := range pods {
			for _, amount := range []string{"600m", "601m"} {
				p := pod(amount, edit)
				want := Exceeded(pod("100m", func(*v1.PodSpec) {}), p, made)
				if want {
					refused++
				}
				assert.EventuallyWithT(t, func(t *assert.CollectT) { // its caches are behind
					_, err := core.Pods("quotas").Create(ctx, p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
					assert.Equal(t, want, apierrors.IsForbidden(err), "%s of %s in quota %s: %v", kind, amount, name, err)
				}, 10*time.Second, 50*time.Millisecond)
			}
		}
		require.NoError(t, core.ResourceQuotas("quotas").Delete(ctx, name, metav1.DeleteOptions{}))
	}
	assert.Greater(t, refused, 10)
}
