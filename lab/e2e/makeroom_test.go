//go:build e2e

package e2e_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// grantRepair gives the scheduler the rights of the component repair.
func grantRepair(t *testing.T, c *e2e.Cluster) {
	t.Helper()
	grant(t, c, "repair")
}

// grant gives the scheduler the rights of a component of the manifests.
func grant(t *testing.T, c *e2e.Cluster, component string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "manifests", "components", component, "rbac.yaml"))
	require.NoError(t, err)
	var role rbacv1.ClusterRole
	first, _, _ := strings.Cut(string(text), "\n---\n")
	require.NoError(t, yaml.Unmarshal([]byte(first), &role))
	c.Grant(t, role.Rules...)
}

// TestMakeRoom has a pod that fits on neither of two nodes until a pod moves from the one to
// the other. A budget that allows nothing keeps all where it is. DryRun says what would
// move. Enabled moves it, and pods that come meanwhile take neither place.
func TestMakeRoom(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	grantRepair(t, c)
	applyPolicy(t, c, "kubernetes-k0", "general")
	ns := c.Namespace(t)
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	s := c.StartScheduler(t, scheduler, sigmaConfig(false, "decisionLog: "+log))

	// On each node one of db with 1.5 cores and one of web with 1: 1.5 of 4 are free.
	filler := func(name, node string) *v1.Pod {
		p := e2e.Pod(ns, name, "1500m", "1Gi")
		p.Spec.NodeName = node
		return p
	}
	c.CreateNodes(t, e2e.Node("a", "4", "16Gi"))
	db, web := e2e.Deployment(ns, "db", 1, "1500m", "1Gi"), e2e.Deployment(ns, "web", 1, "1", "1Gi")
	c.CreateDeployment(t, db)
	c.CreateDeployment(t, web)
	c.WaitRunning(t, ns, 2)
	c.CreatePods(t, filler("filler", "a"))
	c.WaitRunning(t, ns, 3)
	c.CreateNodes(t, e2e.Node("b", "4", "16Gi"))
	c.Kubectl(t, "", "scale", "deployment", "db", "web", "-n", ns, "--replicas=2")
	c.WaitRunning(t, ns, 5)
	c.Kubectl(t, "", "delete", "pod", "filler", "-n", ns, "--force")
	before := c.Placements(ns)
	on := func(app, node string) int {
		n := 0
		for _, p := range c.Pods(ns) {
			if p.Labels["app"] == app && p.Spec.NodeName == node && p.DeletionTimestamp == nil {
				n++
			}
		}
		return n
	}
	for _, app := range []string{"db", "web"} {
		require.Equal(t, []int{1, 1}, []int{on(app, "a"), on(app, "b")})
	}
	delete(before, "filler")

	repair := func(mode string) {
		c.Kubectl(t, "", "patch", "placementpolicy", "general", "--type=merge", "-p", `{"spec":{"repair":{"mode":"`+mode+`"}}}`)
		e2e.Wait(t, "repair "+mode, func() (string, bool) {
			is := c.Kubectl(t, "", "get", "placementpolicy", "general", "-o", `jsonpath={.status.conditions[?(@.type=="Repair")].reason}`)
			return is, is == mode
		})
	}
	events := func(reason string) string {
		return c.Kubectl(t, "", "get", "events", "-n", ns, "--field-selector=reason="+reason, "-o", `jsonpath={range .items[*]}{.message}{"\n"}{end}`)
	}
	// The budget's controller has to read it first.
	c.Kubectl(t, "", "create", "poddisruptionbudget", "db", "-n", ns, "--selector=app=db", "--min-available=2")
	e2e.Wait(t, "the budget", func() (string, bool) {
		is := c.Kubectl(t, "", "get", "poddisruptionbudget", "db", "-n", ns, "-o", "jsonpath={.status.currentHealthy} {.status.disruptionsAllowed}")
		return is, is == "2 0"
	})
	repair("Enabled")
	large := e2e.Pod(ns, "large", "3", "1Gi")
	c.CreatePods(t, large)
	c.WaitRefused(t, ns, 1)
	e2e.Wait(t, "a search", func() (string, bool) {
		n := s.Metric(t, "sigma_repair_search_duration_seconds_count")
		return fmt.Sprint(n), n > 0
	})
	require.Zero(t, s.Metric(t, "sigma_repair_chains_begun_total"))

	c.Kubectl(t, "", "delete", "poddisruptionbudget", "db", "-n", ns)
	e2e.Wait(t, "what DryRun says", func() (string, bool) {
		repair("Disabled") // a change has the pods that wait tried: until the scheduler knows that the budget is gone
		repair("DryRun")
		text := events("CouldMakeRoom")
		return text, strings.HasPrefix(text, "Were repair enabled: 1 pod makes room on node ")
	})
	require.EqualValues(t, 1, s.Metric(t, "sigma_repair_chains_begun_total", `mode="DryRun"`))
	after := c.Placements(ns)
	delete(after, "large")
	require.Equal(t, before, after, "nothing has moved")

	// The kubelet is slow to end the evicted pod: its node is not known before the chain begins.
	c.Kubelet.Disown("a", "b")
	repair("Enabled")
	e2e.Wait(t, "the replacement on its place", func() (string, bool) {
		is := []int{on("db", "a"), on("db", "b")}
		return fmt.Sprint(is), is[0]+is[1] == 2 && is[0]*is[1] == 0
	})
	open, other := "a", "b"
	if on("db", "a") == 2 {
		open, other = "b", "a"
	}
	for _, p := range e2e.Pods(ns, 1, 50) {
		p.Spec.Containers[0].Resources.Requests = large.Spec.Containers[0].Resources.Requests.DeepCopy()
		p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = *db.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu()
		c.CreatePods(t, p)
	}
	c.WaitRefused(t, ns, 51)
	pod, err := c.Client.CoreV1().Pods(ns).Get(t.Context(), "large", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, open, pod.Status.NominatedNodeName)
	c.Kubelet.Own("a", "b")
	e2e.Wait(t, "the pod on the node", func() (string, bool) {
		is := c.Placements(ns)["large"]
		return is, is == open
	})
	require.Equal(t, []int{2, 1, 1}, []int{on("db", other), on("web", "a"), on("web", "b")})
	e2e.Wait(t, "the end of the chain", func() (string, bool) {
		n := s.Metric(t, "sigma_repair_chains_ended_total", `outcome="done"`)
		return fmt.Sprint(n), n == 1
	})
	require.EqualValues(t, 1, s.Metric(t, "sigma_repair_moves_total", `outcome="done"`))
	for _, p := range c.Pods(ns) {
		if strings.HasPrefix(p.Name, "pod-") {
			require.Empty(t, p.Spec.NodeName, p.Name)
		}
	}
	c.RequireFits(t)
	requireSound(t, s)
	s.Stop(t)
	require.Equal(t, 1, requireLog(t, log).Causes[ledger.CauseNominated])
}

