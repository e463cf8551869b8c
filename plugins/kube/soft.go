package kube

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
)

// spreadWeight is the weight of a topology spread constraint with ScheduleAnyway, which has
// none of its own: that of the strongest preferred affinity.
const spreadWeight = 100

// softTerms are what a pod prefers by itself among the pods of its group, by host and zone,
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
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		for _, t := range a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			add(binpack.Near, t.Weight, t.PodAffinityTerm)
		}
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		for _, t := range a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			add(binpack.Apart, t.Weight, t.PodAffinityTerm)
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
