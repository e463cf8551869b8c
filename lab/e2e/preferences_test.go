//go:build e2e

package e2e_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// preferApart makes pods with some labels prefer different nodes and an even spread over zones.
func preferApart(pod *v1.PodSpec, labels map[string]string) {
	own := &metav1.LabelSelector{MatchLabels: labels}
	pod.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{{
			Weight: 100, PodAffinityTerm: v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: own},
		}},
	}}
	pod.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: own,
	}}
}

func apart(d *appsv1.Deployment) *appsv1.Deployment {
	preferApart(&d.Spec.Template.Spec, d.Spec.Template.Labels)
	return d
}

// TestPreferences has nine replicas that prefer different nodes and zones placed by
// upstream's scheduler and under a policy in the modes of spec.soft, and nine that prefer
// nothing, beside nodes of which one takes them all.
func TestPreferences(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	var nodes []*v1.Node
	for i := range 10 {
		cores := "16"
		if i == 9 {
			cores = "96"
		}
		node := e2e.Node(fmt.Sprint("node-", i), cores, "384Gi")
		node.Labels[v1.LabelTopologyZone] = fmt.Sprint("zone-", i%3)
		nodes = append(nodes, node)
	}
	c.CreateNodes(t, nodes...)

	// nine creates nine replicas and says how many nodes and zones hold them, and how many the
	// fullest node has.
	nine := func(name string, change func(*appsv1.Deployment) *appsv1.Deployment) (spread [2]int, most int) {
		ns := c.Namespace(t)
		c.CreateDeployment(t, change(e2e.Deployment(ns, name, 9, "1", "1Gi")))
		c.WaitBound(t, ns, 9)
		on, zones := map[string]int{}, map[string]bool{}
		for _, node := range c.Placements(ns) {
			on[node]++
			most = max(most, on[node])
			at := slices.IndexFunc(nodes, func(n *v1.Node) bool { return n.Name == node })
			zones[nodes[at].Labels[v1.LabelTopologyZone]] = true
		}
		spread = [2]int{len(on), len(zones)}
		t.Logf("%s: %d nodes, %d zones, at most %d on a node", name, spread[0], spread[1], most)
		c.Kubectl(t, "", "-n", ns, "delete", "deployment", name)
		e2e.Wait(t, "the pods to be gone", func() (string, bool) { n := len(c.Pods(ns)); return fmt.Sprint(n), n == 0 })
		return spread, most
	}
	plain := func(d *appsv1.Deployment) *appsv1.Deployment { return d }

	s := c.StartScheduler(t, scheduler, "")
	upstream, _ := nine("upstream", apart)
	s.Stop(t)
	require.Equal(t, [2]int{9, 3}, upstream)

	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	s = c.StartScheduler(t, scheduler, sigmaConfig(false, "decisionLog: "+log))
	apply := func(soft string) {
		c.Kubectl(t, policyYAML(t, "general-k1", "general", "mode: live", "mode: live"+soft), "apply", "-f", "-")
		c.Kubectl(t, "", "wait", "--for=condition=Active", "--timeout=30s", "placementpolicy/general")
		generation := c.Kubectl(t, "", "get", "placementpolicy", "general", "-o", "jsonpath={.metadata.generation}")
		e2e.Wait(t, "the policy in force", func() (string, bool) {
			seen := c.Kubectl(t, "", "get", "placementpolicy", "general", "-o", "jsonpath={.status.observedGeneration}")
			return seen, seen == generation
		})
	}
	apply("")
	keep, _ := nine("keep", apart)
	require.GreaterOrEqual(t, keep[0], upstream[0])
	require.GreaterOrEqual(t, keep[1], upstream[1])
	_, most := nine("plain", plain)
	require.LessOrEqual(t, most, 5)

	apply("\n  soft: {mode: trade, price: .02}")
	trade, _ := nine("trade", apart)
	require.GreaterOrEqual(t, trade[0], (upstream[0]+1)/2)

	apply("\n  soft: {mode: ignore}\n  maxShareOfApp: 1")
	ignore, _ := nine("ignore", apart)
	require.Less(t, ignore[0], upstream[0]/2, "the control: nothing keeps the pods apart")

	// Where one node is all there is, all of them run there.
	apply("")
	for _, n := range nodes[:9] {
		c.Cordon(t, n.Name, true)
	}
	one, most := nine("one-node", apart)
	require.Equal(t, [2]int{1, 1}, one)
	require.Equal(t, 9, most)
	s.Stop(t)
	requireLog(t, log)
}
