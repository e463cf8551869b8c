package scheme_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"sigs.k8s.io/randfill"

	"github.com/sigma-scheduler/sigma/plugins/apis/config"
	_ "github.com/sigma-scheduler/sigma/plugins/apis/config/scheme"
	v1 "github.com/sigma-scheduler/sigma/plugins/apis/config/v1"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// load reads a configuration file as the scheduler does.
func load(t *testing.T, pluginConfig string) (*schedconfig.KubeSchedulerConfiguration, error) {
	t.Helper()
	return options.LoadConfigFromFile(klog.Background(), write(t, `- schedulerName: sigma
  plugins: {multiPoint: {enabled: [{name: Sigma, weight: 2000}]}}
`+pluginConfig))
}

// write writes a configuration file with the profiles given.
func write(t *testing.T, profiles string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
`+profiles), 0o600))
	return file
}

func argsIn(t *testing.T, loaded *schedconfig.KubeSchedulerConfiguration) *config.SigmaArgs {
	t.Helper()
	for _, c := range loaded.Profiles[0].PluginConfig {
		if c.Name == "Sigma" {
			require.IsType(t, &config.SigmaArgs{}, c.Args)
			return c.Args.(*config.SigmaArgs)
		}
	}
	require.FailNow(t, "no arguments of Sigma")
	return nil
}

func TestLoad(t *testing.T) {
	defaults := config.SigmaArgs{
		PolicyName: "general", Mapping: "rank", Fleet: "open", ForecastMaxAge: metav1.Duration{Duration: 5 * time.Minute},
		DecisionLogBytes: 256 << 20, DecisionLogFiles: 8, MaxGracePeriod: metav1.Duration{Duration: podspec.MaxGrace},
	}
	all := config.SigmaArgs{
		PolicyName: "a", CanaryPolicyName: "b", AppLabel: "example.org/app", Mapping: "linear", Fleet: "fixed",
		DecisionLog: "/var/log/d.jsonl", DecisionLogBytes: 1 << 30, DecisionLogFiles: 3, Deadline: metav1.Duration{Duration: 2 * time.Millisecond}, ForecastMaxAge: metav1.Duration{Duration: time.Hour},
		MaxGracePeriod: metav1.Duration{Duration: 90 * time.Second}, RebalancePrometheus: "https://prometheus.monitoring",
	}
	for _, tt := range []struct {
		name, pluginConfig string
		want               config.SigmaArgs
	}{
		{"no pluginConfig", "", defaults},
		{"no arguments", "  pluginConfig: [{name: Sigma, args: {}}]", defaults},
		{"all", `  pluginConfig:
  - name: Sigma
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: SigmaArgs
      policyName: a
      canaryPolicyName: b
      appLabel: example.org/app
      mapping: linear
      fleet: fixed
      decisionLog: /var/log/d.jsonl
      decisionLogBytes: 1Gi
      decisionLogFiles: 3
      deadline: 2ms
      forecastMaxAge: 1h
      maxGracePeriod: 90s
      rebalancePrometheus: https://prometheus.monitoring`, all},
		{
			"nothing where there is a default", `  pluginConfig: [{name: Sigma, args: {policyName: "", forecastMaxAge: 0s, maxGracePeriod: 0s, decisionLogBytes: 0, decisionLogFiles: 0}}]`,
			config.SigmaArgs{Mapping: "rank", Fleet: "open"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			loaded, err := load(t, tt.pluginConfig)
			require.NoError(t, err)
			args := argsIn(t, loaded)
			args.TypeMeta = metav1.TypeMeta{}
			require.Equal(t, &tt.want, args)

			// As the scheduler's --write-config-to has it, and read again.
			text, err := runtime.Encode(schedscheme.Codecs.LegacyCodec(v1.SchemeGroupVersion), loaded)
			require.NoError(t, err)
			again, err := runtime.Decode(schedscheme.Codecs.UniversalDecoder(), text)
			require.NoError(t, err)
			args = argsIn(t, again.(*schedconfig.KubeSchedulerConfiguration))
			args.TypeMeta = metav1.TypeMeta{}
			require.Equal(t, &tt.want, args)
		})
	}
}

