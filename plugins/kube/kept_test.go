package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// TestAppIsKept: an update that changes nothing that an app depends on, such as the confirmation of a binding, costs no
// derivation of it. Another pod of the same template costs little more than the name of its group.
func TestAppIsKept(t *testing.T) {
	w := newWorld(t)
	p := podOf("web-1", ownedBy("ReplicaSet", "web"), requests("cpu", "1"))
	p.CreationTimestamp = metav1.Now()
	w.SetNode(nodeOf("a"), nil)
	a := w.Arrive(p)
	w.Decide(p, "a", &ledger.Decision{})
	w.emitted()
	confirmed := p.DeepCopy()
	confirmed.Spec.NodeName, confirmed.Status.Phase = "a", v1.PodRunning
	require.Zero(t, testing.AllocsPerRun(10, func() { require.Same(t, a, w.EnsureApp(confirmed)) }))
	w.SetNode(nodeOf("a"), []*v1.Pod{confirmed})
	require.Empty(t, w.emitted())
	another := p.DeepCopy()
	another.Name, another.UID, another.CreationTimestamp = "web-2", "web-2", metav1.Time{}
	derived := testing.AllocsPerRun(10, func() { require.Same(t, a, w.EnsureApp(another)) })
	another.Spec.Containers[0].Resources.Requests = list("cpu", "1000m")
	require.Same(t, a, w.EnsureApp(another))
	require.Less(t, 3*derived, testing.AllocsPerRun(10, func() { w.EnsureApp(another) }))
	resized := confirmed.DeepCopy()
	resized.Spec.Containers[0].Resources.Requests = list("cpu", "2")
	require.NotSame(t, a, w.EnsureApp(resized))
}
