package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

const ruleText = `apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementPolicy
metadata: {name: mine}
spec:
  featureVersion: 1
  model: rule
  knowledge: K0
  rule:
    name: requestedtocapacityratio
    resources: {cpu: 1, example.com/gpu: 3}
    shape:
      - [0, 0]
      - [100, 10]
`

const splitText = `
    onePerNode: {name: bestfit}
    others: {name: mostallocated, resources: {memory: 2}}
`

// splitOf is ruleText with two rules.
func splitOf(text string) string {
	head, _, _ := strings.Cut(ruleText, "\n    name:")
	return head + text
}

// TestRuleRoundTrip: what is saved loads as the same policy, and settings are in the digest.
func TestRuleRoundTrip(t *testing.T) {
	digests := map[string]string{}
	for _, text := range []string{
		ruleText, strings.Replace(ruleText, "cpu: 1", "cpu: 2", 1), strings.Replace(ruleText, "100, 10", "100, 9", 1),
		splitOf("\n    name: bestfit\n"), splitOf(splitText), splitOf(strings.Replace(splitText, "bestfit", "firstfit", 1)),
	} {
		o, err := Parse("p.yaml", []byte(text))
		require.NoError(t, err, text)
		again, err := Parse("p.yaml", o.Bytes())
		require.NoError(t, err)
		require.Equal(t, string(o.Bytes()), string(again.Bytes()))
		require.Equal(t, o.Digest(), again.Digest())
		require.Empty(t, digests[o.Digest()], "the digest of %s", text)
		digests[o.Digest()] = text
		p, err := o.Policy()
		require.NoError(t, err)
		require.Equal(t, binpack.K0, p.Knowledge())
	}
}

// TestRuleIsTheBuiltIn: a file that names a rule alone builds the rule of that name with
// ties by position.
func TestRuleIsTheBuiltIn(t *testing.T) {
	for _, name := range rule.SettableNames() {
		o, err := Parse("p.yaml", []byte(splitOf("\n    name: "+name+"\n")))
		require.NoError(t, err)
		p, err := o.Policy()
		require.NoError(t, err)
		want, err := rule.ByName(name, rule.Options{TiesByPosition: true})
		require.NoError(t, err)
		require.Equal(t, want, p)
	}
}

