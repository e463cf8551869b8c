package updater

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// A ward is a world whose workload is recommended 1 GiB in place of 512 MiB, with a kubelet
// and a controller. Pods that are ill run out of memory again and again until they have it.
type ward struct {
	*world
	ill     map[string]bool
	refuses map[string]bool // pods whose node can never give more
	short   bool            // no pod is created while another is not ready, as in a StatefulSet
	fewest  int             // ready pods at any time
	made    int
}

var enough = resource.MustParse("1Gi")

func newWard(t *testing.T, mode v1alpha1.Mode, replicas int32, policy corev1.ResourceResizeRestartPolicy, ill ...int) *ward {
	t.Helper()
	w := &ward{world: newWorld(t, mode), ill: map[string]bool{}, refuses: map[string]bool{}, fewest: int(replicas)}
	require.NoError(t, w.api.Update(t.Context(), deployment(replicas)))
	for i := range 2 {
		require.NoError(t, w.api.Delete(t.Context(), pod(i)))
	}
	for i := range int(replicas) {
		p := pod(i)
		p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: policy}}
		p.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{}
		if slices.Contains(ill, i) {
			w.ill[p.Name] = true
			killed(p, start)
		}
		require.NoError(t, w.api.Create(t.Context(), p))
	}
	w.recommend(1, replicas, "", func(r *v1alpha1.Recommendation) {
		r.Change, r.Containers = v1alpha1.ChangeRequests, []v1alpha1.ContainerRequests{{Name: "web", Memory: &enough}}
	})
	return w
}

func killed(p *corev1.Pod, at time.Time) {
	p.Status.Conditions[0].Status = corev1.ConditionFalse
	p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "OOMKilled", FinishedAt: metav1.NewTime(at)}
}

// step is 15 seconds of the cluster.
func (w *ward) step() {
	w.t.Helper()
	w.settle()
	w.clock.Step(15 * time.Second)
	ready, pods := 0, w.pods()
	for i := range pods {
		p := &pods[i]
		was, now := p.Status.ContainerStatuses[0].Resources, p.Spec.Containers[0].Resources.DeepCopy()
		restarts := was.Requests.Memory().Cmp(*now.Requests.Memory()) != 0 && p.Spec.Containers[0].ResizePolicy[0].RestartPolicy == corev1.RestartContainer
		p.Status.Conditions = p.Status.Conditions[:1]
		if w.refuses[p.Name] && now.Requests.Memory().Cmp(enough) >= 0 {
			now, restarts = was, false
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible})
		}
		p.Status.ContainerStatuses[0].Resources = now
		p.Status.Conditions[0].Status = corev1.ConditionTrue
		switch {
		case w.ill[p.Name] && now.Requests.Memory().Cmp(enough) < 0:
			killed(p, w.clock.Now())
		case restarts:
			p.Status.Conditions[0].Status = corev1.ConditionFalse
		default:
			ready++
		}
		require.NoError(w.t, w.api.Status().Update(w.t.Context(), p))
	}
	w.fewest = min(w.fewest, ready)
	for missing := int(w.replicas()) - len(pods); missing > 0 && (!w.short || ready == len(pods)); missing-- {
		w.made++
		p := pod(100 + w.made)
		p.UID, p.CreationTimestamp = types.UID(fmt.Sprint("made", w.made)), metav1.NewTime(w.clock.Now())
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = enough // by the webhook
		p.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = enough
		p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.NotRequired}}
		p.Status.ContainerStatuses[0].Resources = p.Spec.Containers[0].Resources.DeepCopy()
		p.Status.Conditions[0].Status = corev1.ConditionFalse
		require.NoError(w.t, w.api.Create(w.t.Context(), p))
	}
}

// run lets 10 minutes pass, or fewer until all pods are well.
func (w *ward) run() {
	w.t.Helper()
	for range 40 {
		if w.step(); w.unhealed() == "" && len(w.pods()) == int(w.replicas()) {
			return
		}
	}
}

// unhealed names the pods that are not ready with the memory that they need.
func (w *ward) unhealed() string {
	var names []string
	for _, p := range w.pods() {
		if !ready(&p) || p.Status.ContainerStatuses[0].Resources.Requests.Memory().Cmp(enough) < 0 {
			names = append(names, p.Name)
		}
	}
	return strings.Join(names, " ")
}

