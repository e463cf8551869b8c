//go:build e2e

package e2e_test

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// A stand is what TestRebalance has: nodes, deployments of 20 pods each, a third of which shrink, and
// by how much a pod is larger than 300m to 1.1 cores. SIGMA_REBALANCE makes another size, as 1000x336x4.
type stand struct{ nodes, apps, factor int }

func standSize(t *testing.T) stand {
	t.Helper()
	var s stand
	_, err := fmt.Sscanf(cmp.Or(os.Getenv("SIGMA_REBALANCE"), "200x100x1"), "%dx%dx%d", &s.nodes, &s.apps, &s.factor)
	require.NoError(t, err, "SIGMA_REBALANCE")
	return s
}

// How many pods a Deployment of a stand has at first, and how many bare pods a stand has.
const standReplicas, standBare = 20, 20

// fill has Deployments placed, each in the next namespace, and bare pods; then a third of the Deployments shrinks. A tenth must not be
// disrupted. It returns how many pods stay. each changes a Deployment before it is created; nil = nothing.
func (s stand) fill(t *testing.T, c *e2e.Cluster, spaces []string, each func(*appsv1.Deployment)) (pods int) {
	t.Helper()
	stood := len(c.Pods(""))
	name := func(i int) (ns, name string) { return spaces[i%len(spaces)], fmt.Sprintf("app-%02d", i) }
	for i := range s.apps {
		ns, name := name(i)
		d := e2e.Deployment(ns, name, standReplicas, fmt.Sprintf("%dm", s.factor*(300+100*(i%9))), fmt.Sprintf("%dMi", s.factor*(256+128*(i%5))))
		if i%10 == 0 {
			d.Spec.Template.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
		}
		if each != nil {
			each(d)
		}
		c.CreateDeployment(t, d)
		if i%25 == 24 {
			c.WaitBound(t, "", i*standReplicas)
		}
	}
	c.WaitRunning(t, "", stood+s.apps*standReplicas)
	c.CreatePods(t, e2e.Pods(spaces[0], 3, standBare)...)
	c.WaitRunning(t, "", stood+s.apps*standReplicas+standBare)
	pods = standBare
	for i := range s.apps { // holes
		if i%3 != 1 {
			pods += standReplicas
			continue
		}
		ns, name := name(i)
		c.Kubectl(t, "", "scale", "-n", ns, "deployment", name, fmt.Sprintf("--replicas=%d", 1+i%8))
		pods += 1 + i%8
	}
	e2e.Wait(t, "the pods that stay", func() (string, bool) { n := len(c.Pods("")); return fmt.Sprint(n), n == stood+pods })
	return pods
}

