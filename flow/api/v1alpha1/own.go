package v1alpha1

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Own returns the policy that a node with these labels follows, or nil: the oldest of those that select it, of two of
// one second the first by name. Others select it too, by age. A policy with an invalid selector selects no nodes.
func Own(policies []*FlowPolicy, node map[string]string) (own *FlowPolicy, others []*FlowPolicy) {
	var selecting []*FlowPolicy
	for _, p := range policies {
		if s, err := p.Selector(); err == nil && s.Matches(labels.Set(node)) {
			selecting = append(selecting, p)
		}
	}
	if len(selecting) == 0 {
		return nil, nil
	}
	slices.SortFunc(selecting, func(a, b *FlowPolicy) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return selecting[0], selecting[1:]
}

// Selector selects nodes by their labels.
func (p *FlowPolicy) Selector() (labels.Selector, error) {
	if p.Spec.NodeSelector == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(p.Spec.NodeSelector)
}

// Namespaces selects namespaces by their labels; nil = all flows are in bands by bytes, whoever sends them.
func (p *FlowPolicy) Namespaces() (labels.Selector, error) {
	if p.Spec.NamespaceSelector == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	return metav1.LabelSelectorAsSelector(p.Spec.NamespaceSelector)
}

// Orders reports whether a node that follows the policy is to order its uplink.
func (p *FlowPolicy) Orders(node string) bool {
	switch p.Spec.Mode {
	case Live:
		return true
	case Canary:
		return p.Share(node) < float64(p.Spec.CanaryPercent)/100 || node == p.Status.CanaryNode
	default:
	}
	return false
}

// Share places a node between 0 and 1: a canary of a percentage takes those below it. It depends on the node's name and
// the policy's UID alone, so that a node keeps its place when other nodes are added or removed, and two policies do not
// try everything on the same nodes.
func (p *FlowPolicy) Share(node string) float64 {
	h := sha256.Sum256([]byte(string(p.UID) + "/" + node))
	return float64(binary.BigEndian.Uint64(h[:])) / math.MaxUint64
}
