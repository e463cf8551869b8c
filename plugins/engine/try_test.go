package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

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
		places, err := l.Try(t.Context(), []Offer{o, {Node: template(1)}, o}) // the second time as the first one
		require.NoError(t, err)
		require.Equal(t, places[0], places[2])
		require.Equal(t, before, l.state.cluster.Describe())
		return places[0]
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
	_, err := l.Try(ended, []Offer{{template(4), 1, pods}})
	require.ErrorIs(t, err, context.Canceled)
	l.verify()
}

// The pods of an offer may be newer than those of the cluster, with other anti-affinity, labels, demand and selectors: the engine and its
// later answers do not change.
func TestTryChangesNothing(t *testing.T) {
	l := two(t)
	l.SetRules([]*kube.Rule{atMost(t, 2, "web")})
	l.SetServed([]string{"vendor.com/card"})
	l.stand(pod("p0", "web"), "c")
	l.node("labelled", 4)
	l.nodes["labelled"].Labels = map[string]string{"disk": "ssd"}
	l.sync()
	asked := []Offer{{template(8), 3, []*v1.Pod{pod("p1", "web"), pod("p2", "web"), pod("p3", "web")}}}
	before := l.state.cluster.Describe()
	copied := l.newTrial(t.Context(), asked)
	require.Equal(t, before, copied.cluster.Describe())
	copied.try(asked[0], copied.pods[0])
	require.NoError(t, copied.err)
	require.Equal(t, before, copied.cluster.Describe(), "an offer is undone")
	first, err := l.Try(t.Context(), asked)
	require.NoError(t, err)
	require.Equal(t, [][]int{{0, 0, 1}}, first)
	newer := func(p *v1.Pod) {
		p.CreationTimestamp = metav1.NewTime(time.Now().Add(1000 * time.Hour))
		p.Labels["track"] = "evil"
		p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		p.Spec.Containers[0].Resources.Requests["vendor.com/card"] = resource.MustParse("1")
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		}}}
	}
	card := template(8, func(n *v1.Node) {
		n.Labels, n.Status.Allocatable["vendor.com/card"] = map[string]string{"disk": "ssd"}, resource.MustParse("8")
	})
	places, err := l.Try(t.Context(), []Offer{{template(8), 0, []*v1.Pod{pod("p9", "web", newer)}}, {card, 2, []*v1.Pod{pod("p0", "other", newer), pod("p7", "fresh", newer), pod("p8", "web", newer), pod("p9", "web", newer)}}})
	require.NoError(t, err)
	require.Equal(t, []int{-1, 0, 1, -1}, places[1], "in the trial they count")
	for range 2 {
		require.Equal(t, before, l.state.cluster.Describe())
		again, err := l.Try(t.Context(), asked)
		require.NoError(t, err)
		require.Equal(t, first, again)
		l.sync()
	}
	l.verify()
}

// The time of a call with some offers, or with the copy alone, in a cluster of 5,000 nodes and 50,000 pods; 1,000 pods wait.
func BenchmarkTry(b *testing.B) {
	e, err := New(Options{Profile: b.Name(), PolicyName: "general", AppLabel: "app", Fleet: "open"})
	require.NoError(b, err)
	e.SetPolicy(ledger.Primary, shipped(b, "hand-k1"))
	e.SetDeclared(&kube.Declarations{})
	e.Sync(func(_ bool, set func(Node), _ func(string)) {
		for i := range 5000 {
			n := Node{Object: template(16)}
			n.Object.Name = fmt.Sprint("n", i)
			for j := range 10 {
				n.Pods = append(n.Pods, pod(fmt.Sprint(n.Object.Name, "-", j), fmt.Sprint("app", (i+j)%200)))
			}
			set(n)
		}
	})
	var pods []*v1.Pod
	for i := range 1000 {
		pods = append(pods, pod(fmt.Sprint("new-", i), fmt.Sprint("app", i%50)))
	}
	for _, count := range []int{0, 4, 20} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			for b.Loop() {
				places, err := e.Try(b.Context(), slices.Repeat([]Offer{{template(16), 70, pods}}, count))
				require.NoError(b, err)
				for _, list := range places {
					require.NotContains(b, list, -1)
				}
			}
		})
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
			_, err = l.Try(t.Context(), []Offer{{template(4), 3, []*v1.Pod{pod("p1", "web"), pod(fmt.Sprint("s", i), fmt.Sprint("s", i), selects)}}})
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
