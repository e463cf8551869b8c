package podspec_test

import (
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
			require.Equal(t, tt.want, podspec.HasRoom(next, []v1.Node{n}, tt.pods))
		})
	}
}
