//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
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
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	s := c.StartScheduler(t, scheduler, sigmaConfig(true, "decisionLog: "+log))
	pods := halfFull(t, c, ns)
	before := c.Placements(ns)
	c.Kubectl(t, "{apiVersion: sigma-scheduler.io/v1alpha1, kind: Rebalance, metadata: {name: early}, spec: {mode: Auto, moves: 10%}}", "apply", "-f", "-")
	e2e.Wait(t, "what it lacks", func() (string, bool) {
		is := conditionOf(rebalanceOf(t, c, "early").Status.Conditions, v1alpha1.ConditionStopped)
		return is.Reason + ": " + is.Message, is.Reason == "NoRights"
	})
	require.Equal(t, before, c.Placements(ns))
	require.Empty(t, cordoned(t, c))
	c.Kubectl(t, "", "delete", "rebalance", "early")

	page := openPage(t, c, "rebalance.md")
	const section = "Free nodes in an hour"
	page.run(t, section, 2)
	grant(t, c, "rebalance")
	plan := rebalanceOf(t, c, "tidy").Status.Plan
	require.NotNil(t, plan)
	require.Positive(t, plan.Freed)
	shown := page.run(t, section, 1)
	r := rebalanceOf(t, c, "tidy")
	t.Logf("%+v", *r.Status.Progress)
	require.Equal(t, "Done", conditionOf(r.Status.Conditions, v1alpha1.ConditionProgressing).Reason)
	require.Positive(t, r.Status.Progress.Freed)
	require.EqualValues(t, r.Status.Progress.Freed, s.Metric(t, "sigma_rebalance_nodes_total", `outcome="freed"`))
	empty := cordoned(t, c)
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
	e2e.Wait(t, "all nodes uncordoned", func() (string, bool) { is := cordoned(t, c); return fmt.Sprint(is), len(is) == 0 })
	c.RequireFits(t)
	requireSound(t, s)
	s.Stop(t)
	requireLog(t, log)
}

// halfFull makes nodes and pods and takes a quarter of the pods away, so that some moves free a node.
// The pods of a workload come one at a time and stand apart: of each, mode Auto moves but one. It
// returns how many pods stay.
func halfFull(t *testing.T, c *e2e.Cluster, ns string) (pods int) {
	t.Helper()
	var nodes []*v1.Node
	for i := range 16 {
		nodes = append(nodes, e2e.Node(fmt.Sprintf("node-%02d", i), "8", "32Gi"))
	}
	c.CreateNodes(t, nodes...)
	const apps, replicas = 30, 4
	for i := range apps {
		c.CreateDeployment(t, e2e.Deployment(ns, fmt.Sprintf("app-%02d", i), 1, fmt.Sprintf("%dm", 800+100*(i%3)), "256Mi"))
	}
	c.WaitRunning(t, ns, apps)
	for n := 2; n <= replicas; n++ {
		c.Kubectl(t, "", "scale", "-n", ns, "deployment", "--all", fmt.Sprintf("--replicas=%d", n))
		c.WaitRunning(t, ns, apps*n)
	}
	pods = apps * replicas
	for i := range apps { // holes
		if i%2 == 0 {
			c.Kubectl(t, "", "scale", "-n", ns, "deployment", fmt.Sprintf("app-%02d", i), "--replicas=2")
			pods -= 2
		}
	}
	e2e.Wait(t, "the pods that stay", func() (string, bool) { n := len(c.Pods(ns)); return fmt.Sprint(n), n == pods })
	return pods
}

func rebalanceOf(t *testing.T, c *e2e.Cluster, name string) (r v1alpha1.Rebalance) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(c.Kubectl(t, "", "get", "rebalance", name, "-o", "json")), &r))
	return r
}

