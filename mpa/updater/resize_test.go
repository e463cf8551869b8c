package updater

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/mpa/actuate"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/evict"
)

// Errors that may pass are tried again, while the decision is fresh.
func TestRetries(t *testing.T) {
	passing := []error{
		apierrors.NewTimeoutError("too slow", 1), apierrors.NewServerTimeout(v1alpha1.Resource("x"), "update", 1), apierrors.NewInternalError(fmt.Errorf("etcd")),
		apierrors.NewTooManyRequests("busy", 1), apierrors.NewServiceUnavailable("away"), context.DeadlineExceeded, fmt.Errorf("connection refused"),
	}
	t.Run("scale", func(t *testing.T) {
		w := newWorld(t, v1alpha1.ModeInPlace)
		var fail error
		w.around = func(call string, next func() error) error {
			if call == "scale" && fail != nil {
				return fail
			}
			return next()
		}
		w.recommend(1, 5, "")
		for _, fail = range passing {
			require.Error(t, w.reconcile())
			require.Equal(t, "Retrying", w.able())
			require.Equal(t, v1alpha1.OutcomePartly, w.actuation().Outcome)
			w.clock.Step(10 * time.Second)
		}
		fail = nil
		w.settle()
		require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome)
		require.Len(t, w.actuation().Scalings, 1)

		w.recommend(2, 7, "")
		fail = passing[0]
		require.Error(t, w.reconcile())
		w.clock.Step(3 * time.Minute)
		w.restart()
		fail = nil
		w.settle()
		require.Equal(t, v1alpha1.OutcomeExpired, w.actuation().Outcome)
		require.EqualValues(t, 5, w.replicas())
	})
	t.Run("conflict", func(t *testing.T) {
		w := newWorld(t, v1alpha1.ModeInPlace)
		calls := 0
		w.around = func(call string, next func() error) error {
			if calls++; call == "scale" && calls < 4 {
				return apierrors.NewConflict(appsv1.Resource("deployments"), "web", fmt.Errorf("changed"))
			}
			return next()
		}
		w.recommend(1, 5, "")
		w.settle()
		require.EqualValues(t, 5, w.replicas())
	})
	t.Run("scaled by somebody else meanwhile", func(t *testing.T) {
		w := newWorld(t, v1alpha1.ModeInPlace)
		w.around = func(call string, next func() error) error {
			err := next()
			if call == "status" {
				require.NoError(t, w.api.Update(t.Context(), deployment(4)))
			}
			return err
		}
		w.recommend(1, 5, "")
		w.settle()
		require.Equal(t, v1alpha1.OutcomeSuperseded, w.actuation().Outcome)
		require.EqualValues(t, 4, w.replicas())
	})
	t.Run("requests too old", func(t *testing.T) {
		w := newWorld(t, v1alpha1.ModeInPlace)
		w.recommend(1, 2, "300m")
		w.clock.Step(2*time.Minute + time.Second)
		w.settle()
		require.Equal(t, v1alpha1.OutcomeExpired, w.actuation().Outcome)
		require.Empty(t, w.changes)
	})
	t.Run("refused", func(t *testing.T) {
		w := newWorld(t, v1alpha1.ModeInPlace)
		calls := 0
		w.around = func(call string, next func() error) error {
			if call == "resize" {
				calls++
				return apierrors.NewForbidden(corev1.Resource("pods"), "web", fmt.Errorf("exceeded quota: tight"))
			}
			return next()
		}
		w.recommend(1, 2, "900m")
		for range 10 {
			w.settle()
			w.clock.Step(20 * time.Second)
		}
		require.Equal(t, 2, calls, "each pod once in half an hour")
		require.Equal(t, v1alpha1.OutcomeRefused, w.actuation().Outcome)
		require.Contains(t, w.actuation().Message, "exceeded quota: tight")
		w.clock.Step(30 * time.Minute)
		w.around = func(_ string, next func() error) error { return next() }
		w.settle()
		w.kubelet("")
		w.settle()
		require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome)
	})
}

