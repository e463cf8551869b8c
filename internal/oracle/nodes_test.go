package oracle

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	rack      = "example.com/rack"
	cores     = "example.com/cores"
	disk      = "example.com/disk"
	gpu       = "example.com/gpu"
	driven    = "example.com/accel" // served by a driver
	csiDriver = "ebs.csi.example.com"
)

var (
	zones  = []string{"a", "b", "c"}
	racks  = []string{"r1", "r2", "r3", "r4"}
	teams  = []string{"red", "green", "blue"}
	spaces = []string{"default", "shop", "tenant-a", "tenant-b", "kube-system"}
)

func (d *drawer) namespaces() {
	for i, name := range spaces {
		n := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelMetadataName: name}}}
		if d.chance(.8) {
			n.Labels["team"] = teams[i%len(teams)]
		}
		d.Namespaces = append(d.Namespaces, n)
	}
}

func (d *drawer) nodes() {
	for i := range d.between(5, 40) {
		d.Nodes = append(d.Nodes, d.node(i))
	}
	if d.features.odd && len(d.Nodes) > 1 { // two nodes with one host name
		d.Nodes[1].Labels[v1.LabelHostname] = d.Nodes[0].Labels[v1.LabelHostname]
	}
	d.Classes = []*storagev1.StorageClass{{
		ObjectMeta: metav1.ObjectMeta{Name: "standard"}, Provisioner: csiDriver, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}}
	if d.features.driven {
		d.Drivers = []*resourcev1.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "accel"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: new(driven)}}}
	}
}

func (d *drawer) node(i int) *v1.Node {
	name := fmt.Sprint("node-", i)
	cpus := one(d, 2, 4, 4, 8, 8, 16)
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{
			v1.LabelHostname: name, v1.LabelOSStable: "linux", v1.LabelArchStable: one(d, "amd64", "amd64", "amd64", "arm64"),
			v1.LabelInstanceTypeStable: fmt.Sprintf("m.%d", cpus),
		}},
		Status: v1.NodeStatus{
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
			Allocatable: v1.ResourceList{
				"cpu": *resource.NewQuantity(int64(cpus), resource.DecimalSI), "memory": resource.MustParse(fmt.Sprintf("%dGi", cpus*one(d, 2, 4, 4, 8))),
				"pods": resource.MustParse(one(d, "6", "12", "30", "110")), "ephemeral-storage": resource.MustParse("40Gi"),
			},
		},
	}
	d.labels(n, cpus)
	if d.chance(.15) {
		n.Status.Allocatable[gpu] = resource.MustParse("4")
		if d.chance(.5) {
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: gpu, Value: "present", Effect: v1.TaintEffectNoSchedule})
		}
	}
	if d.chance(.1) {
		n.Status.Allocatable["hugepages-2Mi"] = resource.MustParse("128Mi")
	}
	if d.features.windows && d.chance(.2) {
		n.Labels[v1.LabelOSStable] = "windows"
		if d.chance(.7) { // as GKE does
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "node.kubernetes.io/os", Value: "windows", Effect: v1.TaintEffectNoSchedule})
		}
	}
	d.ofKind(n)
	for d.chance(.08) {
		n.Spec.Taints = append(n.Spec.Taints, d.taint())
	}
	if d.features.cordons && d.chance(.1) {
		cordon(n)
	}
	if d.features.unready && d.chance(.1) {
		d.condition(n)
	}
	n.Status.Capacity = n.Status.Allocatable
	driver := storagev1.CSINodeDriver{Name: csiDriver, NodeID: name}
	if d.chance(.7) {
		driver.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(d.between(1, 12)))}
	}
	d.CSINodes = append(d.CSINodes, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{driver}}})
	return n
}

// labels draws those of topologies, some of which are missing or odd.
func (d *drawer) labels(n *v1.Node, cpus int) {
	zone := one(d, zones...)
	if d.chance(.93) {
		n.Labels[v1.LabelTopologyZone] = zone
	}
	if d.chance(.85) {
		n.Labels[v1.LabelTopologyRegion] = one(d, "east", "east", "west")
	}
	if d.chance(.7) {
		n.Labels[rack] = one(d, racks...)
	}
	if d.chance(.6) {
		n.Labels[cores] = strconv.Itoa(cpus)
	}
	if d.chance(.4) {
		n.Labels[disk] = one(d, "ssd", "ssd", "hdd", "")
	}
	if d.features.odd {
		switch {
		case d.chance(.06):
			delete(n.Labels, v1.LabelHostname)
		case d.chance(.06): //nolint:gocritic // another draw
			n.Labels[v1.LabelHostname] = "host-" + n.Name // not the name of the object
		case d.chance(.04):
			n.Labels[cores] = "many" // no number
		}
	}
}

// ofKind makes some nodes those of a kind of its own.
func (d *drawer) ofKind(n *v1.Node) {
	if !d.chance(.04) {
		return
	}
	switch d.IntN(3) {
	case 0:
		n.Labels["eks.amazonaws.com/compute-type"] = "fargate"
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "eks.amazonaws.com/compute-type", Value: "fargate", Effect: v1.TaintEffectNoSchedule})
	case 1:
		n.Labels["type"] = "virtual-kubelet"
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "virtual-kubelet.io/provider", Value: "azure", Effect: v1.TaintEffectNoSchedule})
	default:
		n.Labels["node-role.kubernetes.io/control-plane"] = ""
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: v1.TaintEffectNoSchedule})
	}
}

func (d *drawer) taint() v1.Taint {
	return v1.Taint{
		Key: one(d, "dedicated", "team", "level"), Value: one(d, "red", "green", "3", "7"),
		Effect: one(d, v1.TaintEffectNoSchedule, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule),
	}
}

// cordon does what kubectl and the node controller do.
func cordon(n *v1.Node) {
	n.Spec.Unschedulable = true
	n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
}

// condition gives a node one that the node controller turns into taints, or a taint of the same prefix that others put there.
func (d *drawer) condition(n *v1.Node) {
	add := func(key string, effects ...v1.TaintEffect) {
		for _, e := range effects {
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key, Effect: e})
		}
	}
	switch d.IntN(7) {
	case 0:
		n.Status.Conditions[0].Status = v1.ConditionFalse
		add(v1.TaintNodeNotReady, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute)
	case 1:
		n.Status.Conditions[0].Status = v1.ConditionUnknown
		add(v1.TaintNodeUnreachable, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute)
	case 2:
		add(v1.TaintNodeMemoryPressure, v1.TaintEffectNoSchedule)
	case 3:
		add(v1.TaintNodeDiskPressure, v1.TaintEffectNoSchedule)
	case 4:
		add(v1.TaintNodePIDPressure, v1.TaintEffectNoSchedule)
	case 5:
		add(v1.TaintNodeOutOfService, v1.TaintEffectNoExecute)
	default:
		add(one(d, v1.TaintNodeNetworkUnavailable, "node.kubernetes.io/maintenance"), v1.TaintEffectNoSchedule)
	}
}
