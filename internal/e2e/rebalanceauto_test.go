//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/internal/e2e"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/evict"
)

// TestRebalanceAuto runs the commands of docs/rebalance.md: without rights mode Auto says so and
// touches nothing; with them it empties nodes, and every replacement stands where the plan has it. Emptied
// nodes are cordoned until the Rebalance is suspended.
func TestRebalanceAuto(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	ns := c.Namespace(t)
	var nodes []*v1.Node
	for i := range 16 {
		nodes = append(nodes, e2e.Node(fmt.Sprintf("node-%02d", i), "8", "32Gi"))
	}
	c.CreateNodes(t, nodes...)
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	s := c.StartScheduler(t, scheduler, sigmaConfig(true, "decisionLog: "+log))
	const apps, replicas = 30, 4
	for i := range apps {
		c.CreateDeployment(t, e2e.Deployment(ns, fmt.Sprintf("app-%02d", i), replicas, fmt.Sprintf("%dm", 800+100*(i%3)), "256Mi"))
	}
	c.WaitRunning(t, ns, apps*replicas)
	pods := apps * replicas
	for i := range apps { // holes
		if i%2 == 0 {
			c.Kubectl(t, "", "scale", "-n", ns, "deployment", fmt.Sprintf("app-%02d", i), "--replicas=2")
			pods -= 2
		}
	}
	e2e.Wait(t, "the pods that stay", func() (string, bool) { n := len(c.Pods(ns)); return fmt.Sprint(n), n == pods })
	before := c.Placements(ns)
	get := func(name string) (r v1alpha1.Rebalance) {
		require.NoError(t, json.Unmarshal([]byte(c.Kubectl(t, "", "get", "rebalance", name, "-o", "json")), &r))
		return r
	}
	cordoned := func() (names []string) {
		list, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		for _, n := range list.Items {
			if n.Spec.Unschedulable {
				require.Contains(t, n.Annotations, "sigma-scheduler.io/emptied", n.Name)
				names = append(names, n.Name)
			}
		}
		return names
	}

	c.Kubectl(t, "{apiVersion: sigma-scheduler.io/v1alpha1, kind: Rebalance, metadata: {name: early}, spec: {mode: Auto, moves: 10%}}", "apply", "-f", "-")
	e2e.Wait(t, "what it lacks", func() (string, bool) {
		is := conditionOf(get("early").Status.Conditions, v1alpha1.ConditionStopped)
		planned := conditionOf(get("early").Status.Conditions, v1alpha1.ConditionPlanned)
		return is.Reason + ": " + is.Message + " " + planned.Message, is.Reason == "NoRights"
	})
	require.Equal(t, before, c.Placements(ns))
	require.Empty(t, cordoned())
	c.Kubectl(t, "", "delete", "rebalance", "early")

	page := openPage(t, c, "rebalance.md")
	const section = "Free nodes in an hour"
	page.run(t, section, 2)
	grant(t, c, "rebalance")
	plan := get("tidy").Status.Plan
	require.NotNil(t, plan)
	require.Positive(t, plan.Freed)
	shown := page.run(t, section, 1)
	r := get("tidy")
	t.Logf("%+v", *r.Status.Progress)
	require.Equal(t, "Done", conditionOf(r.Status.Conditions, v1alpha1.ConditionProgressing).Reason)
	require.Positive(t, r.Status.Progress.Freed)
	require.EqualValues(t, r.Status.Progress.Freed, s.Metric(t, "sigma_rebalance_nodes_total", `outcome="freed"`))
	empty := cordoned()
	require.Len(t, empty, int(r.Status.Progress.Freed))
	for _, name := range empty {
		require.Regexp(t, name+` +tidy +20`, shown)
		require.Contains(t, shown, "Node "+name+" is empty after")
	}
	moved := 0
	stands := map[string]bool{}
	for _, p := range c.Pods(ns) {
		require.Equal(t, v1.PodRunning, p.Status.Phase, p.Name)
		require.NotContains(t, empty, p.Spec.NodeName)
		stands[p.Name] = true
	}
	for name := range before {
		if !stands[name] {
			moved++
		}
	}
	require.Len(t, stands, pods)
	require.EqualValues(t, moved, r.Status.Progress.Moved)
	written := 0
	workloads, err := c.Client.AppsV1().Deployments(ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, d := range workloads.Items {
		written += strings.Count(d.Annotations[evict.Annotation], "/rebalance:tidy/")
	}
	require.Equal(t, moved, written, "what another leader would count")
	page.run(t, section, 1)
	require.Empty(t, page.blocks)
	e2e.Wait(t, "all nodes uncordoned", func() (string, bool) { is := cordoned(); return fmt.Sprint(is), len(is) == 0 })
	c.RequireFits(t)
	requireSound(t, s)
	s.Stop(t)
	requireLog(t, log)
}
