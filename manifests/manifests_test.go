// Package manifests_test checks the manifests without a cluster; internal/e2e
// installs them.
package manifests_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/benchdata/policies"
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

// TestPolicy: the policy that is installed is the shipped one, in shadow.
func TestPolicy(t *testing.T) {
	type object struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec map[string]any `json:"spec"`
	}
	read := func(text []byte, err error) object {
		t.Helper()
		require.NoError(t, err)
		var o object
		require.NoError(t, yaml.Unmarshal(text, &o))
		return o
	}
	shipped := read(fs.ReadFile(policies.Files, "general-k1.yaml"))
	installed := read(os.ReadFile("policy.yaml"))
	require.Equal(t, "general", installed.Metadata.Name)
	require.Equal(t, "shadow", installed.Spec["mode"])
	delete(installed.Spec, "mode")
	delete(shipped.Spec, "mode")
	delete(shipped.Spec, "provenance")
	require.Equal(t, shipped.Spec, installed.Spec)
}

// TestDashboard: no panel lies over another, and each has a query.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("base/dashboard.json")
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
