package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/policies"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/internal/crdtest"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

func loadCRD(t *testing.T, plural string) *crdtest.CRD {
	t.Helper()
	return crdtest.Load(t, crdFile(plural))
}

func crdFile(plural string) string { return "../../../manifests/base/crds/" + plural + ".yaml" }

const policyHead = `apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementPolicy
metadata: {name: general, labels: {team: a}}
`

const policyText = policyHead + `spec:
  featureVersion: 1
  model: linear
  knowledge: K1+clock
  features: [util, "util:example.org/gpu", closing, slot]
  weights: [-0.31, 1e-17, 100, -100]
  parameters: {eta: 7.9, z: -1}
  mode: canary
  canaryPercent: 0
  repair: {mode: DryRun, chain: 32, movesPerHour: 1, minReplicas: 1000}
  soft: {mode: keep, loss: 0.5}
  maxShareOfApp: 1
  provenance: {seeds: [1, 2.5], replays: 10000, digest: {trace: "sha256:00", none: null}}
status: {observedGeneration: 7}
`

// badPolicies change policyText, and what the refusal says.
var badPolicies = []struct{ name, old, replaced, want string }{
	{"a string for a weight", "-0.31", `"-0.31"`, "spec.weights[0]: Invalid value: \"string\""},
	{"a weight too large", "1e-17", "100.00000000000001", "spec.weights[1]: Invalid value: 100.00000000000001"},
	{"a weight too small", "1e-17", "-1e300", "spec.weights[1]: Invalid value: -1e+300"},
	{"a null for a weight", "1e-17", "null", "spec.weights[1]: Invalid value: \"null\""},
	{"100,000 weights", "[-0.31, 1e-17, 100, -100]", "[" + strings.Repeat("1,", 99_999) + "1]", "spec.weights: Too many: 100000: must have at most 128 items"},
	{"fewer weights than features", ", 100, -100]", "]", "spec.weights: Invalid value: want one weight for each feature"},
	{"more weights than features", ", -100]", ", -100, 1]", "spec.weights: Invalid value: want one weight for each feature"},
	{"no weights", "  weights: [-0.31, 1e-17, 100, -100]\n", "", "spec.weights: Invalid value: want one weight for each feature"},
	{"an object for the weights", "[-0.31, 1e-17, 100, -100]", "{}", "spec.weights: Invalid value: \"object\""},
	{"an unknown feature", "closing", "closng", "spec.features[2]: Invalid value: \"closng\""},
	{"a feature of a dimension that is not util", "closing", "closing:cpu", "spec.features[2]: Invalid value: \"closing:cpu\""},
	{"util of no dimension", "util:example.org/gpu", "util:", "spec.features[1]: Invalid value: \"util:\""},
	{"a long feature", "util:example.org/gpu", "util:" + strings.Repeat("x", 316), "spec.features[1]: Too long: may not be more than 320"},
	{"a feature twice", "closing", "util", "spec.features: Invalid value: listed twice: util"},
	{"an unknown parameter", "z: -1", "zet: -1", "spec.parameters: Invalid value: the model linear has alpha, beta, eta, pace, q, rho, z"},
	{"a parameter of another model", "z: -1", "slack: 0", "spec.parameters: Invalid value: the model linear has alpha, beta, eta, pace, q, rho, z"},
	{"a parameter too large", "eta: 7.9", "eta: 7.91", "spec.parameters.[eta]: Invalid value: want 0.1 to 7.9"},
	{"a string for a parameter", "eta: 7.9", "eta: much", "spec.parameters.eta: Invalid value: \"string\""},
	{"a thousand parameters", "eta: 7.9", manyKeys(1000), "spec.parameters: Too many: 1001: must have at most 35 items"},
	{"no alpha", "K1+clock", "K0", "spec.parameters: Invalid value: alpha is needed"},
	{"an unknown mode", "mode: canary", "mode: lve", "spec.mode: Unsupported value: \"lve\": supported values: \"shadow\", \"canary\", \"live\""},
	{"an unknown model", "model: linear", "model: forest", "spec.model: Unsupported value: \"forest\""},
	{"no model", "  model: linear\n", "", "spec.model: Required value"},
	{"unknown knowledge", "K1+clock", "K3", "spec.knowledge: Unsupported value: \"K3\""},
	{"a plan without K2", "model: linear", "model: plan", "spec.knowledge: Invalid value: the model plan needs K2"},
	{"a plan with features", "model: linear\n  knowledge: K1+clock", "model: plan\n  knowledge: K2", "spec.features: Invalid value: the model plan has no features"},
	{"a later table of features", "featureVersion: 1", "featureVersion: 2", "spec.featureVersion: Unsupported value: 2"},
	{"a string for a version", "featureVersion: 1", `featureVersion: "1"`, "spec.featureVersion: Invalid value: \"string\""},
	{"no version", "  featureVersion: 1\n", "", "spec.featureVersion: Required value"},
	{"more than all", "canaryPercent: 0", "canaryPercent: 101", "spec.canaryPercent: Invalid value: 101"},
	{"a part of a percent", "canaryPercent: 0", "canaryPercent: 0.5", "spec.canaryPercent: Invalid value: \"float64\""},
	{"an unknown mode of repair", "mode: DryRun", "mode: Auto", "spec.repair.mode: Unsupported value: \"Auto\""},
	{"a chain too long", "chain: 32", "chain: 33", "spec.repair.chain: Invalid value: 33"},
	{"no moves", "movesPerHour: 1,", "movesPerHour: 0,", "spec.repair.movesPerHour: Invalid value: 0"},
	{"a part of a replica", "minReplicas: 1000", "minReplicas: 1.5", "spec.repair.minReplicas: Invalid value: \"float64\""},
	{"an unknown mode of soft", "mode: keep", "mode: Keep", "spec.soft.mode: Unsupported value: \"Keep\""},
	{"a gain", "loss: 0.5", "loss: -0.5", "spec.soft.loss: Invalid value: -0.5"},
	{"ignore with a loss", "mode: keep", "mode: ignore", "spec.soft.loss: Invalid value: keep has a loss, the other modes have none"},
	{"trade for nothing", "mode: keep, loss: 0.5", "mode: trade", "spec.soft.price: Invalid value: the mode trade has a price above 0, the others none"},
	{"keep for a price", "loss: 0.5", "price: 1", "spec.soft.price: Invalid value: the mode trade has a price above 0, the others none"},
	{"no share", "maxShareOfApp: 1", "maxShareOfApp: 0", "spec.maxShareOfApp: Invalid value: 0"},
	{"more than an app", "maxShareOfApp: 1", "maxShareOfApp: 1.1", "spec.maxShareOfApp: Invalid value: 1.1"},
	{"an unknown field of repair", "chain: 32", "chains: 32", "spec.repair.chains"},
	{"an unknown field", "  mode: canary", "  made: canary", "spec.made"},
	{"no spec", policyText[len(policyHead):], "", "spec: Required value"},
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1, ", i)
	}
	return strings.TrimSuffix(b.String(), ", ")
}

