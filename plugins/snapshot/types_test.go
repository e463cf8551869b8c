package snapshot

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/plugins/pricelist"
)

// awsNode is a node of a zone, whose system keeps 90 millicores and 2 GiB.
func awsNode(name, instance, zone string, cores int64, gib int64) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		v1.LabelHostname: name, v1.LabelInstanceTypeStable: instance, v1.LabelArchStable: "amd64", v1.LabelOSStable: "linux",
		v1.LabelTopologyRegion: "us-east-1", v1.LabelTopologyZone: zone, "karpenter.k8s.aws/instance-family": instance[:2],
	}}}
	n.Spec.ProviderID = "aws:///" + zone + "/" + name
	n.Status.Capacity = v1.ResourceList{"cpu": *resource.NewQuantity(cores, resource.DecimalSI), "memory": *resource.NewQuantity((gib-1)<<30, resource.BinarySI)}
	n.Status.Allocatable = v1.ResourceList{
		"cpu": *resource.NewMilliQuantity(1000*cores-90, resource.DecimalSI), "memory": *resource.NewQuantity((gib-2)<<30, resource.BinarySI), "pods": resource.MustParse("58"),
	}
	return n
}

func podOn(name, node, kind string, cpu string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name + "@" + node), OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, Controller: new(true)}}}}
	p.Spec = v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse(cpu)}}}}}
	p.Status.Phase = v1.PodRunning
	return p
}

// factsOfNodes are the facts of a cluster at the prices of the built-in list.
func factsOfNodes(t *testing.T, p *Picture) map[string]any {
	t.Helper()
	p.sort()
	prices, err := p.Prices("")
	require.NoError(t, err)
	r := NewRecorder("", time.Unix(0, 0))
	r.Prices = prices
	require.NoError(t, r.Record(p, time.Unix(0, 0)))
	tr, _, err := r.Trace("c", "open")
	require.NoError(t, err)
	return tr.Source["cluster"].(map[string]any)
}

func TestOtherTypes(t *testing.T) {
	spot, gpu := awsNode("spot", "m5.2xlarge", "us-east-1a", 8, 32), awsNode("gpu", "g4dn.2xlarge", "us-east-1a", 8, 32)
	spot.Labels["karpenter.sh/capacity-type"] = "spot"
	gpu.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("1")
	old, not := podOn("old", "a1", "StatefulSet", "1"), podOn("not", "a1", "StatefulSet", "1")
	old.Spec.NodeSelector = map[string]string{v1.LabelInstanceTypeStable: "m5.2xlarge"}
	not.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelInstanceTypeStable, Operator: v1.NodeSelectorOpNotIn, Values: []string{"t3.large"}}},
	}}}}}
	p := &Picture{
		Nodes: []*v1.Node{awsNode("a1", "m5.2xlarge", "us-east-1a", 8, 32), awsNode("a2", "m5.2xlarge", "us-east-1a", 8, 32), awsNode("b1", "m5.4xlarge", "us-east-1b", 16, 64), spot, gpu},
		Pods: []*v1.Pod{
			old, not, podOn("web", "a2", "StatefulSet", "2"), podOn("log", "a2", "DaemonSet", "250m"), podOn("log", "b1", "DaemonSet", "100m"), podOn("dns", "b1", "DaemonSet", "100m"),
		},
	}
	f := factsOfNodes(t, p)
	list, pools := f["types"].(map[string]any), f["pools"].(map[string]any)
	require.Equal(t, []string{"b1"}, slices.Sorted(maps.Keys(pools)), "no rule is by zone, and a new node is for the same pods")
	require.Equal(t, map[string]any{"arch": "amd64", "has": map[string]any{}, "less": map[string]any{"cpu": .25, "pods": 2.}}, pools["b1"], "the most of any node")

	require.Greater(t, len(list), 5)
	for name, of := range list {
		size, ok := pricelist.Size(pricelist.AWS, name)
		require.True(t, ok)
		require.LessOrEqual(t, size.Cores, int64(32), "twice the largest node")
		require.Equal(t, "amd64", of.(map[string]any)["arch"])
		require.NotRegexp(t, `flex|metal|^t|^g|^p`, name)
		has := of.(map[string]any)["has"].(map[string]any)
		require.InDelta(t, float64(size.Cores)-.09, has["cpu"], .1, name)
		require.Less(t, has["memory"], size.GiB*(1<<30), name)
		for other, than := range list {
			worse := other != name
			for _, d := range []string{"cpu", "memory", "pods"} {
				worse = worse && than.(map[string]any)["has"].(map[string]any)[d].(float64) >= has[d].(float64)
			}
			require.False(t, worse && than.(map[string]any)["cost"].(float64) <= of.(map[string]any)["cost"].(float64), "%s is no better than %s", name, other)
		}
	}
	p.Nodes = slices.DeleteFunc(p.Nodes, func(n *v1.Node) bool { return n.Name == "b1" })
	p.Pods = slices.DeleteFunc(p.Pods, func(p *v1.Pod) bool { return p.Spec.NodeName == "b1" })
	pools = factsOfNodes(t, p)["pools"].(map[string]any)
	require.Len(t, pools["a1"].(map[string]any)["refuses"], 1, "it selects the old type")

	p.Nodes = []*v1.Node{spot, gpu} // spot and GPU nodes alone
	p.Pods = nil
	f = factsOfNodes(t, p)
	require.Nil(t, f["types"])
	require.Nil(t, f["pools"])
}
