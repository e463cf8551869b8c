package kube

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// volatile labels differ between the pods or the revisions of one app.
var volatile = []string{
	"pod-template-hash", "rollouts-pod-template-hash", "controller-revision-hash", "pod-template-generation",
	"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index",
	"batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-completion-index",
	"job-name", "controller-uid",
}

// sameConstraints reports whether two pods of a group are alike in all that
// limits and rules depend on.
func sameConstraints(a, b *v1.Pod) bool {
	if a == b {
		return true
	}
	for k, v := range a.Labels {
		if w, ok := b.Labels[k]; (!ok || v != w) && !slices.Contains(volatile, k) {
			return false
		}
	}
	for k := range b.Labels {
		if _, ok := a.Labels[k]; !ok && !slices.Contains(volatile, k) {
			return false
		}
	}
	return slices.EqualFunc(podspec.AntiAffinity(a), podspec.AntiAffinity(b), equalTerms) && sameSoft(a, b) && evenZones(a) == evenZones(b) &&
		a.Annotations[podspec.SendsAnnotation] == b.Annotations[podspec.SendsAnnotation]
}

func equalTerms(a, b v1.PodAffinityTerm) bool {
	return a.TopologyKey == b.TopologyKey && (a.LabelSelector == nil) == (b.LabelSelector == nil) && metav1.FormatLabelSelector(a.LabelSelector) == metav1.FormatLabelSelector(b.LabelSelector) &&
		metav1.FormatLabelSelector(a.NamespaceSelector) == metav1.FormatLabelSelector(b.NamespaceSelector) &&
		slices.Equal(a.Namespaces, b.Namespaces)
}
