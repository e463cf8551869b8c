//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// installPlugins installs the kinds of a plugin of scheduler-plugins.
func installPlugins(t *testing.T, c *e2e.Cluster, plugin string, kinds ...string) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-C", repository, "-m", "-f", "{{.Dir}}", "sigs.k8s.io/scheduler-plugins").Output()
	require.NoError(t, err)
	crd := filepath.Join(strings.TrimSpace(string(dir)), "manifests", plugin, "crd.yaml")
	c.Kubectl(t, "", "apply", "-f", crd)
	c.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s", "-f", crd)
	c.Grant(t, rbacv1.PolicyRule{APIGroups: []string{"scheduling.x-k8s.io"}, Resources: kinds, Verbs: []string{"get", "list", "watch"}})
}

// podGroup creates a group of four, before its pods: both reach the scheduler on watches
// of their own.
func podGroup(t *testing.T, c *e2e.Cluster, ns, name string, timeoutSeconds int) {
	t.Helper()
	c.Kubectl(t, fmt.Sprintf(`
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: %s, namespace: %s}
spec: {minMember: 4, scheduleTimeoutSeconds: %d}
`, name, ns, timeoutSeconds), "apply", "-f", "-")
}

// gang is the pods of a group, alike.
func gang(ns, name, cpu string) []*v1.Pod {
	var pods []*v1.Pod
	for i := range 4 {
		pod := e2e.Pod(ns, fmt.Sprintf("%s-%d", name, i), cpu, "1Gi")
		pod.Labels = map[string]string{"app": name, "scheduling.x-k8s.io/pod-group": name}
		pods = append(pods, pod)
	}
	return pods
}

// gangConfig has Coscheduling beside Sigma.
func gangConfig(log string) string {
	return fmt.Sprintf(`
percentageOfNodesToScore: 100
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
profiles:
- plugins:
    multiPoint: {enabled: [{name: Coscheduling}, {name: Sigma, weight: 2000}]}
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
  pluginConfig:
  - {name: Coscheduling, args: {permitWaitingTimeSeconds: 60}}
  - {name: Sigma, args: {appLabel: app, decisionLog: %s}}
`, log)
}

// A gang goes to the policy's choice for each of its pods, and a gang that does not fit
// leaves no trace, neither in the cluster nor in Sigma's state of it. Nominations are off,
// as docs/operations.md has it for gangs: those of a rejected gang keep nodes from others.
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
	podGroup(t, c, ns, "small", 60)
	podGroup(t, c, ns, "large", 60)
	s := c.StartScheduler(t, scheduler, gangConfig(log), "--feature-gates=NominatedNodeNameForExpectation=false")

	// Upstream would take four empty nodes; the policy packs.
	c.CreatePods(t, gang(ns, "small", "2")...)
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
	c.CreatePods(t, gang(ns, "large", "8")...)
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

// kube-scheduler writes the node of a pod that waits for its gang into
// status.nominatedNodeName, and takes it back when the gang is rejected. It takes back only
// what its watch has shown it: a gang that is rejected sooner keeps its nodes, and the
// next attempt of each pod takes that node without asking a policy. The decision log
// says so.
func TestRejectedGang(t *testing.T) {
	t.Run("at once", func(t *testing.T) {
		g := newRejectedGang(t, 60)
		g.rejectAtOnce(t)
		g.waitNominated(t, 3)
		g.wake(t)
		g.waitAttempts(t, func(_ int, made []*ledger.Event) bool { return causes(made)[ledger.CauseNominated] > 0 })
		for _, made := range g.attempts(t) {
			n := slices.IndexFunc(made, func(d *ledger.Event) bool { return d.Cause != ledger.CausePolicy })
			require.Positive(t, n)
			require.Equal(t, ledger.CauseNominated, made[n].Cause)
			require.Equal(t, made[n-1].Node, made[n].Node)
		}
		g.c.CreateNodes(t, e2e.Node("node-large", "64", "256Gi"))
		g.finish(t, 5)
	})
	t.Run("after a while", func(t *testing.T) {
		g := newRejectedGang(t, 4)
		g.c.CreatePods(t, g.pods[:3]...)
		g.c.WaitRefused(t, g.ns, 3) // too few for a gang
		fourth := gang(g.ns, "gang", "1")[3]
		fourth.Spec.SchedulerName = "nobody"
		g.c.CreatePods(t, fourth)
		for i := range 2 {
			// An update of the group wakes its pods, and they wait until their time is up.
			g.c.Kubectl(t, "", "annotate", "podgroup", "gang", "--namespace="+g.ns, fmt.Sprintf("try%d=x", i))
			g.waitNominated(t, 3)
			g.waitNominated(t, 0)
			g.waitAttempts(t, func(_ int, made []*ledger.Event) bool { return len(made) > i })
		}
		fifth := g.pods[0].DeepCopy()
		fifth.Name = "gang-4"
		g.c.CreatePods(t, fifth)
		g.finish(t, 4)
		g.requireByPolicy(t)
	})
	t.Run("with nominations off", func(t *testing.T) {
		g := newRejectedGang(t, 60, "--feature-gates=NominatedNodeNameForExpectation=false")
		g.rejectAtOnce(t)
		before := g.attempts(t)
		g.wake(t)
		g.waitAttempts(t, func(i int, made []*ledger.Event) bool { return len(made) > len(before[i]) })
		g.c.CreateNodes(t, e2e.Node("node-large", "64", "256Gi"))
		g.finish(t, 5)
		g.requireByPolicy(t)
	})
}

