package oracle

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// topologyKey draws what a rule among pods counts on.
func (d *drawer) topologyKey() string {
	return weigh(d, weighted[string]{.5, v1.LabelHostname}, weighted[string]{.3, v1.LabelTopologyZone}, weighted[string]{.04, v1.LabelTopologyRegion},
		weighted[string]{.1, rack}, weighted[string]{.03, cores}, weighted[string]{.03, "example.com/nowhere"})
}

// ofPods draws a selector of pods like a workload's own, or of others.
func (d *drawer) ofPods(w *workload) *metav1.LabelSelector {
	if d.chance(.75) {
		return d.labelSelector(map[string]string{"app": w.name}, "app", "app0", "app1", "app2")
	}
	return d.labelSelector(w.labels, "tier", "web", "db", "cache")
}

// affinities draws required rules among pods, and preferred ones.
func (d *drawer) affinities(w *workload, p *v1.PodTemplateSpec) {
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.labels["app"]}}
	var apart, together []v1.PodAffinityTerm
	if d.chance(.15) && w.labels["app"] != "" { // as in most manifests
		apart = append(apart, v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: own})
	}
	for d.chance(.15) {
		apart = append(apart, d.podTerm(w))
	}
	if d.chance(.05) {
		together = append(together, d.podTerm(w))
	}
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	if len(apart) > 0 {
		p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: apart}
	} else if d.chance(.1) {
		p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: d.podTerm(w)}}}
	}
	if len(together) > 0 {
		p.Spec.Affinity.PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: together}
	}
}

func (d *drawer) podTerm(w *workload) v1.PodAffinityTerm {
	t := v1.PodAffinityTerm{TopologyKey: d.topologyKey(), LabelSelector: d.ofPods(w)}
	if d.chance(.12) {
		t.Namespaces = []string{one(d, spaces...)}
	}
	if d.chance(.2) {
		t.NamespaceSelector = weigh(d, weighted[*metav1.LabelSelector]{.4, &metav1.LabelSelector{}},
			weighted[*metav1.LabelSelector]{.4, d.labelSelector(map[string]string{"team": one(d, teams...)}, "team", teams...)},
			weighted[*metav1.LabelSelector]{.2, &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelMetadataName: one(d, spaces...)}}})
	}
	if t.LabelSelector != nil {
		switch {
		case d.chance(.06):
			t.MatchLabelKeys = []string{one(d, "pod-template-hash", "version")}
		case d.chance(.04):
			t.MismatchLabelKeys = []string{one(d, "version", "pod-template-hash")}
		}
	}
	return t
}

// spreads draws topology spread, hard or soft.
func (d *drawer) spreads(w *workload, p *v1.PodTemplateSpec) {
	chance := .16
	for d.chance(chance) {
		chance = .2
		c := v1.TopologySpreadConstraint{
			MaxSkew: int32(one(d, 1, 1, 1, 2, 3)), TopologyKey: one(d, v1.LabelTopologyZone, v1.LabelTopologyZone, v1.LabelHostname, rack, "example.com/nowhere"),
			WhenUnsatisfiable: one(d, v1.DoNotSchedule, v1.ScheduleAnyway), LabelSelector: d.ofPods(w),
		}
		if c.WhenUnsatisfiable == v1.DoNotSchedule && d.chance(.2) {
			c.MinDomains = new(int32(d.between(1, 4)))
		}
		if d.chance(.3) {
			c.NodeTaintsPolicy = new(one(d, v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore))
		}
		if d.chance(.3) {
			c.NodeAffinityPolicy = new(one(d, v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore))
		}
		if c.LabelSelector != nil && d.chance(.15) {
			c.MatchLabelKeys = []string{"pod-template-hash"}
		}
		if len(p.Spec.TopologySpreadConstraints) > 0 && p.Spec.TopologySpreadConstraints[0].TopologyKey == c.TopologyKey {
			continue // the API server refuses two of a key
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}
