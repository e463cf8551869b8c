// Package target finds the objects that a MultidimPodAutoscaler sizes: its workload, that
// workload's pods, and their containers. The recommender and the updater find the same ones.
// It decides nothing, and measures nothing.
package target

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/owner"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Workload is the target of an object.
type Workload struct {
	Object   client.Object // a Deployment, a StatefulSet or a Knative Service
	Replicas int32         // of its spec
	Selector labels.Selector
	Template *corev1.PodTemplateSpec
}

// RefOf returns the workload that a target reference names, without its UID.
func RefOf(ref *v1alpha1.TargetReference) owner.Ref {
	return owner.Ref{Group: appsv1.GroupName, Kind: ref.Kind, Name: ref.Name}
}

// Ignores reports whether the autoscaler leaves the objects and pods of a namespace alone: its
// own, and that of the cluster's components. Its own dependencies must not depend on it.
func Ignores(namespace, own string) bool {
	return namespace == metav1.NamespaceSystem || namespace == own
}

// Find returns the target of an object that is no Knative Service; the error is NotFound if it does not exist. It
// reads
// replicas and selector from the workload itself, which a cache has, and not from the scale
// subresource.
func Find(ctx context.Context, r client.Reader, namespace string, ref v1alpha1.TargetReference) (*Workload, error) {
	key := client.ObjectKey{Namespace: namespace, Name: ref.Name}
	w := &Workload{Replicas: 1} // the API server's default
	var replicas *int32
	var selector *metav1.LabelSelector
	switch ref.Kind {
	case "Deployment":
		d := &appsv1.Deployment{}
		if err := r.Get(ctx, key, d); err != nil {
			return nil, err
		}
		w.Object, w.Template, replicas, selector = d, &d.Spec.Template, d.Spec.Replicas, d.Spec.Selector
	case "StatefulSet":
		s := &appsv1.StatefulSet{}
		if err := r.Get(ctx, key, s); err != nil {
			return nil, err
		}
		w.Object, w.Template, replicas, selector = s, &s.Spec.Template, s.Spec.Replicas, s.Spec.Selector
	default:
		return nil, fmt.Errorf("scaleTargetRef.kind %q: want Deployment or StatefulSet", ref.Kind)
	}
	if replicas != nil {
		w.Replicas = *replicas
	}
	var err error
	w.Selector, err = metav1.LabelSelectorAsSelector(selector)
	return w, err
}

// Ref names the workload.
func (w *Workload) Ref() owner.Ref {
	kind := "StatefulSet"
	if _, ok := w.Object.(*appsv1.Deployment); ok {
		kind = "Deployment"
	}
	return owner.Ref{Group: appsv1.GroupName, Kind: kind, Name: w.Object.GetName(), UID: w.Object.GetUID()}
}

// Pods returns the pods that belong to the workload, by name.
//
// The reader may be a cache or the API server itself. Where it lacks a pod's ReplicaSet, as
// a cache that is behind does, the ReplicaSet's name decides.
func (w *Workload) Pods(ctx context.Context, r client.Reader) ([]corev1.Pod, error) {
	options := []client.ListOption{client.InNamespace(w.Object.GetNamespace()), client.MatchingLabelsSelector{Selector: w.Selector}}
	var list corev1.PodList
	if err := r.List(ctx, &list, options...); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	known := map[string]metav1.Object{}
	if _, ok := w.Object.(*appsv1.Deployment); ok {
		sets, err := replicaSets(ctx, r, append(options, client.UnsafeDisableDeepCopy)...)
		if err != nil {
			return nil, err
		}
		for i := range sets {
			known[sets[i].Name] = &sets[i]
		}
	}
	lookup := func(controller *metav1.OwnerReference) metav1.Object {
		if group, _, _ := strings.Cut(controller.APIVersion, "/"); group == appsv1.GroupName && controller.Kind == "ReplicaSet" {
			return known[controller.Name]
		}
		return nil
	}
	ref := w.Ref()
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		above, ok := owner.Of(&p, lookup)
		return !ok || !above.Is(ref)
	})
	return byName(pods), nil
}

// controllerField is the UID of the object that controls a pod or a ReplicaSet.
const controllerField = "metadata.controller"

