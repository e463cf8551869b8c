package export

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

func object(spec string) string {
	return "apiVersion: sigma-scheduler.io/v1alpha1\nkind: PlacementPolicy\nmetadata: {name: mine}\nspec:\n  featureVersion: 1\n" + spec
}

func load(t *testing.T, settings string) *policy.Object {
	t.Helper()
	o, err := policy.Parse("mine.yaml", []byte(object("  model: rule\n  knowledge: K0\n  features: []\n  weights: []\n"+settings)))
	require.NoError(t, err)
	return o
}

// scoring is the part of a KubeSchedulerConfiguration that the rule is in.
func scoring(t *testing.T, text string) map[string]any {
	t.Helper()
	var config struct {
		Profiles []struct {
			SchedulerName string `yaml:"schedulerName"`
			Plugins       map[string]any
			PluginConfig  []struct {
				Name string
				Args map[string]any
			} `yaml:"pluginConfig"`
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(text), &config))
	require.Len(t, config.Profiles, 1)
	require.Equal(t, "NodeResourcesFit", config.Profiles[0].PluginConfig[0].Name)
	return config.Profiles[0].PluginConfig[0].Args["scoringStrategy"].(map[string]any)
}

func TestText(t *testing.T) {
	c, err := Policy(load(t, "  rule: {name: requestedtocapacityratio, resources: {cpu: 3, memory: 1}, shape: [[0, 0], [80, 9], [100, 4]]}\n"), KubeScheduler)
	require.NoError(t, err)
	text, err := Text(c, KubeScheduler, "mine")
	require.NoError(t, err)
	want := map[string]any{
		"type":      "RequestedToCapacityRatio",
		"resources": []any{map[string]any{"name": "cpu", "weight": 3}, map[string]any{"name": "memory", "weight": 1}},
		"requestedToCapacityRatio": map[string]any{"shape": []any{
			map[string]any{"utilization": 0, "score": 0}, map[string]any{"utilization": 80, "score": 9}, map[string]any{"utilization": 100, "score": 4},
		}},
	}
	require.Equal(t, want, scoring(t, text))
	text, err = Text(c, AKS, "mine")
	require.NoError(t, err)
	var aks struct {
		Kind string
		Spec struct {
			RawConfig string `yaml:"rawConfig"`
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(text), &aks))
	require.Equal(t, "SchedulerConfiguration", aks.Kind)
	require.Equal(t, want, scoring(t, aks.Spec.RawConfig))
	text, err = Text(rule.Choice{Name: "mostallocated", Resources: map[string]int64{"cpu": 2}}, EKS, "")
	require.NoError(t, err)
	var eks any
	require.NoError(t, json.Unmarshal([]byte(text), &eks))
	require.Equal(t, map[string]any{"nodeResourcesFit": map[string]any{"scoringStrategy": map[string]any{
		"type": "MostAllocated", "resources": []any{map[string]any{"name": "cpu", "weight": 2.0}},
	}}}, eks)
}

// What a target cannot express is refused by name.
func TestRefuses(t *testing.T) {
	long := "[[0, 0], [1, 1], [2, 1], [3, 1], [4, 1], [5, 1], [6, 1], [7, 1], [8, 1], [9, 1], [100, 10]]"
	for _, c := range []struct{ target, rule, want string }{
		{EKS, "rule: {name: requestedtocapacityratio}", "eks cannot express spec.rule.name requestedtocapacityratio: it has mostallocated, leastallocated"},
		{AKS, "rule: {name: bestfit}", "aks cannot express spec.rule.name bestfit"},
		{AKS, "rule: {onePerNode: {name: bestfit}, others: {name: mostallocated}}", "aks cannot express spec.rule.onePerNode"},
		{KubeScheduler, "rule: {name: requestedtocapacityratio, shape: " + long + "}", "cannot express spec.rule.shape with 11 points: at most 10"},
		{KubeScheduler, "rule: {name: mostallocated, resources: {gpu: 1}}", "kube-scheduler cannot express spec.rule.resources.gpu"},
		{EKS, "rule: {name: mostallocated}\n  maxShareOfApp: 0.5", "eks cannot express spec.maxShareOfApp"},
	} {
		_, err := Policy(load(t, "  "+c.rule+"\n"), c.target)
		require.ErrorContains(t, err, c.want)
	}
	linear, err := policy.Parse("l.yaml", []byte(object("  model: linear\n  knowledge: K0\n  features: [mean, empty]\n  weights: [1, -1]\n")))
	require.NoError(t, err)
	_, err = Policy(linear, EKS)
	require.ErrorContains(t, err, "eks cannot express spec.model linear with its features mean, empty")
}
