// Package manifests_test checks the manifests without a cluster; lab/e2e
// installs them.
package manifests_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/apis/config"
	_ "github.com/sigma-scheduler/sigma/plugins/apis/config/scheme"
)

// othersAtMost is what the scores of upstream's plugins can differ by: 100 times
// their weights.
const othersAtMost = 100 * 13

// load reads a configuration as the scheduler does, and checks what both have in
// common.
func load(t *testing.T, file string) *schedconfig.KubeSchedulerConfiguration {
	t.Helper()
	c, err := options.LoadConfigFromFile(klog.Background(), file)
	require.NoError(t, err)
	require.NoError(t, validation.ValidateKubeSchedulerConfiguration(c))
	require.True(t, c.LeaderElection.LeaderElect)
	require.Equal(t, "sigma-system/sigma-scheduler", c.LeaderElection.ResourceNamespace+"/"+c.LeaderElection.ResourceName)
	require.EqualValues(t, 100, *c.PercentageOfNodesToScore)
	require.Len(t, c.Profiles, 1)
	require.Equal(t, "sigma", c.Profiles[0].SchedulerName)
	return c
}

func TestSchedulerConfig(t *testing.T) {
	profile := load(t, "base/config.yaml").Profiles[0]
	weight := int32(0)
	for _, plugin := range profile.Plugins.MultiPoint.Enabled {
		if plugin.Name == "Sigma" {
			weight = plugin.Weight
		}
	}
	require.Greater(t, weight, int32(othersAtMost), "the policy is outvoted")
	for _, c := range profile.PluginConfig {
		if c.Name == "Sigma" {
			require.Equal(t, "general", c.Args.(*config.SigmaArgs).PolicyName)
			return
		}
	}
	require.Fail(t, "no arguments of Sigma")
}

func TestExtenderConfig(t *testing.T) {
	c := load(t, "overlays/extender/config.yaml")
	require.Len(t, c.Extenders, 1)
	require.Greater(t, 10*c.Extenders[0].Weight, int64(othersAtMost), "the policy is outvoted")
	require.True(t, c.Extenders[0].NodeCacheCapable)
	require.False(t, c.Extenders[0].Ignorable, "rules would be broken while the extender is down")
}

// TestPolicy: the policy that is installed is what the command line calls learned, in shadow.
func TestPolicy(t *testing.T) {
	installed, err := policy.Load("policy.yaml")
	require.NoError(t, err)
	require.Equal(t, policy.Shipped(), installed)
	require.Equal(t, policy.Shadow, installed.Spec.Mode)
}

// TestComponents: who applies the component rebalance needs no other.
func TestComponents(t *testing.T) {
	rules := func(component string) []rbacv1.PolicyRule {
		text, err := os.ReadFile(filepath.Join("components", component, "rbac.yaml"))
		require.NoError(t, err)
		var role rbacv1.ClusterRole
		first, _, _ := strings.Cut(string(text), "\n---\n")
		require.NoError(t, yaml.UnmarshalStrict([]byte(first), &role))
		require.NotEmpty(t, role.Rules)
		return role.Rules
	}
	require.Subset(t, rules("rebalance"), rules("repair"))
}

// TestDashboards: no panel lies over another, and each has a query.
func TestDashboards(t *testing.T) {
	for _, file := range []string{"base/dashboard.json", "mpa/base/dashboard.json"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var dashboard struct {
			Title, UID string
			Panels     []struct {
				ID                 int
				Title, Description string
				GridPos            struct{ X, Y, W, H int }
				Targets            []struct{ Expr, RefID string }
			}
		}
		require.NoError(t, json.Unmarshal(text, &dashboard))
		require.NotEmpty(t, dashboard.UID)
		require.NotEmpty(t, dashboard.Panels)
		taken, ids := map[[2]int]string{}, map[int]bool{}
		for _, p := range dashboard.Panels {
			require.False(t, ids[p.ID], p.Title)
			ids[p.ID] = true
			require.NotEmpty(t, p.Description, p.Title)
			require.NotEmpty(t, p.Targets, p.Title)
			require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					require.Empty(t, taken[at], p.Title)
					taken[at] = p.Title
				}
			}
		}
	}
}

// TestAlarms: each alarm has its line on the page of operations, and asks for what Sigma's or
// upstream's scheduler tells.
func TestAlarms(t *testing.T) {
	text, err := os.ReadFile("components/servicemonitor/rules.yaml")
	require.NoError(t, err)
	page, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(text), -1) {
		require.Contains(t, string(page), "| `"+m[1]+"` |")
	}
	var code strings.Builder
	require.NoError(t, filepath.WalkDir("../plugins", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		code.Write(content)
		return err
	}))
	for _, m := range regexp.MustCompile(`sigma_([a-z_]+)`).FindAllStringSubmatch(string(text), -1) {
		require.Contains(t, code.String(), `"`+m[1]+`"`, "nobody tells of it")
	}
}

// TestTraining: the files are as Kubernetes reads them, hold no secret, and run
// without rights.
func TestTraining(t *testing.T) {
	kinds := map[string]func() any{
		"Namespace":             func() any { return &corev1.Namespace{} },
		"PersistentVolumeClaim": func() any { return &corev1.PersistentVolumeClaim{} },
		"Service":               func() any { return &corev1.Service{} },
		"NetworkPolicy":         func() any { return &networkingv1.NetworkPolicy{} },
		"Deployment":            func() any { return &appsv1.Deployment{} },
		"Job":                   func() any { return &batchv1.Job{} },
	}
	text, err := os.ReadFile("training/kustomization.yaml")
	require.NoError(t, err)
	var kustomization struct{ Resources []string }
	require.NoError(t, yaml.Unmarshal(text, &kustomization))
	var pods []corev1.PodTemplateSpec
	for _, file := range kustomization.Resources {
		text, err := os.ReadFile(filepath.Join("training", file))
		require.NoError(t, err)
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var head struct{ Kind string }
			require.NoError(t, yaml.Unmarshal([]byte(document), &head))
			require.Contains(t, kinds, head.Kind, file)
			object := kinds[head.Kind]()
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), object), file)
			switch o := object.(type) {
			case *appsv1.Deployment:
				require.Equal(t, o.Spec.Selector.MatchLabels, o.Spec.Template.Labels)
				pods = append(pods, o.Spec.Template)
			case *batchv1.Job:
				pods = append(pods, o.Spec.Template)
			}
		}
	}
	require.Len(t, pods, 2)
	for _, pod := range pods {
		require.False(t, *pod.Spec.AutomountServiceAccountToken)
		require.True(t, *pod.Spec.SecurityContext.RunAsNonRoot)
		require.Len(t, pod.Spec.Containers, 1)
		c := pod.Spec.Containers[0]
		require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
		require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
		require.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
		require.Len(t, c.Resources.Requests, 2)
		require.NotContains(t, strings.Join(c.Args, " "), "nats://", "nothing goes in clear")
		require.Contains(t, strings.Join(c.Args, " "), "=/tls/tls.crt")
		require.Len(t, c.Env, 2)
		soft := resource.MustParse(strings.TrimSuffix(c.Env[1].Value, "B")) // GOMEMLIMIT
		require.Positive(t, c.Resources.Limits.Memory().Cmp(soft), "the collector works before the kernel kills")
		require.Equal(t, "SIGMA_NATS_TOKEN", c.Env[0].Name)
		require.Equal(t, "sigma-nats", c.Env[0].ValueFrom.SecretKeyRef.Name)
	}
}