// TestRebalance: the plan of a Rebalance is what sigma rebalance finds in a snapshot of the
// same moment, pods that must not move included, and those of other schedulers. Of two schedulers the
// one that leads makes it, and nothing is moved.
func TestRebalance(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	ns, size := c.Namespace(t), standSize(t)
	c.CreateNodes(t, e2e.Nodes(5, size.nodes)...)
	config := sigmaConfig(true, "") + fmt.Sprintf("leaderElection: {leaderElect: true, resourceNamespace: %s}\n", ns)
	s := c.StartScheduler(t, scheduler, config)
	const others = 2
	foreign := e2e.Deployment(ns, "foreign", others, "100m", "64Mi") // whoever places it
	foreign.Spec.Template.Spec.SchedulerName, foreign.Spec.Template.Spec.NodeName = "other", "node-0003"
	c.CreateDeployment(t, foreign)
	c.WaitRunning(t, ns, others)
	pods := others + size.fill(t, c, []string{ns}, nil)
	before := c.Placements(ns)
	other := c.StartScheduler(t, scheduler, config)

	rebalance := func(spec string) (r v1alpha1.Rebalance) {
		c.Kubectl(t, "{apiVersion: sigma-scheduler.io/v1alpha1, kind: Rebalance, metadata: {name: nightly}, spec: {"+spec+"}}", "apply", "-f", "-")
		e2e.Wait(t, "a plan", func() (string, bool) {
			text := c.Kubectl(t, "", "get", "rebalance", "nightly", "-o", "json")
			r = v1alpha1.Rebalance{}
			require.NoError(t, json.Unmarshal([]byte(text), &r))
			planned := conditionOf(r.Status.Conditions, v1alpha1.ConditionPlanned)
			return text, planned.ObservedGeneration == r.Generation && planned.Message != ""
		})
		return r
	}
	dir := t.TempDir()
	sigma := func(args ...string) string {
		command := exec.Command(e2e.Program(t, "sigma"), args...)
		command.Dir = dir
		command.Stderr = os.Stderr
		out, err := command.Output()
		require.NoError(t, err, "sigma %v", args)
		return string(out)
	}
	for i, moves := range []string{"2%", "10%"} {
		r := rebalance(fmt.Sprintf("moves: %q", moves))
		plan := r.Status.Plan
		require.NotNil(t, plan, "%+v", r.Status)
		require.EqualValues(t, pods, plan.Pods)
		require.Greater(t, int(plan.Fixed), standBare+standReplicas*size.apps/20)
		require.Positive(t, plan.Freed)

		snap := fmt.Sprint("snap", i)
		sigma("snapshot", "--out", snap, "--kubeconfig", filepath.Join(c.Dir, "kubeconfig"), "--scheduler", "default-scheduler")
		var cli struct {
			Fixed      int32
			Before     int32 `json:"machines_before"`
			After      int32 `json:"machines_after"`
			Bound      int32
			Moves      int32
			LeastMoves int32 `json:"least_moves"`
		}
		require.NoError(t, json.Unmarshal([]byte(sigma("rebalance", "--trace", snap, "--moves", moves, "--out", "plan.csv", "--format=json", "--quiet")), &cli))
		require.Equal(t, []int32{cli.Before, cli.Before - cli.After, cli.Bound, cli.Moves, cli.LeastMoves, cli.Fixed},
			[]int32{plan.Nodes, plan.Freed, plan.Bound, plan.Moves, plan.LeastMoves, plan.Fixed})
		require.Equal(t, emptied(t, filepath.Join(dir, "plan.csv"), before), plan.Empties)
		t.Logf("%s of %d pods on %d nodes: %d moves free %d of %d nodes in use, %d pods are fixed", moves, pods, size.nodes, plan.Moves, plan.Freed, plan.Nodes, plan.Fixed)
	}
	made := func(s *e2e.Scheduler) float64 { return s.Metric(t, "sigma_rebalance_plans_total", `outcome="planned"`) }
	require.EqualValues(t, 2, made(s), "it leads")
	require.Zero(t, made(other), "it stands by")
	require.Contains(t, c.Kubectl(t, "", "get", "events", "-A", "--field-selector=involvedObject.kind=Rebalance", "-o", "jsonpath={.items[*].note}{.items[*].message}"), "nodes")

	r := rebalance(`moves: "5%", suspend: true`)
	require.Equal(t, "Suspended", conditionOf(r.Status.Conditions, v1alpha1.ConditionPlanned).Reason)
	require.NotNil(t, r.Status.Plan, "the last plan stays")
	require.EqualValues(t, 2, made(s))
	require.Zero(t, made(other))
	require.Equal(t, before, c.Placements(ns), "nothing is moved")
}

func conditionOf(list []metav1.Condition, kind string) metav1.Condition {
	for _, c := range list {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// emptied are the nodes that the moves of a file free, in their order, at most 50.
func emptied(t *testing.T, path string, placements map[string]string) (list []v1alpha1.EmptiedNode) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	on := map[string]int{}
	for _, node := range placements {
		on[node]++
	}
	at := map[string]int{}
	for i, row := range rows[1:] {
		from, to := row[4], row[5]
		on[to]++
		delete(at, to)
		if on[from]--; on[from] == 0 {
			at[from] = i + 1
		}
	}
	for i := range rows[1:] {
		for node, last := range at {
			if last == i+1 && len(list) < 50 {
				list = append(list, v1alpha1.EmptiedNode{Node: node, Moves: int32(last)})
			}
		}
	}
	return list
}

// TestRebalanceGoesOn: plans come at their times while a scheduler is killed and the API server
// is restarted.
func TestRebalanceGoesOn(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Nodes(5, 10)...)
	config := sigmaConfig(false, "") + fmt.Sprintf("leaderElection: {leaderElect: true, resourceNamespace: %s}\n", ns)
	first := c.StartScheduler(t, scheduler, config)
	c.CreateDeployment(t, e2e.Deployment(ns, "web", 20, "1", "1Gi"))
	c.WaitRunning(t, ns, 20)
	c.Kubectl(t, "{apiVersion: sigma-scheduler.io/v1alpha1, kind: Rebalance, metadata: {name: nightly}, spec: {every: 1m}}", "apply", "-f", "-")
	after := func(past, what string) (last string) {
		e2e.Wait(t, what, func() (string, bool) {
			last = c.Kubectl(t, "", "get", "rebalance", "nightly", "-o", "jsonpath={.status.plan.time}")
			return last, last > past
		})
		return last
	}
	last := after("", "a plan")
	c.StartScheduler(t, scheduler, config)
	first.Kill(t)
	last = after(last, "another's plan")
	c.RestartAPIServer(t)
	after(last, "a plan after the API server is back")
	require.Equal(t, "True", c.Kubectl(t, "", "get", "rebalance", "nightly", "-o", `jsonpath={.status.conditions[?(@.type=="Planned")].status}`))
}
