package snapshot

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// What pods prefer is in the trace, and zones where it is of zones; a recording keeps both.
func TestTraceOfPreferences(t *testing.T) {
	in := func(zone string) func(*v1.Node) {
		return func(n *v1.Node) { n.Labels = map[string]string{v1.LabelTopologyZone: zone} }
	}
	nodes := []*v1.Node{node("n1", in("x")), node("n2", in("y"))}
	prefers := func(topology string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: topology, WhenUnsatisfiable: v1.ScheduleAnyway,
				LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
			}}
		}
	}
	byZone, _ := snap(t, picture(nodes, pod("web", "web-1", "n1", "1", prefers(v1.LabelTopologyZone))))
	texts := files(t, byZone)
	require.Contains(t, texts["machines.csv"], "machine,type,zone,")
	require.Equal(t, []string{"x", "y"}, []string{byZone.Instance.Machines[0].Zone, byZone.Instance.Machines[1].Zone})
	require.Contains(t, texts["apps.csv"], ",even:zone:100\n")

	byHost, _ := snap(t, picture(nodes, pod("web", "web-1", "n1", "1", prefers(v1.LabelHostname))))
	texts = files(t, byHost)
	require.NotContains(t, texts["machines.csv"], "zone")
	require.Contains(t, texts["apps.csv"], ",even:machine:100\n")

	plain, _ := snap(t, picture(nodes, pod("web", "web-1", "n1", "1")))
	texts = files(t, plain)
	require.NotContains(t, texts["machines.csv"]+texts["apps.csv"], "zone")
	require.NotContains(t, texts["apps.csv"], "soft")
}

// Hard limits and rules by zone are in the trace, with the zones.
func TestTraceOfLimitsByZone(t *testing.T) {
	in := func(zone string) func(*v1.Node) {
		return func(n *v1.Node) { n.Labels = map[string]string{v1.LabelTopologyZone: zone} }
	}
	even := func(p *v1.Pod) {
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 2, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}, NodeTaintsPolicy: new(v1.NodeInclusionPolicyHonor),
		}}
	}
	p := picture([]*v1.Node{node("n1", in("x")), node("n2", in("y"))}, pod("web", "web-1", "n1", "1", even), pod("db", "db-1", "n2", "1"))
	p.Rules = []*kube.Rule{rule(t, v1alpha1.PlacementRuleSpec{
		PodSet: app("db"), TopologyKey: v1.LabelTopologyZone, MaxPerNode: new(int32(3)), Excludes: []v1alpha1.Exclusion{{PodSet: app("web"), Max: 1}},
	})}
	tr, notes := snap(t, p)
	require.Empty(t, notes)
	texts := files(t, tr)
	require.Contains(t, texts["machines.csv"], "machine,type,zone,")
	require.Contains(t, texts["apps.csv"], ",max_per_zone,zone_skew\n")
	require.Contains(t, texts["rules.csv"], ",1,zone\n")
	limits := map[binpack.ZoneLimits]int{}
	for _, g := range tr.Instance.Groups {
		limits[g.Zone]++
	}
	require.Equal(t, map[binpack.ZoneLimits]int{{Skew: 2}: 1, {Limit: 3}: 1}, limits)
}
