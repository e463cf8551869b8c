package updater

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// Pods on many nodes without room elsewhere do not multiply the work of a reconcile: the pods of
// the cluster are listed once in it, for all objects of the same second, and the search goes on from there in the next one, until each
// has had its turn.
func TestSearchForRoomIsBounded(t *testing.T) {
	const replicas = 2*maxSearches + 5
	w := newWard(t, v1alpha1.ModeInPlaceOrRecreate, replicas, corev1.NotRequired)
	nodeOf := func(name string) *corev1.Node {
		n := node(name)
		n.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("600Mi")
		return n
	}
	for i, p := range w.pods() {
		w.refuses[p.Name] = true
		p.Spec.NodeName = fmt.Sprint("n", i)
		if i == replicas-1 { // it alone may use the node with room
			p.Spec.Tolerations = []corev1.Toleration{{Key: "free", Operator: corev1.TolerationOpExists}}
		}
		require.NoError(t, w.api.Update(t.Context(), &p))
		require.NoError(t, w.api.Create(t.Context(), nodeOf(p.Spec.NodeName)))
	}
	for _, name := range []string{"a", "b"} {
		require.NoError(t, w.api.Delete(t.Context(), node(name)))
	}
	free := node("free")
	free.Spec.Taints = []corev1.Taint{{Key: "free", Effect: corev1.TaintEffectNoSchedule}}
	require.NoError(t, w.api.Create(t.Context(), free))
	w.step() // the kubelets refuse
	lists := 0
	w.client = interceptor.NewClient(w.theirs.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.PodList); ok && (&client.ListOptions{}).ApplyOptions(opts).Namespace == "" {
				lists++
			}
			return c.List(ctx, list, opts...)
		},
	})
	_, err := w.room(t.Context())
	require.NoError(t, err)
	_, err = w.room(t.Context()) // for another object in the same second
	require.NoError(t, err)
	assert.Equal(t, 1, lists)
	w.clock.Step(roomAge)
	names := w.names()
	for _, evicted := range []bool{false, false, true} {
		lists = 0
		_, err := w.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		require.NoError(t, err)
		assert.Equal(t, 1, lists)
		assert.Equal(t, evicted, len(w.pods()) < replicas)
		w.clock.Step(evictionWait)
	}
	assert.Equal(t, names[:replicas-1], w.names())

	// After the last one the search begins again: room that is new is found.
	w.changes = nil
	require.NoError(t, w.api.Delete(t.Context(), free))
	require.NoError(t, w.api.Create(t.Context(), func() *corev1.Pod {
		p := pod(99)
		p.UID, p.Spec.NodeName = types.UID("made"), "n0"
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = enough
		p.Status.ContainerStatuses[0].Resources = p.Spec.Containers[0].Resources.DeepCopy()
		return p
	}()))
	require.NoError(t, w.api.Create(t.Context(), node("new")))
	for range 4 {
		_, err := w.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		require.NoError(t, err)
		w.clock.Step(evictionWait + time.Second)
	}
	assert.True(t, slices.Contains(w.changes, "eviction"), "%v", w.changes)
}
