package clusters

import "fmt"

// A machine is an instance type, with its price an hour on demand.
type machine struct {
	name     string
	cpu, mem int64 // cores, GiB
	gpus     int64
	price    float64
}

// A pool of nodes.
type pool struct {
	name   string
	part   float64 // of all nodes
	types  []machine
	taint  string // key=value, for pods of the pool alone
	spot   bool
	arch   string // amd64 where it is empty
	system string // linux where it is empty
}

var poolsOf = map[string][]pool{
	"metal": {
		{name: "control", part: .15, types: []machine{{"", 4, 8, 0, .11}}, taint: "node-role.kubernetes.io/control-plane="},
		{name: "old", part: .5, types: []machine{{"", 24, 96, 0, .7}, {"", 32, 128, 0, .7}}},
		{name: "new", part: .35, types: []machine{{"", 64, 256, 0, .7}}},
	},
	"eks": {
		{name: "base", part: .42, types: []machine{{"m5.xlarge", 4, 16, 0, .2}, {"m5.2xlarge", 8, 32, 0, .4}, {"m6g.2xlarge", 8, 32, 0, .3}}},
		{name: "burst", part: .2, types: []machine{{"c5.2xlarge", 8, 16, 0, .35}, {"c5.4xlarge", 16, 32, 0, .7}}, taint: "burst=true", spot: true},
		{name: "store", part: .2, types: []machine{{"r5.2xlarge", 8, 64, 0, .5}, {"r5.4xlarge", 16, 128, 0, 1}}, taint: "team=store"},
		{name: "graviton", part: .12, types: []machine{{"m6g.4xlarge", 16, 64, 0, .6}}, taint: "arch=arm64", arch: "arm64"},
		{name: "gpu", part: .06, types: []machine{{"g4dn.xlarge", 4, 16, 1, .5}, {"g4dn.12xlarge", 48, 192, 4, 4}}, taint: "nvidia.com/gpu=true"},
	},
	"aks": {
		{name: "system", part: .06, types: []machine{{"Standard_D4s_v5", 4, 16, 0, .2}}, taint: "CriticalAddonsOnly=true"},
		{name: "user", part: .54, types: []machine{{"Standard_D8s_v5", 8, 32, 0, .4}, {"Standard_D16s_v5", 16, 64, 0, .8}, {"Standard_D8as_v5", 8, 32, 0, .4}}},
		{name: "spot", part: .2, types: []machine{{"Standard_F8s_v2", 8, 16, 0, .4}}, taint: "kubernetes.azure.com/scalesetpriority=spot", spot: true},
		{name: "win", part: .08, types: []machine{{"Standard_D8s_v5", 8, 32, 0, .4}}, taint: "os=windows", system: "windows"},
		{name: "mem", part: .12, types: []machine{{"Standard_E8s_v5", 8, 64, 0, .6}}, taint: "pool=mem"},
	},
	"gke": {
		{name: "default-pool", part: .6, types: []machine{{"e2-standard-8", 8, 32, 0, .27}, {"n2-standard-16", 16, 64, 0, .78}, {"n2-custom-12-49152", 12, 48, 0, .6}}},
		{name: "batch", part: .25, types: []machine{{"n2d-standard-16", 16, 64, 0, .68}}, taint: "batch=yes", spot: true},
		{name: "highmem", part: .13, types: []machine{{"n2-highmem-8", 8, 64, 0, .53}}, taint: "highmem=yes"},
		{name: "t4", part: .02, types: []machine{{"n1-standard-8", 8, 30, 1, .73}}, taint: "nvidia.com/gpu=present"},
	},
}

var places = map[string][]string{
	"metal": {"hall-1", "hall-2"}, "eks": {"us-east-1a", "us-east-1b", "us-east-1c"}, "aks": {"westeurope-1", "westeurope-2", "westeurope-3"},
	"gke": {"us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f"},
}

func (c *cluster) makePools() {
	pools := poolsOf[c.Cloud]
	for i := range pools {
		n := max(1, int(pools[i].part*float64(c.Nodes)))
		if i == 1 { // the rest
			for j := range pools {
				if j != 1 {
					n -= max(1, int(pools[j].part*float64(c.Nodes)))
				}
			}
			n += c.Nodes - max(1, int(pools[1].part*float64(c.Nodes)))
		}
		for k := range n {
			c.makeNode(&pools[i], places[c.Cloud][k%len(places[c.Cloud])])
		}
	}
}

