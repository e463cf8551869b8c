package kube

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// spreadWeight is the weight of a topology spread constraint with ScheduleAnyway, which has
// none of its own: that of the strongest preferred affinity.
const spreadWeight = 100

// softTerms returns a pod's preferences among the pods of its group, by host and zone,
// sorted: preferred affinity and anti-affinity, and topology spread with ScheduleAnyway, where
// they select the pod itself.
func softTerms(pod *v1.Pod) []string {
	var list []string
	add := func(kind binpack.SoftKind, weight int32, t v1.PodAffinityTerm) {
		own, ok := newTerm(pod, &t)
		zone := t.TopologyKey == v1.LabelTopologyZone
		if !ok || !own.matches(pod) || !zone && t.TopologyKey != v1.LabelHostname || weight < 1 || weight > 100 {
			return
		}
		list = append(list, binpack.SoftTerm{Kind: kind, Zone: zone, Weight: weight}.Text(""))
	}
	for kind, of := range []binpack.SoftKind{binpack.Near, binpack.Apart} {
		for _, t := range preferredTerms(pod, kind) {
			add(of, t.Weight, t.PodAffinityTerm)
		}
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == v1.ScheduleAnyway {
			add(binpack.Even, spreadWeight, v1.PodAffinityTerm{LabelSelector: c.LabelSelector, TopologyKey: c.TopologyKey})
		}
	}
	slices.Sort(list)
	return list
}

// sameSoft reports whether two pods of equal lasting labels have the same preferences. Pods of one
// template have the same fields, and are not read further.
func sameSoft(a, b *v1.Pod) bool {
	same := a.Namespace == b.Namespace && slices.EqualFunc(a.Spec.TopologySpreadConstraints, b.Spec.TopologySpreadConstraints,
		func(x, y v1.TopologySpreadConstraint) bool {
			return x.WhenUnsatisfiable == y.WhenUnsatisfiable && x.TopologyKey == y.TopologyKey && sameWords(x.LabelSelector, y.LabelSelector)
		})
	for kind := range 2 {
		same = same && slices.EqualFunc(preferredTerms(a, kind), preferredTerms(b, kind), func(x, y v1.WeightedPodAffinityTerm) bool {
			t, u := x.PodAffinityTerm, y.PodAffinityTerm
			return x.Weight == y.Weight && t.TopologyKey == u.TopologyKey && slices.Equal(t.Namespaces, u.Namespaces) &&
				sameWords(t.LabelSelector, u.LabelSelector) && sameWords(t.NamespaceSelector, u.NamespaceSelector)
		})
	}
	return same || slices.Equal(softTerms(a), softTerms(b))
}

// preferredTerms returns a pod's preferred affinity (0) or anti-affinity (1).
func preferredTerms(pod *v1.Pod, kind int) []v1.WeightedPodAffinityTerm {
	a := pod.Spec.Affinity
	switch {
	case a == nil:
	case kind == 0 && a.PodAffinity != nil:
		return a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	case kind == 1 && a.PodAntiAffinity != nil:
		return a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// sameWords reports whether two selectors name the same labels, and only lasting ones: then they
// select two pods of equal lasting labels, or neither.
func sameWords(a, b *metav1.LabelSelector) bool {
	if a == nil || b == nil {
		return a == b
	}
	for k := range a.MatchLabels {
		if slices.Contains(volatile, k) {
			return false
		}
	}
	return len(a.MatchExpressions)+len(b.MatchExpressions) == 0 && maps.Equal(a.MatchLabels, b.MatchLabels)
}

// evenZones returns the limits of a pod's own hard topology spread by zone, where it picks the pod
// itself; pods of its group count. Spread of one revision is left to upstream's filter.
func evenZones(pod *v1.Pod) (limits binpack.ZoneLimits) {
	for _, c := range pod.Spec.TopologySpreadConstraints {
		own, ok := newTerm(pod, &v1.PodAffinityTerm{LabelSelector: c.LabelSelector})
		if c.WhenUnsatisfiable != v1.DoNotSchedule || c.TopologyKey != v1.LabelTopologyZone || len(c.MatchLabelKeys) > 0 || !ok || !own.matches(pod) {
			continue
		}
		if c.MinDomains != nil && *c.MinDomains >= podspec.ManyDomains {
			limits = limits.And(binpack.ZoneLimits{Limit: c.MaxSkew})
		} else {
			limits = limits.And(binpack.ZoneLimits{Skew: c.MaxSkew})
		}
	}
	return limits
}

// sendsOf returns the traffic that a pod sends, as entries of an app. Invalid parts of the annotation are skipped.
func sendsOf(pod *v1.Pod) (list []string) {
	sends, _ := podspec.Sends(pod) // readers that report to people report the faults
	for _, s := range sends {
		list = append(list, s.String())
	}
	return list
}
