//go:build e2e

package e2e_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// TestWindow runs the commands of docs/windows.md. A policy that reads a clock decides in
// the window of its workload, a shipped one outside; both are computed again from
// the log. An annotation that is no window is told on the workload.
func TestWindow(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1-clock", "general")
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Nodes(5, 6)...)
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	s := c.StartScheduler(t, scheduler, sigmaConfig(false, "appLabel: app, fleet: open, decisionLog: "+log))
	message := func() string {
		return c.Kubectl(t, "", "get", "placementpolicy", "general", "-o", `jsonpath={.status.conditions[?(@.type=="Active")].message}`)
	}
	within(t, "the policy in force", func() (string, bool) {
		return message(), strings.HasSuffix(message(), "It reads a clock: outside of the windows of workloads, a shipped policy without one decides.")
	})
	digest := func(file string) string {
		object, err := policy.Load(filepath.Join(repository, "benchdata", "policies", file+".yaml"))
		require.NoError(t, err)
		return object.Digest()
	}
	inside, outside := digest("general-k1-clock"), digest("kubernetes-k0")
	seen := map[string]bool{}
	// decided requires of the pods that are new in the log who decided on them.
	decided := func(pods int, cause, digest string) {
		t.Helper()
		e2e.Wait(t, "decisions in the log", func() (string, bool) { n := len(decisions(t, log)); return fmt.Sprint(n), n == len(seen)+pods })
		for name, d := range decisions(t, log) {
			if seen[name] {
				continue
			}
			seen[name] = true
			require.Equal(t, []string{cause, digest, "live"}, []string{d.Cause, d.PolicyDigest, d.Mode}, name)
			require.InDelta(t, d.Time, d.Clock, 60, name)
		}
	}
	pods := e2e.Pods(ns, 3, 8)
	c.CreatePods(t, pods...)
	c.WaitBound(t, ns, 8)
	decided(8, ledger.CauseNoWindow, outside)

	web := e2e.Deployment(ns, "web", 0, "500m", "512Mi")
	c.CreateDeployment(t, web)
	page := openPage(t, c, "windows.md")
	page.edit = func(text string) string {
		return strings.NewReplacer("kubectl ", "kubectl -n "+ns+" ", "default/$", ns+"/$").Replace(text)
	}
	page.run(t, "", 1)
	time.Sleep(6 * time.Second) // what is declared is read every five
	out := page.run(t, "", 1)
	require.Empty(t, page.blocks)
	require.Contains(t, out, "% of the workload's window has passed.")
	require.Regexp(t, `general +K1\+clock`, out)
	decided(12, ledger.CausePolicy, inside)

	// Elsewhere there is no window, and behind it neither.
	c.CreatePods(t, e2e.Pod(ns, "alone", "500m", "512Mi"))
	c.WaitBound(t, ns, 21)
	decided(1, ledger.CauseNoWindow, outside)
	annotate := func(window string) {
		c.Kubectl(t, "", "-n", ns, "annotate", "--overwrite", "deployment", "web", "sigma-scheduler.io/window="+window)
		time.Sleep(6 * time.Second)
	}
	annotate("2020-01-01T00:00:00Z/2020-01-02T00:00:00Z")
	c.Kubectl(t, "", "-n", ns, "scale", "deployment", "web", "--replicas=14")
	c.WaitBound(t, ns, 23)
	decided(2, ledger.CauseNoWindow, outside)
	annotate("2020-01-02T00:00:00Z/2020-01-01T00:00:00Z")
	c.Kubectl(t, "", "-n", ns, "scale", "deployment", "web", "--replicas=15")
	c.WaitBound(t, ns, 24)
	decided(1, ledger.CauseNoWindow, outside)
	within(t, "an event on the workload", func() (string, bool) {
		notes := c.Kubectl(t, "", "-n", ns, "get", "events", "--field-selector", "reason=AnnotationIgnored,involvedObject.kind=Deployment,involvedObject.name=web", "-o", "jsonpath={.items[*].message}")
		return notes, strings.Contains(notes, "is ignored: it does not end after its start")
	})
	require.EqualValues(t, 12, s.Metric(t, "sigma_decisions_total", `cause="no-window"`))
	require.EqualValues(t, 12, s.Metric(t, "sigma_decisions_total", `cause="policy"`))
	require.EqualValues(t, 1, s.Metric(t, "sigma_load_errors_total", `kind="workloads"`))
	requireSound(t, s)

	v := requireLog(t, log)
	require.Equal(t, 24, v.Agreed)
	text, err := exec.Command(e2e.Program(t, "sigma"), "replay", "--log", log).CombinedOutput()
	require.NoError(t, err, "%s", text)
	require.Regexp(t, `(?m)^  no-window +12 = 50\.00 %$`, string(text))
	require.Regexp(t, `(?m)^agreed +24 of 24 = 100 %$`, string(text))
	e := explainPod(t, ns+"/"+pods[0].Name, "--log="+log)
	require.Equal(t, "kubernetes-k0", e.Policy)
	require.Equal(t, decisions(t, log)[pods[0].Name].Node, e.Chosen.Machine)
}
