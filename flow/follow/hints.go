package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/internal/bounded"
)

// A Hinter judges the sizes that pods declare, or that their flows had before. The Runner calls it from one goroutine.
type Hinter interface {
	// Declare takes all present declarations of the node's pods, with the owners of the addresses.
	Declare(now time.Time, all []flow.Declaration)
	// Trusted are the sizes that may be used now.
	Trusted() flow.Hints
}

// hints are the sizes that may be used, nil while no policy enables any. Pods are watched from the first policy on that
// does.
func (r *Runner) hints(ctx context.Context) flow.Hints {
	h, now := r.options.Hinter, r.options.Now()
	if h == nil {
		return nil
	}
	if !r.follower.hinting {
		h.Declare(now, nil)
		return nil
	}
	pods, known := r.listPods(ctx)
	if !known {
		return nil
	}
	var all []flow.Declaration
	wrong, in := 0, map[string]error{} // by namespace
	for i := range pods {
		d, err := declaration(&pods[i])
		if err != nil {
			wrong++
			in[pods[i].Namespace] = err
		} else if len(d.Addresses) > 0 {
			all = append(all, d)
		}
	}
	if err := r.wrong.next(now, in); err != nil {
		klog.Background().Error(err, "Sizes that pods declare are left out", "node", r.options.Node, "pods", wrong)
	}
	h.Declare(now, all)
	return h.Trusted()
}

// wrongSizes logs once a minute that sizes are left out, each time for another namespace: their pods share one line.
type wrongSizes struct {
	at        time.Time
	namespace string // of the last line
}

// next returns one of the errors by namespace, cut to one line; nil: there is none, or a line was written within a minute.
func (w *wrongSizes) next(now time.Time, errs map[string]error) error {
	if len(errs) == 0 || now.Sub(w.at) < repeated {
		return nil
	}
	names := slices.Sorted(maps.Keys(errs))
	i, said := slices.BinarySearch(names, w.namespace)
	if said {
		i++
	}
	w.at, w.namespace = now, names[i%len(names)]
	return errors.New(bounded.Text(errs[w.namespace].Error()))
}

// listPods returns the pods of the node. It reports false while they are not known, and begins to watch them.
func (r *Runner) listPods(ctx context.Context) (list []corev1.Pod, known bool) {
	if r.pods == nil {
		pods, err := r.cache.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
		if err != nil {
			r.complain(err)
			return nil, false
		}
		r.pods = pods
	}
	var all corev1.PodList
	if !r.pods.HasSynced() { // to list them would wait
		return nil, false
	}
	if err := r.cache.List(ctx, &all); err != nil {
		r.complain(err)
		return nil, false
	}
	return all.Items, true
}

// declaration is a pod's declaration of the flows that it sends. It has no sizes if the pod declares none, and no
// addresses if none are its own.
func declaration(p *corev1.Pod) (d flow.Declaration, err error) {
	text, ok := p.Annotations[v1alpha1.SizeAnnotation]
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil || p.Spec.HostNetwork && !ok {
		return d, nil // the address of one that ends may be another's soon
	}
	if ok {
		if d.Sizes, err = flow.ParseHints(text); err != nil {
			return d, fmt.Errorf("pod %s/%s: annotation %s: %w", p.Namespace, p.Name, v1alpha1.SizeAnnotation, err)
		}
	}
	d.Workload = p.Namespace + "/" + workload(p)
	for _, ip := range p.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			d.Addresses = append(d.Addresses, a)
		}
	}
	return d, nil
}

// workload is the name of a pod's controller, that of a Deployment without the hash of its ReplicaSet; or the pod's own.
func workload(p *corev1.Pod) string {
	owner := metav1.GetControllerOf(p)
	if owner == nil {
		return p.Name
	}
	if hash := p.Labels["pod-template-hash"]; hash != "" {
		return strings.TrimSuffix(owner.Name, "-"+hash)
	}
	return owner.Name
}

// strip keeps the fields of a pod that are read here.
func strip(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	kept := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Labels: p.Labels, OwnerReferences: p.OwnerReferences, DeletionTimestamp: p.DeletionTimestamp,
	}}
	if text, ok := p.Annotations[v1alpha1.SizeAnnotation]; ok {
		kept.Annotations = map[string]string{v1alpha1.SizeAnnotation: text}
	}
	kept.Spec.HostNetwork = p.Spec.HostNetwork
	kept.Spec.NodeName, kept.Status.Phase, kept.Status.PodIPs = p.Spec.NodeName, p.Status.Phase, p.Status.PodIPs
	return kept, nil
}
