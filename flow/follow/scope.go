package follow

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

var namespaceKind = corev1.SchemeGroupVersion.WithKind("Namespace")

func anyNamespace() *metav1.PartialObjectMetadata {
	n := &metav1.PartialObjectMetadata{}
	n.SetGroupVersionKind(namespaceKind)
	return n
}

// scope returns the addresses of the node's pods in namespaces with such labels. It reports false while not all are
// known. Namespaces are watched while a policy has a selector.
func (r *Runner) scope(ctx context.Context, selector labels.Selector) (scope []netip.Addr, known bool) {
	r.scoped = true
	if r.namespaces == nil {
		namespaces, err := r.cache.GetInformer(ctx, anyNamespace(), cache.BlockUntilSynced(false))
		if err != nil {
			r.complain(err)
			return nil, false
		}
		r.namespaces = namespaces
	}
	pods, known := r.listPods(ctx)
	if !known || !r.namespaces.HasSynced() {
		return nil, false
	}
	var all metav1.PartialObjectMetadataList
	all.SetGroupVersionKind(namespaceKind)
	if err := r.cache.List(ctx, &all); err != nil {
		r.complain(err)
		return nil, false
	}
	return addresses(pods, all.Items, selector), true
}

// leaveNamespaces ends the watch of namespaces.
func (r *Runner) leaveNamespaces(ctx context.Context) {
	if r.namespaces == nil {
		return
	}
	r.namespaces = nil
	if err := r.cache.RemoveInformer(ctx, anyNamespace()); err != nil {
		r.complain(err)
	}
}

// addresses are those of pods in namespaces that are selected, in their order and not nil. Pods in the host's network are left out:
// their address is that of all of them and of the node's own programs.
func addresses(pods []corev1.Pod, namespaces []metav1.PartialObjectMetadata, selector labels.Selector) []netip.Addr {
	selected := map[string]bool{}
	for i := range namespaces {
		selected[namespaces[i].Name] = selector.Matches(labels.Set(namespaces[i].Labels))
	}
	list := []netip.Addr{}
	for i := range pods {
		p := &pods[i]
		// The address of a pod that has ended may be another's.
		if !selected[p.Namespace] || p.Spec.HostNetwork || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, ip := range p.Status.PodIPs {
			if a, err := netip.ParseAddr(ip.IP); err == nil {
				list = append(list, a.Unmap())
			}
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// stripNamespace keeps the fields of a namespace that are read here.
func stripNamespace(o any) (any, error) {
	n, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return o, nil
	}
	kept := &metav1.PartialObjectMetadata{TypeMeta: n.TypeMeta}
	kept.Name, kept.UID, kept.ResourceVersion, kept.Labels = n.Name, n.UID, n.ResourceVersion, n.Labels
	return kept, nil
}