// Sigma is named first among the plugins for pods that fit nowhere, unless a profile names plugins for that.
// What a profile asks to bind: TestBindersOfOthers of package sigma.
func TestComeFirst(t *testing.T) {
	for _, tt := range []struct {
		plugins string
		want    []schedconfig.Plugin
	}{
		{"multiPoint: {enabled: [{name: Sigma}]}", []schedconfig.Plugin{{Name: "Sigma"}}},
		{"multiPoint: {enabled: [{name: Other}, {name: Sigma}], disabled: [{name: DefaultBinder}]}", []schedconfig.Plugin{{Name: "Sigma"}}},
		{"multiPoint: {enabled: [{name: Sigma}]}, postFilter: {disabled: [{name: Sigma}]}", nil},
		{"multiPoint: {enabled: [{name: Sigma}]}, postFilter: {enabled: [{name: Other}]}", []schedconfig.Plugin{{Name: "Other"}}},
		{"preFilter: {enabled: [{name: Sigma}]}", nil},
		{"", nil},
	} {
		t.Run(tt.plugins, func(t *testing.T) {
			loaded, err := options.LoadConfigFromFile(klog.Background(), write(t, "- plugins: {"+tt.plugins+"}\n"))
			require.NoError(t, err)
			require.Equal(t, tt.want, loaded.Profiles[0].Plugins.PostFilter.Enabled)
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, tt := range []struct{ name, args, want string }{
		{"an unknown field", "{polcyName: a}", `decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin Sigma: strict decoding error: unknown field "polcyName"`},
		{"a field twice", "{mapping: rank, mapping: rank}", `key "mapping" already set`},
		{"a number for a name", "{policyName: 1}", "SigmaArgs.policyName of type string"},
		{"a number for a duration", "{deadline: 1}", "SigmaArgs.deadline of type string"},
		{"no amount", "{decisionLogBytes: much}", "decoding args for plugin Sigma: quantities must match the regular expression"},
		{"no duration", "{deadline: soon}", `decoding .profiles[0].pluginConfig[0]: decoding args for plugin Sigma: time: invalid duration "soon"`},
		{"arguments of another plugin", "{kind: VolumeBindingArgs, apiVersion: kubescheduler.config.k8s.io/v1}", "args for plugin Sigma were not of type SigmaArgs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := load(t, "  pluginConfig: [{name: Sigma, args: "+tt.args+"}]")
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// TestRoundTrip: no field is lost between the versions, in JSON, or in a copy.
func TestRoundTrip(t *testing.T) {
	fill := randfill.NewWithSeed(1).NilChance(0).Funcs(
		func(m *metav1.TypeMeta, _ randfill.Continue) { *m = metav1.TypeMeta{} },
		func(n *int64, c randfill.Continue) { *n = c.Int63n(1 << 50) },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(c.Int63n(1<<50), resource.BinarySI)
		},
	)
	codec := schedscheme.Codecs.LegacyCodec(v1.SchemeGroupVersion)
	for range 200 {
		var internal config.SigmaArgs
		fill.Fill(&internal)
		text, err := runtime.Encode(codec, internal.DeepCopy())
		require.NoError(t, err)
		again, err := runtime.Decode(schedscheme.Codecs.UniversalDecoder(), text)
		require.NoError(t, err)
		require.Equal(t, &internal, again)

		var versioned v1.SigmaArgs
		fill.Fill(&versioned)
		was := versioned.DeepCopy()
		require.Equal(t, &versioned, was)
		var hub config.SigmaArgs
		require.NoError(t, schedscheme.Scheme.Convert(&versioned, &hub, nil))
		var back v1.SigmaArgs
		require.NoError(t, schedscheme.Scheme.Convert(&hub, &back, nil))
		require.Equal(t, was, &back)
	}
}
