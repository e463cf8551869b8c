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
			l.SetDeclared(&kube.Declared{Deployments: []*appsv1.Deployment{d}})
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
