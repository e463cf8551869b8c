package manifests_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/plugins/apis/config"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// TestPilotRights: sigma-pilot may do what docs/pilot.md says, and no more.
func TestPilotRights(t *testing.T) {
	text, err := os.ReadFile("components/pilot/rbac.yaml")
	require.NoError(t, err)
	got := map[string]any{}
	for d := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.Role // a ClusterRole has the same fields
		require.NoError(t, yaml.Unmarshal([]byte(d), &role))
		if len(role.Rules) > 0 {
			got[role.Kind+"/"+role.Name+"/"+role.Namespace] = rights(role.Rules)
		}
	}
	require.Equal(t, map[string]any{
		"ClusterRole/sigma-pilot/": rightsOf(
			"get,list,watch policypilots.sigma-scheduler.io", "update policypilots/status.sigma-scheduler.io",
			"get,patch placementpolicies.sigma-scheduler.io general,general-candidate", "create placementpolicies.sigma-scheduler.io",
			"list placementrules.sigma-scheduler.io", "create tokenreviews.authentication.k8s.io", "create subjectaccessreviews.authorization.k8s.io",
		),
		"Role/sigma-pilot/sigma-system": rightsOf(
			"create leases.coordination.k8s.io", "get,update leases.coordination.k8s.io sigma-pilot", "create,patch events",
			"create configmaps", "get,update configmaps "+v1alpha1.PilotReport("general"),
		),
		"Role/sigma-pilot-events/default": rightsOf("create,patch events"),
	}, got)
}

func rightsOf(list ...string) []string {
	slices.Sort(list)
	return list
}

// TestPilot: the scheduler writes the log where the pilot reads it, under the names that a
// PolicyPilot of the policy general takes for granted; probes and ports are the program's.
func TestPilot(t *testing.T) {
	profile := load(t, "components/pilot/config.yaml").Profiles[0]
	for _, c := range profile.PluginConfig {
		if args, ok := c.Args.(*config.SigmaArgs); ok {
			require.Equal(t, "general general-candidate /var/lib/sigma/decisions.jsonl", args.PolicyName+" "+args.CanaryPolicyName+" "+args.DecisionLog)
		}
	}
	pod := document[appsv1.Deployment](t, "components/pilot/deployment.yaml", "Deployment").Spec.Template.Spec
	c := pod.Containers[0]
	require.Contains(t, c.Args, "--history=/var/lib/sigma/record")
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		require.Equal(t, corev1.URISchemeHTTPS, probe.HTTPGet.Scheme)
	}
	claim := document[corev1.PersistentVolumeClaim](t, "components/pilot/claim.yaml", "PersistentVolumeClaim")
	require.Equal(t, claim.Name, pod.Volumes[0].PersistentVolumeClaim.ClaimName)
	text, err := os.ReadFile("components/pilot/kustomization.yaml")
	require.NoError(t, err)
	require.Contains(t, string(text), "{name: history, mountPath: /var/lib/sigma, subPath: record}", "the scheduler's folder is the pilot's --history")
}
