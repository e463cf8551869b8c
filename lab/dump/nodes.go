package dump

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A shape is an instance type.
type shape struct {
	name     string
	cpu, mem int64 // cores, GiB
	gpus     int64
}

// A pool is a node pool with its share of the nodes.
type pool struct {
	name   string
	share  float64 // 0 = one node
	shapes []shape
	taints []v1.Taint
	spot   bool
}

func taint(key, value string) []v1.Taint {
	return []v1.Taint{{Key: key, Value: value, Effect: v1.TaintEffectNoSchedule}}
}

// pools of a cloud. Sizes are the clouds'.
func pools(cloud string) []*pool {
	of := map[string][6][]shape{
		"aws": {
			{{"m5.xlarge", 4, 16, 0}},
			{{"m5.2xlarge", 8, 32, 0}, {"m6i.2xlarge", 8, 32, 0}, {"m5.4xlarge", 16, 64, 0}},
			{{"c6i.2xlarge", 8, 16, 0}, {"c5.4xlarge", 16, 32, 0}},
			{{"r6i.2xlarge", 8, 64, 0}},
			{{"m5.2xlarge", 8, 32, 0}, {"m5a.2xlarge", 8, 32, 0}},
			{{"g4dn.2xlarge", 8, 32, 1}},
		},
		"azure": {
			{{"Standard_D4s_v5", 4, 16, 0}},
			{{"Standard_D8s_v5", 8, 32, 0}, {"Standard_D16s_v5", 16, 64, 0}},
			{{"Standard_F8s_v2", 8, 16, 0}, {"Standard_F16s_v2", 16, 32, 0}},
			{{"Standard_E8s_v5", 8, 64, 0}},
			{{"Standard_D8s_v5", 8, 32, 0}, {"Standard_D8as_v5", 8, 32, 0}},
			{{"Standard_NC8as_T4_v3", 8, 56, 1}},
		},
		"google": {
			{{"e2-standard-4", 4, 16, 0}},
			{{"n2-standard-8", 8, 32, 0}, {"n2-standard-16", 16, 64, 0}, {"n2-custom-12-49152", 12, 48, 0}},
			{{"c2-standard-8", 8, 32, 0}, {"c2-standard-16", 16, 64, 0}},
			{{"n2-highmem-8", 8, 64, 0}},
			{{"n2d-standard-8", 8, 32, 0}, {"e2-standard-8", 8, 32, 0}},
			{{"n1-standard-8", 8, 30, 1}},
		},
		"": {
			{{"", 4, 16, 0}},
			{{"", 8, 32, 0}, {"", 16, 64, 0}},
			{{"", 16, 32, 0}},
			{{"", 8, 64, 0}},
			{{"", 8, 32, 0}},
			{{"", 8, 32, 1}},
		},
	}[cloud]
	return []*pool{
		{"system", .08, of[0], taint("CriticalAddonsOnly", "true"), false},
		{"general", .5, of[1], nil, false},
		{"compute", .16, of[2], taint("pool", "compute"), false},
		{"db", .1, of[3], taint("pool", "db"), false},
		{"spot", .16, of[4], taint("spot", "true"), true},
		{"gpu", 0, of[5], taint("nvidia.com/gpu", "present"), false},
	}
}

// regions by cloud, with the labels of zones.
var regions = map[string]struct {
	name  string
	zones [3]string
}{
	"aws":    {"eu-central-1", [3]string{"eu-central-1a", "eu-central-1b", "eu-central-1c"}},
	"azure":  {"westeurope", [3]string{"westeurope-1", "westeurope-2", "westeurope-3"}},
	"google": {"us-central1", [3]string{"us-central1-a", "us-central1-b", "us-central1-c"}},
	"":       {"", [3]string{"rack-a", "rack-b", "rack-c"}},
}

// addNodes adds the nodes of all pools, the zones in turn.
func (c *cluster) addNodes() {
	list := pools(c.Cloud)
	left := c.Nodes - 1
	for i, p := range list {
		n := max(1, int(p.share*float64(c.Nodes)))
		switch {
		case p.share == 0:
			n = 1
		case i == len(list)-2:
			n = max(1, left)
		}
		if p.share > 0 {
			left -= n
		}
		for j := range n {
			c.nodes = append(c.nodes, c.node(p, pick(c, p.shapes), j%3))
		}
	}
}

