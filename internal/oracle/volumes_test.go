package oracle

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// volumes draws volumes of a template. Those of claims are made with each pod.
func (d *drawer) volumes(w *workload, p *v1.PodTemplateSpec) {
	add := func(chance float64, name string, source v1.VolumeSource) {
		if d.chance(chance) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
		}
	}
	add(.3, "config", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "config"}}})
	add(.08, "scratch", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
	add(.05, "memory", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}})
	add(.04, "host", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/var/lib/x"}})
	add(.02, "secrets", v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "secrets.csi.example.com"}})
	add(.02, "disk", v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: one(d, "pd-1", "pd-2"), ReadOnly: d.chance(.3)}})
	add(.02, "block", v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{TargetPortal: "10.0.0.1:3260", IQN: "iqn.2026-01.com.example:x", Lun: 0, ReadOnly: d.chance(.3)}})
	add(.02, "ceph", v1.VolumeSource{RBD: &v1.RBDVolumeSource{CephMonitors: []string{"10.0.0.2:6789"}, RBDImage: "image", RBDPool: "pool"}})
	add(.04, "shared", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: w.name + "-shared"}})
	add(.03, "own", v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{
		Spec: claimSpec(v1.ReadWriteOnce),
	}}})
	if w.kind == "StatefulSet" && d.chance(.5) {
		add(1, "data", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "of each pod"}})
	}
	if d.chance(.02) {
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "device", ResourceClaimName: new(w.name + "-device")}}
	}
}

func claimSpec(mode v1.PersistentVolumeAccessMode) v1.PersistentVolumeClaimSpec {
	return v1.PersistentVolumeClaimSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{mode}, StorageClassName: new("standard"),
		Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{"storage": resource.MustParse("1Gi")}},
	}
}

// claims makes the claims of a pod, each bound to a volume.
func (d *drawer) claims(p *v1.Pod) {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		switch {
		case v.PersistentVolumeClaim != nil && v.Name == "data":
			v.PersistentVolumeClaim.ClaimName = "data-" + p.Name
			d.claim(p.Namespace, "data-"+p.Name, v1.ReadWriteOnce, nil)
		case v.PersistentVolumeClaim != nil:
			d.claim(p.Namespace, v.PersistentVolumeClaim.ClaimName, one(d, v1.ReadWriteMany, v1.ReadWriteOnce, v1.ReadWriteOncePod), nil)
		case v.Ephemeral != nil:
			d.claim(p.Namespace, p.Name+"-"+v.Name, v1.ReadWriteOnce, p)
		}
	}
	for _, c := range p.Spec.ResourceClaims {
		d.device(p, *c.ResourceClaimName)
	}
}

// claim makes one unless it is there. Its volume may be of one zone or node.
func (d *drawer) claim(namespace, name string, mode v1.PersistentVolumeAccessMode, owner *v1.Pod) {
	for _, c := range d.Claims {
		if c.Namespace == namespace && c.Name == name {
			return
		}
	}
	volume := fmt.Sprintf("pv-%s-%s", namespace, name)
	c := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(volume), Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
		Spec:       claimSpec(mode), Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
	}
	if owner != nil {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: owner.Name, UID: owner.UID, Controller: yes}}
	}
	c.Spec.VolumeName = volume
	v := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volume},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: c.Spec.AccessModes, StorageClassName: "standard", Capacity: v1.ResourceList{"storage": resource.MustParse("1Gi")},
			ClaimRef:               &v1.ObjectReference{Namespace: namespace, Name: name, UID: c.UID},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: csiDriver, VolumeHandle: volume}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound},
	}
	switch {
	case d.chance(.5):
		v.Spec.NodeAffinity = volumeOn(v1.LabelTopologyZone, one(d, zones...))
	case d.chance(.3):
		v.Spec.NodeAffinity = volumeOn(v1.LabelHostname, one(d, d.Nodes...).Name)
	case d.chance(.3): //nolint:gocritic // another draw
		v.Labels = map[string]string{v1.LabelTopologyZone: one(d, zones...)}
	}
	d.Claims, d.Volumes = append(d.Claims, c), append(d.Volumes, v)
}

func nodesWith(key, value string) *v1.NodeSelector {
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{value}}}}}}
}

func volumeOn(key, value string) *v1.VolumeNodeAffinity {
	return &v1.VolumeNodeAffinity{Required: nodesWith(key, value)}
}

// device makes an allocated resource claim, unless it is there, and reserves it for a pod.
func (d *drawer) device(p *v1.Pod, name string) {
	for _, c := range d.Devices {
		if c.Namespace == p.Namespace && c.Name == name {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
			return
		}
	}
	c := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name, UID: types.UID(p.Namespace + "-" + name)},
		Status: resourcev1.ResourceClaimStatus{
			Allocation:  &resourcev1.AllocationResult{NodeSelector: nodesWith(v1.LabelTopologyZone, one(d, zones...))},
			ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}},
		},
	}
	d.Devices = append(d.Devices, c)
}
