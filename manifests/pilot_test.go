package manifests_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
			"get cronjobs.batch "+v1alpha1.PilotTrainingTemplate, "create,get,delete jobs.batch",
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
	var log int64 // bytes that it may grow to
	profile := load(t, "components/pilot/config.yaml").Profiles[0]
	for _, c := range profile.PluginConfig {
		if args, ok := c.Args.(*config.SigmaArgs); ok {
			require.Equal(t, "general general-candidate /var/lib/sigma/decisions.jsonl", args.PolicyName+" "+args.CanaryPolicyName+" "+args.DecisionLog)
			log = args.DecisionLogBytes * int64(args.DecisionLogFiles+2)
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
	kind := document[apiextensionsv1.CustomResourceDefinition](t, "base/crds/policypilots.yaml", "CustomResourceDefinition")
	spec := kind.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	var record resource.Quantity
	require.NoError(t, json.Unmarshal(spec.Properties["record"].Properties["size"].Default.Raw, &record))
	const rest = 2 << 30 // the day under way, policies, checkpoints
	require.Positive(t, log)
	require.GreaterOrEqual(t, claim.Spec.Resources.Requests.Storage().Value(), log+record.Value()+rest)
	text, err := os.ReadFile("components/pilot/kustomization.yaml")
	require.NoError(t, err)
	require.Contains(t, string(text), "{name: history, mountPath: /var/lib/sigma, subPath: record}", "the scheduler's folder is the pilot's --history")
}

// TestPilotTraining: a Job of the template has the pilot's files where the pilot has them, runs on the node of
// the volume, and has no account.
func TestPilotTraining(t *testing.T) {
	pilot := document[appsv1.Deployment](t, "components/pilot/deployment.yaml", "Deployment").Spec.Template.Spec
	template := document[batchv1.CronJob](t, "components/pilot/training.yaml", "CronJob")
	require.Equal(t, v1alpha1.PilotTrainingTemplate, template.Name)
	require.True(t, *template.Spec.Suspend)
	pod := template.Spec.JobTemplate.Spec.Template.Spec
	// Each pod with the claim goes where another one is, and matches itself.
	volume := map[string]string{"sigma-scheduler.io/volume": "history"}
	near := pod.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	require.Len(t, near, 1)
	require.Equal(t, "kubernetes.io/hostname", near[0].TopologyKey)
	require.Equal(t, volume, near[0].LabelSelector.MatchLabels)
	require.Subset(t, template.Spec.JobTemplate.Spec.Template.Labels, volume)
	require.Subset(t, document[appsv1.Deployment](t, "components/pilot/deployment.yaml", "Deployment").Spec.Template.Labels, volume)
	require.False(t, *pod.AutomountServiceAccountToken)
	require.Empty(t, pod.ServiceAccountName)
	require.Equal(t, pilot.SecurityContext, pod.SecurityContext)
	require.Equal(t, pilot.Affinity, pod.Affinity)
	require.Equal(t, pilot.Volumes, pod.Volumes)
	c := pod.Containers[0]
	require.Equal(t, pilot.Containers[0].SecurityContext, c.SecurityContext)
	require.Equal(t, pilot.Containers[0].Image, c.Image)
	require.Contains(t, pilot.Containers[0].Args, c.Args[1], "--state")
	require.Equal(t, pilot.Containers[0].VolumeMounts[1:], c.VolumeMounts)
	require.Equal(t, "metadata.annotations['"+v1alpha1.PilotTrainingAnnotation+"']", c.Env[0].ValueFrom.FieldRef.FieldPath)
	require.Equal(t, "--training=$("+c.Env[0].Name+")", c.Args[2])
}