func badPolicy(t *testing.T, old, replaced string) []byte {
	t.Helper()
	require.Contains(t, policyText, old)
	return []byte(strings.Replace(policyText, old, replaced, 1))
}

// TestShippedPolicies: each is taken, and what is stored loads as the same policy.
func TestShippedPolicies(t *testing.T) {
	d := loadCRD(t, "placementpolicies")
	files := shippedPolicies(t)
	files["policyText"] = []byte(policyText)
	for i, settings := range goodSettings {
		files[fmt.Sprint("goodSettings ", i)] = []byte(settingsHead + settings)
	}
	for name, text := range files {
		stored, err := d.Create(t, text)
		require.NoError(t, err, name)
		was, err := policy.Parse(name, text)
		require.NoError(t, err)

		var typed v1alpha1.PlacementPolicy
		asJSON, err := json.Marshal(stored)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(asJSON, &typed))
		require.Equal(t, append([]float64{}, was.Spec.Weights...), typed.Spec.Weights, name)
		require.Equal(t, string(was.Spec.Mode), typed.Spec.Mode, name)

		stored["spec"] = typed.Spec // also through the Go type
		asJSON, err = json.Marshal(stored)
		require.NoError(t, err)
		is, err := policy.Parse(name, asJSON)
		require.NoError(t, err, name)
		require.Equal(t, was.Digest(), is.Digest(), name)
		require.Equal(t, was.Spec.Provenance, is.Spec.Provenance, name)
	}
}

