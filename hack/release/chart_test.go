package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const committed = "../../manifests/chart"

// resources and components are the content of the chart.
var (
	resources  = []string{"base/crds", "mpa/crds", "overlays/second-scheduler", "mpa"}
	components = []string{
		"components/servicemonitor", "mpa/monitoring", "components/repair", "components/rebalance", "components/native-rules",
		"components/namespaces", "components/network-policy", "mpa/network-policy", "mpa/retraining", "mpa/limits", "mpa/knative", "mpa/usage",
	}
)

// TestChart: with everything switched on the chart's objects are kustomize's.
func TestChart(t *testing.T) {
	all := `
image: {tag: dev}
repair: {enabled: true}
rebalance: {enabled: true}
nativeRules: {enabled: true}
namespaces: {enabled: true}
networkPolicy: {enabled: true}
monitoring: {enabled: true}
mpa: {enabled: true, limits: {enabled: true}, knative: {enabled: true}, usage: {enabled: true}, retraining: {enabled: true}, journal: {volume: {persistentVolumeClaim: {claimName: sigma-mpa-journal}}}}`
	// A component may change what another part has.
	same(t, all, components)
	same(t, all+"\npilot: {enabled: true}", append(slices.Clone(components), "components/pilot"))
	same(t, all+"\ndecisionLog: {enabled: true}", append(slices.Clone(components), "components/decision-log"))
}

// same requires that the chart with values has the objects that kustomize builds with components.
func same(t *testing.T, values string, components []string) {
	t.Helper()
	got, err := render(t, committed, values)
	require.NoError(t, err)
	want := map[string]any{}
	for _, text := range kustomize(t, components) {
		key, v := normal(t, text)
		if !strings.HasPrefix(key, "Namespace ") {
			want[key] = v
		}
	}
	key, v := normal(t, read(t, "../../manifests/policy.yaml"))
	want[key] = v
	hard := want["ResourceQuota critical-pods"].(map[string]any)["spec"].(map[string]any)["hard"].(map[string]any)
	hard["pods"] = "30" // 10 for the scheduler and 20 for the autoscaler
	for key := range want {
		assert.Empty(t, cmp.Diff(want[key], got[key]), key)
	}
	assert.Len(t, got, len(want))
}

