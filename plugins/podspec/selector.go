package podspec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// A Selector selects the nodes that a pod's specification admits: nodeSelector,
// required node affinity and tolerations. Most pods of a cluster share a few.
type Selector struct {
	ID          string // of the content; "" admits every node without a taint
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []v1.Toleration

	nodeSelector map[string]string
	required     *v1.NodeSelector
}

// A Label is a label of a node, or with an empty key its name.
type Label struct{ Key, Value string }

// LabelsOf returns a node's labels and its name.
func LabelsOf(n *v1.Node) iter.Seq[Label] {
	return func(yield func(Label) bool) {
		if !yield(Label{"", n.Name}) {
			return
		}
		for key, value := range n.Labels {
			if !yield(Label{key, value}) {
				return
			}
		}
	}
}

// Asks returns lists of labels: a node that the selector admits has one of each list. If there are
// no lists, it may have none.
func (s *Selector) Asks() [][]Label {
	var lists [][]Label
	for _, key := range slices.Sorted(maps.Keys(s.nodeSelector)) {
		lists = append(lists, []Label{{key, s.nodeSelector[key]}})
	}
	if s.required == nil {
		return lists
	}
	var all []Label // of each term one requirement
	for i := range s.required.NodeSelectorTerms {
		t := &s.required.NodeSelectorTerms[i]
		var of []Label
		for _, r := range t.MatchExpressions {
			if r.Operator == v1.NodeSelectorOpIn && (of == nil || len(r.Values) < len(of)) {
				of = labelsOf(r.Key, r.Values)
			}
		}
		for _, r := range t.MatchFields {
			if r.Operator == v1.NodeSelectorOpIn && r.Key == metav1.ObjectNameField {
				of = labelsOf("", r.Values)
			}
		}
		if of == nil {
			return lists
		}
		all = append(all, of...)
	}
	return append(lists, all)
}

func labelsOf(key string, values []string) []Label {
	list := make([]Label, len(values))
	for i, value := range values {
		list[i] = Label{key, value}
	}
	return list
}

// selectorKey holds the fields that a selector depends on.
type selectorKey struct {
	NodeSelector map[string]string `json:"s,omitempty"`
	Affinity     *v1.NodeSelector  `json:"a,omitempty"`
	Tolerations  []v1.Toleration   `json:"t,omitempty"`
}

// NewSelector returns a pod's selector.
func NewSelector(pod *v1.Pod) *Selector {
	var key selectorKey
	key.NodeSelector = pod.Spec.NodeSelector
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		key.Affinity = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	for _, t := range pod.Spec.Tolerations {
		if !byDefault(&t) && t.Key != v1.TaintNodeUnschedulable {
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
		tolerations: key.Tolerations, nodeSelector: key.NodeSelector, required: key.Affinity,
	}
}

// Missing describes the first part of a nodeSelector or of the required node affinity that a node does not have:
// "nodeSelector disk=ssd"; "" if it has all. Of several terms of an affinity it is a part of the first.
func (s *Selector) Missing(node *v1.Node) (part, key string) {
	for _, key := range slices.Sorted(maps.Keys(s.nodeSelector)) {
		if value, ok := node.Labels[key]; !ok || value != s.nodeSelector[key] {
			return "nodeSelector " + key + "=" + s.nodeSelector[key], key
		}
	}
	if s.required == nil {
		return "", ""
	}
	if ok, err := s.affinity.Match(node); err == nil && ok {
		return "", ""
	}
	for i := range s.required.NodeSelectorTerms {
		t := &s.required.NodeSelectorTerms[i]
		for _, r := range t.MatchExpressions {
			alone := nodeaffinity.NewLazyErrorNodeSelector(&v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{r}}}})
			if ok, err := alone.Match(node); err != nil || !ok {
				text := "node affinity " + r.Key + " " + string(r.Operator)
				if len(r.Values) > 0 {
					text += " " + strings.Join(r.Values, ", ")
				}
				return text, r.Key
			}
		}
		for _, r := range t.MatchFields {
			return "node affinity " + r.Key + " " + string(r.Operator) + " " + strings.Join(r.Values, ", "), r.Key
		}
	}
	return "", ""
}

// Admits reports whether a node is one that the pod may use. A selector that
// cannot be parsed admits no node.
func (s *Selector) Admits(node *v1.Node) bool {
	if ok, err := s.affinity.Match(node); err != nil || !ok {
		return false
	}
	_, found := corev1.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, s.tolerations, func(t *v1.Taint) bool {
		return keeps(t) && t.Key != v1.TaintNodeUnschedulable // a cordon
	}, true)
	return !found
}
