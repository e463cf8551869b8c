//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// policyYAML is a shipped policy under another name, live, with fields of its spec
// replaced: "mode: live" by "mode: canary" and so on.
func policyYAML(t *testing.T, file, name string, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "benchdata", "policies", file+".yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		text, err = os.ReadFile(filepath.Join(repository, "lab", "policies", file+".yaml"))
	}
	require.NoError(t, err)
	head, _, _ := strings.Cut(string(text), "\n  provenance:")
	replace = append([]string{"mode: shadow", "mode: live"}, replace...)
	for i := 0; i < len(replace); i += 2 {
		require.Contains(t, head, replace[i])
		head = strings.Replace(head, replace[i], replace[i+1], 1)
	}
	return strings.Replace(head, "name: "+file, "name: "+name, 1) + "\n"
}

// kubectlFails runs kubectl, which must fail, and returns what it prints.
func kubectlFails(t *testing.T, c *e2e.Cluster, input string, args ...string) string {
	t.Helper()
	command := exec.Command(e2e.Program(t, "kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.Dir, "kubeconfig"), "HOME="+t.TempDir())
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	var status *exec.ExitError
	require.ErrorAs(t, err, &status, "%s", out)
	return string(out)
}

func policyStatus(t *testing.T, c *e2e.Cluster, name string) v1alpha1.PlacementPolicyStatus {
	t.Helper()
	o, err := c.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("placementpolicies")).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	var policy v1alpha1.PlacementPolicy
	decode(t, o.Object, &policy)
	return policy.Status
}

// decisions are the last decisions of a log, by pod.
func decisions(t *testing.T, log string) map[string]*ledger.Event {
	t.Helper()
	found := map[string]*ledger.Event{}
	for _, e := range allDecisions(t, log) {
		_, name, _ := strings.Cut(e.Pod, "/")
		found[name] = e
	}
	return found
}

// allDecisions are the decisions in a log, in their order.
func allDecisions(t *testing.T, log string) []*ledger.Event {
	t.Helper()
	file, err := os.Open(log)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	var found []*ledger.Event
	for r := ledger.NewReader(log, file); ; {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		if e.Kind == ledger.KindDecide {
			found = append(found, e)
		}
	}
}

// While the scheduler runs, a policy is created, replaced by unusable ones, mended,
// deleted and created again. The policy in force follows within seconds, and so does
// the status.
func TestPolicyWhileRunning(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Nodes(13, 10)...)
	p := c.StartProxy(t, "scheduler.kubeconfig")
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	config := sigmaConfig(false, "appLabel: app, decisionLog: "+log) + fmt.Sprintf("clientConnection: {kubeconfig: %s}\n", p.Kubeconfig)
	s := c.StartScheduler(t, scheduler, config)
	wave := 0
	// Five pods are decided on for the reason, by the policy of that digest.
	decided := func(cause, digest string) {
		t.Helper()
		pods := e2e.Pods(ns, uint64(20+wave), 5)
		for i, pod := range pods {
			pod.Name = fmt.Sprintf("wave-%d-%d", wave, i)
		}
		wave++
		c.CreatePods(t, pods...)
		c.WaitBound(t, ns, 5*wave)
		made := decisions(t, log)
		for _, pod := range pods {
			require.Equal(t, cause, made[pod.Name].Cause, pod.Name)
			require.Equal(t, digest, made[pod.Name].PolicyDigest, pod.Name)
		}
	}
	inForce := func(what string, generation float64) {
		t.Helper()
		within(t, what, func() (string, bool) {
			now := s.Metric(t, "sigma_policy_generation", `role="primary"`)
			return fmt.Sprint(now), now == generation
		})
	}
	// shows waits until `kubectl get` has a line of these words.
	shows := func(what string, words ...string) {
		t.Helper()
		within(t, what, func() (string, bool) {
			out := c.Kubectl(t, "", "get", "placementpolicies", "general")
			for _, word := range words {
				if !strings.Contains(out, word) {
					return out, false
				}
			}
			return "", true
		})
	}
	const none = ledger.CauseFallback + "no-policy"

	decided(none, "")
	require.EqualValues(t, 5, s.Metric(t, "sigma_fallbacks_total", `reason="no-policy"`))
	c.Kubectl(t, policyYAML(t, "general-k1", "general"), "apply", "-f", "-")
	inForce("applied, and in force", 1)
	shows("applied, and its status", "general   linear   K1          live   True       True")
	first := policyStatus(t, c, "general").Digest
	require.NotEmpty(t, first)
	decided(ledger.CausePolicy, first)

	// What the API server refuses leaves everything as it is.
	for _, bad := range []struct{ old, replaced, want string }{
		{"weights: [-0.299298", `weights: ["heavy"`, `spec.weights[0]: Invalid value: "string"`},
		{"weights: [", "weights: [" + strings.Repeat("1, ", 100_000), "spec.weights: Too many: 100008: must have at most 128 items"},
		{"featureVersion: 1", "featureVersion: 2", "spec.featureVersion: Unsupported value: 2"},
		{"util, full", "util, flux", "spec.features[1]: Invalid value"},
	} {
		// Not applied: kubectl would keep the whole in an annotation.
		out := kubectlFails(t, c, policyYAML(t, "general-k1", "general", bad.old, bad.replaced), "replace", "-f", "-")
		require.Contains(t, out, bad.want)
	}
	// A policy that only the loader refuses is not in force either, and the status says
	// why.
	for i, bad := range []struct{ text, want string }{
		{policyYAML(t, "weibull-k0", "general"), "population"},
		{policyYAML(t, "general-k1", "general", "knowledge: K1", "knowledge: K2"), "K2"},
	} {
		c.Kubectl(t, bad.text, "apply", "-f", "-")
		shows("a policy that cannot be loaded: "+bad.want, "False      False", bad.want)
		status := policyStatus(t, c, "general")
		require.EqualValues(t, 2+i, status.ObservedGeneration)
		t.Log(status.Conditions)
		require.EqualValues(t, 1+i, s.Metric(t, "sigma_load_errors_total", `kind="placementpolicies"`))
		require.EqualValues(t, 1, s.Metric(t, "sigma_policy_generation", `role="primary"`))
	}
	decided(ledger.CausePolicy, first)

	// The mended policy comes into force although the API server refuses to write
	// statuses for a while.
	p.SetRefuse(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/placementpolicies/general/status") })
	c.Kubectl(t, policyYAML(t, "general-k1", "general", "0.475388", "0.5"), "apply", "-f", "-")
	inForce("mended, and in force", 4)
	time.Sleep(2 * time.Second)
	require.NotEqualValues(t, 4, policyStatus(t, c, "general").ObservedGeneration)
	p.SetRefuse(nil)
	shows("mended, and its status", "live   True       True")
	second := policyStatus(t, c, "general").Digest
	require.NotEqual(t, first, second)
	decided(ledger.CausePolicy, second)

	c.Kubectl(t, "", "delete", "placementpolicy", "general")
	inForce("deleted, and out of force", 0)
	decided(none, "")
	c.Kubectl(t, policyYAML(t, "general-k1", "general"), "apply", "-f", "-")
	inForce("created again, and in force", 1)
	shows("created again, and its status", "live   True       True")
	decided(ledger.CausePolicy, first)

	// A scheduler that starts with a policy it cannot use has no last good one.
	c.Kubectl(t, policyYAML(t, "general-k1", "general", "knowledge: K1", "knowledge: K2"), "apply", "-f", "-")
	shows("unusable again", "False      False")
	s.Kill(t)
	s.Restart(t)
	s.WaitReady(t)
	decided(none, "")
	shows("no last good one", "False      False")
	within(t, "its status", func() (string, bool) {
		status := fmt.Sprint(policyStatus(t, c, "general").Conditions)
		return status, strings.Contains(status, "Best-Fit decides")
	})
	requireSound(t, s)
	require.Equal(t, 2, requireLog(t, log).Starts)
}

// modeScene has nodes of one kind: upstream's scores spread pods over them, a
// policy that decides packs them.
func modeScene(t *testing.T) (*e2e.Cluster, string) {
	t.Helper()
	c := e2e.Shared(t)
	installSigma(t, c)
	var nodes []*v1.Node
	for i := range 30 {
		nodes = append(nodes, e2e.Node(fmt.Sprintf("node-%02d", i), "16", "64Gi"))
	}
	c.CreateNodes(t, nodes...)
	return c, c.Namespace(t)
}

func nodesWithPods(c *e2e.Cluster, ns string) int {
	used := map[string]bool{}
	for _, node := range c.Placements(ns) {
		used[node] = true
	}
	return len(used)
}

// clearPods deletes all pods of a namespace.
func clearPods(t *testing.T, c *e2e.Cluster, ns string) {
	t.Helper()
	require.NoError(t, c.Client.CoreV1().Pods(ns).DeleteCollection(t.Context(), *metav1.NewDeleteOptions(0), metav1.ListOptions{}))
	e2e.Wait(t, "pods to vanish", func() (string, bool) { n := len(c.Pods(ns)); return fmt.Sprint(n), n == 0 })
}

// A policy in shadow has no influence and reports where it would decide otherwise; a
// live policy decides. Switching needs no restart.
func TestShadowThenLive(t *testing.T) {
	c, ns := modeScene(t)
	c.Kubectl(t, policyYAML(t, "general-k1", "general", "mode: live", "mode: shadow"), "apply", "-f", "-")
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	s := c.StartScheduler(t, scheduler, sigmaConfig(false, "appLabel: app, decisionLog: "+log))

	// Upstream's scores prefer an empty node as long as there is one, but for ties and what they see late.
	pods := e2e.Pods(ns, 15, 30)
	c.CreatePods(t, pods...)
	c.WaitBound(t, ns, 30)
	require.Greater(t, nodesWithPods(c, ns), 20)
	made, elsewhere := decisions(t, log), 0
	for _, pod := range pods {
		d := made[pod.Name]
		require.Equal(t, "shadow", d.Mode)
		if d.Choice != "" {
			require.NotEqual(t, d.Choice, d.Node)
			elsewhere++
		}
	}
	require.Greater(t, elsewhere, 20)
	require.EqualValues(t, 30, s.Metric(t, "sigma_decisions_total", `mode="shadow"`))
	disagreements := s.Metric(t, "sigma_disagreements_total", `role="primary"`)
	t.Logf("of 30 pods %d would have gone elsewhere, %v otherwise than by Best-Fit", elsewhere, disagreements)
	require.NotZero(t, disagreements)
	within(t, "an event of a disagreement", func() (string, bool) {
		for _, pod := range c.Pods(ns) {
			if note := eventOf(t, c, pod, "ShadowDisagreement"); strings.HasPrefix(note, "The placement policy in shadow would take node ") {
				return "", true
			}
		}
		return "none", false
	})
	require.Contains(t, c.Kubectl(t, "", "get", "placementpolicies", "general"), "shadow")

	clearPods(t, c, ns)
	c.Kubectl(t, "", "patch", "placementpolicy", "general", "--type=merge", "-p", `{"spec":{"mode":"live"}}`)
	within(t, "live", func() (string, bool) {
		now := s.Metric(t, "sigma_policy_generation", `role="primary"`)
		return fmt.Sprint(now), now == 2
	})
	pods = e2e.Pods(ns, 15, 30)
	c.CreatePods(t, pods...)
	c.WaitBound(t, ns, 30)
	t.Logf("live uses %d nodes", nodesWithPods(c, ns))
	require.Less(t, nodesWithPods(c, ns), 10)
	made = decisions(t, log)
	for _, pod := range pods {
		require.Equal(t, "live", made[pod.Name].Mode)
		require.Equal(t, ledger.CausePolicy, made[pod.Name].Cause)
		require.Empty(t, made[pod.Name].Choice)
	}
	requireLog(t, log)
}

// A canary decides for a share of the workloads, the same ones whenever they come,
// and more when the share grows.
func TestCanary(t *testing.T) {
	c, _ := modeScene(t)
	const apps, each = 80, 2
	ns := "canary" // names decide which workloads are in the share
	c.Kubectl(t, "", "create", "namespace", ns)
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	s := c.StartScheduler(t, scheduler, sigmaConfig(false, "appLabel: app, canaryPolicyName: next, decisionLog: "+log))
	// run places all workloads and returns those on which the policy of a digest
	// decides, and checks that it decides on all or none of their pods.
	run := func(mode, digest string) map[string]bool {
		t.Helper()
		var pods []*v1.Pod
		for i := range apps * each {
			pod := e2e.Pod(ns, fmt.Sprintf("pod-%d", i), "100m", "128Mi")
			pod.Labels["app"] = fmt.Sprintf("app-%d", i/each)
			pods = append(pods, pod)
		}
		clearPods(t, c, ns)
		c.CreatePods(t, pods...)
		c.WaitBound(t, ns, len(pods))
		made, chosen := decisions(t, log), map[string]bool{}
		for i, pod := range pods {
			d, app := made[pod.Name], pod.Labels["app"]
			by := d.Mode == mode && d.Cause == ledger.CausePolicy && d.PolicyDigest == digest
			if i%each == 0 {
				chosen[app] = by
			}
			require.Equal(t, chosen[app], by, "%s: %+v", pod.Name, d.Decision)
			if by {
				require.Empty(t, d.Choice) // it went to the policy's choice
			}
		}
		for app, by := range chosen {
			if !by {
				delete(chosen, app)
			}
		}
		return chosen
	}
	inForce := func(role string, generation float64) {
		t.Helper()
		within(t, fmt.Sprintf("%s %v in force", role, generation), func() (string, bool) {
			now := s.Metric(t, "sigma_policy_generation", fmt.Sprintf("role=%q", role))
			return fmt.Sprint(now), now == generation
		})
	}
	share := func(chosen map[string]bool, percent int) {
		t.Helper()
		t.Logf("%d of %d workloads, of %d %%", len(chosen), apps, percent)
		require.InDelta(t, float64(percent)/100, float64(len(chosen))/apps, .1)
	}

	c.Kubectl(t, policyYAML(t, "general-k1", "general", "mode: live", "mode: canary\n  canaryPercent: 30"), "apply", "-f", "-")
	inForce("primary", 1)
	digest := digestOf(t, c, "general")
	few := run("canary", digest)
	share(few, 30)
	s.Kill(t)
	s.Restart(t)
	s.WaitReady(t)
	require.Equal(t, few, run("canary", digest))
	c.Kubectl(t, "", "patch", "placementpolicy", "general", "--type=merge", "-p", `{"spec":{"canaryPercent":60}}`)
	inForce("primary", 2)
	many := run("canary", digestOf(t, c, "general"))
	share(many, 60)
	require.Subset(t, many, few)

	// The same by a second policy, beside one that is live.
	c.Kubectl(t, "", "patch", "placementpolicy", "general", "--type=merge", "-p", `{"spec":{"mode":"live"}}`)
	c.Kubectl(t, policyYAML(t, "kubernetes-k0", "next", "mode: live", "mode: canary\n  canaryPercent: 30"), "apply", "-f", "-")
	inForce("primary", 3)
	inForce("canary", 1)
	next := digestOf(t, c, "next")
	require.Equal(t, few, run("canary", next))
	for _, d := range decisions(t, log) {
		if d.PolicyDigest != next {
			require.Equal(t, "live", d.Mode)
			require.Equal(t, ledger.CausePolicy, d.Cause)
		}
	}
	require.Contains(t, fmt.Sprint(policyStatus(t, c, "next").Conditions), "as canary")

	// In shadow it decides on none, and what it would do is counted.
	c.Kubectl(t, "", "patch", "placementpolicy", "next", "--type=merge", "-p", `{"spec":{"mode":"shadow"}}`)
	inForce("canary", 2)
	before := s.Metric(t, "sigma_nodes_opened_total", `by="canary"`)
	require.Empty(t, run("canary", digestOf(t, c, "next")))
	require.Greater(t, s.Metric(t, "sigma_nodes_opened_total", `by="canary"`), before)

	c.Kubectl(t, "", "delete", "placementpolicy", "next")
	inForce("canary", 0)
	require.Len(t, run("live", digestOf(t, c, "general")), apps)
	requireSound(t, s)
	requireLog(t, log)
}

// digestOf waits for the status of a policy's newest version.
func digestOf(t *testing.T, c *e2e.Cluster, name string) string {
	t.Helper()
	var digest string
	e2e.Wait(t, "digest of "+name, func() (string, bool) {
		o, err := c.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("placementpolicies")).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		var policy v1alpha1.PlacementPolicy
		decode(t, o.Object, &policy)
		digest = policy.Status.Digest
		return fmt.Sprint(policy.Status), digest != "" && policy.Status.ObservedGeneration == policy.Generation
	})
	return digest
}
