//go:build e2e

package e2e_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/internal/e2e"
)

// TestHelm runs every command of docs/helm.md.
func TestHelm(t *testing.T) {
	c := ownCluster(t)
	page := openPage(t, c, "helm.md")
	require.NoError(t, os.Symlink(e2e.Program(t, "helm"), filepath.Join(page.dir, "bin", "helm")))
	require.NoError(t, os.CopyFS(filepath.Join(page.dir, "out", "chart", "sigma"), os.DirFS(e2e.Program(t, "chart"))))
	before := clusterObjects(t, page)

	runtime := (*containers)(nil)
	page.edit = func(text string) string { // the pods run programs before the policy can become active
		install, rest, found := strings.Cut(text, "kubectl wait")
		if !found || runtime != nil {
			return text
		}
		page.shell(t, install)
		runtime = startContainers(t, c)
		return "kubectl wait" + rest
	}
	page.run(t, "Install", 1)
	page.edit = nil
	require.Regexp(t, `general +shipped +K1 +shadow +True +True`, page.shell(t, "kubectl get placementpolicies"))
	require.Len(t, strings.Split(strings.TrimSpace(page.shell(t, "helm list -n sigma-system -q")), "\n"), 1)

	page.run(t, "Canary, then live", 2)
	runtime.sync(t)
	d := e2e.Deployment("default", "web", 3, "100m", "128Mi")
	d.Spec.Template.Spec.SchedulerName = "sigma"
	c.CreateDeployment(t, d)
	c.WaitRunning(t, "default", 3)
	require.Regexp(t, `(?m)^sigma_decisions_total\{cause="policy",mode="live",profile="sigma"\} [1-9]`, runtime.metrics(t, runtime.leader(t).url))
	runtime.requireAllowed(t)

	page.run(t, "Upgrade", 1)
	awaitAll(t, c, sigmaSystem, func(pod *v1.Pod) bool {
		return pod.Spec.Containers[0].Resources.Requests.Memory().String() == "1Gi"
	})
	require.Contains(t, page.shell(t, "kubectl get placementpolicy general"), " live ")

	page.shell(t, "kubectl delete deployment/web clusterrolebinding/scraper") // the test's own
	runtime.stopAll(t)
	page.run(t, "The way back", 1)
	require.Empty(t, page.blocks, "blocks that this test does not know of")
	after := slices.DeleteFunc(clusterObjects(t, page), func(s string) bool { return strings.Contains(s, "customresourcedefinition.") })
	require.Equal(t, before, after, "the way back leaves the cluster as it was, but for the kinds of objects")
}

// clusterObjects are the names of what an installation could leave behind.
func clusterObjects(t *testing.T, page *reader) []string {
	t.Helper()
	lines := strings.Split(page.shell(t, `kubectl get namespaces,clusterroles,clusterrolebindings,crds,mutatingwebhookconfigurations,validatingwebhookconfigurations -o name
kubectl -n kube-system get roles,rolebindings,configmaps,services,leases -o name`), "\n")
	slices.Sort(lines)
	return lines
}
