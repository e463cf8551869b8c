package podspec_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// What the engine does not read of objects is not kept in memory.
func TestSlim(t *testing.T) {
	of := func(owner *metav1.OwnerReference) *appsv1.ReplicaSet {
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
		set.Spec.Template.Spec.Containers = []v1.Container{{Name: "c"}}
		if owner != nil {
			set.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		object, err := podspec.Slim(set)
		require.NoError(t, err)
		require.Empty(t, set.ManagedFields)
		return object.(*appsv1.ReplicaSet)
	}
	require.NotEmpty(t, of(nil).Spec.Template.Spec.Containers)
	require.Empty(t, of(&metav1.OwnerReference{Kind: "Deployment", Controller: new(true)}).Spec.Template.Spec.Containers)

	object, err := podspec.Slim("no object")
	require.NoError(t, err)
	require.Equal(t, "no object", object)
}
