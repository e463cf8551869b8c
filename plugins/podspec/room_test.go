package podspec_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

func standsOn(node string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.NodeName = node } }

// A node of 4 CPU, 8Gi and 10 pods, with what the change makes of it and the pods that
// stand on it: is there room for a pod of 900m and 1Gi?
// servedByDriver asks for two devices that a driver serves the pod.
func servedByDriver(p *v1.Pod) {
	requests("nvidia.com/gpu", "2")(p)
	p.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{
		RequestMappings: []v1.ContainerExtendedResourceRequest{{ContainerName: "main", ResourceName: "nvidia.com/gpu", RequestName: "container-0-request-0"}},
	}
}

func TestHasRoom(t *testing.T) {
	tests := []struct {
		name   string
		change func(*v1.Node)
		pod    func(*v1.Pod)
		pods   []v1.Pod
		want   bool
	}{
		{name: "empty", want: true},
		{name: "3.1 of 4 CPU taken", pods: []v1.Pod{*podOf("a", standsOn("n"), requests("cpu", "3100m"))}, want: true},
		{name: "3.101 of 4 CPU taken", pods: []v1.Pod{*podOf("a", standsOn("n"), requests("cpu", "3101m"))}},
		{name: "two that leave too little together", pods: []v1.Pod{*podOf("a", standsOn("n"), requests("memory", "4Gi")), *podOf("b", standsOn("n"), requests("memory", "4Gi"))}},
		{name: "taken by the pod itself", pods: []v1.Pod{*podOf("next", standsOn("n"), requests("cpu", "4"))}, want: true},
		{name: "taken by one that has ended", pods: []v1.Pod{*podOf("a", standsOn("n"), requests("cpu", "4"), func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })}, want: true},
		{name: "taken on another node, or on none yet", pods: []v1.Pod{*podOf("a", standsOn("m"), requests("cpu", "4")), *podOf("b", requests("cpu", "4"))}, want: true},
		{name: "as many pods as it takes", change: func(n *v1.Node) { n.Status.Allocatable["pods"] = resource.MustParse("1") }, pods: []v1.Pod{*podOf("a", standsOn("n"))}},
		{name: "cordoned", change: func(n *v1.Node) { n.Spec.Unschedulable = true }},
		{name: "tainted", change: func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectNoSchedule}} }},
		{name: "tainted, to be avoided", change: func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectPreferNoSchedule}} }, want: true},
		{
			name: "tainted, tolerated", change: func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectNoSchedule}} },
			pod: func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "gpu", Operator: v1.TolerationOpExists}} }, want: true,
		},
		{name: "not reachable", change: func(n *v1.Node) {
			n.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoExecute}}
		}},
		{name: "without the label that is selected", pod: func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }},
		{name: "without the resource", pod: requests("nvidia.com/gpu", "1")},
		{name: "without the resource, which a driver serves", pod: servedByDriver, want: true},
		{name: "with too little of the resource, which drivers of others serve", change: func(n *v1.Node) { n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("1") }, pod: servedByDriver},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := v1.Node{Status: v1.NodeStatus{Allocatable: list("cpu", "4", "memory", "8Gi", "pods", "10")}}
			n.Name = "n"
			if tt.change != nil {
				tt.change(&n)
			}
			next := podOf("next", requests("cpu", "900m", "memory", "1Gi"))
			if tt.pod != nil {
				tt.pod(next)
			}
			replaced := podOf("none")
			if len(tt.pods) > 0 && tt.pods[0].UID == next.UID {
				replaced = &tt.pods[0]
			}
			require.Equal(t, tt.want, podspec.NewRoom([]v1.Node{n}, tt.pods).Has(next, replaced, false))
		})
	}
}

// One reading of the pods answers for several pods as a reading for each does, and the node that is
// left out counts for nothing.
func TestRoomIsReadOnce(t *testing.T) {
	var nodes []v1.Node
	for _, name := range []string{"m", "n"} {
		n := v1.Node{Status: v1.NodeStatus{Allocatable: list("cpu", "4", "memory", "8Gi", "pods", "10")}}
		n.Name = name
		nodes = append(nodes, n)
	}
	a, b := podOf("a", standsOn("n"), requests("cpu", "3")), podOf("b", standsOn("m"), requests("cpu", "2"))
	room := podspec.NewRoom(nodes, []v1.Pod{*a, *b})
	of := func(name, cpu string) *v1.Pod { return podOf(name, requests("cpu", cpu)) }
	for range 2 { // a question changes nothing
		require.True(t, room.Has(of("a", "4"), a, false), "on its own node")
		require.False(t, room.Has(of("a", "4"), a, true))
		require.True(t, room.Has(of("a", "2"), a, true))
		require.True(t, room.Has(of("b", "4"), b, false))
		require.False(t, room.Has(of("b", "4"), b, true))
		require.False(t, room.Has(of("c", "3"), podOf("none"), false))
	}
}

// A cluster of 30,000 pods on 600 nodes, and a question of which no node has the room.
func BenchmarkRoom(b *testing.B) {
	nodes, pods := make([]v1.Node, 600), make([]v1.Pod, 30_000)
	for i := range nodes {
		nodes[i].Name, nodes[i].Status.Allocatable = fmt.Sprint(i), list("cpu", "64", "memory", "256Gi", "pods", "110")
	}
	for i := range pods {
		pods[i] = *podOf(fmt.Sprint("p", i), standsOn(fmt.Sprint(i%600)), requests("cpu", "1", "memory", "1Gi"))
	}
	next := podOf("next", requests("cpu", "63"))
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			podspec.NewRoom(nodes, pods)
		}
	})
	room := podspec.NewRoom(nodes, pods)
	b.Run("ask", func(b *testing.B) {
		for b.Loop() {
			room.Has(next, &pods[0], true)
		}
	})
}
