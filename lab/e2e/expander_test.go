//go:build e2e

package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/lab/expander"
)

// TestExpander: the program answers cluster-autoscaler's calls by the cluster's policy, rules and nodes, writes nothing, and when it is
// gone all groups are left.
func TestExpander(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	ns := c.Namespace(t)
	c.Kubectl(t, `
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: one-web}
spec: {selector: {matchLabels: {app: web}}, maxPerNode: 1}
`, "apply", "-f", "-")
	t.Cleanup(func() { c.Kubectl(t, "", "delete", "placementrule", "one-web") })
	c.CreateNodes(t, e2e.Nodes(3, 4)...)

	folder := t.TempDir()
	file := func(name string, text []byte) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	text, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	require.NoError(t, err)
	authorities := file("tls.crt", text)
	address, metrics := fmt.Sprintf("127.0.0.1:%d", e2e.FreePort(t)), fmt.Sprintf("127.0.0.1:%d", e2e.FreePort(t))
	x := e2e.StartProcess(t, "expander", e2e.Program(t, "sigma-extender"), "--kubeconfig="+filepath.Join(c.Dir, "scheduler.kubeconfig"), "--app-label=app",
		"--expander-bind-address="+address, "--metrics-bind-address="+metrics, "--metrics-plain-http",
		"--tls-cert-file="+authorities, "--tls-private-key-file="+file("tls.key", key),
		"--prices="+file("prices.csv", []byte("instance_type,capacity_type,region,price_per_hour\nsmall,,,0.10\nlarge,,,0.35\n")))
	e2e.Wait(t, "the expander", func() (string, bool) {
		response, err := http.Get("http://" + metrics + "/readyz")
		if err != nil {
			return err.Error(), false
		}
		return response.Status, response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})

	offers := func(app string) []expander.Option {
		var pods []*v1.Pod
		for i := range 4 {
			name := fmt.Sprint(app, "-", i)
			pods = append(pods, &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("2")}}}}},
			})
		}
		node := func(kind, cores string) *v1.Node {
			n := e2e.Node(kind, cores, "32Gi")
			n.Labels = map[string]string{v1.LabelInstanceTypeStable: kind}
			return n
		}
		return []expander.Option{{Group: "small", Nodes: 4, Template: node("small", "2"), Pods: pods}, {Group: "large", Nodes: 1, Template: node("large", "8"), Pods: pods}}
	}
	for _, old := range []bool{false, true} {
		a, err := expander.Dial(address, authorities, old)
		require.NoError(t, err)
		left, err := a.BestOptions(t.Context(), offers("api"))
		require.NoError(t, err)
		require.Len(t, left, 1)
		require.Equal(t, "large", left[0].Group, "one node for .35, not four for .40")
		left, err = a.BestOptions(t.Context(), offers("web"))
		require.NoError(t, err)
		require.Len(t, left, 1)
		require.Equal(t, "small", left[0].Group, "the rule lets one pod on the large node: .35 for it, against .10")
		require.NoError(t, a.Close())
	}
	policy := c.Kubectl(t, "", "get", "placementpolicy", "general", "-o", "jsonpath={.status}")
	require.Empty(t, policy, "it writes no status")

	x.Stop(t)
	a, err := expander.Dial(address, authorities, false)
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	left, err := a.BestOptions(t.Context(), offers("api"))
	require.Error(t, err)
	require.Len(t, left, 2)
}
