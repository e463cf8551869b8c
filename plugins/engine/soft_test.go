package engine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// wary pods prefer hosts without one of theirs and, with ScheduleAnyway, an even spread over
// zones.
func wary(p *v1.Pod) {
	own := &metav1.LabelSelector{MatchLabels: p.Labels}
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
		{Weight: 100, PodAffinityTerm: v1.PodAffinityTerm{LabelSelector: own, TopologyKey: v1.LabelHostname}},
	}}}
	p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
		{MaxSkew: 1, LabelSelector: own, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway},
	}
}

// Nine nodes of 16 cores in three zones and one of 96: where nine replicas go. The log gives
// the same decisions again.
func TestNineReplicas(t *testing.T) {
	all, third := 1., .3
	for _, tt := range []struct {
		name         string
		wary         bool
		soft         *policy.Soft
		share        *float64
		nodes, zones int
		most         int // on a node
	}{
		{name: "wary, keep", wary: true, nodes: 9, zones: 3, most: 1},
		{name: "wary, trade", wary: true, soft: &policy.Soft{Mode: "trade", Price: 1}, nodes: 9, zones: 3, most: 1},
		{name: "wary, ignore", wary: true, soft: &policy.Soft{Mode: "ignore"}, share: &all, nodes: 1, zones: 1, most: 9},
		{name: "plain", nodes: 2, zones: 1, most: 5},
		{name: "plain, share 1", share: &all, nodes: 1, zones: 1, most: 9},
		{name: "plain, share .3", share: &third, nodes: 3, zones: 1, most: 3},
		{name: "wary, ignore, share .5", wary: true, soft: &policy.Soft{Mode: "ignore"}, nodes: 2, zones: 1, most: 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t)
			zoneOf := map[string]string{}
			for i := range 10 {
				name, cores := string(rune('a'+i)), 16
				if i == 9 {
					cores = 96
				}
				l.node(name, cores)
				zoneOf[name] = fmt.Sprint("zone-", i/3%3)
				l.nodes[name].Labels = map[string]string{v1.LabelTopologyZone: zoneOf[name], v1.LabelHostname: name}
			}
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
			d.Spec.Replicas, d.Spec.Template.Labels, d.Spec.Template.Spec = new(int32(9)), map[string]string{"app": "web"}, pod("x", "web").Spec
			l.SetDeclared(&kube.Declarations{Deployments: []*appsv1.Deployment{d}})
			object := shipped(t, "kubernetes-k0")
			object.Spec.Soft, object.Spec.MaxShareOfApp = tt.soft, tt.share
			l.SetPolicy(ledger.Primary, object)
			on, zones, most := map[string]int{}, map[string]bool{}, 0
			for i := range 9 {
				p := pod(fmt.Sprint("web-", i), "web")
				if tt.wary {
					wary(p)
				}
				node := l.place(p).Ranked[0].Node
				on[node]++
				zones[zoneOf[node]] = true
				most = max(most, on[node])
			}
			require.Equal(t, []int{tt.nodes, tt.zones, tt.most}, []int{len(on), len(zones), most}, "%v", on)
			require.Equal(t, 9, l.verify().Agreed)
		})
	}
}

// A node without a zone counts as a zone of its own kind; a zone label that changes counts from
// the next decision on; terms that contradict each other leave the choice to the policy. Every
// pod gets a node, and the log gives the same decisions again.
func TestOddTopologies(t *testing.T) {
	l := newLab(t)
	for name, zone := range map[string]string{"a": "x", "b": "y", "c": ""} {
		l.node(name, 16)
		if zone != "" {
			l.nodes[name].Labels = map[string]string{v1.LabelTopologyZone: zone}
		}
	}
	l.SetPolicy(ledger.Primary, shipped(t, "kubernetes-k0"))
	place := func(name, app string, change func(*v1.Pod)) string {
		p := pod(name, app)
		change(p)
		v := l.place(p)
		require.Equal(t, ledger.CausePolicy, v.decision.Cause)
		return v.Ranked[0].Node
	}
	even := func(p *v1.Pod) {
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
	}
	on := map[string]bool{}
	for i := range 3 {
		on[place(fmt.Sprint("even-", i), "even", even)] = true
	}
	require.Equal(t, map[string]bool{"a": true, "b": true, "c": true}, on)

	n := l.nodes["b"].DeepCopy()
	n.Labels[v1.LabelTopologyZone] = "x" // has two pods now, no zone has one
	l.nodes["b"], l.dirty["b"] = n, true
	require.Equal(t, "c", place("even-3", "even", even))

	torn := func(p *v1.Pod) {
		term := []v1.WeightedPodAffinityTerm{{Weight: 50, PodAffinityTerm: v1.PodAffinityTerm{
			TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}}
		p.Spec.Affinity = &v1.Affinity{
			PodAffinity:     &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: term},
			PodAntiAffinity: &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: term},
		}
	}
	first := place("torn-0", "torn", torn)
	require.Equal(t, first, place("torn-1", "torn", torn), "the policy packs")
	require.Equal(t, 6, l.verify().Agreed)
}
