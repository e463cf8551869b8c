//go:build e2e

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// mpaObjects has the algorithms and modes of a namespace's objects, by name.
func mpaObjects(t *testing.T, c *e2e.Cluster, ns string) string {
	t.Helper()
	return strings.TrimSpace(c.Kubectl(t, "", "get", "mpa", "-n", ns, "-o", `jsonpath={range .items[*]}{.metadata.name}:{.spec.recommender.algorithm}:{.spec.mode} {end}`))
}

// TestNamespacesByUse: with exactly the rights of the component, a label makes objects that observe, and then act beside a
// HorizontalPodAutoscaler; without it everything is as before.
func TestNamespacesByUse(t *testing.T) {
	c := ownCluster(t)
	s := installMPA(t, c, "mpa")
	c.Kubectl(t, "", "apply", "-f", filepath.Join(repository, "manifests", "mpa", "usage", "rbac.yaml"))
	ns := c.Namespace(t)
	c.CreateDeployment(t, e2e.Deployment(ns, "web", 2, "500m", "256Mi"))
	c.WaitRunning(t, ns, 2)
	c.Kubectl(t, "", "autoscale", "deployment", "web", "-n", ns, "--cpu-percent=60", "--min=1", "--max=5")
	h, err := c.Client.AutoscalingV2().HorizontalPodAutoscalers(ns).Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	all := s.startPart(t, c, "all", "--interval=1s", "--cool-down=2s", "--usage-namespaces")
	c.Kubectl(t, "", "label", "namespace", ns, "autoscaling.sigma-scheduler.io/usage=Observe")
	e2e.Wait(t, "an object that observes", func() (string, bool) {
		is := mpaObjects(t, c, ns)
		return is, is == "deployment-web:usage:Off"
	})
	c.Kubectl(t, "", "label", "namespace", ns, "--overwrite", "autoscaling.sigma-scheduler.io/usage=Apply")
	e2e.Wait(t, "an object that acts", func() (string, bool) {
		is := mpaObjects(t, c, ns)
		return is, is == "deployment-web:usage:InPlace"
	})
	c.Kubectl(t, "", "label", "namespace", ns, "autoscaling.sigma-scheduler.io/usage-")
	e2e.Wait(t, "no object", func() (string, bool) { is := mpaObjects(t, c, ns); return is, is == "" })
	after, err := c.Client.AutoscalingV2().HorizontalPodAutoscalers(ns).Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, h.Spec, after.Spec)
	require.Equal(t, autoscalingv2.UtilizationMetricType, after.Spec.Metrics[0].Resource.Target.Type)
	requireAllowed(t, all)
	log, err := os.ReadFile(all.Log)
	require.NoError(t, err)
	require.NotContains(t, string(log), "ERROR", fmt.Sprint(all.Name))
}