// node draws a node. The kubelet and the system keep some of its capacity.
func (c *cluster) node(p *pool, s shape, zone int) *machine {
	at := regions[c.Cloud]
	name := fmt.Sprintf("ip-10-%d-%d-%d", zone, c.rng.IntN(256), c.rng.IntN(256))
	for range c.nodes { // names are unique
		if !c.hasNode(name) {
			break
		}
		name = fmt.Sprintf("ip-10-%d-%d-%d", zone, c.rng.IntN(256), c.rng.IntN(256))
	}
	n := &v1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: c.meta("", name, c.between(3000, 90000))}
	n.Labels = map[string]string{
		v1.LabelHostname: name, v1.LabelOSStable: "linux", v1.LabelArchStable: "amd64", v1.LabelTopologyZone: at.zones[zone],
		"example.com/pool": p.name,
	}
	if at.name != "" {
		n.Labels[v1.LabelTopologyRegion], n.Labels[v1.LabelInstanceTypeStable] = at.name, s.name
	}
	switch c.Cloud {
	case "aws":
		n.Spec.ProviderID = fmt.Sprintf("aws:///%s/i-0%015x", at.zones[zone], c.rng.Uint64()>>4)
		n.Labels["karpenter.sh/capacity-type"], n.Labels["karpenter.sh/nodepool"] = "on-demand", p.name
		if p.spot {
			n.Labels["karpenter.sh/capacity-type"] = "spot"
		}
	case "azure":
		n.Spec.ProviderID = "azure:///subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/" + p.name + "/virtualMachines/" + fmt.Sprint(len(c.nodes))
		n.Labels["kubernetes.azure.com/agentpool"] = p.name
		if p.spot {
			n.Labels["kubernetes.azure.com/scalesetpriority"] = "spot"
		}
	case "google":
		n.Spec.ProviderID = "gce://project/" + at.zones[zone] + "/" + name
		n.Labels["cloud.google.com/gke-nodepool"] = p.name
		if p.spot {
			n.Labels["cloud.google.com/gke-spot"] = "true"
		}
	}
	n.Spec.Taints = p.taints
	m := &machine{Node: n, pool: p, cpu: s.cpu*1000 - 80 - 10*s.cpu, mem: s.mem*1024 - 900 - 24*s.mem, slots: 58, gpus: s.gpus}
	n.Status.Capacity = v1.ResourceList{
		"cpu": *resource.NewQuantity(s.cpu, resource.DecimalSI), "memory": resource.MustParse(fmt.Sprint(s.mem*1024*1024-c.rng.Int64N(400_000), "Ki")),
		"pods": resource.MustParse("58"), "ephemeral-storage": resource.MustParse("83873772Ki"),
	}
	n.Status.Allocatable = v1.ResourceList{
		"cpu": *resource.NewMilliQuantity(m.cpu, resource.DecimalSI), "memory": resource.MustParse(fmt.Sprint(m.mem, "Mi")),
		"pods": resource.MustParse("58"), "ephemeral-storage": resource.MustParse("76224326324"),
	}
	if s.gpus > 0 {
		n.Status.Capacity["nvidia.com/gpu"], n.Status.Allocatable["nvidia.com/gpu"] = *resource.NewQuantity(s.gpus, resource.DecimalSI), *resource.NewQuantity(s.gpus, resource.DecimalSI)
	}
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.NewTime(Now)}}
	n.Status.NodeInfo = v1.NodeSystemInfo{KubeletVersion: fmt.Sprintf("v1.%d.%d", c.Minor, c.rng.IntN(4)), OperatingSystem: "linux", Architecture: "amd64"}
	return m
}

func (c *cluster) hasNode(name string) bool {
	for _, m := range c.nodes {
		if m.Name == name {
			return true
		}
	}
	return false
}

// breakNodes cordons one node, and makes another unreachable: some versions add the taint NoExecute later.
func (c *cluster) breakNodes() {
	var general []*machine
	for _, m := range c.nodes {
		if m.pool.name == "general" {
			general = append(general, m)
		}
	}
	cordoned, dead := general[0], general[len(general)-1]
	cordoned.Spec.Unschedulable = true
	cordoned.Spec.Taints = append(cordoned.Spec.Taints[:0:0], v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
	since := metav1.NewTime(Now.Add(-7 * time.Minute))
	dead.Spec.Taints = append(dead.Spec.Taints[:0:0], v1.Taint{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoSchedule, TimeAdded: &since})
	if c.Seed%2 == 0 {
		dead.Spec.Taints = append(dead.Spec.Taints, v1.Taint{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoExecute, TimeAdded: &since})
	}
	dead.Status.Conditions[0].Status, dead.Status.Conditions[0].Reason = v1.ConditionUnknown, "NodeStatusUnknown"
}
