package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// prefers is a preferred term for pods with a label app.
func prefers(weight int32, topology, app string) v1.WeightedPodAffinityTerm {
	return v1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: v1.PodAffinityTerm{
		TopologyKey: topology, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
	}}
}

func near(terms ...v1.WeightedPodAffinityTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}}
	}
}

func avoids(terms ...v1.WeightedPodAffinityTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}}
	}
}

func spreads(when v1.UnsatisfiableConstraintAction, topology, app string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, v1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: topology, WhenUnsatisfiable: when,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		})
	}
}

// What a pod prefers by itself is part of its app: by host and zone, among its own pods.
func TestPreferences(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*v1.Pod)
		want   []string
	}{
		{"nothing", func(*v1.Pod) {}, nil},
		{"different hosts", avoids(prefers(7, v1.LabelHostname, "web")), []string{"apart:machine:7"}},
		{"different hosts and zones", avoids(prefers(7, v1.LabelTopologyZone, "web"), prefers(100, v1.LabelHostname, "web")), []string{"apart:machine:100", "apart:zone:7"}},
		{"one zone", near(prefers(1, v1.LabelTopologyZone, "web")), []string{"near:zone:1"}},
		{"an even spread", spreads(v1.ScheduleAnyway, v1.LabelTopologyZone, "web"), []string{"even:zone:100"}},
		{"a hard spread: left to upstream", spreads(v1.DoNotSchedule, v1.LabelTopologyZone, "web"), nil},
		{"racks: left out", avoids(prefers(7, "example.org/rack", "web")), nil},
		{"other pods: left out", avoids(prefers(7, v1.LabelHostname, "db")), nil},
		{"a weight out of range", avoids(prefers(101, v1.LabelHostname, "web")), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.SetNode(nodeOf("a"), []*v1.Pod{podOf("web-1", ownedBy("Deployment", "web"), labelled("app", "web"), tt.change)})
			group := w.ledger.Group(webGroup)
			require.Equal(t, tt.want, group.Apps()[0].Spec().Soft)
		})
	}
}

// A pod's preferences are read where its words differ from the last one's, or what they select
// may differ between pods of one template.
func TestPreferencesInOtherWords(t *testing.T) {
	byHash := func(p *v1.Pod) {
		p.Labels["pod-template-hash"] = "x" // of all revisions
		avoids(prefers(7, v1.LabelHostname, "web"))(p)
		p.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.LabelSelector.MatchLabels = map[string]string{"pod-template-hash": "y"}
	}
	of := func(hash string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Labels["pod-template-hash"] = hash }
	}
	for _, tt := range []struct {
		name          string
		first, second []func(*v1.Pod)
		before, after []string
	}{
		{"other weight", []func(*v1.Pod){avoids(prefers(7, v1.LabelHostname, "web"))}, []func(*v1.Pod){avoids(prefers(8, v1.LabelHostname, "web"))}, []string{"apart:machine:7"}, []string{"apart:machine:8"}},
		{"other kind", []func(*v1.Pod){avoids(prefers(7, v1.LabelHostname, "web"))}, []func(*v1.Pod){near(prefers(7, v1.LabelHostname, "web"))}, []string{"apart:machine:7"}, []string{"near:machine:7"}},
		{"other topology", []func(*v1.Pod){avoids(prefers(7, v1.LabelHostname, "web"))}, []func(*v1.Pod){avoids(prefers(7, v1.LabelTopologyZone, "web"))}, []string{"apart:machine:7"}, []string{"apart:zone:7"}},
		{"other pods", []func(*v1.Pod){avoids(prefers(7, v1.LabelHostname, "web"))}, []func(*v1.Pod){avoids(prefers(7, v1.LabelHostname, "db"))}, []string{"apart:machine:7"}, nil},
		{"not if it can", []func(*v1.Pod){spreads(v1.ScheduleAnyway, v1.LabelHostname, "web")}, []func(*v1.Pod){spreads(v1.DoNotSchedule, v1.LabelHostname, "web")}, []string{"even:machine:100"}, nil},
		{"even elsewhere", []func(*v1.Pod){spreads(v1.ScheduleAnyway, v1.LabelHostname, "web")}, []func(*v1.Pod){spreads(v1.ScheduleAnyway, v1.LabelTopologyZone, "web")}, []string{"even:machine:100"}, []string{"even:zone:100"}},
		{"a label of one revision", []func(*v1.Pod){byHash}, []func(*v1.Pod){byHash, of("y")}, nil, []string{"apart:machine:7"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			web := func(name string, at int, changes []func(*v1.Pod)) *v1.Pod {
				return podOf(name, append([]func(*v1.Pod){ownedBy("Deployment", "web"), labelled("app", "web"), created(at)}, changes...)...)
			}
			first := web("web-1", 1, tt.first)
			w.SetNode(nodeOf("a"), []*v1.Pod{first})
			require.Equal(t, tt.before, w.ledger.Group(webGroup).Apps()[0].Spec().Soft)
			w.SetNode(nodeOf("a"), []*v1.Pod{first, web("web-2", 2, tt.second)})
			require.Equal(t, tt.after, w.ledger.Group(webGroup).Apps()[0].Spec().Soft)
		})
	}
}

// The newest pod's preferences count for its group, whatever their sizes.
func TestPreferencesChange(t *testing.T) {
	w := newWorld(t)
	web := func(name string, changes ...func(*v1.Pod)) *v1.Pod {
		return podOf(name, append(changes, ownedBy("Deployment", "web"), labelled("app", "web"))...)
	}
	old := web("web-1", created(1), requests("cpu", "1"))
	w.SetNode(nodeOf("a"), []*v1.Pod{old})
	fresh := web("web-2", created(2), requests("cpu", "2"), avoids(prefers(9, v1.LabelHostname, "web")))
	w.SetNode(nodeOf("a"), []*v1.Pod{old, fresh})
	apps := w.ledger.Group(webGroup).Apps()
	require.Len(t, apps, 2)
	for _, a := range apps {
		require.Equal(t, []string{"apart:machine:9"}, a.Spec().Soft)
	}
	w.SetNode(nodeOf("a"), []*v1.Pod{old})
	for _, a := range w.ledger.Group(webGroup).Apps() {
		require.Empty(t, a.Spec().Soft, "the pod that preferred it is gone")
	}
}
