package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// TestAppIsKept: an update that changes nothing that an app depends on, such as the confirmation of a binding, costs no
// derivation of it.
func TestAppIsKept(t *testing.T) {
	w := newWorld(t)
	p := podOf("web-1", ownedBy("ReplicaSet", "web"), requests("cpu", "1"))
	w.SetNode(nodeOf("a"), nil)
	a := w.Arrive(p)
	w.Decide(p, "a", &ledger.Decision{})
	w.emitted()
	confirmed := p.DeepCopy()
	confirmed.Spec.NodeName, confirmed.Status.Phase = "a", v1.PodRunning
	require.Zero(t, testing.AllocsPerRun(10, func() { require.Same(t, a, w.EnsureApp(confirmed)) }))
	w.SetNode(nodeOf("a"), []*v1.Pod{confirmed})
	require.Empty(t, w.emitted())
	resized := confirmed.DeepCopy()
	resized.Spec.Containers[0].Resources.Requests = list("cpu", "2")
	require.NotSame(t, a, w.EnsureApp(resized))
}
