package evict

import (
	"context"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
)

// Clients is the cluster behind client-go's clients.
func Clients(objects dynamic.Interface, m metadata.Interface, pods kubernetes.Interface) Cluster {
	return clients{objects, m, pods}
}

type clients struct {
	objects  dynamic.Interface
	metadata metadata.Interface
	pods     kubernetes.Interface
}

// plural is a kind's resource.
var plural = map[string]string{"Deployment": "deployments", "StatefulSet": "statefulsets", "ReplicaSet": "replicasets", "Job": "jobs", "CronJob": "cronjobs"}

func (c clients) of(kind schema.GroupVersionKind) dynamic.NamespaceableResourceInterface {
	return c.objects.Resource(kind.GroupVersion().WithResource(plural[kind.Kind]))
}

func (c clients) Workload(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	return c.of(kind).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (c clients) Workloads(ctx context.Context, kind schema.GroupVersionKind, label string) ([]metav1.PartialObjectMetadata, error) {
	list, err := c.metadata.Resource(kind.GroupVersion().WithResource(plural[kind.Kind])).List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (c clients) Patch(ctx context.Context, kind schema.GroupVersionKind, namespace, name string, patch []byte) error {
	_, err := c.of(kind).Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager}, "status")
	return err
}

func (c clients) List(ctx context.Context) (*v1.ConfigMap, error) {
	return c.pods.CoreV1().ConfigMaps(ListNamespace).Get(ctx, ListName, metav1.GetOptions{})
}

func (c clients) PatchList(ctx context.Context, kind types.PatchType, patch []byte) (*v1.ConfigMap, error) {
	return c.pods.CoreV1().ConfigMaps(ListNamespace).Patch(ctx, ListName, kind, patch, metav1.PatchOptions{FieldManager: FieldManager})
}

func (c clients) Evict(ctx context.Context, e *policyv1.Eviction) error {
	return c.pods.PolicyV1().Evictions(e.Namespace).Evict(ctx, e)
}
