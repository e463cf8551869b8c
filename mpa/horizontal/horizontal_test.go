package horizontal_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/mpa/horizontal"
)

func pod() *corev1.PodSpec {
	requests := func(cpu, memory string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}}
	}
	return &corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: requests("1500m", "1Gi")}, {Name: "log", Resources: requests("100m", "64Mi")}}}
}

func share(of string, percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: corev1.ResourceName(of), Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
	}}
}

func hpa(metrics ...autoscalingv2.MetricSpec) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: metrics}}
}

// The product of percentage and request stays, and the way back gives the same object.
func TestConvert(t *testing.T) {
	app := autoscalingv2.MetricSpec{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
		Name: "cpu", Container: "app", Target: share("cpu", 33).Resource.Target,
	}}
	external := autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{}}
	h := hpa(share("cpu", 60), external, app, share("memory", 80))
	was := h.DeepCopy()
	require.Empty(t, horizontal.Apart(h))
	changed, err := horizontal.Convert(h, pod())
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, "960m", h.Spec.Metrics[0].Resource.Target.AverageValue.String())
	require.Equal(t, "495m", h.Spec.Metrics[2].ContainerResource.Target.AverageValue.String())
	require.InEpsilon(t, .8*float64(1088<<20), h.Spec.Metrics[3].Resource.Target.AverageValue.AsApproximateFloat64(), 1e-6)
	require.Equal(t, was.Spec.Metrics[1], h.Spec.Metrics[1])
	require.Empty(t, horizontal.Apart(h))
	changed, err = horizontal.Convert(h, pod())
	require.NoError(t, err)
	require.False(t, changed)
	require.True(t, horizontal.Restore(h))
	require.Equal(t, was.Spec, h.Spec)
	require.Empty(t, h.Annotations)
	require.False(t, horizontal.Restore(h))
}

// After an edit of the template the amounts are of its new requests.
func TestRenew(t *testing.T) {
	h, spec := hpa(share("cpu", 60)), pod()
	changed, err := horizontal.Renew(h, spec)
	require.NoError(t, err)
	require.False(t, changed)
	_, err = horizontal.Convert(h, spec)
	require.NoError(t, err)
	changed, err = horizontal.Renew(h, spec)
	require.NoError(t, err)
	require.False(t, changed)
	spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("400m")
	changed, err = horizontal.Renew(h, spec)
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, "300m", h.Spec.Metrics[0].Resource.Target.AverageValue.String())
	require.Empty(t, horizontal.Apart(h))
	require.True(t, horizontal.Restore(h))
	require.Equal(t, share("cpu", 60), h.Spec.Metrics[0])
}

func TestConvertWithoutRequest(t *testing.T) {
	h, spec := hpa(share("cpu", 60)), pod()
	delete(spec.Containers[1].Resources.Requests, "cpu")
	was := h.DeepCopy()
	_, err := horizontal.Convert(h, spec)
	require.EqualError(t, err, "HorizontalPodAutoscaler web: container log of the template requests no cpu, of which the target is a share")
	require.Equal(t, was, h)
}

// A target that somebody else owns is not converted, and one that was changed afterwards not again.
func TestApart(t *testing.T) {
	managed := func(manager, fields string) func(*autoscalingv2.HorizontalPodAutoscaler) {
		return func(h *autoscalingv2.HorizontalPodAutoscaler) {
			of := &metav1.FieldsV1{}
			of.SetRawString(fields)
			h.ManagedFields = append(h.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: of})
		}
	}
	for owner, set := range map[string]func(*autoscalingv2.HorizontalPodAutoscaler){
		"": managed("kubectl-client-side-apply", `{"f:spec":{"f:metrics":{}}}`),
		"shop (meta.helm.sh/release-name)": func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Annotations = map[string]string{"meta.helm.sh/release-name": "shop"}
		},
		"Helm (app.kubernetes.io/managed-by)": func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
		},
		"argocd-controller": managed("argocd-controller", `{"f:spec":{"f:metrics":{}}}`),
		"ScaledObject web": func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.OwnerReferences = []metav1.OwnerReference{{Kind: "ScaledObject", Name: "web", Controller: new(true)}}
		},
	} {
		h := hpa(share("cpu", 60))
		managed("kube-controller-manager", `{"f:status":{}}`)(h)
		set(h)
		require.Equal(t, owner, horizontal.Owner(h))
		if owner == "" {
			require.Empty(t, horizontal.Apart(h))
			continue
		}
		require.Contains(t, horizontal.Apart(h), owner)
		h.Spec.Metrics[0].Resource.Target = autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(resource.MustParse("1"))}
		require.Empty(t, horizontal.Apart(h), "an amount does not move")
	}
	h := hpa(share("cpu", 60), share("memory", 70))
	_, err := horizontal.Convert(h, pod())
	require.NoError(t, err)
	h.Spec.Metrics[0] = share("cpu", 50)
	require.Contains(t, horizontal.Apart(h), "were changed after their conversion")
	require.True(t, horizontal.Restore(h))
	require.Equal(t, []autoscalingv2.MetricSpec{share("cpu", 50), share("memory", 70)}, h.Spec.Metrics)
	require.Contains(t, horizontal.Apart(h), "remove its annotation")
	delete(h.Annotations, horizontal.Annotation)
	require.Empty(t, horizontal.Apart(h))
}