// cordoned are the nodes that are cordoned. All of them are empty.
func cordoned(t *testing.T, c *e2e.Cluster) (names []string) {
	t.Helper()
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

// TestRebalanceUnderPressure: nodes with the taint that the node lifecycle controller gives for disk pressure get no pod by a Rebalance in
// mode Auto and lose none, and no replacement waits for them.
func TestRebalanceUnderPressure(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	grant(t, c, "rebalance")
	ns := c.Namespace(t)
	s := c.StartScheduler(t, scheduler, sigmaConfig(true, ""))
	pods := halfFull(t, c, ns)
	pressed := map[string]bool{}
	for i := range 4 {
		name := fmt.Sprintf("node-%02d", 4*i)
		pressed[name] = true
		c.Kubectl(t, "", "taint", "node", name, v1.TaintNodeDiskPressure+":NoSchedule")
	}
	before := c.Placements(ns)
	c.Kubectl(t, "{apiVersion: sigma-scheduler.io/v1alpha1, kind: Rebalance, metadata: {name: tidy}, spec: {mode: Auto, moves: 20%, movesPerHour: 60}}", "apply", "-f", "-")
	e2e.Wait(t, "the end", func() (string, bool) {
		is := conditionOf(rebalanceOf(t, c, "tidy").Status.Conditions, v1alpha1.ConditionProgressing)
		return fmt.Sprint(is), is.Reason == "Done"
	})
	p := rebalanceOf(t, c, "tidy").Status.Progress
	require.Positive(t, p.Moved)
	require.Zero(t, p.GivenUp)
	after := c.Placements(ns)
	require.Len(t, after, pods)
	for name, node := range after {
		if before[name] == "" {
			require.False(t, pressed[node], "the replacement %s is on %s", name, node)
		}
	}
	for name, node := range before {
		if pressed[node] {
			require.Equal(t, node, after[name], name)
		}
	}
	c.RequireFits(t)
	requireSound(t, s)
}

// TestRebalanceStops: a query of a real Prometheus above its threshold, and a pod that fits on no
// node, each stop mode Auto before anything moves. Without them it goes on with at most two pods away, and
// uncordons what is empty once a pod waits.
func TestRebalanceStops(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	grant(t, c, "rebalance")
	ns := c.Namespace(t)
	prometheus := e2e.StartPrometheus(t)
	prometheus.WaitReady(t)
	s := c.StartScheduler(t, scheduler, sigmaConfig(true, fmt.Sprintf("rebalancePrometheus: %q", prometheus.URL)))
	pods := halfFull(t, c, ns)
	before := c.Placements(ns)
	stops := func(reason, message string) {
		e2e.Wait(t, "the stop "+reason, func() (string, bool) {
			is := conditionOf(rebalanceOf(t, c, "tidy").Status.Conditions, v1alpha1.ConditionStopped)
			return is.Reason + ": " + is.Message, is.Reason == reason && strings.Contains(is.Message, message)
		})
	}
	away, most := 0, 0
	look := func() {
		away = pods
		for _, p := range c.Pods(ns) {
			if p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(k v1.PodCondition) bool { return k.Type == v1.PodReady && k.Status == v1.ConditionTrue }) {
				away--
			}
		}
		most = max(most, away)
	}

	c.Kubectl(t, `{apiVersion: sigma-scheduler.io/v1alpha1, kind: Rebalance, metadata: {name: tidy}, spec: {
  mode: Auto, moves: 10%, movesPerHour: 60, inFlight: 2, stopWhen: {query: vector(2), threshold: 1.5}}}`, "apply", "-f", "-")
	stops("Query", "returns 2, more than 1.5")
	var full string
	for _, node := range before {
		full = node
	}
	c.Kubectl(t, "", "label", "node", full, "large=yes")
	large := e2e.Pod(ns, "large", "8", "1Gi") // which that node would take if it were empty
	large.Spec.NodeSelector = map[string]string{"large": "yes"}
	c.CreatePods(t, large)
	c.WaitRefused(t, ns, 1)
	c.Kubectl(t, "", "patch", "rebalance", "tidy", "--type=merge", "-p", `{"spec":{"stopWhen":{"query":"vector(1)"}}}`)
	stops("PodsWait", ns+"/large")
	c.Kubectl(t, "", "delete", "pod", "large", "-n", ns)
	require.Equal(t, before, c.Placements(ns))
	require.Empty(t, cordoned(t, c))

	c.Kubectl(t, "", "patch", "rebalance", "tidy", "--type=merge", "-p", `{"spec":{"movesPerHour":50}}`)
	e2e.Wait(t, "the end", func() (string, bool) {
		look()
		is := rebalanceOf(t, c, "tidy")
		done := conditionOf(is.Status.Conditions, v1alpha1.ConditionProgressing)
		return fmt.Sprint(done), done.ObservedGeneration == 3 && done.Reason == "Done"
	})
	require.Zero(t, away)
	t.Logf("%d pods were away at a time", most)
	require.LessOrEqual(t, most, 2)
	require.NotEmpty(t, cordoned(t, c))
	large.ResourceVersion, large.UID = "", ""
	c.CreatePods(t, large)
	e2e.Wait(t, "all nodes uncordoned", func() (string, bool) { is := cordoned(t, c); return fmt.Sprint(is), len(is) == 0 })
	c.RequireFits(t)
	requireSound(t, s)
}
