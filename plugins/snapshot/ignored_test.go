package snapshot

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A trace names the pods that have constraints which it cannot express, those that wait and those on nodes. The latter are fixed.
func TestIgnored(t *testing.T) {
	ready := func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	}
	spread := func(p *v1.Pod) { // with nodeTaintsPolicy Ignore, by default
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
	}
	down := func(n *v1.Node) {
		n.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoSchedule}}
	}
	tr, notes := snap(t, picture([]*v1.Node{node("n1"), node("n2"), node("n3", down)},
		pod("web", "web-1", "n1", "1", ready, spread), pod("web", "web-2", "n2", "1", ready, spread), pod("web", "web-3", "", "1", spread),
		pod("db", "db-1", "n1", "1", ready), pod("db", "db-2", "n2", "1", ready),
	))
	ignored, err := tr.Ignored()
	require.NoError(t, err)
	const why = "its topology spread"
	require.Equal(t, map[string]any{"shop/web-1": why, "shop/web-2": why, "shop/web-3": why}, ignored)
	const stays = "where it may go depends on its topology spread"
	require.Equal(t, map[string]any{"shop/web-1": stays, "shop/web-2": stays}, tr.Source["fixed"])
	require.Equal(t, []string{
		"3 pods have constraints that a trace cannot express; the first is shop/web-1: its topology spread",
		"node n3 takes no pods now that do not tolerate its taint node.kubernetes.io/unreachable:NoSchedule",
	}, notes)
	inst := tr.Instance
	for _, a := range inst.Apps { // the node is a machine of another type, and no app may use it
		require.NotNil(t, a.Types)
		require.NotContains(t, a.Types, inst.Machines[2].Type)
	}

	tr.Source["ignored"] = "web"
	_, err = tr.Ignored()
	require.ErrorContains(t, err, "source.ignored")
}