func shippedPolicies(t *testing.T) map[string][]byte {
	t.Helper()
	names, err := fs.Glob(policies.Files, "*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	files := map[string][]byte{}
	for _, name := range names {
		files[name], err = policies.Files.ReadFile(name)
		require.NoError(t, err)
	}
	return files
}

// TestBadPolicies: what the loader refuses is refused at the door, with the field.
func TestBadPolicies(t *testing.T) {
	d := loadCRD(t, "placementpolicies")
	// The loader has no upper limits on sizes, and reads null as 0.
	doorOnly := []string{"a long feature", "a null for a weight"}
	for _, tt := range badPolicies {
		t.Run(tt.name, func(t *testing.T) {
			text := badPolicy(t, tt.old, tt.replaced)
			_, err := d.Create(t, text)
			require.ErrorContains(t, err, tt.want)
			_, err = policy.Parse(tt.name, text)
			if !slices.Contains(doorOnly, tt.name) {
				require.Error(t, err, "the loader takes it")
			}
		})
	}
}

func TestPolicyDefaults(t *testing.T) {
	d := loadCRD(t, "placementpolicies")
	stored, err := d.Create(t, []byte(`
kind: PlacementPolicy
apiVersion: sigma-scheduler.io/v1alpha1
metadata: {name: plan}
spec: {featureVersion: 1, model: plan, knowledge: K2, mode: null, features: null, provenance: null}
`))
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"featureVersion": int64(1), "model": "plan", "knowledge": "K2",
		"features": []any{}, "weights": []any{}, "parameters": map[string]any{},
		"mode": "shadow", "canaryPercent": int64(10),
	}, stored["spec"])
}

// largestPolicy is as long as a policy may be: the rules must not become too
// expensive before that.
func largestPolicy() []byte {
	var features, weights []string
	for i := range 125 {
		features = append(features, fmt.Sprintf("util:%s%03d", strings.Repeat("x", 312), i))
	}
	features = append(features, "closing", "slot", "singl")
	for range features {
		weights = append(weights, "0")
	}
	return fmt.Appendf(nil, `{apiVersion: sigma-scheduler.io/v1alpha1, kind: PlacementPolicy, metadata: {name: largest}, spec: {
		featureVersion: 1, model: linear, knowledge: K0, features: ["%s"], weights: [%s], parameters: {eta: 1, q: 1, z: 1}}}`,
		strings.Join(features, `", "`), strings.Join(weights, ", "))
}

func TestLargestPolicy(t *testing.T) {
	_, err := loadCRD(t, "placementpolicies").Create(t, largestPolicy())
	require.NoError(t, err)
	_, err = policy.Parse("largest", largestPolicy())
	require.NoError(t, err)
}

