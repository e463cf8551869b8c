//go:build e2e

package e2e_test

import (
	"fmt"
	"path/filepath"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// repository is the module's root, seen from the tests.
var repository = filepath.Join("..", "..")

// installSigma installs the kinds of policies, rules and plans and lets the scheduler
// read them, and what forecasts are made of.
func installSigma(t *testing.T, c *e2e.Cluster) {
	t.Helper()
	c.Kubectl(t, "", "apply", "-k", filepath.Join(repository, "manifests", "base", "crds"))
	c.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s",
		"crd/placementpolicies.sigma-scheduler.io", "crd/placementrules.sigma-scheduler.io", "crd/placementplans.sigma-scheduler.io", "crd/rebalances.sigma-scheduler.io")
	read := []string{"get", "list", "watch"}
	c.Grant(t,
		rbacv1.PolicyRule{APIGroups: []string{"sigma-scheduler.io"}, Resources: []string{"placementpolicies", "placementrules", "placementplans", "rebalances"}, Verbs: read},
		rbacv1.PolicyRule{APIGroups: []string{"sigma-scheduler.io"}, Resources: []string{"placementpolicies/status", "placementrules/status", "placementplans/status", "rebalances/status"}, Verbs: []string{"patch"}},
		rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: read},
		rbacv1.PolicyRule{APIGroups: []string{"batch"}, Resources: []string{"jobs", "cronjobs"}, Verbs: read},
		rbacv1.PolicyRule{APIGroups: []string{"autoscaling"}, Resources: []string{"horizontalpodautoscalers"}, Verbs: read},
	)
}

// applyPolicy makes a shipped policy the cluster's, live, under a name of its own.
func applyPolicy(t *testing.T, c *e2e.Cluster, file, name string) {
	t.Helper()
	c.Kubectl(t, policyYAML(t, file, name), "apply", "-f", "-")
}

// sigmaConfig is a profile for the default scheduler's pods that Sigma decides in,
// beside upstream's scores or instead of them.
func sigmaConfig(only bool, args string) string {
	score := ""
	if only {
		score = `
    score: {disabled: [{name: "*"}], enabled: [{name: Sigma}]}`
	}
	return fmt.Sprintf(`
percentageOfNodesToScore: 100
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
profiles:
- plugins:
    multiPoint: {enabled: [{name: Sigma, weight: 2000}]}%s
  pluginConfig:
  - name: Sigma
    args: {%s}
`, score, args)
}

// extenderConfig weighs the extender at a port above upstream's scores.
func extenderConfig(port int) string {
	return fmt.Sprintf(`
percentageOfNodesToScore: 100
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
extenders:
- urlPrefix: http://127.0.0.1:%d
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 200
  nodeCacheCapable: true
  httpTimeout: 10s
`, port)
}
