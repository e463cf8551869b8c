package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// answers are the API server's to the requests of the plugins at their start.
var answers = map[string]string{
	"/api":  `{"kind":"APIVersions","versions":["v1"]}`,
	"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"scheduling.x-k8s.io","versions":[{"groupVersion":"scheduling.x-k8s.io/v1alpha1","version":"v1alpha1"}],"preferredVersion":{"groupVersion":"scheduling.x-k8s.io/v1alpha1","version":"v1alpha1"}}]}`,
	"/apis/scheduling.x-k8s.io/v1alpha1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"scheduling.x-k8s.io/v1alpha1","resources":[
		{"name":"podgroups","kind":"PodGroup","namespaced":true,"verbs":["list","watch"]}]}`,
	"/apis/sigma-scheduler.io/v1alpha1/placementrules": `{"kind":"PlacementRuleList","apiVersion":"sigma-scheduler.io/v1alpha1","metadata":{"resourceVersion":"1"},"items":[]}`,
}

// setUp builds a scheduler from a profile's plugins and their arguments, as the
// program does before it runs.
func setUp(t *testing.T, profile string) (*scheduler.Scheduler, error) {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		switch {
		case !ok:
			http.NotFound(w, r)
		case r.URL.Query().Get("sendInitialEvents") != "": // clients then list, and watch from there
			http.Error(w, "no streaming lists", http.StatusBadRequest)
		case r.URL.Query().Get("watch") != "":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			_, _ = w.Write([]byte(answer))
		}
	}))
	t.Cleanup(api.Close)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	kubeconfig := write("kubeconfig", fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, clusters: [{name: x, cluster: {server: "%s"}}],
contexts: [{name: x, context: {cluster: x, user: x}}], users: [{name: x, user: {}}]}`, api.URL))
	config := write("config.yaml", fmt.Sprintf(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q}
profiles:
- schedulerName: sigma
%s`, kubeconfig, profile))
	opts := options.NewOptions()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	for _, f := range opts.Flags.FlagSets {
		flags.AddFlagSet(f)
	}
	require.NoError(t, flags.Parse([]string{"--config", config, "--authentication-tolerate-lookup-failure"}))
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	opts.SecureServing.Listener = listener
	_, sched, err := app.Setup(ctx, opts, plugins()...)
	return sched, err
}

func names(set schedulerconfig.PluginSet) []string {
	var list []string
	for _, p := range set.Enabled {
		list = append(list, p.Name)
	}
	return list
}

// Sigma stands beside upstream's plugins and those of the scheduler-plugins project.
func TestProfile(t *testing.T) {
	sched, err := setUp(t, `
  plugins:
    multiPoint:
      enabled: [{name: Sigma, weight: 2000}, {name: Coscheduling}]
    queueSort: {disabled: [{name: "*"}], enabled: [{name: Coscheduling}]}
    score: {enabled: [{name: NodeResourcesAllocatable, weight: 1}, {name: TargetLoadPacking, weight: 1}, {name: LoadVariationRiskBalancing, weight: 1}, {name: LowRiskOverCommitment, weight: 1}]}
  pluginConfig:
  - {name: Sigma, args: {policyName: general, canaryPolicyName: next, mapping: linear, fleet: fixed}}
  - {name: TargetLoadPacking, args: {watcherAddress: "http://127.0.0.1:1"}}
  - {name: LoadVariationRiskBalancing, args: {watcherAddress: "http://127.0.0.1:1"}}
  - {name: LowRiskOverCommitment, args: {watcherAddress: "http://127.0.0.1:1"}}
`)
	require.NoError(t, err)
	plugins := sched.Profiles["sigma"].ListPlugins()
	for _, set := range []schedulerconfig.PluginSet{plugins.PreFilter, plugins.Filter, plugins.PreScore, plugins.Score, plugins.Reserve} {
		require.Contains(t, names(set), "Sigma")
	}
	for _, p := range plugins.Score.Enabled {
		if p.Name == "Sigma" {
			require.EqualValues(t, 2000, p.Weight)
		}
	}
	require.Equal(t, []string{"Coscheduling"}, names(plugins.QueueSort))
	require.Contains(t, names(plugins.Permit), "Coscheduling")
	require.Subset(t, names(plugins.Score), []string{
		"NodeResourcesAllocatable", "TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment", "NodeResourcesFit",
	})
	require.Contains(t, names(plugins.Filter), "NodeResourcesFit", "upstream's filters stay in force")
}

// Missing arguments get defaults: only the name is needed.
func TestDefaults(t *testing.T) {
	sched, err := setUp(t, `
  plugins: {multiPoint: {enabled: [{name: Sigma, weight: 2000}]}}
`)
	require.NoError(t, err)
	require.True(t, slices.Contains(names(sched.Profiles["sigma"].ListPlugins().Score), "Sigma"))
}

// Sigma binds, and so follows up lost answers, in the shipped profile. Users who name Sigma
// at multiPoint need not write more either.
func TestSigmaBinds(t *testing.T) {
	shipped, err := os.ReadFile(filepath.Join("..", "..", "manifests", "base", "config.yaml"))
	require.NoError(t, err)
	_, profile, ok := strings.Cut(string(shipped), "- schedulerName: sigma\n")
	require.True(t, ok)
	sched, err := setUp(t, profile)
	require.NoError(t, err)
	require.Equal(t, []string{"Sigma", "DefaultBinder"}, names(sched.Profiles["sigma"].ListPlugins().Bind))
}

// An invalid argument is an error that names its field.
func TestWrongArguments(t *testing.T) {
	for args, want := range map[string]string{
		`mapping: best`:                             `initializing plugin "Sigma": pluginConfig[Sigma].args.mapping: Unsupported value: "best": supported values: "rank", "linear"`,
		`fleet: huge`:                               `pluginConfig[Sigma].args.fleet: Unsupported value: "huge"`,
		`policyName: ""`:                            `pluginConfig[Sigma].args.policyName: Required value`,
		`policyName: A_B`:                           `pluginConfig[Sigma].args.policyName: Invalid value: "A_B"`,
		`canaryPolicyName: general`:                 `pluginConfig[Sigma].args.canaryPolicyName: Invalid value: "general": must not be policyName`,
		`appLabel: "a b"`:                           `pluginConfig[Sigma].args.appLabel: Invalid value: "a b"`,
		`decisionLog: log.jsonl`:                    `pluginConfig[Sigma].args.decisionLog: Invalid value: "log.jsonl"`,
		`decisionLog: /nowhere/at/all`:              `pluginConfig[Sigma].args.decisionLog: open /nowhere/at/all: no such file or directory`,
		`deadline: -1s`:                             `pluginConfig[Sigma].args.deadline: Invalid value: "-1s"`,
		`forecastMaxAge: 0s`:                        `pluginConfig[Sigma].args.forecastMaxAge: Invalid value: "0s"`,
		`maxGracePeriod: 25h`:                       `pluginConfig[Sigma].args.maxGracePeriod: Invalid value: "25h0m0s": must be 1s to 24h`,
		`decisionLogBytes: -1e30`:                   `pluginConfig[Sigma].args.decisionLogBytes: Invalid value`,
		`{mapping: best, fleet: huge}`:              `pluginConfig[Sigma].args.fleet: Unsupported value`,
		`colour: red`:                               `strict decoding error: unknown field "colour"`,
		`mapping: [rank]`:                           `cannot unmarshal array into Go struct field SigmaArgs.mapping of type string`,
		`{apiVersion: example.com/v1, kind: Other}`: `decoding args for plugin Sigma: no kind "Other" is registered`,
	} {
		t.Run(args, func(t *testing.T) {
			if args[0] != '{' {
				args = "{" + args + "}"
			}
			_, err := setUp(t, `
  plugins: {multiPoint: {enabled: [{name: Sigma, weight: 2000}]}}
  pluginConfig: [{name: Sigma, args: `+args+`}]
`)
			require.ErrorContains(t, err, want)
		})
	}
}

func TestHelp(t *testing.T) {
	cmd := app.NewSchedulerCommand(plugins()...)
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs([]string{"--help"})
	require.NoError(t, cmd.Execute())
	require.Contains(t, out.String(), "--config string")
	require.Contains(t, out.String(), "-v, --v Level")
}
