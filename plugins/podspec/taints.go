package podspec

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
)

// conditions are the taints that Kubernetes puts on a node for its condition and removes again:
// https://kubernetes.io/docs/reference/labels-annotations-taints/. Any other key denotes the purpose of the node, also
// one below node.kubernetes.io/.
var conditions = []string{
	v1.TaintNodeNotReady, v1.TaintNodeUnreachable, v1.TaintNodeMemoryPressure, v1.TaintNodeDiskPressure, v1.TaintNodePIDPressure,
	v1.TaintNodeNetworkUnavailable, v1.TaintNodeOutOfService, "node.cloudprovider.kubernetes.io/uninitialized", "node.cloudprovider.kubernetes.io/shutdown",
}

// keeps reports whether a taint keeps pods off that do not tolerate it.
func keeps(t *v1.Taint) bool {
	return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
}

// Unwell returns the first taint for its condition that keeps pods off a node; nil if there is none. That of a cordon
// does not count: spec.unschedulable is equivalent. Such a node has room only for pods that tolerate the taint.
func Unwell(n *v1.Node) *v1.Taint {
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; keeps(t) && slices.Contains(conditions, t.Key) {
			return t
		}
	}
	return nil
}

// Untolerated returns the first taint of a node that keeps off a pod with some tolerations; nil if there is none. Tolerations
// that compare numbers count: an API server without them refuses such a pod.
func Untolerated(node *v1.Node, tolerations []v1.Toleration) *v1.Taint {
	taint, found := corev1.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, tolerations, keeps, true)
	if !found {
		return nil
	}
	return &taint
}

// byDefault reports whether a toleration is one of the two that the API server adds to every pod: they let it stay for
// a while on a node that is not ready, and no pod is placed there, since such a node has a taint NoSchedule too.
func byDefault(t *v1.Toleration) bool {
	return (t.Key == v1.TaintNodeNotReady || t.Key == v1.TaintNodeUnreachable) &&
		t.Operator == v1.TolerationOpExists && t.Effect == v1.TaintEffectNoExecute && t.TolerationSeconds != nil
}
