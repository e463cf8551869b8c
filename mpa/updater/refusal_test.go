package updater

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// A tight world has a quota that refuses each resize beyond so many millicores.
type tight struct {
	*world
	cpu   int64
	calls int
}

func newTight(t *testing.T) *tight {
	t.Helper()
	w := &tight{world: newWorld(t, v1alpha1.ModeInPlace), cpu: 800}
	require.NoError(t, w.api.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "tight"},
		Status:     corev1.ResourceQuotaStatus{Hard: amounts("2", "8Gi"), Used: amounts("1", "1Gi")},
	}))
	w.around = func(call string, next func() error) error {
		if call != "resize" {
			return next()
		}
		w.calls++
		if want := w.object().Status.Recommendation.Containers[0].CPU; want.MilliValue() > w.cpu {
			return apierrors.NewForbidden(corev1.Resource("pods"), "web", fmt.Errorf("exceeded quota: tight"))
		}
		return next()
	}
	return w
}

// minutes let time pass in steps of a minute.
func (w *tight) minutes(n int) {
	for range n {
		w.clock.Step(time.Minute)
		w.settle()
	}
}

// events returns those of a reason since the last call.
func (w *tight) events(reason string) (n int) {
	for {
		select {
		case e := <-w.updater.events.(*record.FakeRecorder).Events:
			if strings.Contains(e, " "+reason+" ") {
				n++
			}
		default:
			return n
		}
	}
}

// What every pod was refused does not count against the hour, so that another size gets
// its turn.
func TestRefusalsDoNotCount(t *testing.T) {
	w := newTight(t)
	for id := range int64(8) {
		w.recommend(id+1, 2, fmt.Sprintf("%dm", 900+10*id))
		w.settle()
		w.minutes(5)
		require.Equal(t, v1alpha1.OutcomeRefused, w.actuation().Outcome)
		require.Contains(t, w.actuation().Message, "exceeded quota: tight")
		require.Empty(t, w.actuation().Resizes)
	}
	w.recommend(9, 2, "700m")
	w.settle()
	require.Len(t, w.changes, 2)
	w.kubelet("")
	w.settle()
	require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome)
	require.Len(t, w.actuation().Resizes, 1)
}

// A refused size, or a larger one, is not asked for again for half an hour; a smaller one at
// once. Events do not repeat it.
func TestRefusedSizeIsHeld(t *testing.T) {
	w := newTight(t)
	w.recommend(1, 2, "900m")
	w.settle()
	require.Equal(t, 2, w.calls)
	w.minutes(9)
	for id := range int64(4) { // the recommender repeats it, in 20 minutes
		w.recommend(id+2, 2, fmt.Sprintf("%dm", 900+10*id))
		w.settle()
		require.Equal(t, v1alpha1.OutcomeRefused, w.actuation().Outcome)
		require.Equal(t, id+2, w.actuation().ID)
		w.minutes(5)
	}
	require.Equal(t, 2, w.calls)
	require.Equal(t, 1, w.events("ResizeRefused"))
	w.recommend(6, 2, "850m")
	w.settle()
	require.Equal(t, 4, w.calls, "a smaller size")
	w.minutes(30)
	require.Equal(t, 6, w.calls, "half an hour later")

	w = newTight(t)
	w.recommend(1, 2, "900m")
	w.settle()
	w.minutes(29)
	require.Equal(t, 2, w.calls)
	require.Equal(t, 1, w.events("ResizeRefused"))
	w.cpu = 1000
	w.minutes(1)
	require.Equal(t, 4, w.calls)
	require.Len(t, w.actuation().Resizes, 1, "it counts when a pod takes it")
}

// More room in a quota ends the hold; less does not.
func TestQuotaEndsTheHold(t *testing.T) {
	for name, c := range map[string]struct {
		change func(q *corev1.ResourceQuota)
		gone   bool
		calls  int
	}{
		"raised":      {change: func(q *corev1.ResourceQuota) { q.Status.Hard[corev1.ResourceCPU] = resource.MustParse("3") }, calls: 4},
		"used less":   {change: func(q *corev1.ResourceQuota) { q.Status.Used[corev1.ResourceCPU] = resource.MustParse("900m") }, calls: 4},
		"used more":   {change: func(q *corev1.ResourceQuota) { q.Status.Used[corev1.ResourceCPU] = resource.MustParse("1100m") }, calls: 2},
		"deleted":     {gone: true, calls: 4},
		"as it stood": {change: func(*corev1.ResourceQuota) {}, calls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTight(t)
			w.recommend(1, 2, "900m")
			w.settle()
			w.minutes(3)
			var q corev1.ResourceQuota
			require.NoError(t, w.api.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "tight"}, &q))
			if c.gone {
				require.NoError(t, w.api.Delete(t.Context(), &q))
			} else {
				c.change(&q)
				require.NoError(t, w.api.Update(t.Context(), &q))
			}
			if c.calls > 2 {
				w.cpu = 1000
			}
			w.minutes(1)
			require.Equal(t, c.calls, w.calls)
			w.kubelet("")
			w.settle()
			require.Equal(t, c.calls > 2, w.actuation().Outcome == v1alpha1.OutcomeApplied)
			require.Len(t, w.actuation().Resizes, c.calls/4)
		})
	}
}

// More room in a quota that does not count the workload's pods, such as one for Jobs, does not end
// the hold.
func TestOtherPodsQuota(t *testing.T) {
	w := newTight(t)
	jobs := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "jobs"},
		Spec:       corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}},
		Status:     corev1.ResourceQuotaStatus{Hard: amounts("2", "8Gi"), Used: amounts("1", "1Gi")},
	}
	require.NoError(t, w.api.Create(t.Context(), jobs))
	w.recommend(1, 2, "900m")
	w.settle()
	w.minutes(3)
	jobs.Status.Used = amounts("0", "0")
	require.NoError(t, w.api.Update(t.Context(), jobs))
	w.minutes(3)
	require.Equal(t, 2, w.calls)
}

// A resize that something interrupts counts once.
func TestInterruptedResizeCountsOnce(t *testing.T) {
	w := newTight(t)
	w.recommend(1, 2, "700m")
	w.settle()
	require.Equal(t, v1alpha1.OutcomePartly, w.actuation().Outcome)
	other := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MaxReplicas: 3,
		},
	}
	require.NoError(t, w.api.Create(t.Context(), other))
	w.minutes(1)
	require.Equal(t, v1alpha1.OutcomeRefused, w.actuation().Outcome)
	require.Len(t, w.actuation().Resizes, 1)
	require.NoError(t, w.api.Delete(t.Context(), other))
	w.kubelet("")
	w.settle()
	require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome)
	require.Len(t, w.actuation().Resizes, 1)
}
