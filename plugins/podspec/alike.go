package podspec

import (
	"maps"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresource "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// Alike reports whether two states of a pod are certain to have the same [Group], [Demand] and [Selector].
// It compares the fields that these three read as they are: 1000m is not like 1, nor is 1.5Gi like its copy.
// Most updates of a pod change other fields.
func Alike(a, b *v1.Pod) bool {
	return a.Namespace == b.Namespace && a.Name == b.Name && a.GenerateName == b.GenerateName && maps.Equal(a.Labels, b.Labels) &&
		slices.EqualFunc(a.OwnerReferences, b.OwnerReferences, alikeOwners) && Siblings(a, b)
}

// Siblings is Alike for two pods of one group: their demand and selector are certain to be the same.
func Siblings(a, b *v1.Pod) bool { return alikeSelectors(&a.Spec, &b.Spec) && alikeDemands(a, b) }

func alikeOwners(a, b metav1.OwnerReference) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID && ptr.Equal(a.Controller, b.Controller)
}

func alikeSelectors(a, b *v1.PodSpec) bool {
	return maps.Equal(a.NodeSelector, b.NodeSelector) && alikePointers(a.Affinity, b.Affinity, func(a, b *v1.Affinity) bool {
		return reflect.DeepEqual(a.NodeAffinity, b.NodeAffinity)
	}) && slices.EqualFunc(a.Tolerations, b.Tolerations, func(a, b v1.Toleration) bool {
		return a.Key == b.Key && a.Operator == b.Operator && a.Value == b.Value && a.Effect == b.Effect && ptr.Equal(a.TolerationSeconds, b.TolerationSeconds)
	})
}

func alikeDemands(a, b *v1.Pod) bool {
	containers := func(a, b []v1.Container) bool {
		return slices.EqualFunc(a, b, func(a, b v1.Container) bool {
			return a.Name == b.Name && ptr.Equal(a.RestartPolicy, b.RestartPolicy) && alikeRequirements(&a.Resources, &b.Resources)
		})
	}
	statuses := func(a, b []v1.ContainerStatus) bool {
		return slices.EqualFunc(a, b, func(a, b v1.ContainerStatus) bool {
			return a.Name == b.Name && maps.Equal(a.AllocatedResources, b.AllocatedResources) && alikePointers(a.Resources, b.Resources, alikeRequirements)
		})
	}
	return containers(a.Spec.Containers, b.Spec.Containers) && containers(a.Spec.InitContainers, b.Spec.InitContainers) &&
		maps.Equal(a.Spec.Overhead, b.Spec.Overhead) && alikePointers(a.Spec.Resources, b.Spec.Resources, alikeRequirements) &&
		statuses(a.Status.ContainerStatuses, b.Status.ContainerStatuses) && statuses(a.Status.InitContainerStatuses, b.Status.InitContainerStatuses) &&
		maps.Equal(a.Status.AllocatedResources, b.Status.AllocatedResources) && alikePointers(a.Status.Resources, b.Status.Resources, alikeRequirements) &&
		podresource.IsPodResizeInfeasible(a) == podresource.IsPodResizeInfeasible(b)
}

func alikeRequirements(a, b *v1.ResourceRequirements) bool {
	return maps.Equal(a.Requests, b.Requests) && maps.Equal(a.Limits, b.Limits)
}

func alikePointers[T any](a, b *T, alike func(a, b *T) bool) bool {
	return a == b || a != nil && b != nil && alike(a, b)
}
