package snapshot

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/sigma-scheduler/sigma/plugins/owner"
	"github.com/sigma-scheduler/sigma/plugins/volumes"
)

// volumeKinds are those without which pods with volumes stay where they are.
var volumeKinds = []string{"PersistentVolumeClaim", "PersistentVolume", "CSINode"}

func hasClaims(pod *v1.Pod) bool {
	names, _ := volumes.Claims(pod)
	return len(names) > 0
}

// readVolumes reads the objects of volumes, if a pod has some.
func (c *Client) readVolumes(ctx context.Context, p *Picture) error {
	if !slices.ContainsFunc(p.Pods, hasClaims) {
		return nil
	}
	claimed, err := list(ctx, c, v1.SchemeGroupVersion, "persistentvolumeclaims", "", func(l *v1.PersistentVolumeClaimList) []v1.PersistentVolumeClaim { return l.Items })
	if c.lacks(p, "PersistentVolumeClaim", err) != nil {
		return err
	}
	of, err := list(ctx, c, v1.SchemeGroupVersion, "persistentvolumes", "", func(l *v1.PersistentVolumeList) []v1.PersistentVolume { return l.Items })
	if c.lacks(p, "PersistentVolume", err) != nil {
		return err
	}
	nodes, err := list(ctx, c, storagev1.SchemeGroupVersion, "csinodes", "", func(l *storagev1.CSINodeList) []storagev1.CSINode { return l.Items })
	if c.lacks(p, "CSINode", err) != nil {
		return err
	}
	p.bind(claimed, of, nodes)
	return nil
}

// bind makes constraints of the volumes of pods, where they are known. Pods of which all are known are then in p.attached.
func (p *Picture) bind(claims []*v1.PersistentVolumeClaim, list []*v1.PersistentVolume, nodes []*storagev1.CSINode) {
	all := p.Pods
	if p.AllPods != nil {
		all = p.AllPods
	}
	s := volumes.New(claims, list, nodes, all)
	p.attached = map[string]bool{}
	bound, held := map[*v1.Pod]*v1.Pod{}, map[string]bool{}
	for _, pod := range all {
		as, exact := s.Pod(pod)
		if as == nil {
			continue
		}
		if bound[pod] = as; exact {
			p.attached[nameOf(pod)] = true
			ref, _ := owner.Of(pod, nil)
			held[pod.Namespace+"/"+ref.Name] = true
		}
	}
	replace := func(list []*v1.Pod) {
		for i, pod := range list {
			if as := bound[pod]; as != nil {
				list[i] = as
			}
		}
	}
	replace(p.Pods)
	replace(p.AllPods)
	if d := p.Declared; d != nil && len(held) > 0 { // a template is without volumes: its pods are of another app
		own := *d
		own.Deployments = without(d.Deployments, held)
		own.StatefulSets = without(d.StatefulSets, held)
		own.ReplicaSets = without(d.ReplicaSets, held)
		p.Declared = &own
	}
	for i, n := range p.Nodes {
		p.Nodes[i] = s.Node(n)
	}
}

func without[T any, P interface {
	*T
	GetNamespace() string
	GetName() string
}](list []*T, names map[string]bool) []*T {
	return slices.DeleteFunc(slices.Clone(list), func(o *T) bool { return names[P(o).GetNamespace()+"/"+P(o).GetName()] })
}
