package podspec

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Slim is an informer's transform. It drops large fields that the engine does not
// read: a Deployment has the template of its ReplicaSets.
func Slim(object any) (any, error) {
	if m, err := meta.Accessor(object); err == nil {
		m.SetManagedFields(nil)
	}
	if set, ok := object.(*appsv1.ReplicaSet); ok && metav1.GetControllerOf(set) != nil {
		set.Spec.Template = v1.PodTemplateSpec{}
	}
	return object, nil
}