// A rejectedGang is four pods, of which the last needs more than any node has.
type rejectedGang struct {
	c         *e2e.Cluster
	proxy     *e2e.APIProxy
	scheduler *e2e.Scheduler
	ns, log   string
	pods      []*v1.Pod
}

func newRejectedGang(t *testing.T, timeoutSeconds int, flags ...string) *rejectedGang {
	t.Helper()
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	installPlugins(t, c, "coscheduling", "podgroups")
	g := &rejectedGang{
		c: c, proxy: c.StartProxy(t, "scheduler.kubeconfig"), ns: c.Namespace(t),
		log: filepath.Join(t.TempDir(), "decisions.jsonl"),
	}
	for i := range 4 {
		c.CreateNodes(t, e2e.Node(fmt.Sprintf("node-%d", i), "8", "32Gi"))
	}
	podGroup(t, c, g.ns, "gang", timeoutSeconds)
	g.scheduler = c.StartScheduler(t, scheduler,
		gangConfig(g.log)+fmt.Sprintf("clientConnection: {kubeconfig: %s}\n", g.proxy.Kubeconfig), flags...)
	g.pods = gang(g.ns, "gang", "1")
	g.pods[3].Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("32")
	return g
}

// rejectAtOnce has the fourth pod refused, and with it the gang, before the scheduler's
// watch can show the nominations of the others.
func (g *rejectedGang) rejectAtOnce(t *testing.T) {
	t.Helper()
	g.proxy.SetLag(func(path string, _ int) time.Duration {
		if path == "/api/v1/pods" {
			return 3 * time.Second
		}
		return 0
	})
	g.c.CreatePods(t, g.pods...)
	g.waitAttempts(t, func(_ int, made []*ledger.Event) bool { return len(made) > 0 })
	g.c.WaitRefused(t, g.ns, 4)
}

// wake creates a pod, for which Coscheduling tries the gang again. The watch shows it after all
// that came before.
func (g *rejectedGang) wake(t *testing.T) {
	t.Helper()
	g.proxy.SetLag(nil)
	g.c.CreatePods(t, e2e.Pod(g.ns, "other", "1", "1Gi"))
}

// finish waits until n pods are bound.
func (g *rejectedGang) finish(t *testing.T, n int) {
	t.Helper()
	g.c.WaitBound(t, g.ns, n)
	g.c.RequireFits(t)
	requireSound(t, g.scheduler)
	requireLog(t, g.log)
}

// waitNominated waits until exactly n pods have a nominated node.
func (g *rejectedGang) waitNominated(t *testing.T, n int) {
	t.Helper()
	e2e.Wait(t, fmt.Sprintf("%d nominated", n), func() (string, bool) {
		have := 0
		for _, pod := range g.c.Pods(g.ns) {
			if pod.Status.NominatedNodeName != "" {
				have++
			}
		}
		return fmt.Sprint(have), have == n
	})
}

// attempts are the decisions on the pods that find a node, in order.
func (g *rejectedGang) attempts(t *testing.T) [3][]*ledger.Event {
	t.Helper()
	var made [3][]*ledger.Event
	for _, d := range allDecisions(t, g.log) {
		for i := range made {
			if d.Pod == g.ns+"/"+g.pods[i].Name {
				made[i] = append(made[i], d)
			}
		}
	}
	return made
}

// waitAttempts waits until done holds for the decisions on each pod.
func (g *rejectedGang) waitAttempts(t *testing.T, done func(i int, made []*ledger.Event) bool) {
	t.Helper()
	e2e.Wait(t, "the next attempts", func() (string, bool) {
		all, found := true, []map[string]int{}
		for i, made := range g.attempts(t) {
			found = append(found, causes(made))
			all = all && done(i, made)
		}
		return fmt.Sprint(found), all
	})
}

func causes(made []*ledger.Event) map[string]int {
	n := map[string]int{}
	for _, d := range made {
		n[d.Cause]++
	}
	return n
}

// requireByPolicy checks that the policy placed the three pods each time.
func (g *rejectedGang) requireByPolicy(t *testing.T) {
	t.Helper()
	for _, made := range g.attempts(t) {
		require.GreaterOrEqual(t, len(made), 2)
		require.Equal(t, map[string]int{ledger.CausePolicy: len(made)}, causes(made))
	}
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
