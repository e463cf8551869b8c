//go:build e2e

package e2e_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
)

// A site is what the test of plans has: deployments of replicas, half of which exist when it
// is planned. SIGMA_PLAN makes another size, as 1000x50x100.
type site struct{ nodes, deployments, replicas int }

func siteSize(t *testing.T) site {
	var s site
	_, err := fmt.Sscanf(cmp.Or(os.Getenv("SIGMA_PLAN"), "30x12x10"), "%dx%dx%d", &s.nodes, &s.deployments, &s.replicas)
	require.NoError(t, err, "SIGMA_PLAN")
	return s
}

// deployment is the one of a number.
func (s site) deployment(ns string, i int) *appsv1.Deployment {
	d := e2e.Deployment(ns, fmt.Sprint("planned-", i), int32(s.replicas), []string{"2", "1500m", "2500m"}[i%3], "3Gi")
	d.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
	return d
}

// plan writes the site's plan from a snapshot, on which half of the pods wait, and manifests
// of the other half.
func (s site) plan(t *testing.T, c *e2e.Cluster, ns, dir string) *v1alpha1.PlacementPlan {
	t.Helper()
	for i := range s.deployments / 2 {
		c.CreateDeployment(t, s.deployment(ns, i))
	}
	waiting := s.deployments / 2 * s.replicas
	e2e.Wait(t, "the pods", func() (string, bool) { n := len(c.Pods(ns)); return fmt.Sprint(n), n == waiting })
	var manifests bytes.Buffer
	for i := s.deployments / 2; i < s.deployments; i++ {
		text, err := yaml.Marshal(s.deployment(ns, i))
		require.NoError(t, err)
		manifests.WriteString("---\n" + string(text))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "coming.yaml"), manifests.Bytes(), 0o600))
	for _, args := range [][]string{
		{"snapshot", "--out", "snap", "--kubeconfig", filepath.Join(c.Dir, "kubeconfig")},
		{"plan", "--trace", "snap", "--manifests", "coming.yaml", "--object", "site.yaml", "--deadline", time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "--quiet"},
	} {
		command := exec.Command(e2e.Program(t, "sigma"), args...)
		command.Dir = dir
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
		t.Logf("sigma %v\n%s", args, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "site.yaml"))
	require.NoError(t, err)
	var plan v1alpha1.PlacementPlan
	require.NoError(t, yaml.UnmarshalStrict(text, &plan))
	require.Equal(t, v1alpha1.PlanDryRun, plan.Spec.Mode)
	require.Len(t, plan.Spec.Workloads, s.deployments)
	return &plan
}

// TestPlan plans workloads that wait, and others that do not exist yet, from a snapshot and
// manifests, and lets the cluster land them while other pods come. Then a node goes: its pods are
// planned again within two seconds, and their replacements land there. The log gives the same
// decisions.
func TestPlan(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	ns, dir, size := c.Namespace(t), t.TempDir(), siteSize(t)
	c.CreateNodes(t, e2e.Nodes(5, size.nodes)...)
	plan := size.plan(t, c, ns, dir)
	c.Kubectl(t, "", "apply", "-f", filepath.Join(dir, "site.yaml"))
	log := filepath.Join(dir, "decisions.jsonl")

	c.Kubectl(t, "", "patch", "placementplan", "site", "--type=merge", "-p", `{"spec":{"mode":"Enabled"}}`)
	others := e2e.Pods(ns, 3, 60)
	c.CreatePods(t, others...)
	s := c.StartScheduler(t, scheduler, sigmaConfig(false, "decisionLog: "+log))
	for i := size.deployments / 2; i < size.deployments; i++ {
		c.CreateDeployment(t, size.deployment(ns, i))
	}
	pods := size.deployments * size.replicas
	for n := 500; n < pods; n += 500 {
		c.WaitBound(t, ns, n)
	}
	c.WaitBound(t, ns, pods+len(others))
	complete := func() (string, bool) {
		status := c.Kubectl(t, "", "get", "placementplan", "site", "-o", `jsonpath={.status}`)
		return status, c.Kubectl(t, "", "get", "placementplan", "site", "-o", `jsonpath={.status.landed}/{.status.pods} {.status.conditions[?(@.type=="Active")].reason}`) == fmt.Sprintf("%d/%[1]d Complete", pods)
	}
	within(t, "all landed as planned", complete)
	on, total := map[string]map[string]int32{}, map[string]int{}
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
			total[n.Node] += int(n.Pods)
		}
	}
	require.EqualValues(t, pods, s.Metric(t, "sigma_decisions_total", `cause="planned"`))
	c.RequireFits(t)
	t.Logf("%d of %d pods landed as planned, on %d of %d nodes", pods, pods, len(total), size.nodes)

	lost := ""
	for node, n := range total {
		if n > total[lost] || n == total[lost] && node < lost {
			lost = node
		}
	}
	deleted := time.Now()
	c.DeleteNode(t, lost)
	within(t, "the pods of the lost node are planned again", func() (string, bool) {
		again := c.Kubectl(t, "", "get", "placementplan", "site", "-o", `jsonpath={.status.replanned}`)
		return again, again == fmt.Sprint(total[lost])
	})
	c.Kubectl(t, "", "delete", "pods", "-n", ns, "--field-selector", "spec.nodeName="+lost, "--force", "--grace-period=0") // it takes a minute by itself
	within(t, "their replacements land as planned", complete)
	keptOut(t, c, ns)
	requireSound(t, s)
	s.Stop(t)
	require.Equal(t, pods+total[lost], requireLog(t, log).Causes[ledger.CausePlanned])
	requirePlannedAgain(t, log, lost, deleted, total[lost])
}