// TestMalformedRule: the error names file, line and field.
func TestMalformedRule(t *testing.T) {
	for _, tc := range []struct{ name, text, old, replaced, want string }{
		{"no rule", ruleText, from(ruleText, "  rule:"), "", "p.yaml:5: spec.rule is missing: the model rule needs it"},
		{"a rule of another model", ruleText, "model: rule", "model: plan", "p.yaml:9: spec.rule: the model plan has none; the model rule has"},
		{"knowledge", ruleText, "K0", "K1", `p.yaml:7: spec.knowledge "K1": the model rule needs K0`},
		{"features", ruleText, "  rule:", "  features: [util]\n  rule:", `p.yaml:8: spec.features[0] "util": the model rule has no features`},
		{"weights", ruleText, "  rule:", "  weights: [1]\n  rule:", "p.yaml:8: spec.weights has 1 numbers: the model rule has no weights"},
		{"parameters", ruleText, "  rule:", "  parameters: {z: 0}\n  rule:", "p.yaml:8: spec.parameters has 1 numbers: the model rule has no parameters"},
		{"no name", ruleText, "    name: requestedtocapacityratio\n", "", "p.yaml:9: spec.rule.name is missing: known are firstfit, "},
		{"unknown name", ruleText, "name: req", "name: rek", `p.yaml:9: spec.rule.name "rekuestedtocapacityratio": known are firstfit, `},
		{"a second name", splitOf(splitText), "name: bestfit", "name: bestfit-l1", `p.yaml:9: spec.rule.onePerNode.name "bestfit-l1": known are firstfit, `},
		{"a draw", splitOf(splitText), "name: bestfit", "name: random", `p.yaml:9: spec.rule.onePerNode.name "random": a rule that draws at random is no policy file`},
		{"a forecast", splitOf(splitText), "name: bestfit", "name: fgd", `p.yaml:9: spec.rule.onePerNode.name "fgd": it needs K1, and a rule in a policy file has K0`},
		{"unknown field", ruleText, "resources:", "resource:", "p.yaml: yaml: unmarshal errors:\n  line 10: field resource not found in type rule.Settings"},
		{"three levels", splitOf(splitText), "{name: bestfit}", "{others: {name: bestfit}}", "p.yaml: yaml: unmarshal errors:\n  line 9: field others not found in type rule.Choice"},
		{"resources of no strategy", ruleText, "requestedtocapacityratio", "bestfit", "p.yaml:10: spec.rule.resources: bestfit has none; mostallocated, leastallocated and requestedtocapacityratio have"},
		{"a shape of no strategy", ruleText, "requestedtocapacityratio", "mostallocated", "p.yaml:12: spec.rule.shape: mostallocated has none; requestedtocapacityratio has"},
		{"a weight of 0", ruleText, "cpu: 1", "cpu: 0", "p.yaml:10: spec.rule.resources.cpu 0: want 1 to 100"},
		{"a weight above", ruleText, "gpu: 3", "gpu: 101", "p.yaml:10: spec.rule.resources.example.com/gpu 101: want 1 to 100"},
		{"a weight in parts", ruleText, "cpu: 1", "cpu: 1.5", "p.yaml:9: spec.rule 1.5: want a whole number"},
		{"no resources", ruleText, "{cpu: 1, example.com/gpu: 3}", "{}", "p.yaml:10: spec.rule.resources has 0 entries: want 1 to 64"},
		{"no points", ruleText, from(ruleText, "\n      -"), " []\n", "p.yaml:11: spec.rule.shape has no point"},
		{"a score in parts", ruleText, "100, 10", "100, 9.5", "p.yaml:9: spec.rule 9.5: want a whole number"},
		{"half a point", ruleText, "100, 10", "100", "p.yaml:13: spec.rule.shape[1] [100]: want a utilisation and a score"},
		{"a utilisation above", ruleText, "100, 10", "101, 10", "p.yaml:13: spec.rule.shape[1] [101 10]: want a utilisation from 0 to 100"},
		{"a score above", ruleText, "100, 10", "100, 11", "p.yaml:13: spec.rule.shape[1] [100 11]: want a score from 0 to 10"},
		{"points in no order", ruleText, "100, 10", "0, 10", "p.yaml:13: spec.rule.shape[1] [0 10]: want a utilisation above 0"},
		{"one half", splitOf(splitText), "    others: {name: mostallocated, resources: {memory: 2}}\n", "", "p.yaml:9: spec.rule.others is missing beside onePerNode"},
		{"the other half", splitOf(splitText), "    onePerNode: {name: bestfit}\n", "", "p.yaml:9: spec.rule.onePerNode is missing beside others"},
		{"a name beside", splitOf(splitText), "    others", "    name: bestfit\n    others", `p.yaml:10: spec.rule.name "bestfit": onePerNode and others take its place`},
		{"resources beside", splitOf(splitText), "    others", "    resources: {cpu: 1}\n    others", "p.yaml:10: spec.rule.resources: want them in onePerNode or others"},
		{"a shape beside", splitOf(splitText), "    others", "    shape: [[0, 0]]\n    others", "p.yaml:10: spec.rule.shape: want it in onePerNode or others"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Contains(t, tc.text, tc.old)
			_, err := Parse("p.yaml", []byte(strings.Replace(tc.text, tc.old, tc.replaced, 1)))
			require.Error(t, err)
			require.True(t, strings.HasPrefix(err.Error(), tc.want), "%s\nwant %s", err, tc.want)
		})
	}
}

// TestRuleSuits: cpu and memory must be dimensions, extended resources need not.
func TestRuleSuits(t *testing.T) {
	inst := packtest.Small(binpack.K0).Instance()
	var name string // of a dimension
	for _, d := range inst.Dimensions {
		name = d.Name
	}
	o, err := Parse("p.yaml", []byte(strings.Replace(ruleText, "cpu:", name+":", 1)))
	require.NoError(t, err)
	require.NoError(t, o.Spec.Suits(inst))
	o, err = Parse("p.yaml", []byte(splitOf(strings.Replace(splitText, "memory:", "memroy:", 1))))
	require.NoError(t, err)
	require.EqualError(t, o.Spec.Suits(inst), "rule.others.resources.memroy: there is no such dimension")
}

// from is the end of a text, from where it has a part.
func from(text, part string) string {
	_, rest, _ := strings.Cut(text, part)
	return part + rest
}
