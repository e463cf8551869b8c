package v1alpha1

import "strings"

// Is reports whether another object's reference, whose apiVersion may be empty, names the
// same workload.
func (r *TargetReference) Is(apiVersion, kind, name string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")
	ours, _, _ := strings.Cut(r.APIVersion, "/")
	return kind == r.Kind && name == r.Name && (group == ours || apiVersion == "")
}

// Knative is the group of Knative Services.
const Knative = "serving.knative.dev"

// Knative reports whether the target is a Knative Service.
func (r *TargetReference) Knative() bool {
	group, _, _ := strings.Cut(r.APIVersion, "/")
	return group == Knative
}

// Older reports whether a, of two objects with one target, is the one that acts: the older,
// or, if they are equally old, the first by name.
func Older(a, b *MultidimPodAutoscaler) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// The algorithms that size by the use of many days and by the workload's template.
const (
	AlgorithmUsage    = "usage"
	AlgorithmTemplate = "template"
)

// ByUse reports whether the object's algorithm sizes requests by use or by the template:
// limits do not follow, and replicas are left alone.
func (m *MultidimPodAutoscaler) ByUse() bool {
	a := m.Spec.Recommender.Algorithm
	return a == AlgorithmUsage || a == AlgorithmTemplate
}