// TestChartValues: what is off by default is not there, and what each value does.
func TestChartValues(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sigma")
	_, err := run(t, "chart", dir, "VERSION=v1.2.3")
	require.NoError(t, err)
	for values, want := range map[string]map[string][]string{
		"": {
			"with":    {`"image":"sigma-scheduler:v1.2.3"`, `"mode":"shadow"`, `"name":"sigma-dashboard"`},
			"without": {"NetworkPolicy", "ServiceMonitor", "PrometheusRule", "pods/eviction", "MutatingAdmissionPolicy", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "sigma-history", "/var/lib/sigma", "imagePullSecrets", "prices"},
		},
		"image: {registry: registry.example.com/x/, tag: v9}\nimagePullSecrets: [{name: pull}]": {
			"with": {`"image":"registry.example.com/x/sigma-scheduler:v9"`, `"imagePullSecrets":[{"name":"pull"}]`},
		},
		"policy: {mode: canary, canaryPercent: 25}":                 {"with": {`"mode":"canary"`, `"canaryPercent":25`}},
		"policy: {name: mine, mode: live}":                          {"with": {`"mode":"live"`, `policyName: mine`, `"name":"mine"`}, "without": {`"canaryPercent":1`}},
		"policy: {create: false}":                                   {"without": {`"PlacementPolicy general"`}},
		"scheduler: {replicas: 3, resources: {requests: {cpu: 2}}}": {"with": {`"replicas":3`, `"cpu":2`}},
		"decisionLog: {enabled: true, volume: {persistentVolumeClaim: {claimName: log}}}": {
			"with": {"decisionLog: /var/lib/sigma/decisions.jsonl", `"subPathExpr":"$(POD_NAME)"`, `"persistentVolumeClaim":{"claimName":"log"}`, `"fsGroup":65532`},
		},
		"pilot: {enabled: true, storage: 99Gi, storageClass: fast}\ndecisionLog: {enabled: true}\npolicy: {name: mine}\nimage: {registry: registry.example.com}": {
			"with": {
				`"storage":"99Gi"`, `"storageClassName":"fast"`, `"resourceNames":["mine","mine-candidate"]`, `"resourceNames":["sigma-pilot-mine"]`,
				"canaryPolicyName: mine-candidate", `"image":"registry.example.com/sigma-pilot:v1.2.3","livenessProbe"`,
				`"image":"registry.example.com/sigma-pilot:v1.2.3","name":"trainer"`, `"replicas":1,"selector":{"matchLabels":{"app.kubernetes.io/name":"sigma-scheduler"}},"strategy":{"type":"Recreate"}`,
			},
			"without": {"POD_NAME"},
		},
		"prices: \"price_per_hour\\n0.5\\n\"": {"with": {`prices: /etc/sigma/prices.csv\n`, `"prices.csv":"price_per_hour\n0.5\n"`}},
		"mpa: {enabled: true, prometheus: [{name: a, url: \"http://b:1\"}]}": {
			"with":    {"MutatingWebhookConfiguration", `- name: a\n  url: http://b:1\n`, `"emptyDir":{"sizeLimit":"4Gi"}`},
			"without": {"gate-image", "sigma-mpa-limits", "sigma-mpa-knative"},
		},
		"mpa: {enabled: true, knative: {enabled: true}}": {"with": {"ClusterRole sigma-mpa-knative-updater", "ClusterRoleBinding sigma-mpa-knative-recommender", "ValidatingAdmissionPolicy sigma-mpa-knative", "ValidatingAdmissionPolicyBinding sigma-mpa-knative-revisions", `^system:serviceaccount:`}, "without": {"sigma-mpa-limits"}},
		"mpa: {enabled: true, limits: {enabled: true}, gate: {image: \"registry.example.com/sigma-gate:v1\"}}": {
			"with": {`"--gate-image=registry.example.com/sigma-gate:v1"`, "ValidatingAdmissionPolicy sigma-mpa-limits", `^system:serviceaccount:`},
		},
	} {
		got, err := render(t, dir, values)
		require.NoError(t, err, values)
		all, err := json.Marshal(got)
		require.NoError(t, err)
		for _, w := range want["with"] {
			assert.Contains(t, string(all), w, values)
		}
		for _, w := range want["without"] {
			assert.NotContains(t, string(all), w, values)
		}
	}
}

func TestChartBadValues(t *testing.T) {
	for values, want := range map[string]string{
		"pilot: {storage: 10}":                  "/pilot/storage",
		"polcy: {}":                             "polcy",
		"policy: {mode: lve}":                   "/policy/mode",
		"scheduler: {replicas: 0}":              "/scheduler/replicas",
		"networkPolicy: {enable: true}":         "enable",
		"mpa: {prometheus: []}":                 "/mpa/prometheus",
		"mpa: {gate: {image: \"a b\"}}":         "/mpa/gate/image",
		"decisionLog: {volume: {a: {}, b: {}}}": "/decisionLog/volume",
		"policy: {canaryPercent: 101}":          "/policy/canaryPercent",
		"image: {tag: 12}":                      "/image/tag",
		"mpa: {journal: {volume: \"pvc\"}}":     "/mpa/journal/volume",
	} {
		_, err := render(t, committed, values)
		assert.ErrorContains(t, err, want, values)
	}
}

// TestChartKeepsOthers: what is no chart is not removed.
func TestChartKeepsOthers(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600))
	_, err := run(t, "chart", dir)
	require.ErrorContains(t, err, "other files than a chart")
	assert.FileExists(t, filepath.Join(dir, "mine"))
}

