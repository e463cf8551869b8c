//go:build e2e

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// Arguments that are wrong stop the start, and what is printed names the field.
func TestBadArguments(t *testing.T) {
	c := e2e.Shared(t)
	for _, tt := range []struct {
		name, args string
		want       []string
	}{
		{
			"values", "policyName: Not_A_Name, canaryPolicyName: -, appLabel: 'a b', mapping: best, fleet: ajar, decisionLog: here, deadline: -1s, forecastMaxAge: 0s",
			[]string{
				`pluginConfig[Sigma].args.policyName: Invalid value: "Not_A_Name"`, `pluginConfig[Sigma].args.canaryPolicyName: Invalid value: "-"`,
				`pluginConfig[Sigma].args.appLabel: Invalid value: "a b"`, `pluginConfig[Sigma].args.mapping: Unsupported value: "best"`,
				`pluginConfig[Sigma].args.fleet: Unsupported value: "ajar"`, `pluginConfig[Sigma].args.decisionLog: Invalid value: "here"`,
				`pluginConfig[Sigma].args.deadline: Invalid value: "-1s"`, `pluginConfig[Sigma].args.forecastMaxAge: Invalid value: "0s"`,
			},
		},
		{"unknown field", "policy: general", []string{`unknown field "policy"`}},
		{"wrong type", "policyName: 7", []string{"policyName"}},
		{"a log that cannot be written", "decisionLog: /proc/none/decisions.jsonl", []string{"decisionLog: open /proc/none/decisions.jsonl"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config := fmt.Sprintf("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection: {leaderElect: false}\nclientConnection: {kubeconfig: %s}\n%s",
				filepath.Join(c.Dir, "scheduler.kubeconfig"), sigmaConfig(false, tt.args))
			file := filepath.Join(t.TempDir(), "config.yaml")
			require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
			out, err := exec.Command(e2e.Program(t, scheduler), "--config="+file, "--secure-port=0").CombinedOutput()
			var status *exec.ExitError
			require.ErrorAs(t, err, &status, "%s", out)
			require.Equal(t, 1, status.ExitCode())
			for _, want := range tt.want {
				require.Contains(t, strings.ReplaceAll(string(out), `\"`, `"`), want)
			}
		})
	}
}

// If the cluster does not have the kinds, or the scheduler may not read them or the
// workloads, it starts nevertheless, logs that, and places by Best-Fit.
func TestNothingToRead(t *testing.T) {
	c := e2e.Shared(t)
	kinds := filepath.Join(repository, "manifests", "base", "crds")
	grantKinds := func(t *testing.T) {
		c.Grant(t, rbacv1.PolicyRule{
			APIGroups: []string{"sigma-scheduler.io"}, Resources: []string{"placementpolicies", "placementrules", "placementplans"}, Verbs: []string{"list", "watch"},
		})
	}
	for _, tt := range []struct {
		name    string
		prepare func(*testing.T)
		says    string
		reason  string
	}{
		{"no kinds", func(t *testing.T) {
			grantKinds(t)
			c.Kubectl(t, "", "delete", "-k", kinds, "--ignore-not-found")
		}, "the server could not find the requested resource", "no-policy"},
		{"no rights", func(t *testing.T) {
			c.Kubectl(t, "", "apply", "-k", kinds)
			c.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s",
				"crd/placementpolicies.sigma-scheduler.io", "crd/placementrules.sigma-scheduler.io", "crd/placementplans.sigma-scheduler.io")
			applyPolicy(t, c, "general-k1", "general")
		}, "forbidden", "no-policy"},
		{"no rights to what is declared", func(t *testing.T) {
			applyPolicy(t, c, "general-k1", "general")
			grantKinds(t)
		}, "forbidden", "stale-forecast"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.prepare(t)
			defer c.Wipe(t)
			ns := c.Namespace(t)
			c.CreateNodes(t, e2e.Node("a", "16", "64Gi"), e2e.Node("b", "8", "32Gi"), e2e.Node("c", "4", "16Gi"))
			s := c.StartScheduler(t, scheduler, sigmaConfig(false, "appLabel: app"))
			first := e2e.Pod(ns, "first", "1", "4Gi")
			first.Spec.NodeSelector = map[string]string{v1.LabelHostname: "c"}
			c.CreatePods(t, first)
			c.WaitBound(t, ns, 1)
			c.CreatePods(t, e2e.Pod(ns, "second", "1", "4Gi")) // upstream takes an empty node, Best-Fit not
			c.WaitBound(t, ns, 2)
			require.Equal(t, "c", c.Placements(ns)["second"])
			require.EqualValues(t, 1, s.Metric(t, "sigma_fallbacks_total", fmt.Sprintf("reason=%q", tt.reason)))
			log, err := os.ReadFile(s.Log)
			require.NoError(t, err)
			require.Contains(t, string(log), tt.says)
			s.Stop(t)
		})
	}
}
