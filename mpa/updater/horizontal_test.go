package updater

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/horizontal"
)

// usageBeside is a world whose object has the algorithm usage, and whose workload a HorizontalPodAutoscaler scales.
func usageBeside(t *testing.T, edit func(*autoscalingv2.HorizontalPodAutoscaler)) *world {
	t.Helper()
	w := newWorld(t, v1alpha1.ModeInPlace)
	w.algorithm("usage")
	h := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MaxReplicas: 3,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(60))},
			}}},
		},
	}
	if edit != nil {
		edit(h)
	}
	require.NoError(t, w.api.Create(t.Context(), h))
	return w
}

func (w *world) algorithm(name string) {
	w.t.Helper()
	m := w.object()
	m.Spec.Recommender.Algorithm = name
	require.NoError(w.t, w.api.Update(w.t.Context(), m))
}

func (w *world) hpa() *autoscalingv2.HorizontalPodAutoscaler {
	w.t.Helper()
	h := &autoscalingv2.HorizontalPodAutoscaler{}
	require.NoError(w.t, w.api.Get(w.t.Context(), key, h))
	return h
}

func (w *world) cpu() (list []string) {
	w.t.Helper()
	for _, p := range w.pods() {
		list = append(list, p.Spec.Containers[0].Resources.Requests.Cpu().String())
	}
	return list
}

// The targets of a HorizontalPodAutoscaler keep their product with the request: before the first pod changes, over a
// restart, and on the way back.
func TestHorizontalBesideUsage(t *testing.T) {
	w := usageBeside(t, nil)
	was := w.hpa().Spec
	refused := true
	w.around = func(call string, next func() error) error {
		if call != "resize" {
			return next()
		}
		require.Equal(t, "300m", w.hpa().Spec.Metrics[0].Resource.Target.AverageValue.String(), "converted before")
		if refused {
			return apierrors.NewInternalError(errors.New("a fault"))
		}
		return next()
	}
	w.recommend(1, 0, "250m")
	require.Error(t, w.reconcile())
	refused = false
	w.restart()
	w.settle()
	require.Equal(t, []string{"250m", "250m"}, w.cpu())
	w.kubelet("")
	w.settle()
	require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome)
	require.Contains(t, w.hpa().Annotations, horizontal.Annotation)

	w.clock.Step(2 * time.Hour)
	w.algorithm("template")
	w.recommend(2, 0, "500m")
	w.settle()
	w.kubelet("")
	w.settle()
	require.Equal(t, []string{"500m", "500m"}, w.cpu())
	require.Equal(t, was, w.hpa().Spec)
	require.Empty(t, w.hpa().Annotations)
}

// The amount follows an edit of the template at once, and counts injected containers.
func TestHorizontalFollowsTheTemplate(t *testing.T) {
	w := usageBeside(t, nil)
	for _, p := range w.pods() {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "injected", Resources: corev1.ResourceRequirements{Requests: amounts("100m", "64Mi")}})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "injected", Resources: &corev1.ResourceRequirements{Requests: amounts("100m", "64Mi")}})
		require.NoError(t, w.api.Update(t.Context(), &p))
	}
	w.recommend(1, 0, "250m")
	w.settle()
	require.Equal(t, "360m", w.hpa().Spec.Metrics[0].Resource.Target.AverageValue.String())
	d := deployment(2)
	d.Spec.Template.Spec.Containers[0].Resources.Requests = amounts("200m", "512Mi")
	require.NoError(t, w.api.Update(t.Context(), d))
	w.settle()
	require.Equal(t, "180m", w.hpa().Spec.Metrics[0].Resource.Target.AverageValue.String())
}

// Off gives the targets back when the last pod has the template's requests, not before.
func TestHorizontalRestoredInOff(t *testing.T) {
	w := usageBeside(t, nil)
	was := w.hpa().Spec
	w.recommend(1, 0, "250m")
	w.settle()
	m := w.object()
	m.Spec.Mode = v1alpha1.ModeOff
	require.NoError(t, w.api.Update(t.Context(), m))
	w.settle()
	require.NotEqual(t, was, w.hpa().Spec)
	for i, p := range w.pods() { // made again by their controller
		p.Spec.Containers[0].Resources = pod(i).Spec.Containers[0].Resources
		require.NoError(t, w.api.Update(t.Context(), &p))
	}
	w.settle()
	require.Equal(t, was, w.hpa().Spec)
}

// A HorizontalPodAutoscaler that must not be edited keeps the requests as they are, and the status has the reason.
func TestHorizontalOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*autoscalingv2.HorizontalPodAutoscaler)
		why  string
	}{
		"of Helm": {func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
		}, "HorizontalPodAutoscaler web has a target of 60 % of the requests of cpu, and Helm (app.kubernetes.io/managed-by) owns it; with averageValue in its place requests may change"},
		"changed after its conversion": {func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Annotations = map[string]string{horizontal.Annotation: `[{"resource":"cpu","percent":50,"value":"250m"}]`}
		}, "the targets of HorizontalPodAutoscaler web were changed after their conversion; remove its annotation " + horizontal.Annotation + " to convert them again"},
		"of a resource that nobody requests": {func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Spec.Metrics[0].Resource.Name = "memory.max"
		}, "HorizontalPodAutoscaler web: container web of the template requests no memory.max, of which the target is a share"},
	} {
		w := usageBeside(t, c.edit)
		was := w.hpa()
		w.recommend(1, 0, "250m")
		w.settle()
		require.Equal(t, v1alpha1.OutcomeRefused, w.actuation().Outcome, name)
		require.Equal(t, c.why, w.actuation().Message, name)
		require.Equal(t, "HorizontalPodAutoscaler", w.able(), name)
		require.Equal(t, []string{"500m", "500m"}, w.cpu(), name)
		require.Equal(t, was, w.hpa(), name)
		w.recommend(2, 0, "500m") // the template's
		w.settle()
		require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome, name)
	}
	w := usageBeside(t, func(h *autoscalingv2.HorizontalPodAutoscaler) {
		h.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
		h.Spec.Metrics[0].Resource.Target = autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(resource.MustParse("300m"))}
	})
	w.recommend(1, 0, "250m")
	w.settle()
	require.Equal(t, []string{"250m", "250m"}, w.cpu(), "an amount does not move with requests")
	require.Equal(t, "300m", w.hpa().Spec.Metrics[0].Resource.Target.AverageValue.String())
	require.Empty(t, w.hpa().Annotations)
}
