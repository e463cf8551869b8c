//go:build e2e

package e2e_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// explained is what a test reads of `sigma explain --format json`.
type explained struct {
	Node, Waits      string
	Policy           string
	Fallback         bool
	Chosen, RunnerUp *struct {
		Machine string
		Score   float64
	}
}

func explainPod(t *testing.T, pod string, args ...string) explained {
	t.Helper()
	args = append([]string{"explain", "--format=json", "--pod=" + pod}, args...)
	out, err := exec.Command(e2e.Program(t, "sigma"), args...).CombinedOutput()
	require.NoError(t, err, "sigma %v: %s", args, out)
	var e explained
	require.NoError(t, json.Unmarshal(out, &e), "%s", out)
	return e
}

// TestExplainIsTheEngine holds `sigma explain --pod` to the decisions of a scheduler.
// With the decision log it computes the node, the runner-up and both scores that the
// log has. From the cluster alone it foretells the node of a pod that waits.
func TestExplainIsTheEngine(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	c.Kubectl(t, identityRules, "apply", "-f", "-")
	ns := c.Namespace(t)
	nodes := e2e.Nodes(5, 24)
	c.CreateNodes(t, nodes...)
	c.Cordon(t, nodes[0].Name, true)
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	s := c.StartScheduler(t, scheduler, sigmaConfig(false, "appLabel: app, decisionLog: "+log))
	pods := identityPods(ns, 120)
	c.CreatePods(t, pods[:100]...)
	c.WaitBound(t, ns, 100)

	compared := 0
	made := decisions(t, log)
	for i := 3; i < 100; i += 8 {
		d := made[pods[i].Name]
		require.NotNil(t, d, pods[i].Name)
		if d.Cause != ledger.CausePolicy {
			continue
		}
		e := explainPod(t, ns+"/"+pods[i].Name, "--log="+log)
		require.Equal(t, "general", e.Policy)
		require.Equal(t, d.Node, e.Chosen.Machine, pods[i].Name)
		require.InDelta(t, d.Score, e.Chosen.Score, 0, pods[i].Name)
		require.Equal(t, d.RunnerUp != "", e.RunnerUp != nil, pods[i].Name)
		if e.RunnerUp != nil {
			require.Equal(t, d.RunnerUp, e.RunnerUp.Machine, pods[i].Name)
			require.InDelta(t, d.RunnerUpScore, e.RunnerUp.Score, 0, pods[i].Name)
		}
		compared++
	}
	require.Greater(t, compared, 8)

	// A pod that waits while no scheduler runs goes where explain says once one does.
	for i, pod := range []*v1.Pod{pods[100], pods[110], pods[115]} {
		s.Kill(t)
		c.CreatePods(t, pod)
		e := explainPod(t, ns+"/"+pod.Name, "--kubeconfig="+filepath.Join(c.Dir, "kubeconfig"), "--app-label=app")
		require.Empty(t, e.Node)
		require.NotNil(t, e.Chosen, pod.Name)
		s.Restart(t)
		s.WaitReady(t)
		c.WaitBound(t, ns, 101+i)
		d := decisions(t, log)[pod.Name]
		require.Equal(t, ledger.CausePolicy, d.Cause)
		require.Equal(t, d.Node, e.Chosen.Machine, pod.Name)
		require.InDelta(t, d.Score, e.Chosen.Score, 1e-9, pod.Name) // the cluster does not hold the scheduler's past
		require.Equal(t, d.Node, c.Placements(ns)[pod.Name])
	}
	requireLog(t, log)
}