func (c *cluster) makeNode(p *pool, zone string) {
	t := oneOf(c, p.types...)
	name := fmt.Sprintf("%s-%s-%s-%04d", c.Cloud, p.name, c.id(4), len(c.nodes))
	arch, system := p.arch, p.system
	if t.name != "" && (t.name[:2] == "m6") {
		arch = "arm64"
	}
	if arch == "" {
		arch = "amd64"
	}
	if system == "" {
		system = "linux"
	}
	labels := map[string]any{
		"kubernetes.io/hostname": name, "kubernetes.io/os": system, "kubernetes.io/arch": arch, "topology.kubernetes.io/zone": zone,
		"company.example/pool": p.name,
	}
	region := zone[:max(0, len(zone)-1)]
	spec := object{}
	kind := ""
	switch c.Cloud {
	case "eks":
		labels["eks.amazonaws.com/nodegroup"], kind = p.name, "ON_DEMAND"
		if p.spot {
			kind = "SPOT"
		}
		labels["eks.amazonaws.com/capacityType"] = kind
		spec["providerID"] = "aws:///" + zone + "/i-" + c.id(17)
	case "aks":
		region = "westeurope"
		labels["kubernetes.azure.com/agentpool"], labels["agentpool"] = p.name, p.name
		if p.spot {
			labels["kubernetes.azure.com/scalesetpriority"] = "spot"
		}
		spec["providerID"] = "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/" + p.name + "/virtualMachines/" + fmt.Sprint(len(c.nodes))
	case "gke":
		region = "us-central1"
		labels["cloud.google.com/gke-nodepool"] = p.name
		if p.spot {
			labels[oneOf(c, "cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible")] = "true"
		}
		spec["providerID"] = "gce://p/" + zone + "/" + name
	case "metal":
		region = ""
		if p.name == "control" {
			labels["node-role.kubernetes.io/control-plane"] = ""
		}
	}
	if region != "" {
		labels["topology.kubernetes.io/region"] = region
	}
	if t.name != "" {
		labels["node.kubernetes.io/instance-type"] = t.name
	}
	if c.Minor < 30 { // labels of then
		labels["beta.kubernetes.io/os"], labels["beta.kubernetes.io/arch"], labels["failure-domain.beta.kubernetes.io/zone"] = system, arch, zone
	}
	n := &node{name: name, zone: zone, pool: p, cpu: t.cpu*1000 - 110, mem: t.mem*1024 - 700 - t.mem*30, gpus: t.gpus, slots: oneOf(c, 58, 110), ports: map[int]bool{}, apps: map[string]int{}}
	if p.taint != "" {
		key, value := cut(p.taint)
		taint := object{"key": key, "effect": "NoSchedule"}
		if value != "" {
			taint["value"] = value
		}
		spec["taints"] = []any{taint}
	}
	allocatable := object{"cpu": fmt.Sprintf("%dm", n.cpu), "memory": fmt.Sprintf("%dKi", n.mem*1024), "pods": fmt.Sprint(n.slots), "ephemeral-storage": "47093746742", "hugepages-2Mi": "0"}
	capacity := object{"cpu": fmt.Sprint(t.cpu), "memory": fmt.Sprintf("%dKi", t.mem*1024*1024-int64(c.rng.IntN(300_000))), "pods": fmt.Sprint(n.slots), "ephemeral-storage": "52416492Ki", "hugepages-2Mi": "0"}
	if t.gpus > 0 {
		allocatable["nvidia.com/gpu"], capacity["nvidia.com/gpu"] = fmt.Sprint(t.gpus), fmt.Sprint(t.gpus)
	}
	if c.odds(.3) {
		allocatable["memory"] = fmt.Sprint(n.mem << 20)
	}
	n.object = c.add("Node", object{
		"metadata": c.meta("", name, labels), "spec": spec,
		"status": object{
			"allocatable": allocatable, "capacity": capacity, "nodeInfo": object{"kubeletVersion": fmt.Sprintf("v1.%d.1", c.Minor), "operatingSystem": system, "architecture": arch},
			"conditions": []any{object{"type": "MemoryPressure", "status": "False"}, object{"type": "Ready", "status": "True"}},
		},
	})
	if c.Cloud == "metal" { // its nodes have no type that a file could name
		n.object["metadata"].(object)["annotations"] = object{"sigma-scheduler.io/cost": fmt.Sprint(t.price * float64(t.cpu) / 24)}
	}
	c.nodes = append(c.nodes, n)
}

func cut(taint string) (key, value string) {
	for i := range taint {
		if taint[i] == '=' {
			return taint[:i], taint[i+1:]
		}
	}
	return taint, ""
}

// breakNodes cordons some nodes, and lets others die, be new or be short of memory.
func (c *cluster) breakNodes() {
	taint := func(n *node, key, effect string) {
		spec := n.object["spec"].(object)
		list, _ := spec["taints"].([]any)
		spec["taints"] = append(list, object{"key": key, "effect": effect})
	}
	ready := func(n *node, status string) {
		n.object["status"].(object)["conditions"] = []any{object{"type": "Ready", "status": status}}
	}
	for i := range max(2, c.Nodes/50) {
		n := c.nodes[c.rng.IntN(len(c.nodes))]
		if n.pool.name == "control" {
			continue
		}
		switch i % 5 {
		case 0:
			ready(n, "Unknown")
			taint(n, "node.kubernetes.io/unreachable", "NoSchedule")
			taint(n, "node.kubernetes.io/unreachable", "NoExecute")
		case 1:
			n.object["spec"].(object)["unschedulable"] = true
			taint(n, "node.kubernetes.io/unschedulable", "NoSchedule")
		case 2:
			ready(n, "False")
			taint(n, "node.kubernetes.io/not-ready", "NoSchedule")
		case 3:
			taint(n, "DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule")
		case 4:
			taint(n, "node.kubernetes.io/memory-pressure", "NoSchedule")
		}
	}
}
