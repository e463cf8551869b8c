package podspec

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// An optOut is an annotation by which an owner keeps a pod or a node where it is. A value that is unknown to its
// program may be from another version of it, so every value except a clear no counts.
type optOut struct {
	name string
	no   []string // values that keep nothing
}

// Annotations by which owners keep pods and nodes where they are, with their documentation.
var (
	ofPods = []optOut{
		{"karpenter.sh/do-not-disrupt", []string{"false"}},                        // https://karpenter.sh/docs/concepts/disruption/, also a duration
		{"karpenter.sh/do-not-evict", []string{"false"}},                          // of Karpenter before v1beta1
		{safeToEvict, []string{"true"}},                                           // https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md
		{"descheduler.alpha.kubernetes.io/prefer-no-eviction", []string{"false"}}, // https://github.com/kubernetes-sigs/descheduler
	}
	ofNodes = []optOut{
		{"karpenter.sh/do-not-disrupt", []string{"false"}},
		{"karpenter.sh/do-not-consolidate", []string{"false"}}, // of Karpenter before v1beta1
		{"cluster-autoscaler.kubernetes.io/scale-down-disabled", []string{"false"}},
	}
)

const (
	safeToEvict   = "cluster-autoscaler.kubernetes.io/safe-to-evict"               // "true" also for a pod with local storage
	volumesToLose = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes" // their names
)

func optedOut(list []optOut, annotations map[string]string) (name string) {
	for _, o := range list {
		if value, ok := annotations[o.name]; ok && !slices.Contains(o.no, value) {
			return o.name
		}
	}
	return ""
}

// StaysNode returns the annotation that forbids to remove a node; "" if it has none.
func StaysNode(n *v1.Node) (annotation string) { return optedOut(ofNodes, n.Annotations) }