// Nodes of AWS Fargate and virtual nodes are no machines. What their pods say of others counts all the same.
func TestNodesThatAreNoMachines(t *testing.T) {
	fargateNode := node("fargate-1", func(n *v1.Node) { n.Labels = map[string]string{"eks.amazonaws.com/compute-type": "fargate"} })
	virtual := node("virtual", func(n *v1.Node) {
		n.Spec.Taints = []v1.Taint{{Key: "virtual-kubelet.io/provider", Effect: v1.TaintEffectNoSchedule}}
	})
	byRegion := func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{TopologyKey: v1.LabelTopologyRegion, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		}}}
	}
	p := picture([]*v1.Node{node("n1"), fargateNode, virtual},
		pod("web", "web-1", "n1", "1"), pod("job", "job-1", "fargate-1", "1", byRegion), pod("burst", "burst-1", "virtual", "1"),
		pod("job", "job-2", "", "1", func(p *v1.Pod) { p.Spec.SchedulerName = "fargate-scheduler" }),
	)
	p.leaveOut()
	_, err := p.Ask("shop/job-1", "", "open", nil)
	require.EqualError(t, err, "shop/job-1 is on the node fargate-1, of AWS Fargate or a virtual one, which is no machine that pods share: Sigma leaves it out")
	_, err = p.Ask("shop/job-2", "", "open", nil)
	require.EqualError(t, err, "shop/job-2 waits for a node of AWS Fargate, which is no machine that pods share: Sigma leaves it out")
	_, err = p.Ask("shop/none", "", "open", nil)
	require.EqualError(t, err, "there is no pod shop/none, or it has ended")
	require.Len(t, p.Nodes, 1)
	require.Len(t, p.Pods, 1)
	require.Equal(t, []string{"nodes of AWS Fargate and virtual nodes are no machines that pods share: 2, with 3 pods, are left out"}, p.Notes)
	require.Equal(t, map[string]string{"shop/web-1": "the anti-affinity of shop/job-1 by topology.kubernetes.io/region"}, p.ignored(""))

	one := picture([]*v1.Node{node("n1"), fargateNode}, pod("web", "web-1", "n1", "1", byRegion), pod("job", "job-1", "fargate-1", "1"))
	one.leaveOut()
	require.Equal(t, []string{"nodes of AWS Fargate and virtual nodes are no machines that pods share: 1, with 1 pod, are left out"}, one.Notes)
	_, notes := snap(t, one)
	require.Contains(t, notes, "1 pod has constraints that a trace cannot express: shop/web-1: its anti-affinity by topology.kubernetes.io/region, the anti-affinity of shop/web-1 by topology.kubernetes.io/region")

	// The bill's shares are of nodes with room: a virtual one offers any number.
	huge := node("huge", func(n *v1.Node) {
		n.Labels, n.Status.Allocatable["cpu"] = map[string]string{"type": "virtual-kubelet"}, resource.MustParse("10k")
	})
	mixed := picture([]*v1.Node{node("n1"), huge}, pod("web", "web-1", "n1", "1"), pod("burst", "burst-1", "huge", "7"))
	mixed.leaveOut()
	billed, _ := snap(t, mixed)
	facts := billed.Source["cluster"].(map[string]any)
	require.Equal(t, map[string]any{"cpu": 4., "memory": float64(8 << 30)}, facts["allocatable"])
	require.EqualValues(t, 1, facts["requested"].(map[string]any)["cpu"])
	require.Equal(t, 0., facts["nodes"].(map[string]any)["huge"].(map[string]any)["cost"], "not ten thousand cores")

	// Batch pods are no demand of a cluster, nor is the cpu that they have its capacity.
	lending := node("n1", func(n *v1.Node) { n.Status.Allocatable[podspec.BatchCPU] = resource.MustParse("2500") })
	lent := picture([]*v1.Node{lending}, pod("web", "web-1", "n1", "1"), pod("work", "work-1", "n1", "2m", func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{podspec.BatchCPU: resource.MustParse("1500")}
	}))
	lent.leaveOut()
	require.Equal(t, []string{"1 pod with the cpu that others leave: left out (docs/batch.md)"}, lent.Notes)
	billed, _ = snap(t, lent)
	require.Len(t, billed.Requests, 1)
	for _, d := range billed.Instance.Dimensions {
		require.NotContains(t, d.Name, "batch")
	}
	_, err = lent.Ask("shop/work-1", "", "open", nil)
	require.ErrorContains(t, err, "shop/work-1 is a batch pod")

	plain := picture([]*v1.Node{node("n1")}, pod("web", "web-1", "n1", "1"))
	plain.leaveOut()
	require.Empty(t, plain.Notes)
	require.Nil(t, plain.AllPods)
}

// Pods with scheduling gates wait for these and not for a node: no trace has them, and a note says so.
func TestGatedPods(t *testing.T) {
	gated := func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/quota"}} }
	ended := func(p *v1.Pod) { gated(p); p.DeletionTimestamp = &metav1.Time{Time: p.CreationTimestamp.Time} }
	p := picture([]*v1.Node{node("n1")}, pod("web", "web-1", "n1", "1"), pod("web", "web-2", "", "1"),
		pod("job", "job-1", "", "1", gated), pod("job", "job-2", "", "1", gated), pod("job", "job-3", "", "1", ended))
	p.leaveOut()
	require.Equal(t, []string{"pods with scheduling gates do not wait for a node yet: 2, the first of them shop/job-1, are left out"}, p.Notes)
	require.Nil(t, p.AllPods)

	q, err := p.Ask("shop/job-1", "", "open", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"example.com/quota"}, q.Gates)
	q, err = p.Ask("shop/web-2", "", "open", nil)
	require.NoError(t, err)
	require.Empty(t, q.Gates)
}

// No trace has a pod whose node is gone, and a note has its name.
func TestPodsOfNodesThatAreGone(t *testing.T) {
	p := picture([]*v1.Node{node("n1")}, pod("web", "web-1", "n1", "1"), pod("web", "web-2", "gone", "1"), pod("web", "web-3", "gone", "1"), pod("web", "web-4", "", "1"))
	p.leaveOut()
	require.Equal(t, []string{"pods on nodes that the cluster does not have: 2, the first of them shop/web-2 on gone, are left out"}, p.Notes)
	require.Nil(t, p.AllPods)
}
