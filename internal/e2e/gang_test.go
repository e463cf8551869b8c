//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/sigma-scheduler/sigma/internal/e2e"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// installPlugins installs the kinds of a plugin of scheduler-plugins.
func installPlugins(t *testing.T, c *e2e.Cluster, plugin string, kinds ...string) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/scheduler-plugins").Output()
	require.NoError(t, err)
	crd := filepath.Join(strings.TrimSpace(string(dir)), "manifests", plugin, "crd.yaml")
	c.Kubectl(t, "", "apply", "-f", crd)
	c.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s", "-f", crd)
	c.Grant(t, rbacv1.PolicyRule{APIGroups: []string{"scheduling.x-k8s.io"}, Resources: kinds, Verbs: []string{"get", "list", "watch"}})
}

// A gang goes to the policy's choice for each of its pods, and a gang that does not fit
// leaves no trace, neither in the cluster nor in Sigma's state of it.
func TestGangByPolicy(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	installPlugins(t, c, "coscheduling", "podgroups")
	ns := c.Namespace(t)
	var nodes []*v1.Node
	for i := range 8 {
		nodes = append(nodes, e2e.Node(fmt.Sprintf("node-%d", i), "8", "32Gi"))
	}
	c.CreateNodes(t, nodes...)
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	for _, name := range []string{"small", "large"} { // before their pods: both reach the scheduler on watches of their own
		c.Kubectl(t, fmt.Sprintf(`
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: %s, namespace: %s}
spec: {minMember: 4}
`, name, ns), "apply", "-f", "-")
	}
	s := c.StartScheduler(t, scheduler, fmt.Sprintf(`
percentageOfNodesToScore: 100
profiles:
- plugins:
    multiPoint: {enabled: [{name: Coscheduling}, {name: Sigma, weight: 2000}]}
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
  pluginConfig:
  - {name: Coscheduling, args: {permitWaitingTimeSeconds: 60}}
  - {name: Sigma, args: {appLabel: app, decisionLog: %s}}
`, log))
	gang := func(name, cpu string) {
		t.Helper()
		var pods []*v1.Pod
		for i := range 4 {
			pod := e2e.Pod(ns, fmt.Sprintf("%s-%d", name, i), cpu, "1Gi")
			pod.Labels = map[string]string{"app": name, "scheduling.x-k8s.io/pod-group": name}
			pods = append(pods, pod)
		}
		c.CreatePods(t, pods...)
	}

	// Upstream would take four empty nodes; the policy packs.
	gang("small", "2")
	c.WaitRunning(t, ns, 4)
	require.Equal(t, 1, nodesWithPods(c, ns))
	made := decisions(t, log)
	for i := range 4 {
		d := made[fmt.Sprintf("small-%d", i)]
		require.Equal(t, ledger.CausePolicy, d.Cause)
		require.Empty(t, d.Choice)
		require.Equal(t, c.Placements(ns)[fmt.Sprintf("small-%d", i)], d.Node)
	}

	// Of the next, three find a node for themselves; the fourth, none.
	for _, node := range nodes {
		if len(podsOn(c, ns, node.Name)) == 0 && len(c.Nodes()) > 4 {
			c.DeleteNode(t, node.Name)
			e2e.Wait(t, "a node to vanish", func() (string, bool) {
				for _, n := range c.Nodes() {
					if n.Name == node.Name {
						return node.Name, false
					}
				}
				return "", true
			})
		}
	}
	e2e.Wait(t, "the scheduler to know", func() (string, bool) {
		n := s.Metric(t, "scheduler_cache_size", `type="nodes"`)
		return fmt.Sprint(n), n == float64(len(c.Nodes()))
	})
	gang("large", "8")
	c.WaitRefused(t, ns, 4)
	require.Len(t, c.Placements(ns), 4)
	made = decisions(t, log)
	held := 0
	for i := range 4 {
		if made[fmt.Sprintf("large-%d", i)] != nil {
			held++
		}
	}
	require.GreaterOrEqual(t, held, 3)
	// Their nodes are free again: three pods of that size fit.
	for i := range 3 {
		c.CreatePods(t, e2e.Pod(ns, fmt.Sprintf("alone-%d", i), "8", "1Gi"))
	}
	c.WaitBound(t, ns, 7)
	c.RequireFits(t)
	requireSound(t, s)
	requireLog(t, log)
}

// The other plugins of sigma-scheduler work in profiles with Sigma, several of
// which one scheduler has.
func TestOtherPlugins(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Nodes(17, 6)...)
	// The server that Trimaran's plugins ask for the load of nodes.
	var asked atomic.Int32
	watcher := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path != "/watcher" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"timestamp": 1, "window": {"duration": "15m", "start": 1, "end": 2}, "source": "test", "data": {"NodeMetricsMap": {
			"node-0000": {"metrics": [{"name": "host.cpu.utilisation", "type": "CPU", "operator": "Average", "rollup": "15m", "value": 20}]}}}}`))
	}))
	defer watcher.Close()

	config := "percentageOfNodesToScore: 100\nprofiles:\n"
	plugins := []struct{ name, args string }{
		{"NodeResourcesAllocatable", "{mode: Least, resources: [{name: cpu, weight: 1000}]}"},
		{"TargetLoadPacking", "{watcherAddress: " + watcher.URL + ", defaultRequestsMultiplier: '1'}"},
		{"LoadVariationRiskBalancing", "{watcherAddress: " + watcher.URL + "}"},
		{"LowRiskOverCommitment", "{watcherAddress: " + watcher.URL + "}"},
	}
	for _, p := range plugins {
		config += fmt.Sprintf(`
- schedulerName: %[1]s
  plugins:
    multiPoint: {enabled: [{name: Sigma, weight: 2000}, {name: %[1]s, weight: 1}]}
  pluginConfig:
  - {name: Sigma, args: {appLabel: app}}
`, p.name)
		if p.args != "" {
			config += fmt.Sprintf("  - {name: %s, args: %s}\n", p.name, p.args)
		}
	}
	s := c.StartScheduler(t, scheduler, config)
	for i, p := range plugins {
		for j := range 2 {
			pod := e2e.Pod(ns, fmt.Sprintf("pod-%d-%d", i, j), "1", "1Gi")
			pod.Spec.SchedulerName = p.name
			c.CreatePods(t, pod)
		}
	}
	c.WaitBound(t, ns, 2*len(plugins))
	for _, p := range plugins {
		require.EqualValues(t, 2, s.Metric(t, "sigma_decisions_total", fmt.Sprintf("profile=%q", p.name), `cause="policy"`), p.name)
	}
	require.GreaterOrEqual(t, asked.Load(), int32(3)) // once each when they start, and later again
	requireSound(t, s)
}
