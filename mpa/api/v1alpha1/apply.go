package v1alpha1

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// StatusPatch returns the object with which server-side apply writes a part of o's status.
// With a version the API server refuses the patch if o has another one; "" writes to any
// version of the same object.
func StatusPatch(o *MultidimPodAutoscaler, status *MultidimPodAutoscalerStatus, version string) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return nil, err
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	patch.SetGroupVersionKind(SchemeGroupVersion.WithKind("MultidimPodAutoscaler"))
	patch.SetNamespace(o.Namespace)
	patch.SetName(o.Name)
	patch.SetUID(o.UID)
	patch.SetResourceVersion(version)
	return patch, nil
}