// Pods are evicted one at a time, of two at least, while the others are ready, and only
// if there is room.
func TestEviction(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(*testing.T, *world)
		wait    time.Duration
		reason  string
		want    int32
		says    string
	}{
		{name: "infeasible", reason: corev1.PodReasonInfeasible, want: 1},
		{name: "deferred", reason: corev1.PodReasonDeferred, wait: 5 * time.Minute, want: 1},
		{name: "deferred recently", reason: corev1.PodReasonDeferred, wait: 5*time.Minute - 1, says: "so says the node"},
		{name: "another is not ready", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			p := w.pods()[1]
			p.Status.Conditions = p.Status.Conditions[:1] // it has its size
			p.Status.ContainerStatuses[0].Resources = p.Spec.Containers[0].Resources.DeepCopy()
			p.Status.Conditions[0].Status = corev1.ConditionFalse
			require.NoError(t, w.api.Status().Update(t.Context(), &p))
		}, says: "once all others are ready"},
		{name: "one replica", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			require.NoError(t, w.api.Update(t.Context(), deployment(1)))
			require.NoError(t, w.api.Delete(t.Context(), pod(1)))
		}, says: "there is no other"},
		{name: "fewer pods than replicas", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			require.NoError(t, w.api.Update(t.Context(), deployment(3)))
		}, says: "once all others are ready"},
		{name: "a rollout", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			d := deployment(2)
			d.Status.Replicas, d.Status.UpdatedReplicas = 2, 1
			require.NoError(t, w.api.Status().Update(t.Context(), d))
		}, says: "once all others are ready"},
		{name: "a grace period of a day", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			for _, p := range w.pods() {
				p.Spec.TerminationGracePeriodSeconds = new(int64(86_400))
				require.NoError(t, w.api.Update(t.Context(), &p))
			}
		}, says: "its terminationGracePeriodSeconds of 86400 s is above the ceiling of 15m0s"},
		{name: "no other node", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			require.NoError(t, w.api.Delete(t.Context(), node("b")))
		}, says: "no other node has room"},
		{name: "a small node", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			b := node("b")
			b.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("899m")
			require.NoError(t, w.api.Status().Update(t.Context(), b))
		}, says: "no other node has room"},
		{name: "a tainted node", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			b := node("b")
			b.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
			require.NoError(t, w.api.Update(t.Context(), b))
		}, says: "no other node has room"},
		{name: "a full node", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			p := pod(7)
			p.Labels, p.Spec.NodeName = nil, "b"
			p.Spec.Containers[0].Resources.Requests = amounts("3500m", "1Gi")
			p.Status.ContainerStatuses = nil
			require.NoError(t, w.api.Create(t.Context(), p))
		}, says: "no other node has room"},
		{name: "moves by the scheduler", reason: corev1.PodReasonInfeasible, prepare: func(t *testing.T, w *world) {
			require.NoError(t, w.api.Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: evict.ListNamespace, Name: evict.ListName},
				Data:       map[string]string{"evictions": w.clock.Now().UTC().Add(-time.Minute).Format(time.RFC3339) + "/rebalance/a/apps/Deployment/shop/db"},
			}))
			w.evictor = evict.New(actuate.Cluster(w.theirs, w.theirs), evict.Updater, evict.Limits{PerNode: 1}, w.clock)
		}, says: "not evicted: limit of the node a: 1 evictions within an hour, at most 1 are allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, v1alpha1.ModeInPlaceOrRecreate)
			w.recommend(1, 2, "900m")
			w.settle()
			w.kubelet(c.reason)
			if c.prepare != nil {
				c.prepare(t, w)
			}
			w.clock.Step(c.wait)
			for range 3 { // nobody replaces what was evicted
				w.settle()
			}
			assert.Equal(t, c.want, w.actuation().Evicted)
			if c.says != "" {
				assert.Contains(t, meta.FindStatusCondition(w.object().Status.Conditions, v1alpha1.ConditionResize).Message, c.says)
			}
		})
	}

	// Since 1.36 the API server says so before the kubelet does.
	for mode, evicted := range map[v1alpha1.Mode]int32{v1alpha1.ModeInPlace: 0, v1alpha1.ModeInPlaceOrRecreate: 1} {
		w := newWorld(t, mode)
		calls := 0
		w.around = func(call string, next func() error) error {
			if call == "resize" {
				calls++
				err := apierrors.NewForbidden(corev1.Resource("pods"), "web", fmt.Errorf("node didn't have enough allocatable resources: cpu"))
				err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NodeCapacity"}}
				return err
			}
			return next()
		}
		w.recommend(1, 2, "900m")
		for range 3 { // nobody replaces what was evicted
			w.settle()
		}
		assert.Equal(t, 2, calls, mode)
		assert.Equal(t, 2-evicted, w.actuation().Infeasible, mode)
		assert.Equal(t, evicted, w.actuation().Evicted, mode)
	}

	// Evictions in vain end after as many as there were pods.
	w := newWorld(t, v1alpha1.ModeInPlaceOrRecreate)
	w.recommend(1, 2, "900m")
	for i := range 20 {
		w.settle()
		w.kubelet(corev1.PodReasonInfeasible)
		for len(w.pods()) < 2 {
			p := pod(10 + i) // an hour old, by a clock that is behind
			require.NoError(t, w.api.Create(t.Context(), p))
		}
		w.clock.Step(time.Minute)
	}
	assert.EqualValues(t, 2, w.actuation().Evicted)

	// A disruption budget that refuses is not counted, and the eviction is tried again.
	w = newWorld(t, v1alpha1.ModeInPlaceOrRecreate)
	allowed := false
	w.around = func(call string, next func() error) error {
		if call == "eviction" && !allowed {
			return apierrors.NewTooManyRequests("disruption budget", 0)
		}
		return next()
	}
	w.recommend(1, 2, "900m")
	w.settle()
	w.kubelet(corev1.PodReasonInfeasible)
	for range 5 {
		w.settle()
	}
	assert.Zero(t, w.actuation().Evicted)
	assert.Len(t, w.pods(), 2)
	allowed = true
	w.settle()
	assert.EqualValues(t, 1, w.actuation().Evicted)
}

