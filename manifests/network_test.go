package manifests_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// document returns the document of a file with a kind.
func document[T any](t *testing.T, file, kind string) *T {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for d := range strings.SplitSeq(string(text), "\n---\n") {
		var head struct{ Kind string }
		require.NoError(t, yaml.Unmarshal([]byte(d), &head))
		if head.Kind == kind {
			o := new(T)
			require.NoError(t, yaml.UnmarshalStrict([]byte(d), o))
			return o
		}
	}
	require.Fail(t, "no "+kind, file)
	return nil
}

// TestIngress: metrics are for Prometheus' namespace; only the webhook's port is open for
// all, since the API server cannot be selected.
func TestIngress(t *testing.T) {
	open := map[string][]int32{"mpa/network-policy/policy.yaml": {9443}}
	for _, file := range []string{"components/network-policy/policy.yaml", "mpa/network-policy/policy.yaml"} {
		var all []int32
		for _, rule := range document[networkingv1.NetworkPolicy](t, file, "NetworkPolicy").Spec.Ingress {
			for _, port := range rule.Ports {
				if rule.From == nil {
					all = append(all, port.Port.IntVal)
				}
			}
			for _, from := range rule.From {
				require.Equal(t, map[string]string{corev1.LabelMetadataName: "monitoring"}, from.NamespaceSelector.MatchLabels, file)
			}
		}
		require.Equal(t, open[file], all, file)
	}
}

// TestExtenderContainer: what serves metrics does so by HTTPS, and its memory has a limit.
func TestExtenderContainer(t *testing.T) {
	pod := document[appsv1.Deployment](t, "overlays/extender/deployment.yaml", "Deployment").Spec.Template.Spec
	require.Len(t, pod.InitContainers, 1)
	c := pod.InitContainers[0]
	require.False(t, c.Resources.Limits.Memory().IsZero())
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		require.Equal(t, corev1.URISchemeHTTPS, probe.HTTPGet.Scheme)
	}
}