// TestChartLint: Helm itself finds nothing in the chart.
func TestChartLint(t *testing.T) {
	text, err := exec.CommandContext(t.Context(), tool(t, "helm"), "lint", "--strict", "--kube-version", "1.36.0", committed).CombinedOutput()
	require.NoError(t, err, string(text))
}

// tool is the program that build.sh keeps.
func tool(t *testing.T, name string) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "./build.sh", name).Output()
	require.NoError(t, err)
	return filepath.Join(strings.TrimSpace(string(dir)), name)
}

// kustomize builds the objects of the chart's resources with components.
func kustomize(t *testing.T, components []string) []string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	root, err := filepath.Abs("../../manifests")
	require.NoError(t, err)
	relative := func(folders []string) (all []string) {
		for _, f := range folders {
			path, err := filepath.Rel(dir, filepath.Join(root, f))
			require.NoError(t, err)
			all = append(all, path)
		}
		return all
	}
	content, err := yaml.Marshal(map[string]any{"resources": relative(resources), "components": relative(components)})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), content, 0o600))
	text, err := exec.CommandContext(t.Context(), tool(t, "kustomize"), "build", dir).Output()
	require.NoError(t, err)
	return strings.SplitAfter(string(text), "\n---\n")
}

// render is `helm template` of a chart in namespace sigma-system: objects by normal's key.
func render(t *testing.T, dir, values string) (map[string]any, error) {
	cmd := exec.CommandContext(t.Context(), tool(t, "helm"), "template", "sigma", dir, "--namespace", "sigma-system", "--include-crds", "--kube-version", "1.36.0", "--values", "-")
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(values), &stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.String())
	}
	objects := map[string]any{}
	for content := range strings.SplitAfterSeq(string(text), "\n---\n") {
		if !strings.Contains(content, "\nkind: ") { // a comment of Helm's
			continue
		}
		key, o, err := normalise(content)
		if err != nil {
			return nil, err
		}
		objects[key] = o
	}
	return objects, nil
}

// unhashed is a name without the digest that kustomize appends to a configuration's.
func unhashed(name string) string {
	const config = "sigma-scheduler-config"
	if strings.HasPrefix(name, config+"-") {
		return config
	}
	return name
}

func normal(t *testing.T, s string) (string, any) {
	t.Helper()
	key, o, err := normalise(s)
	require.NoError(t, err)
	return key, o
}

// normalise reads an object and takes out what may differ: kustomize's digest in the name of
// the configuration for Helm's in an annotation, and the autoscaler's own namespace.
func normalise(s string) (key string, o map[string]any, err error) {
	if err := yaml.Unmarshal([]byte(strings.TrimSuffix(s, "---\n")), &o); err != nil {
		return "", nil, err
	}
	meta := o["metadata"].(map[string]any)
	meta["name"] = unhashed(meta["name"].(string))
	o = walk(o).(map[string]any)
	key = o["kind"].(string) + " " + meta["name"].(string)
	if ns, ok := meta["namespace"].(string); ok && ns != "sigma-system" {
		key += " in " + ns
	}
	return key, o, nil
}

func walk(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "checksum/config")
		for k := range v {
			if k == "namespace" && v[k] == "sigma-mpa" {
				v[k] = "sigma-system"
			}
			if text, ok := v[k].(string); ok && k == "expression" { // of an account
				v[k] = strings.ReplaceAll(text, "serviceaccount:sigma-mpa:", "serviceaccount:sigma-system:")
			}
			v[k] = walk(v[k])
			if m, ok := v[k].(map[string]any); ok && k == "annotations" && len(m) == 0 {
				delete(v, k)
			}
		}
		if c, ok := v["configMap"].(map[string]any); ok {
			c["name"] = unhashed(c["name"].(string))
		}
	case []any:
		for i := range v {
			v[i] = walk(v[i])
		}
		if slices.Contains(v, any("sigma-system")) {
			return slices.DeleteFunc(v, func(x any) bool { return x == "sigma-mpa" })
		}
	}
	return v
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}
