package podspec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// A Selector says which nodes a pod's specification admits: nodeSelector,
// required node affinity and tolerations. Most pods of a cluster share a few.
type Selector struct {
	ID          string // of the content; "" admits every node without a taint
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []v1.Toleration
}

// temporary are taints that come and go with a node's condition: they are not part
// of what kind of machine it is. Upstream's filters heed them.
const temporary = "node.kubernetes.io/"

// selectorKey is what a selector depends on.
type selectorKey struct {
	NodeSelector map[string]string `json:"s,omitempty"`
	Affinity     *v1.NodeSelector  `json:"a,omitempty"`
	Tolerations  []v1.Toleration   `json:"t,omitempty"`
}

// NewSelector is a pod's selector.
func NewSelector(pod *v1.Pod) *Selector {
	var key selectorKey
	key.NodeSelector = pod.Spec.NodeSelector
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		key.Affinity = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	for _, t := range pod.Spec.Tolerations {
		if !strings.HasPrefix(t.Key, temporary) {
			t.TolerationSeconds = nil
			key.Tolerations = append(key.Tolerations, t)
		}
	}
	if len(key.NodeSelector) == 0 && key.Affinity == nil && len(key.Tolerations) == 0 {
		return &Selector{}
	}
	slices.SortFunc(key.Tolerations, func(a, b v1.Toleration) int { return strings.Compare(a.String(), b.String()) })
	text, err := json.Marshal(key)
	if err != nil {
		panic("podspec: marshal a selector: " + err.Error()) // plain strings
	}
	sum := sha256.Sum256(text)
	return &Selector{
		ID: "sel-" + hex.EncodeToString(sum[:6]), affinity: nodeaffinity.GetRequiredNodeAffinity(pod),
		tolerations: key.Tolerations,
	}
}

// Admits reports whether a node is one that the pod may use. A selector that
// cannot be parsed admits none.
func (s *Selector) Admits(node *v1.Node) bool {
	if ok, err := s.affinity.Match(node); err != nil || !ok {
		return false
	}
	return Untolerated(node, s.tolerations, func(t *v1.Taint) bool { return !strings.HasPrefix(t.Key, temporary) }) == nil
}

// Untolerated returns the first taint of a node that keeps a pod with some tolerations
// off, among those that a condition holds for; nil: none. Tolerations that compare numbers
// count: an API server without them refuses such a pod.
func Untolerated(node *v1.Node, tolerations []v1.Toleration, counts func(*v1.Taint) bool) *v1.Taint {
	taint, found := corev1.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, tolerations, func(t *v1.Taint) bool {
		return (t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute) && counts(t)
	}, true)
	if !found {
		return nil
	}
	return &taint
}