// Index adds the fields that [Workload.IndexedPods] reads to a cache.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, o := range []client.Object{&corev1.Pod{}, ReplicaSets()} {
		if err := indexer.IndexField(ctx, o, controllerField, ControllerUID); err != nil {
			return err
		}
	}
	return nil
}

// ControllerUID is an index of objects by the UID of their controller.
func ControllerUID(o client.Object) []string {
	if c := metav1.GetControllerOfNoCopy(o); c != nil {
		return []string{string(c.UID)}
	}
	return nil
}

// ReplicaSets is the kind to cache for the pods of Deployments: of metadata only.
func ReplicaSets() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	return o
}

// IndexedPods returns the pods that belong to the workload, by name, from a cache with the
// fields of [Index], without walking through the other pods of the namespace. They are
// shared with the cache and must not be modified.
func (w *Workload) IndexedPods(ctx context.Context, cache client.Reader) ([]corev1.Pod, error) {
	if w.Object.GetObjectKind().GroupVersionKind().Group == v1alpha1.Knative {
		list := &corev1.PodList{}
		if err := cache.List(ctx, list, client.InNamespace(w.Object.GetNamespace()), client.MatchingLabelsSelector{Selector: w.Selector}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list pods: %w", err)
		}
		return byName(list.Items), nil
	}
	controlledBy := func(uid types.UID) []client.ListOption {
		return []client.ListOption{client.InNamespace(w.Object.GetNamespace()), client.MatchingFields{controllerField: string(uid)}, client.UnsafeDisableDeepCopy}
	}
	owners := []types.UID{w.Object.GetUID()}
	if _, ok := w.Object.(*appsv1.Deployment); ok {
		sets, err := replicaSets(ctx, cache, controlledBy(owners[0])...)
		if err != nil {
			return nil, err
		}
		owners = owners[:0]
		for i := range sets {
			owners = append(owners, sets[i].UID)
		}
	}
	var pods []corev1.Pod
	for _, uid := range owners {
		list := &corev1.PodList{}
		if err := cache.List(ctx, list, controlledBy(uid)...); err != nil {
			return nil, fmt.Errorf("list pods: %w", err)
		}
		pods = append(pods, list.Items...)
	}
	return byName(pods), nil
}

func replicaSets(ctx context.Context, r client.Reader, options ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	sets := &metav1.PartialObjectMetadataList{}
	sets.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSetList"))
	if err := r.List(ctx, sets, options...); err != nil {
		return nil, fmt.Errorf("list ReplicaSets: %w", err)
	}
	return sets.Items, nil
}

func byName(pods []corev1.Pod) []corev1.Pod {
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods
}

// Containers returns the containers that run as long as the pod: sidecars, then the others.
func Containers(spec *corev1.PodSpec) []*corev1.Container {
	var list []*corev1.Container
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			list = append(list, c)
		}
	}
	for i := range spec.Containers {
		list = append(list, &spec.Containers[i])
	}
	return list
}

// SameRequests reports whether a pod has the requests of a template. Resources that the template does not request, as those of
// injected containers or a LimitRange's default, does not count.
func SameRequests(pod, template *corev1.PodSpec) bool {
	have := Containers(pod)
	for _, c := range Containers(template) {
		i := slices.IndexFunc(have, func(o *corev1.Container) bool { return o.Name == c.Name })
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q := Request(c, name); !q.IsZero() && (i < 0 || podspec.Milli(new(have[i].Resources.Requests[name])) != podspec.Milli(&q)) {
				return false
			}
		}
	}
	return true
}

// Request returns the request of a container of a template, as the API server sets it in pods: without one, the limit.
func Request(c *corev1.Container, name corev1.ResourceName) resource.Quantity {
	if q, ok := c.Resources.Requests[name]; ok {
		return q
	}
	return c.Resources.Limits[name]
}

// WithInjected returns a template's pod with the containers that only a live pod has, such as injected sidecars.
func WithInjected(template *corev1.PodSpec, pods []corev1.Pod) *corev1.PodSpec {
	if len(pods) == 0 {
		return template
	}
	whole, own := template.DeepCopy(), Containers(template)
	for _, c := range Containers(&pods[len(pods)-1].Spec) {
		if !slices.ContainsFunc(own, func(o *corev1.Container) bool { return o.Name == c.Name }) {
			whole.Containers = append(whole.Containers, *c)
		}
	}
	return whole
}
