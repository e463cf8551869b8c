package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

func template(cores int64, changes ...func(*v1.Node)) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "template"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		"cpu": *resource.NewQuantity(cores, resource.DecimalSI), "memory": *resource.NewQuantity(cores<<32, resource.BinarySI), "pods": resource.MustParse("110"),
	}}}
	for _, change := range changes {
		change(n)
	}
	return n
}

// An offer is placed by the policy in force, with its rules, on the new nodes alone. Nothing is decided.
func TestTry(t *testing.T) {
	l := two(t)
	l.sync()
	try := func(o Offer) []int {
		t.Helper()
		before := l.state.cluster.Describe()
		places, err := l.Try(t.Context(), o)
		require.NoError(t, err)
		for _, ev := range l.state.cluster.Describe() { // apps may be new
			require.NotEqual(t, "new/0", ev.Node)
			require.NotEqual(t, ledger.KindDecide, ev.Kind)
		}
		require.GreaterOrEqual(t, len(l.state.cluster.Describe()), len(before))
		return places
	}
	pods := []*v1.Pod{pod("p1", "web"), pod("p2", "web"), pod("p3", "web")}
	require.Equal(t, []int{0, 0, 1}, try(Offer{template(2), 3, pods}), "Best-Fit, although the nodes a, b and c have room")
	require.Equal(t, []int{0, 0, -1}, try(Offer{template(2), 1, pods}))
	require.Equal(t, []int{-1, -1, -1}, try(Offer{template(2), 0, pods}))
	require.Empty(t, try(Offer{template(2), 1, nil}))

	l.SetPolicy(ledger.Primary, spreading())
	l.sync()
	require.Equal(t, []int{0, 1, 2}, try(Offer{template(4), 3, pods}), "as the policy places them")
	shadow := spreading()
	shadow.Spec.Mode = policy.Shadow
	l.SetPolicy(ledger.Primary, shadow)
	l.sync()
	require.Equal(t, []int{0, 0, 0}, try(Offer{template(4), 3, pods}), "it decides nothing")

	l.SetRules([]*kube.Rule{atMost(t, 1, "web")})
	l.sync()
	require.Equal(t, []int{0, 1, -1}, try(Offer{template(4), 2, pods}), "the rule binds on new nodes too")

	l.stand(pod("p2", "web"), "c")
	l.sync()
	require.Equal(t, []int{0, -1, 1}, try(Offer{template(4), 2, pods}), "it has a node already")
	of := pod("agent", "agent", ofDaemonSet)
	require.Equal(t, []int{-1}, try(Offer{template(4), 1, []*v1.Pod{of}}), "no scheduler decides on its node")

	selects := pod("s", "s", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
	ssd := template(4, func(n *v1.Node) { n.Labels = map[string]string{"disk": "ssd"} })
	require.Equal(t, []int{0}, try(Offer{ssd, 1, []*v1.Pod{selects}}))
	require.Equal(t, []int{-1}, try(Offer{template(4), 1, []*v1.Pod{selects}}))
	tainted := template(4, func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectNoSchedule}} })
	require.Equal(t, []int{-1}, try(Offer{tainted, 1, []*v1.Pod{pod("x", "x")}}))

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Try(ended, Offer{template(4), 1, pods})
	require.ErrorIs(t, err, context.Canceled)
	l.verify()
}

// The time of one offer in a cluster of 1,000 nodes and 10,000 pods.
func BenchmarkTry(b *testing.B) {
	e, err := New(Options{Profile: b.Name(), PolicyName: "general", AppLabel: "app", Fleet: "open"})
	require.NoError(b, err)
	e.Sync(func(_ bool, set func(Node), _ func(string)) {
		for i := range 1000 {
			n := Node{Object: template(16)}
			n.Object.Name = "n" + resource.NewQuantity(int64(i), resource.DecimalSI).String()
			for j := range 10 {
				n.Pods = append(n.Pods, pod(n.Object.Name+"-"+string(rune('a'+j)), "app"+string(rune('a'+(i+j)%26))))
			}
			set(n)
		}
	})
	var pods []*v1.Pod
	for i := range 100 {
		pods = append(pods, pod("new-"+resource.NewQuantity(int64(i), resource.DecimalSI).String(), "appa"))
	}
	for b.Loop() {
		places, err := e.Try(b.Context(), Offer{template(16), 7, pods})
		require.NoError(b, err)
		require.NotContains(b, places, -1)
	}
}

// Offers are tried while the state changes.
func TestTryBesideSync(t *testing.T) {
	l := two(t)
	l.SetPolicy(ledger.Primary, shipped(t, "hand-k1"))
	l.SetDeclared(&kube.Declarations{})
	l.sync()
	ended := make(chan error)
	go func() {
		var err error
		for i := 0; i < 20 && err == nil; i++ {
			selects := func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": fmt.Sprint(i)} }
			_, err = l.Try(t.Context(), Offer{template(4), 3, []*v1.Pod{pod("p1", "web"), pod(fmt.Sprint("s", i), fmt.Sprint("s", i), selects)}})
		}
		ended <- err
	}()
	for i := range 20 {
		l.node(fmt.Sprint("n", i), 8)
		l.nodes[fmt.Sprint("n", i)].Labels = map[string]string{"disk": fmt.Sprint(i)}
		l.stand(pod(fmt.Sprint("old-", i), fmt.Sprint("app-", i%3)), fmt.Sprint("n", i))
		l.Sync(l.visit)
	}
	require.NoError(t, <-ended)
	l.verify()
}
