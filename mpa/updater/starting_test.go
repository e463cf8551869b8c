package updater

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// A pod that is not ready is restarted or evicted before the others are ready only if it was
// killed and is not well since, or runs nowhere: one that starts, or waits for what it depends on,
// loses what it did, and the new size does not help it.
func TestStartingIsNotIll(t *testing.T) {
	terminated := func(reason string, code int32, ago time.Duration) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, FinishedAt: metav1.NewTime(start.Add(-ago))}}
	}
	backOff := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	for _, c := range []struct {
		name    string
		unready time.Duration // since
		state   func(*corev1.Pod, *corev1.ContainerStatus)
		ill     bool
	}{
		{name: "loads for 12 minutes", unready: 10 * time.Minute},
		{name: "is created", state: func(p *corev1.Pod, s *corev1.ContainerStatus) {
			p.Status.Phase, s.State = corev1.PodPending, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
		}},
		{name: "an init container has ended", unready: time.Minute, state: func(p *corev1.Pod, _ *corev1.ContainerStatus) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "first", State: terminated("Completed", 0, time.Minute)}}
		}},
		{name: "restarted for its last resize", unready: 2 * time.Minute, state: func(_ *corev1.Pod, s *corev1.ContainerStatus) {
			s.RestartCount, s.LastTerminationState = 1, terminated("Error", 143, 2*time.Minute)
		}},
		{name: "out of memory yesterday, and what it depends on is down", unready: 2 * time.Minute, state: func(_ *corev1.Pod, s *corev1.ContainerStatus) {
			s.RestartCount, s.LastTerminationState = 1, terminated("OOMKilled", 137, 24*time.Hour)
		}},
		{name: "out of memory, and not ready since", unready: 3*time.Minute - 2*time.Second, state: func(_ *corev1.Pod, s *corev1.ContainerStatus) {
			s.RestartCount, s.LastTerminationState = 1, terminated("OOMKilled", 137, 3*time.Minute)
		}, ill: true},
		{name: "out of memory at each start", unready: time.Hour, state: func(_ *corev1.Pod, s *corev1.ContainerStatus) {
			s.RestartCount, s.State, s.LastTerminationState = 9, backOff, terminated("OOMKilled", 137, 3*time.Minute)
		}, ill: true},
		{name: "an init container out of memory", unready: time.Hour, state: func(p *corev1.Pod, s *corev1.ContainerStatus) {
			s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "first", State: terminated("OOMKilled", 137, time.Minute)}}
		}, ill: true},
		{name: "ends again and again", unready: time.Hour, state: func(_ *corev1.Pod, s *corev1.ContainerStatus) {
			s.RestartCount, s.State, s.LastTerminationState = 9, backOff, terminated("Error", 1, time.Minute)
		}, ill: true},
	} {
		for _, mode := range []v1alpha1.Mode{v1alpha1.ModeInPlace, v1alpha1.ModeRecreate} {
			w := newWard(t, mode, 4, corev1.RestartContainer)
			for _, p := range w.pods() {
				p.Status.Conditions[0].Status, p.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(start.Add(-c.unready))
				if c.state != nil {
					c.state(&p, &p.Status.ContainerStatuses[0])
				}
				require.NoError(t, w.api.Status().Update(t.Context(), &p))
			}
			for range 8 { // nobody replaces what was evicted
				w.settle()
				w.clock.Step(15 * time.Second)
			}
			if c.ill {
				assert.Len(t, w.changes, 4, "%s: %s", mode, c.name)
			} else {
				assert.Empty(t, w.changes, "%s: %s", mode, c.name)
			}
		}
	}
}

// One of four pods is out of memory and the others load: it alone is mended at once. A pod that
// runs on no node loses nothing, and is replaced by one of the new size.
func TestStartingBesideIll(t *testing.T) {
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeInPlace, v1alpha1.ModeRecreate} {
		w := newWard(t, mode, 4, corev1.RestartContainer, 2)
		for i, p := range w.pods() {
			if i != 2 {
				p.Status.Conditions[0].Status = corev1.ConditionFalse
				require.NoError(t, w.api.Status().Update(t.Context(), &p))
			}
		}
		w.settle()
		w.clock.Step(time.Minute)
		w.settle()
		assert.Len(t, w.changes, 1, mode)
		for _, p := range w.pods() {
			assert.Equal(t, mode == v1alpha1.ModeInPlace && p.Name == "web-1-2", p.Spec.Containers[0].Resources.Requests.Memory().Cmp(enough) == 0, "%s: %s", mode, p.Name)
		}
	}
	w := newWard(t, v1alpha1.ModeRecreate, 3, corev1.NotRequired)
	p := w.pods()[1]
	p.Spec.NodeName = ""
	require.NoError(t, w.api.Update(t.Context(), &p))
	p.Status.Phase, p.Status.Conditions, p.Status.ContainerStatuses = corev1.PodPending, nil, nil
	require.NoError(t, w.api.Status().Update(t.Context(), &p))
	w.settle()
	assert.Equal(t, []string{"web-1-0", "web-1-2"}, w.names())
}
