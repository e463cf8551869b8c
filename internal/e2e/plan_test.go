//go:build e2e

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/internal/e2e"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// TestPlan plans workloads that wait, from a snapshot, and lets the cluster land them while
// other pods come. A node that goes leaves its pods to the policy, and the status says so. The log
// gives the same decisions.
func TestPlan(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Nodes(5, 30)...)
	const workloads, replicas = 12, 10
	for i := range workloads {
		c.CreateDeployment(t, e2e.Deployment(ns, fmt.Sprint("planned-", i), replicas, "2", "3Gi"))
	}
	e2e.Wait(t, "the pods", func() (string, bool) { n := len(c.Pods(ns)); return fmt.Sprint(n), n == workloads*replicas })
	dir := t.TempDir()
	sigma := func(args ...string) {
		t.Helper()
		command := exec.Command(e2e.Program(t, "sigma"), args...)
		command.Dir = dir
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
		t.Logf("sigma %v\n%s", args, out)
	}
	sigma("snapshot", "--out", "snap", "--kubeconfig", filepath.Join(c.Dir, "kubeconfig"))
	sigma("plan", "--trace", "snap", "--object", "site.yaml", "--deadline", time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "--quiet")
	c.Kubectl(t, "", "apply", "-f", filepath.Join(dir, "site.yaml"))
	log := filepath.Join(dir, "decisions.jsonl")

	c.Kubectl(t, "", "patch", "placementplan", "site", "--type=merge", "-p", `{"spec":{"mode":"Enabled"}}`)
	others := e2e.Pods(ns, 3, 60)
	c.CreatePods(t, others...)
	s := c.StartScheduler(t, scheduler, sigmaConfig(false, "decisionLog: "+log))
	c.WaitBound(t, ns, workloads*replicas+len(others))
	within(t, "all landed as planned", func() (string, bool) {
		status := c.Kubectl(t, "", "get", "placementplan", "site", "-o", `jsonpath={.status}`)
		return status, c.Kubectl(t, "", "get", "placementplan", "site", "-o", `jsonpath={.status.landed}/{.status.pods} {.status.conditions[?(@.type=="Active")].reason}`) == fmt.Sprintf("%d/%[1]d Complete", workloads*replicas)
	})
	text, err := os.ReadFile(filepath.Join(dir, "site.yaml"))
	require.NoError(t, err)
	var plan v1alpha1.PlacementPlan
	require.NoError(t, yaml.UnmarshalStrict(text, &plan))
	require.Equal(t, v1alpha1.PlanDryRun, plan.Spec.Mode)
	require.Len(t, plan.Spec.Workloads, workloads)
	on := map[string]map[string]int32{}
	for _, pod := range c.Pods(ns) {
		app := pod.Labels["app"]
		if on[app] == nil {
			on[app] = map[string]int32{}
		}
		on[app][pod.Spec.NodeName]++
	}
	for _, w := range plan.Spec.Workloads {
		for _, n := range w.Nodes {
			require.Equal(t, n.Pods, on[w.Name][n.Node], "%s on %s", w.Name, n.Node)
		}
	}
	require.EqualValues(t, workloads*replicas, s.Metric(t, "sigma_decisions_total", `cause="planned"`))
	c.RequireFits(t)

	lost := plan.Spec.Workloads[0].Nodes[0].Node
	c.DeleteNode(t, lost)
	e2e.Wait(t, "the pods of the lost node elsewhere", func() (string, bool) { // it takes a minute until its pods are deleted
		status := c.Kubectl(t, "", "get", "placementplan", "site", "-o", `jsonpath={.status.elsewhere} {.status.conditions[?(@.type=="Active")].message}`)
		var elsewhere, landed, pods, gone int
		_, err := fmt.Sscanf(status, "%d %d of %d pods landed as planned, %d stand elsewhere, %d are planned on nodes that are not there.", &elsewhere, &landed, &pods, new(int), &gone)
		return status, err == nil && elsewhere > 0 && elsewhere == gone && landed+elsewhere == pods
	})
	requireSound(t, s)
	s.Stop(t)
	require.GreaterOrEqual(t, requireLog(t, log).Causes[ledger.CausePlanned], workloads*replicas)
}
