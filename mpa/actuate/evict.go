package actuate

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/plugins/evict"
)

// Cluster is the access that evictions need: a client that changes objects and a reader of
// the API server itself.
func Cluster(c client.Client, direct client.Reader) evict.Cluster { return cluster{c, direct} }

type cluster struct {
	client client.Client
	direct client.Reader
}

func (c cluster) Workload(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object, c.direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
}

func (c cluster) Workloads(ctx context.Context, kind schema.GroupVersionKind, label string) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	var options []client.ListOption
	if label != "" {
		options = append(options, client.HasLabels{label})
	}
	err := c.direct.List(ctx, list, options...)
	return list.Items, err
}

func (c cluster) Patch(ctx context.Context, kind schema.GroupVersionKind, namespace, name string, patch []byte) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return c.client.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(evict.FieldManager))
}

func (c cluster) List(ctx context.Context) (*corev1.ConfigMap, error) {
	list := &corev1.ConfigMap{}
	return list, c.direct.Get(ctx, client.ObjectKey{Namespace: evict.ListNamespace, Name: evict.ListName}, list)
}

func (c cluster) PatchList(ctx context.Context, kind types.PatchType, patch []byte) (*corev1.ConfigMap, error) {
	list := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: evict.ListNamespace, Name: evict.ListName}}
	return list, c.client.Patch(ctx, list, client.RawPatch(kind, patch), client.FieldOwner(evict.FieldManager))
}

func (c cluster) Evict(ctx context.Context, e *policyv1.Eviction) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name}}
	return c.client.SubResource("eviction").Create(ctx, pod, e)
}