// TestDoorAgreesWithLoader: on random objects near the limits, the door lets in
// what the loader takes and nothing else. It fails when a feature, a parameter,
// a range or a rule is changed in one place only.
func TestDoorAgreesWithLoader(t *testing.T) {
	d := loadCRD(t, "placementpolicies")
	rng := rand.New(rand.NewPCG(1, 2))
	features := append(policy.ModelOf("linear").FeatureNames(), "util:cpu", "util:a:b", "util:\n", "util:", "mean:", "Util", "", "util:gpu@none", "gpu", "gpu@some")
	parameters := []string{"zeta"}
	for _, m := range policy.Models() {
		parameters = append(parameters, m.ParameterNames()...)
	}
	taken, rounds := 0, 4000
	for range rounds {
		model := pick(rng, policy.ModelNames()...)
		m := policy.ModelOf(model)
		spec := map[string]any{
			"featureVersion": 1, "model": model,
			"knowledge": pick(rng, "K0", "K0+clock", "K1", "K1+clock", "K2"),
		}
		var chosen []string
		weights := []any{}
		for range rng.IntN(4) {
			names := features
			if model == "devices" && rng.IntN(8) > 0 {
				names = m.FeatureNames()
			}
			chosen = append(chosen, pick(rng, names...))
			weights = append(weights, pick[any](rng, 1, -.5, 0, 0, 0, 100, -100))
		}
		if own, ok := map[string]string{"plan": "K2", "population": "K0+clock"}[model]; ok && rng.IntN(4) > 0 {
			spec["knowledge"], chosen, weights = own, nil, nil
		}
		spec["features"], spec["weights"] = chosen, weights
		numbers := map[string]any{}
		for range rng.IntN(3) {
			name := pick(rng, parameters...)
			if p, ok := m.Parameter(name); ok {
				numbers[name] = pick(rng, p.Low, p.High, (p.Low+p.High)/2,
					math.Nextafter(p.Low, math.Inf(-1)), math.Nextafter(p.High, math.Inf(1)))
			} else if rng.IntN(4) == 0 {
				numbers[name] = 1
			}
		}
		spec["parameters"] = numbers
		if rng.IntN(3) == 0 { // one thing that may be wrong
			switch rng.IntN(11) {
			case 0:
				spec["featureVersion"] = pick[any](rng, 0, 2, "1", nil)
			case 1:
				spec["model"] = pick[any](rng, "Linear", "", 1, nil)
			case 2:
				spec["knowledge"] = pick[any](rng, "K", "K2+clock", "", 1, nil)
			case 3:
				spec["mode"] = pick[any](rng, "shadow", "canary", "live", "Live", nil)
			case 4:
				spec["canaryPercent"] = pick[any](rng, 0, 100, -1, 101, "1", nil)
			case 5:
				spec["weights"] = append(weights, pick[any](rng, 1, "1", 100.1, -101))
			case 6:
				delete(spec, pick(rng, "features", "weights", "parameters", "model"))
			case 7:
				spec["provenance"] = pick[any](rng, nil, map[string]any{"a": []any{1, nil, "b"}}, []any{1}, "a")
			case 8:
				spec["repair"] = map[string]any{
					"mode": pick[any](rng, "Disabled", "DryRun", "Enabled", "Auto", 1), "chain": pick[any](rng, 1, 8, 32, 0, 33, "8"),
					"movesPerHour": pick[any](rng, 1, 10_000, 0, 10_001), "minReplicas": pick[any](rng, 1, 1000, 0, 1001),
				}
			case 9:
				spec["soft"] = map[string]any{"mode": pick[any](rng, "keep", "trade", "ignore", "Keep"), "price": pick[any](rng, 0, .1, 1e6, -1)}
			case 10:
				spec["soft"] = map[string]any{"loss": pick[any](rng, 0, .1, 1e6, -1, 1e7, "1"), "mode": pick[any](rng, "keep", "ignore")}
				spec["maxShareOfApp"] = pick[any](rng, 0, .1, 1, 1.1, nil)
			}
		}
		text, err := json.Marshal(map[string]any{
			"apiVersion": policy.APIVersion, "kind": policy.ObjectKind,
			"metadata": map[string]any{"name": "general"}, "spec": spec,
		})
		require.NoError(t, err)
		_, atLoader := policy.Parse("p", text)
		_, atDoor := d.Create(t, text)
		require.Equal(t, atLoader == nil, atDoor == nil, "%s\nloader: %v\ndoor: %v", text, atLoader, atDoor)
		if atDoor == nil {
			taken++
		}
	}
	require.Greater(t, taken, rounds/10)
	require.Less(t, taken, rounds*9/10)
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func ruleText(spec string) []byte {
	return fmt.Appendf(nil, "{apiVersion: sigma-scheduler.io/v1alpha1, kind: PlacementRule, metadata: {name: r}, spec: {%s}}", spec)
}

var goodRules = []string{
	`selector: {}, maxPerNode: 1`,
	`selector: {matchLabels: {tier: db}}, namespaces: [shop, shop-2], spreadMin: 1`,
	`selector: {matchExpressions: [{key: a, operator: In, values: [b]}, {key: c, operator: Exists}]}, excludes: [{selector: {matchLabels: {tier: batch}}}]`,
	`selector: {}, maxPerNode: 2147483647, spreadMin: 2147483647, excludes: [{selector: {}, max: 2147483647}]`,
	`selector: {}, topologyKey: kubernetes.io/hostname, maxPerNode: 1, afterMinutes: 1`,
	`selector: {}, topologyKey: topology.kubernetes.io/zone, spreadMin: 2, afterMinutes: 10080`,
	`selector: {}, excludes: [` + strings.Repeat(`{selector: {}, namespaces: [a]},`, 31) + `{selector: {}}]`,
}

var badRules = []struct{ name, spec, want string }{
	{"nothing to forbid", `selector: {}`, "spec: Invalid value: a rule needs maxPerNode, spreadMin or excludes"},
	{"no exclusion", `selector: {}, excludes: []`, "spec: Invalid value: a rule needs maxPerNode, spreadMin or excludes"},
	{"no selector", `maxPerNode: 1`, "spec.selector: Required value"},
	{"a null for a selector", `selector: null, maxPerNode: 1`, "spec.selector: Required value"},
	{"none on a node", `selector: {}, maxPerNode: 0`, "spec.maxPerNode: Invalid value: 0"},
	{"a string for a number", `selector: {}, maxPerNode: "1"`, "spec.maxPerNode: Invalid value: \"string\""},
	{"a maximum above 32 bits", `selector: {}, maxPerNode: 2147483648`, "spec.maxPerNode: Invalid value: 2147483648"},
	{"a spread above 32 bits", `selector: {}, spreadMin: 2147483648`, "spec.spreadMin: Invalid value: 2147483648"},
	{"an exclusion above 32 bits", `selector: {}, excludes: [{selector: {}, max: 2147483648}]`, "spec.excludes[0].max: Invalid value: 2147483648"},
	{"spread over nothing", `selector: {}, spreadMin: 0`, "spec.spreadMin: Invalid value: 0"},
	{"a negative maximum", `selector: {}, excludes: [{selector: {}, max: -1}]`, "spec.excludes[0].max: Invalid value: -1"},
	{"an exclusion of nobody", `selector: {}, excludes: [{max: 1}]`, "spec.excludes[0].selector: Required value"},
	{"many exclusions", `selector: {}, excludes: [` + strings.Repeat(`{selector: {}},`, 32) + `{selector: {}}]`, "spec.excludes: Too many: 33"},
	{"no namespace", `selector: {}, namespaces: [Shop], maxPerNode: 1`, "spec.namespaces[0]: Invalid value: \"Shop\""},
	{"a namespace twice", `selector: {}, namespaces: [a, a], maxPerNode: 1`, "spec.namespaces[1]: Duplicate value"},
	{"an unknown operator", `selector: {matchExpressions: [{key: a, operator: Equals, values: [b]}]}, maxPerNode: 1`, "spec.selector.matchExpressions: Invalid value: want the operator"},
	{"In nothing", `selector: {}, excludes: [{selector: {matchExpressions: [{key: a, operator: In}]}}]`, "spec.excludes[0].selector.matchExpressions: Invalid value: want the operator"},
	{"Exists with a value", `selector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}, maxPerNode: 1`, "spec.selector.matchExpressions: Invalid value: want the operator"},
	{"a rack", `selector: {}, topologyKey: rack, maxPerNode: 1`, "spec.topologyKey: Unsupported value: \"rack\""},
	{"at once", `selector: {}, maxPerNode: 1, afterMinutes: 0`, "spec.afterMinutes: Invalid value: 0"},
	{"after more than a week", `selector: {}, maxPerNode: 1, afterMinutes: 10081`, "spec.afterMinutes: Invalid value: 10081"},
	{"an unknown field", `selector: {}, maxPerNodes: 1, spreadMin: 1`, "spec.maxPerNodes"},
}

func TestRules(t *testing.T) {
	d := loadCRD(t, "placementrules")
	for _, spec := range goodRules {
		stored, err := d.Create(t, ruleText(spec))
		require.NoError(t, err, spec)
		var typed v1alpha1.PlacementRule
		asJSON, err := json.Marshal(stored)
		require.NoError(t, err)
		dec := json.NewDecoder(strings.NewReader(string(asJSON)))
		dec.DisallowUnknownFields()
		require.NoError(t, dec.Decode(&typed), "the Go type lacks a field")
		again, err := json.Marshal(typed.Spec)
		require.NoError(t, err)
		want, err := json.Marshal(stored["spec"])
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(again))
	}
	for _, tt := range badRules {
		t.Run(tt.name, func(t *testing.T) {
			_, err := d.Create(t, ruleText(tt.spec))
			require.ErrorContains(t, err, tt.want)
		})
	}
}
