package v1alpha1_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/internal/crdtest"
)

const crds = "../../../manifests/flows/crds/"

const fullText = head + fullSpec

const head = `apiVersion: flow.sigma-scheduler.io/v1alpha1
kind: FlowPolicy
metadata: {name: all}
`

const fullSpec = `spec:
  nodeSelector: {matchLabels: {pool: a}, matchExpressions: [{key: gpu, operator: DoesNotExist}, {key: zone, operator: In, values: [x]}]}
  namespaceSelector: {matchLabels: {team: a}, matchExpressions: [{key: batch, operator: Exists}, {key: kind, operator: NotIn, values: [w]}]}
  mode: Canary
  canaryPercent: 5
  bands: 4
  thresholds: [100000, 1800000, 9900000]
  rate: 9400M
  floorPercent: 0.5
  hints: true
  dscp: true
`

// badPolicies are changes of fullText, with the texts of their refusals.
var badPolicies = []struct{ name, old, replaced, want string }{
	{"no spec", fullSpec, "", "spec: Required value"},
	{"a long name", "name: all", "name: " + strings.Repeat("x", 64), "metadata.name: at most 63 characters"},
	{"an unknown mode", "mode: Canary", "mode: live", `spec.mode: Unsupported value: "live"`},
	{"no share", "canaryPercent: 5", "canaryPercent: 0", "spec.canaryPercent: Invalid value: 0"},
	{"all as a canary", "canaryPercent: 5", "canaryPercent: 100", "spec.canaryPercent: Invalid value: 100"},
	{"one band", "bands: 4", "bands: 1", "spec.bands: Invalid value: 1"},
	{"nine bands", "bands: 4", "bands: 9", "spec.bands: Invalid value: 9"},
	{"thresholds of another number of bands", "bands: 4", "bands: 3", "spec.thresholds: Invalid value: want one threshold less than bands"},
	{"thresholds that do not ascend", "1800000", "99000", "spec.thresholds: Invalid value: want them ascending"},
	{"a threshold twice", "1800000", "100000", "spec.thresholds: Invalid value: want them ascending"},
	{"a threshold below a packet", "[100000,", "[999,", "spec.thresholds[0]: Invalid value: 999"},
	{"a threshold above all", "9900000", "1000000000001", "spec.thresholds[2]: Invalid value: 1000000000001"},
	{"a text for a threshold", "9900000", `"9.9M"`, `spec.thresholds[2]: Invalid value: "string"`},
	{"no threshold in a list", "[100000, 1800000, 9900000]", "[]", "spec.thresholds: Invalid value"},
	{"a rate of nothing", "9400M", "0", "spec.rate: Invalid value: 0: want 1M to 1T"},
	{"a rate of all", "9400M", "1001G", `spec.rate: Invalid value: "1001G": want 1M to 1T`},
	{"no floor", "floorPercent: 0.5", "floorPercent: 0", "spec.floorPercent: Invalid value: 0: want 0.1 to 5"},
	{"a floor of all", "floorPercent: 0.5", "floorPercent: 5.1", "spec.floorPercent: Invalid value: 5.1"},
	{"an operator that there is not", "operator: In", "operator: Near", "spec.nodeSelector.matchExpressions: Invalid value: want the operator In or NotIn with values"},
	{"In without values", ", values: [x]", "", "spec.nodeSelector.matchExpressions: Invalid value: want the operator In or NotIn with values"},
	{"another operator for namespaces", "operator: NotIn", "operator: Near", "spec.namespaceSelector.matchExpressions: Invalid value: want the operator In or NotIn with values"},
	{"NotIn without values", ", values: [w]", "", "spec.namespaceSelector.matchExpressions: Invalid value: want the operator In or NotIn with values"},
	{"Exists with values", "operator: Exists}", "operator: Exists, values: [z]}", "spec.namespaceSelector.matchExpressions: Invalid value: want the operator In or NotIn with values"},
	{"a list of namespaces", "namespaceSelector: {matchLabels: {team: a},", "namespaceSelector: {names: [a],", "spec.namespaceSelector.names: Forbidden: unknown field"},
	{"a text for hints", "hints: true", "hints: some", `spec.hints: Invalid value: "string"`},
	{"hints without a choice of bands", "bands: 4\n  thresholds: [100000, 1800000, 9900000]", "bands: 2", "spec.hints: Invalid value: want at least 3 bands"},
	{"a text for dscp", "dscp: true", "dscp: AF21", `spec.dscp: Invalid value: "string"`},
}

func TestPolicies(t *testing.T) {
	d := crdtest.Load(t, crds+"flowpolicies.yaml")
	_, err := d.Create(t, []byte(fullText))
	require.NoError(t, err)
	for _, b := range badPolicies {
		require.Contains(t, fullText, b.old, b.name)
		_, err := d.Create(t, []byte(strings.Replace(fullText, b.old, b.replaced, 1)))
		require.ErrorContains(t, err, b.want, b.name)
	}
	page, err := os.ReadFile("../../../docs/flows.md")
	require.NoError(t, err)
	_, example, found := strings.Cut(string(page), "```yaml\n")
	require.True(t, found)
	example, _, _ = strings.Cut(example, "```")
	_, err = d.Create(t, []byte(example))
	require.NoError(t, err)
	stored, err := d.Create(t, []byte("apiVersion: flow.sigma-scheduler.io/v1alpha1\nkind: FlowPolicy\nmetadata: {name: all}\nspec: {}\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"mode": "Observe", "canaryPercent": int64(10), "bands": int64(4), "floorPercent": .1}, stored["spec"])
}

// A status has no threshold that agents refuse, and room for sequence numbers far below the largest.
func TestPolicyStatus(t *testing.T) {
	properties := crdtest.Load(t, crds+"flowpolicies.yaml").Definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
	spec, status := properties["spec"].Properties["thresholds"].Items.Schema, properties["status"].Properties["thresholds"].Items.Schema
	require.NotNil(t, status.Minimum)
	require.Equal(t, *spec.Minimum, *status.Minimum)
	require.NotNil(t, status.Maximum)
	require.Equal(t, *spec.Maximum, *status.Maximum)
	sequence := properties["status"].Properties["sequence"]
	require.NotNil(t, sequence.Maximum)
	require.Greater(t, *sequence.Maximum, float64(v1alpha1.FarAhead))
	require.Less(t, *sequence.Maximum, float64(1<<53), "exact in JSON")
}

// What a node writes is bounded.
func TestNodeFlows(t *testing.T) {
	d := crdtest.Load(t, crds+"nodeflows.yaml")
	_, err := d.Create(t, []byte("apiVersion: flow.sigma-scheduler.io/v1alpha1\nkind: NodeFlows\nmetadata: {name: node-1}\n"))
	require.NoError(t, err)
	_, err = d.Create(t, []byte("apiVersion: flow.sigma-scheduler.io/v1alpha1\nkind: NodeFlows\nmetadata: {name: node-1}\nspec: {}\n"))
	require.ErrorContains(t, err, "spec: Forbidden: unknown field")
	status := d.Definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	counts := status.Properties["traffic"].Properties["counts"]
	require.Less(t, *counts.MaxItems*int64(len(fmt.Sprintf("%.0f,", *counts.Items.Schema.Maximum))), int64(4000))
}