// keptOut reserves an empty node, but for a little, for pods that never come. A pod that
// is kept off it gets it when the plan is deleted, long before the scheduler tries all pods again.
func keptOut(t *testing.T, c *e2e.Cluster, ns string) {
	t.Helper()
	used := map[string]bool{}
	for _, node := range c.Placements(ns) {
		used[node] = true
	}
	free := c.Nodes()[slices.IndexFunc(c.Nodes(), func(n *v1.Node) bool { return !used[n.Name] })]
	c.Kubectl(t, fmt.Sprintf(`{apiVersion: sigma-scheduler.io/v1alpha1, kind: PlacementPlan, metadata: {name: never}, spec: {mode: Enabled, deadline: %q, workloads: [{namespace: %s, kind: Deployment, name: never, requests: {cpu: 2500m}, nodes: [{node: %s, pods: %d}]}]}}`,
		time.Now().Add(time.Hour).UTC().Format(time.RFC3339), ns, free.Name, free.Status.Allocatable.Cpu().MilliValue()/2500), "apply", "-f", "-")
	within(t, "the node is reserved", func() (string, bool) {
		status := c.Kubectl(t, "", "get", "placementplan", "never", "-o", `jsonpath={.status.reserved}`)
		return status, status != "" && status != "0"
	})
	pod := e2e.Pod(ns, "kept-out", "2500m", "1Gi")
	pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: free.Name}
	c.CreatePods(t, pod)
	c.WaitRefused(t, ns, 1)
	c.Kubectl(t, "", "delete", "placementplan", "never")
	within(t, "the pod that was kept out", func() (string, bool) {
		i := slices.IndexFunc(c.Pods(ns), func(p *v1.Pod) bool { return p.Name == "kept-out" && p.Spec.NodeName == free.Name })
		return fmt.Sprint(i), i >= 0
	})
}

// requirePlannedAgain finds in a log that room for the pods of a lost node was reserved within two
// seconds.
func requirePlannedAgain(t *testing.T, log, lost string, deleted time.Time, pods int) {
	t.Helper()
	gone, reserved, last := false, 0, 0.
	for _, e := range ledgertest.Events(t, log, "") {
		switch {
		case e.Kind == ledger.KindForget && e.Node == lost:
			gone = true
		case gone && e.Kind == ledger.KindReserve && reserved < pods:
			reserved, last = reserved+int(e.Reserved.Pods), e.Time
		}
	}
	require.Equal(t, pods, reserved)
	took := last - float64(deleted.UnixMicro())/1e6
	t.Logf("node %s lost: room for its %d pods reserved on other nodes after %.2f s", lost, pods, took)
	require.Less(t, took, 2.)
}
