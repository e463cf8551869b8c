package volumes

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// Volumes are the objects on which the nodes of pods with volumes depend.
type Volumes struct {
	claims  map[string]*v1.PersistentVolumeClaim // by namespace/name
	of      map[string]*v1.PersistentVolume
	nodes   map[string]*storagev1.CSINode
	users   map[string]int  // pods by claim
	drivers map[string]bool // of the pods so far
}

// New returns the volumes of a cluster with all of its pods.
func New(claims []*v1.PersistentVolumeClaim, list []*v1.PersistentVolume, nodes []*storagev1.CSINode, pods []*v1.Pod) *Volumes {
	s := &Volumes{map[string]*v1.PersistentVolumeClaim{}, map[string]*v1.PersistentVolume{}, map[string]*storagev1.CSINode{}, map[string]int{}, map[string]bool{}}
	for _, c := range claims {
		s.claims[c.Namespace+"/"+c.Name] = c
	}
	for _, v := range list {
		s.of[v.Name] = v
	}
	for _, n := range nodes {
		s.nodes[n.Name] = n
	}
	for _, pod := range pods {
		names, _ := Claims(pod)
		for _, name := range names {
			s.users[name]++
		}
	}
	return s
}

// Claims returns the claims of a pod as namespace/name. known is false where it has volumes of other kinds that not every node can
// have.
func Claims(pod *v1.Pod) (names []string, known bool) {
	known = true
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			names = append(names, pod.Namespace+"/"+v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, pod.Namespace+"/"+pod.Name+"-"+v.Name)
		case !podspec.AnyNode(v):
			known = false
		}
	}
	return names, known
}

// mostTerms bounds the terms of a node affinity.
const mostTerms = 16

// Pod returns a pod with its known volumes as constraints: the nodes that a volume may be on in the pod's node affinity, and in
// its requests the volumes that a driver attaches to a node. nil = it has none. exact reports whether all are known.
func (s *Volumes) Pod(pod *v1.Pod) (as *v1.Pod, exact bool) {
	names, exact := Claims(pod)
	if len(names) == 0 {
		return nil, false
	}
	attach := v1.ResourceList{}
	var terms []v1.NodeSelectorTerm
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		terms = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	for _, name := range names {
		v := s.volume(name)
		if v == nil {
			exact = false
			continue
		}
		exact = exact && s.users[name] == 1
		if csi := v.Spec.CSI; csi != nil {
			key := v1.ResourceName(attachKey(csi.Driver))
			n := attach[key]
			n.Add(*resource.NewQuantity(1, resource.DecimalSI))
			attach[key] = n
			exact, s.drivers[csi.Driver] = exact && len(s.nodes) > 0, true
		} else if !everywhere(&v.Spec.PersistentVolumeSource) {
			exact = false
		}
		terms = and(terms, where(v))
	}
	as = pod.DeepCopy()
	if len(as.Spec.Containers) > 0 && len(s.nodes) > 0 {
		c := &as.Spec.Containers[0].Resources
		if c.Requests == nil {
			c.Requests = v1.ResourceList{}
		}
		maps.Copy(c.Requests, attach)
	}
	if exact = exact && len(terms) <= mostTerms && podspec.Moves(pod); exact && len(terms) > 0 {
		if as.Spec.Affinity == nil {
			as.Spec.Affinity = &v1.Affinity{}
		}
		if as.Spec.Affinity.NodeAffinity == nil {
			as.Spec.Affinity.NodeAffinity = &v1.NodeAffinity{}
		}
		as.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: terms}
	}
	return as, exact
}

// volume is the volume that a claim is bound to; nil = it is not known.
func (s *Volumes) volume(claim string) *v1.PersistentVolume {
	c := s.claims[claim]
	if c == nil || c.DeletionTimestamp != nil || c.Status.Phase != v1.ClaimBound {
		return nil
	}
	if v := s.of[c.Spec.VolumeName]; v != nil && v.DeletionTimestamp == nil {
		return v
	}
	return nil
}

// everywhere reports whether any node can have any number of volumes of a source. A local volume is on its node alone.
func everywhere(s *v1.PersistentVolumeSource) bool {
	return s.NFS != nil || s.CephFS != nil || s.Glusterfs != nil || s.AzureFile != nil
}

// where are the terms of the nodes that a volume may be on, as the filters VolumeBinding and VolumeZone have it; none = any node.
func where(v *v1.PersistentVolume) (terms []v1.NodeSelectorTerm) {
	if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
		terms = a.Required.NodeSelectorTerms
	}
	for _, key := range []string{v1.LabelTopologyZone, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion} {
		if value, ok := v.Labels[key]; ok {
			terms = and(terms, []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpIn, Values: strings.Split(value, "__")}}}})
		}
	}
	return terms
}

// and are the terms of nodes that two lists admit; an empty list admits all.
func and(a, b []v1.NodeSelectorTerm) (both []v1.NodeSelectorTerm) {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	for i := range a {
		for j := range b {
			both = append(both, v1.NodeSelectorTerm{
				MatchExpressions: slices.Concat(a[i].MatchExpressions, b[j].MatchExpressions),
				MatchFields:      slices.Concat(a[i].MatchFields, b[j].MatchFields),
			})
		}
	}
	return both
}

// attachKey is the resource of the volumes that a driver attaches to a node.
func attachKey(driver string) string { return "attachable-volumes-csi-" + driver }

// unlimited is a number of volumes above that of any node.
const unlimited = 1000

// Node returns a node with the numbers of volumes that the drivers of the pods so far attach to it, by CSINode: none where it
// lacks the driver.
func (s *Volumes) Node(n *v1.Node) *v1.Node {
	of := s.nodes[n.Name]
	if len(s.nodes)*len(s.drivers) == 0 {
		return n
	}
	n = n.DeepCopy()
	for driver := range s.drivers {
		most := int64(0)
		if of != nil {
			for _, d := range of.Spec.Drivers {
				if d.Name == driver {
					if most = unlimited; d.Allocatable != nil && d.Allocatable.Count != nil {
						most = int64(*d.Allocatable.Count)
					}
				}
			}
		}
		if n.Status.Allocatable == nil {
			n.Status.Allocatable = v1.ResourceList{}
		}
		n.Status.Allocatable[v1.ResourceName(attachKey(driver))] = *resource.NewQuantity(most, resource.DecimalSI)
	}
	return n
}
