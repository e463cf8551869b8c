package kube

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Rule is a parsed PlacementRule.
type Rule struct {
	Name       string
	pods       podSet
	domain     domain
	after      time.Duration // after which it no longer binds a waiting pod; 0 = never
	maxPerNode int32         // 0 = no limit
	spreadMin  int32
	excludes   []exclusion
}

// A domain is the unit that a rule counts pods on.
type domain int

const (
	node domain = iota
	zone
	domains
)

type exclusion struct {
	pods podSet
	max  int32
}

type podSet struct {
	selector   labels.Selector
	namespaces []string // empty = all
}

// NewRule parses a rule. The error names the field.
func NewRule(r *v1alpha1.PlacementRule) (*Rule, error) {
	pods, err := newPodSet(&r.Spec.PodSet)
	if err != nil {
		return nil, fmt.Errorf("spec.%w", err)
	}
	out := &Rule{Name: r.Name, pods: pods}
	switch r.Spec.TopologyKey {
	case "", v1.LabelHostname:
	case v1.LabelTopologyZone:
		out.domain = zone
	default:
		return nil, fmt.Errorf("spec.topologyKey %q: want %s or %s", r.Spec.TopologyKey, v1.LabelHostname, v1.LabelTopologyZone)
	}
	if minutes := r.Spec.AfterMinutes; minutes != nil {
		if *minutes < 1 {
			return nil, fmt.Errorf("spec.afterMinutes %d: want at least 1", *minutes)
		}
		out.after = bounded.Times(*minutes, time.Minute)
	}
	if r.Spec.MaxPerNode != nil {
		if out.maxPerNode = *r.Spec.MaxPerNode; out.maxPerNode < 1 {
			return nil, fmt.Errorf("spec.maxPerNode %d: want at least 1", out.maxPerNode)
		}
	}
	if r.Spec.SpreadMin != nil {
		if out.spreadMin = *r.Spec.SpreadMin; out.spreadMin < 1 {
			return nil, fmt.Errorf("spec.spreadMin %d: want at least 1", out.spreadMin)
		}
	}
	for i := range r.Spec.Excludes {
		e := &r.Spec.Excludes[i]
		if e.Max < 0 {
			return nil, fmt.Errorf("spec.excludes[%d].max %d: want at least 0", i, e.Max)
		}
		pods, err := newPodSet(&e.PodSet)
		if err != nil {
			return nil, fmt.Errorf("spec.excludes[%d].%w", i, err)
		}
		out.excludes = append(out.excludes, exclusion{pods, e.Max})
	}
	return out, nil
}

// Zoned reports whether the rule counts in zones.
func (r *Rule) Zoned() bool { return r.domain == zone }

// ByZone reports whether the rule is about the zones of a pod, or of pods that it excludes.
func (r *Rule) ByZone(p *v1.Pod) bool {
	return r.domain == zone && (r.pods.picks(p) || slices.ContainsFunc(r.excludes, func(e exclusion) bool { return e.pods.picks(p) }))
}

// gaveWay reports whether a rule no longer binds a pod that waits.
func (r *Rule) gaveWay(p *v1.Pod, now time.Time) bool {
	return r.after > 0 && !p.CreationTimestamp.IsZero() && !now.Before(p.CreationTimestamp.Add(r.after))
}

func newPodSet(s *v1alpha1.PodSet) (podSet, error) {
	selector, err := metav1.LabelSelectorAsSelector(&s.Selector)
	if err != nil {
		return podSet{}, fmt.Errorf("selector: %w", err)
	}
	return podSet{selector, s.Namespaces}, nil
}

func (s *podSet) picks(pod *v1.Pod) bool {
	return (len(s.namespaces) == 0 || slices.Contains(s.namespaces, pod.Namespace)) &&
		s.selector.Matches(labels.Set(pod.Labels))
}

// A term is a parsed anti-affinity term: required, by host name or zone.
type term struct {
	domain     domain
	selector   labels.Selector
	namespaces []string
	anywhere   bool // in all namespaces
}

func newTerms(pod *v1.Pod) []term {
	var out []term
	for _, t := range podspec.AntiAffinity(pod) {
		if own, ok := newTerm(pod, &t); ok {
			if t.TopologyKey == v1.LabelTopologyZone {
				own.domain = zone
			}
			out = append(out, own)
		}
	}
	return out
}

// newTerm parses a pod's term. It returns false for a selector that the API server does not admit.
func newTerm(pod *v1.Pod, t *v1.PodAffinityTerm) (term, bool) {
	selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
	if err != nil {
		return term{}, false
	}
	namespaces := t.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{pod.Namespace}
	}
	// A required term by the labels of namespaces is unknown (podspec.Unknown); a preferred one is taken for the pod's own.
	anywhere := t.NamespaceSelector != nil && len(t.NamespaceSelector.MatchLabels)+len(t.NamespaceSelector.MatchExpressions) == 0
	return term{node, selector, namespaces, anywhere}, true
}

func (t *term) matches(pod *v1.Pod) bool {
	return (t.anywhere || slices.Contains(t.namespaces, pod.Namespace)) && t.selector.Matches(labels.Set(pod.Labels))
}