// TestMakeRoomInACrowd has 36 nodes with a little room on each, pods of four cores that fit on none of them, and others
// that come meanwhile. Every pod that is evicted stands again where the chain has it. SIGMA_CROWD has another number of nodes.
func TestMakeRoomInACrowd(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	grantRepair(t, c)
	c.Kubectl(t, `{apiVersion: sigma-scheduler.io/v1alpha1, kind: PlacementPolicy, metadata: {name: general}, spec: {featureVersion: 1, model: rule, knowledge: K0, rule: {name: leastallocated}, mode: live,
  repair: {mode: Enabled, movesPerHour: 200}}}`, "apply", "-f", "-")
	ns, log := c.Namespace(t), filepath.Join(t.TempDir(), "decisions.jsonl")
	s := c.StartScheduler(t, scheduler, sigmaConfig(false, "fleet: fixed, decisionLog: "+log))
	nodes, err := strconv.Atoi(cmp.Or(os.Getenv("SIGMA_CROWD"), "36"))
	require.NoError(t, err, "SIGMA_CROWD")
	const replicas, others = 4, 50
	workloads, large := 5*nodes/3, min(nodes/6, 15) // so many get in while a test waits
	for i := range nodes {
		c.CreateNodes(t, e2e.Node(fmt.Sprintf("n%02d", i), "8", "64Gi"))
	}
	for i := range workloads {
		name := fmt.Sprint("app-", i)
		c.CreateDeployment(t, e2e.Deployment(ns, name, replicas, fmt.Sprint(500+250*(i%5), "m"), "1Gi"))
		c.Kubectl(t, "", "create", "poddisruptionbudget", name, "-n", ns, "--selector=app="+name, "--max-unavailable=1")
	}
	c.WaitRunning(t, ns, workloads*replicas)
	begun := time.Now()
	c.CreateDeployment(t, e2e.Deployment(ns, "large", int32(large), "4", "1Gi"))
	c.CreateDeployment(t, e2e.Deployment(ns, "others", others, "50m", "1Mi"))
	e2e.Wait(t, "room for all", func() (string, bool) {
		is := 0
		for _, p := range c.Pods(ns) {
			if p.Labels["app"] == "large" && p.Spec.NodeName != "" {
				is++
			}
		}
		return fmt.Sprint(is), is == large
	})
	c.WaitRunning(t, ns, workloads*replicas+large+others)
	e2e.Wait(t, "the end of all chains", func() (string, bool) {
		begun, ended := s.Metric(t, "sigma_repair_chains_begun_total"), s.Metric(t, "sigma_repair_chains_ended_total")
		return fmt.Sprint(begun, ended), begun == ended
	})
	t.Logf("%d pods on %d nodes, %.0f s: chains %v, of these done %v; moves %v, of these as planned %v; searches %v in %.3f s", workloads*replicas+large+others, nodes, time.Since(begun).Seconds(),
		s.Metric(t, "sigma_repair_chains_begun_total"), s.Metric(t, "sigma_repair_chains_ended_total", `outcome="done"`),
		s.Metric(t, "sigma_repair_moves_total"), s.Metric(t, "sigma_repair_moves_total", `outcome="done"`),
		s.Metric(t, "sigma_repair_search_duration_seconds_count"), s.Metric(t, "sigma_repair_search_duration_seconds_sum"))
	moves := s.Metric(t, "sigma_repair_moves_total")
	require.Positive(t, moves)
	require.Equal(t, moves, s.Metric(t, "sigma_repair_moves_total", `outcome="done"`))
	c.RequireFits(t)
	requireSound(t, s)
	s.Stop(t)
	requireLog(t, log)
}

// room lists the millicores that are free on each node.
func room(c *e2e.Cluster) map[string]int64 {
	free := map[string]int64{}
	for _, n := range c.Nodes() {
		free[n.Name] = n.Status.Allocatable.Cpu().MilliValue()
	}
	for _, p := range c.Pods("") {
		free[p.Spec.NodeName] -= p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
	}
	return free
}
