package manifests_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// document returns the first document of a file with a kind.
func document[T any](t *testing.T, file, kind string) *T {
	t.Helper()
	return documents[T](t, file, kind)[0]
}

// documents returns those of a file with a kind, at least one.
func documents[T any](t *testing.T, file, kind string) (list []*T) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for d := range strings.SplitSeq(string(text), "\n---\n") {
		var head struct{ Kind string }
		require.NoError(t, yaml.Unmarshal([]byte(d), &head))
		if head.Kind == kind {
			o := new(T)
			require.NoError(t, yaml.UnmarshalStrict([]byte(d), o))
			list = append(list, o)
		}
	}
	require.NotEmpty(t, list, "%s: no %s", file, kind)
	return list
}

// TestIngress: metrics are for Prometheus' namespace; only the webhook's port is open for
// all, since the API server cannot be selected.
func TestIngress(t *testing.T) {
	open := map[string][]int32{"mpa/network-policy/policy.yaml": {9443}}
	for _, file := range []string{"components/network-policy/policy.yaml", "mpa/network-policy/policy.yaml"} {
		var all []int32
		for _, policy := range documents[networkingv1.NetworkPolicy](t, file, "NetworkPolicy") {
			for _, rule := range policy.Spec.Ingress {
				for _, port := range rule.Ports {
					if rule.From == nil {
						all = append(all, port.Port.IntVal)
					}
				}
				for _, from := range rule.From {
					require.Equal(t, map[string]string{corev1.LabelMetadataName: "monitoring"}, from.NamespaceSelector.MatchLabels, file)
				}
			}
		}
		require.Equal(t, open[file], all, file)
	}
}

// TestPilotNetwork: the pilot has the ways of the scheduler, and its own port for metrics; a training has none.
func TestPilotNetwork(t *testing.T) {
	of := map[string]*networkingv1.NetworkPolicy{}
	for _, p := range documents[networkingv1.NetworkPolicy](t, "components/network-policy/policy.yaml", "NetworkPolicy") {
		require.Equal(t, []networkingv1.PolicyType{"Ingress", "Egress"}, p.Spec.PolicyTypes)
		of[p.Spec.PodSelector.MatchLabels["app.kubernetes.io/name"]] = p
	}
	pilot := document[appsv1.Deployment](t, "components/pilot/deployment.yaml", "Deployment").Spec.Template
	own := of[pilot.Labels["app.kubernetes.io/name"]]
	require.NotNil(t, own)
	require.Equal(t, of["sigma-scheduler"].Spec.Egress, own.Spec.Egress)
	require.Equal(t, "metrics", pilot.Spec.Containers[0].Ports[0].Name)
	require.Equal(t, pilot.Spec.Containers[0].Ports[0].ContainerPort, own.Spec.Ingress[0].Ports[0].Port.IntVal)
	require.Len(t, own.Spec.Ingress[0].Ports, 1)
	training := of[document[batchv1.CronJob](t, "components/pilot/training.yaml", "CronJob").Spec.JobTemplate.Spec.Template.Labels["app.kubernetes.io/name"]]
	require.NotNil(t, training)
	require.Empty(t, training.Spec.Egress)
	require.Empty(t, training.Spec.Ingress)
}

// TestExpanderNetwork: cluster-autoscaler alone reaches the port of the expander, and the rest is as the pilot's.
func TestExpanderNetwork(t *testing.T) {
	own := document[networkingv1.NetworkPolicy](t, "components/expander/network.yaml", "NetworkPolicy")
	pod := document[appsv1.Deployment](t, "components/expander/deployment.yaml", "Deployment").Spec.Template
	require.Equal(t, pod.Labels, own.Spec.PodSelector.MatchLabels)
	require.Equal(t, []networkingv1.PolicyType{"Ingress", "Egress"}, own.Spec.PolicyTypes)
	require.Len(t, own.Spec.Ingress, 2)
	calls := own.Spec.Ingress[0]
	require.Len(t, calls.From, 1)
	require.Equal(t, map[string]string{corev1.LabelMetadataName: "kube-system"}, calls.From[0].NamespaceSelector.MatchLabels)
	require.Equal(t, map[string]string{"app": "cluster-autoscaler"}, calls.From[0].PodSelector.MatchLabels)
	require.Len(t, calls.Ports, 1)
	require.Equal(t, pod.Spec.Containers[0].Ports[0].ContainerPort, calls.Ports[0].Port.IntVal)
	pilot := documents[networkingv1.NetworkPolicy](t, "components/network-policy/policy.yaml", "NetworkPolicy")[1]
	require.Equal(t, "sigma-pilot", pilot.Name)
	require.Equal(t, pilot.Spec.Ingress, own.Spec.Ingress[1:])
	require.Equal(t, pilot.Spec.Egress, own.Spec.Egress)
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