// Resizes that restart containers are done pod by pod, while all pods are ready.
func TestRestartsOneByOne(t *testing.T) {
	w := newWorld(t, v1alpha1.ModeInPlace)
	for _, p := range w.pods() {
		p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
		require.NoError(t, w.api.Update(t.Context(), &p))
	}
	w.recommend(1, 2, "900m")
	for range 3 {
		w.settle()
		w.clock.Step(time.Second)
	}
	require.Equal(t, []string{"resize"}, w.changes)
	require.Equal(t, v1alpha1.OutcomePartly, w.actuation().Outcome)
	w.kubelet("")
	w.settle()
	require.Equal(t, []string{"resize", "resize"}, w.changes)
	w.kubelet("")
	w.settle()
	require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome)
}

// A pod that is created without its size gets it later, unless the last recommendation, which
// was not carried out, or the template differs.
func TestLateComers(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*world)
		want int // resizes
	}{
		{"the same since", func(*world) {}, 1},
		{"replicas since", func(w *world) { w.recommend(2, 3, "") }, 1},
		{"replicas since, decided when the newest pod had come without its size", func(w *world) {
			w.recommend(2, 3, "500m", func(r *v1alpha1.Recommendation) { r.Change = v1alpha1.ChangeReplicas })
		}, 1},
		{"an expired one since", func(w *world) {
			w.recommend(2, 2, "700m", func(r *v1alpha1.Recommendation) { r.Time = metav1.NewMicroTime(start.Add(-time.Hour)) })
		}, 0},
		{"another template since", func(w *world) {
			d := deployment(2)
			d.Spec.Template.Spec.Containers[0].Resources.Requests = amounts("600m", "512Mi")
			require.NoError(t, w.api.Update(t.Context(), d))
		}, 0},
		{"another image since", func(w *world) {
			d := deployment(2)
			d.Spec.Template.Spec.Containers[0].Image = "web:2"
			require.NoError(t, w.api.Update(t.Context(), d))
		}, 1},
		{"no longer sized", func(w *world) {
			m := w.object()
			m.Spec.Constraints.Containers = nil
			require.NoError(t, w.api.Update(t.Context(), m))
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, v1alpha1.ModeInPlace)
			w.recommend(1, 2, "300m")
			w.settle()
			w.kubelet("")
			w.settle()
			require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome)
			c.edit(w)
			w.settle()
			w.clock.Step(24 * time.Hour)
			w.changes = nil
			w.restart()
			require.NoError(t, w.api.Create(t.Context(), pod(3)))
			w.settle()
			require.Len(t, w.changes, c.want)
			if a := w.actuation(); a.ID == 1 {
				require.EqualValues(t, c.want, a.InProgress)
				require.NotEqual(t, v1alpha1.OutcomePartly, a.Outcome)
			}
		})
	}
}

// Where nothing can be changed, nothing was applied.
func TestNothingToSize(t *testing.T) {
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeInPlace, v1alpha1.ModeRecreate} {
		for _, left := range []struct {
			requests corev1.ResourceList
			want     v1alpha1.Outcome
		}{
			{nil, v1alpha1.OutcomeRefused},
			{corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("700m")}, v1alpha1.OutcomeApplied}, // as much as is possible
		} {
			w := newWorld(t, mode)
			for _, p := range w.pods() {
				p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: left.requests}
				require.NoError(t, w.api.Update(t.Context(), &p))
			}
			w.kubelet("")
			w.recommend(1, 2, "700m", func(r *v1alpha1.Recommendation) {
				memory := resource.MustParse("1Gi")
				r.Containers[0].Memory = &memory
			})
			w.settle()
			a := w.actuation()
			assert.Equal(t, left.want, a.Outcome, "%s %v", mode, a)
			assert.Contains(t, a.Message, "container web has no memory request")
			assert.Contains(t, w.able(), string(left.want))
			assert.Empty(t, w.changes)
		}
	}
}

// Pods that only look like the workload's are neither resized nor evicted.
func TestPodsOfOthers(t *testing.T) {
	for name, owners := range map[string][]metav1.OwnerReference{
		"another controller's kind of the same name": ownedBy("example.io/v1", "ReplicaSet", "web-1", "set"),
		"a deleted set with the name of another":     ownedBy("apps/v1", "ReplicaSet", "web-1", "old"),
		"nobody":                                     nil,
	} {
		for _, mode := range []v1alpha1.Mode{v1alpha1.ModeInPlace, v1alpha1.ModeRecreate} {
			w := newWorld(t, mode)
			for _, p := range w.pods() {
				p.OwnerReferences = owners
				require.NoError(t, w.api.Update(t.Context(), &p))
			}
			w.recommend(1, 2, "300m")
			w.settle()
			assert.Empty(t, w.changes, "%s: %s", mode, name)
		}
	}
}
