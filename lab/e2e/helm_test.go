//go:build e2e

package e2e_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// fromKustomize is the section of docs/helm.md that TestUpgradeToChart runs.
const fromKustomize = "From kustomize, and back"

// openHelmPage opens docs/helm.md with Helm, the chart and the sections that are wanted.
func openHelmPage(t *testing.T, c *e2e.Cluster, wanted func(section string) bool) *reader {
	t.Helper()
	page := openPage(t, c, "helm.md")
	page.blocks = slices.DeleteFunc(page.blocks, func(b docBlock) bool { return !wanted(b.section) })
	require.NoError(t, os.Symlink(e2e.Program(t, "helm"), filepath.Join(page.dir, "bin", "helm")))
	require.NoError(t, os.CopyFS(page.dir, os.DirFS(e2e.Program(t, "install")))) // the folder of a release
	page.shell(t, "helm package "+e2e.Program(t, "chart"))
	return page
}

// TestHelm runs every command of docs/helm.md, but for those from kustomize.
func TestHelm(t *testing.T) {
	c := ownCluster(t)
	page := openHelmPage(t, c, func(section string) bool { return section != fromKustomize })
	before := clusterObjects(t, page)
	require.LessOrEqual(t, page.commands("Install"), 5, "commands to a policy in shadow")
	require.LessOrEqual(t, page.commands("Canary, then live"), 3, "commands from there to live")

	runtime := (*containers)(nil)
	page.startBeforeWait(t, func() { runtime = startContainers(t, c) })
	page.run(t, "Install", 1)
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
	require.Contains(t, clusterObjects(t, page), "customresourcedefinitions apiextensions.k8s.io  placementpolicies.sigma-scheduler.io", "kept")
	page.run(t, "The way back", 1)
	require.Empty(t, page.blocks, "blocks that this test does not know of")
	requireAsBefore(t, page, before)
}

// clusterObjects are all objects that an installation could leave behind or change, by kind,
// namespace and name, without what a control plane writes by itself.
func clusterObjects(t *testing.T, page *reader) map[string]any {
	t.Helper()
	kinds, err := page.c.Client.Discovery().ServerPreferredResources()
	if err != nil {
		t.Log(err) // of a kind that was just deleted
	}
	of, err := dynamic.NewForConfig(page.c.Config)
	require.NoError(t, err)
	all := map[string]any{}
	for _, kind := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, kinds) {
		version, err := schema.ParseGroupVersion(kind.GroupVersion)
		require.NoError(t, err)
		for i := range kind.APIResources {
			name := kind.APIResources[i].Name
			switch name {
			// What runs is created again on the way back; the rest changes with time.
			case "pods", "replicasets", "controllerrevisions", "events", "leases", "nodes", "endpoints", "endpointslices", "componentstatuses":
				continue
			}
			list, err := of.Resource(version.WithResource(name)).List(t.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			require.NoError(t, err)
			for _, o := range list.Items {
				for _, field := range []string{"resourceVersion", "managedFields", "generation"} {
					unstructured.RemoveNestedField(o.Object, "metadata", field)
				}
				delete(o.Object, "status")
				all[strings.Join([]string{name, version.Group, o.GetNamespace(), o.GetName()}, " ")] = o.Object
			}
		}
	}
	return all
}

// requireAsBefore waits until the cluster's objects are those of before: namespaces and kinds
// of objects go a moment after they were deleted.
func requireAsBefore(t *testing.T, page *reader, before map[string]any) {
	t.Helper()
	e2e.Wait(t, "the cluster as it was", func() (string, bool) {
		diff := cmp.Diff(before, clusterObjects(t, page))
		return diff, diff == ""
	})
}