// Pods that run out of memory again and again get more of it within 10 minutes, whichever they
// are, and at most one pod that is well is disturbed at a time.
func TestOutOfMemoryIsMended(t *testing.T) {
	restart, inPlace := corev1.RestartContainer, corev1.NotRequired
	for _, c := range []struct {
		mode     v1alpha1.Mode
		policy   corev1.ResourceResizeRestartPolicy
		replicas int32
		ill      []int
	}{
		{v1alpha1.ModeInPlace, inPlace, 3, []int{2}},
		{v1alpha1.ModeInPlace, restart, 1, []int{0}},
		{v1alpha1.ModeInPlace, restart, 3, []int{0}},
		{v1alpha1.ModeInPlace, restart, 3, []int{1, 2}},
		{v1alpha1.ModeInPlaceOrRecreate, restart, 3, []int{2}},
		{v1alpha1.ModeInPlaceOrRecreate, restart, 3, []int{0, 1, 2}},
		{v1alpha1.ModeRecreate, inPlace, 1, []int{0}},
		{v1alpha1.ModeRecreate, inPlace, 3, []int{0}},
		{v1alpha1.ModeRecreate, inPlace, 3, []int{2}},
		{v1alpha1.ModeRecreate, inPlace, 3, []int{1, 2}},
		{v1alpha1.ModeRecreate, inPlace, 4, []int{0, 1, 2, 3}},
	} {
		w := newWard(t, c.mode, c.replicas, c.policy, c.ill...)
		w.run()
		name := fmt.Sprintf("%s, %s, %v of %d ill", c.mode, c.policy, c.ill, c.replicas)
		assert.Empty(t, w.unhealed(), name)
		assert.GreaterOrEqual(t, w.fewest, int(c.replicas)-len(c.ill)-1, name)
		assert.Len(t, w.pods(), int(c.replicas), name)
	}
}

// A pod that is ill is mended in the middle of a rollout, and where the workload's other pods
// are not there yet because of it.
func TestOutOfMemoryStopsItsWorkload(t *testing.T) {
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeInPlace, v1alpha1.ModeRecreate} {
		w := newWard(t, mode, 3, corev1.RestartContainer, 2)
		d := deployment(3)
		d.Status.Replicas, d.Status.UpdatedReplicas = 3, 1
		require.NoError(t, w.api.Status().Update(t.Context(), d))
		w.run()
		assert.NotContains(t, w.unhealed(), "web-1-2", "%s: a rollout", mode)

		w = newWard(t, mode, 3, corev1.RestartContainer, 0)
		w.short = true
		for i := range 2 {
			require.NoError(t, w.api.Delete(t.Context(), pod(i+1)))
		}
		w.run()
		assert.Empty(t, w.unhealed(), "%s: the first of three", mode)
		assert.Len(t, w.pods(), 3, mode)
	}
}

// The pod that is ill is evicted first, and one that has no room elsewhere does not keep the
// others from their turn.
func TestWhoIsEvictedFirst(t *testing.T) {
	w := newWard(t, v1alpha1.ModeInPlaceOrRecreate, 3, corev1.NotRequired, 2)
	w.refuses[pod(0).Name], w.refuses[pod(2).Name] = true, true
	w.step()
	w.step()
	assert.NotContains(t, fmt.Sprint(w.names()), "web-1-2")
	assert.Contains(t, fmt.Sprint(w.names()), "web-1-0")
	w.run()
	assert.Empty(t, w.unhealed())

	w = newWard(t, v1alpha1.ModeInPlaceOrRecreate, 3, corev1.NotRequired)
	w.refuses[pod(0).Name], w.refuses[pod(1).Name] = true, true
	b := node("b") // so small that the first pod has no room on it
	b.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("600Mi")
	require.NoError(t, w.api.Status().Update(t.Context(), b))
	p := w.pods()[1]
	p.Spec.NodeName = "b"
	require.NoError(t, w.api.Update(t.Context(), &p))
	w.run()
	assert.Equal(t, "web-1-0", w.unhealed())
}

func (w *ward) names() (names []string) {
	for _, p := range w.pods() {
		names = append(names, p.Name)
	}
	return names
}

// A pod whose sidecar runs out of memory before the others start is Pending, and is resized.
func TestBoundPodIsResizedWhilePending(t *testing.T) {
	w := newWard(t, v1alpha1.ModeInPlace, 3, corev1.RestartContainer, 1)
	for i, node := range map[int]string{1: "a", 2: ""} {
		p := w.pods()[i]
		p.Spec.NodeName = node
		require.NoError(t, w.api.Update(t.Context(), &p))
		p.Status.Phase, p.Status.Conditions[0].Status = corev1.PodPending, corev1.ConditionFalse
		require.NoError(t, w.api.Status().Update(t.Context(), &p))
	}
	w.settle()
	for i, want := range []string{"512Mi", "1Gi", "512Mi"} {
		assert.Equal(t, want, w.pods()[i].Spec.Containers[0].Resources.Requests.Memory().String(), i)
	}
}
