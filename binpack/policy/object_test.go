package policy

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

// objectText is a policy file with every field, in block style so that each
// number has a line of its own.
const objectText = `apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementPolicy
metadata:
  name: general
  labels: {team: a}
  annotations:
    note: "yes: a colon"
spec:
  featureVersion: 1
  model: linear
  knowledge: K1+clock
  features:
    - util
    - util:cpu
    - closing
    - slot
  weights:
    - -0.31
    - 0.1
    - 1e-17
    - -0.0
  parameters:
    eta: 0.75
    z: -0.05
  mode: canary
  canaryPercent: 10
  provenance:
    seeds: [1, 2]
    replays: 10000
    digest: {trace: "sha256:00"}
` + statusText

const statusText = `status:
  observedGeneration: 1
  conditions:
    - {type: Accepted, status: "True"}
`

// TestRoundTrip: what is saved loads as the same policy and saves as the same bytes.
func TestRoundTrip(t *testing.T) {
	first, err := Parse("p.yaml", []byte(objectText))
	require.NoError(t, err)
	dir := t.TempDir()
	path := filepath.Join(dir, "policy.yaml")
	for range 2 { // the second time it replaces
		require.NoError(t, first.Save(path))
		again, err := Load(path)
		require.NoError(t, err)
		assert.Equal(t, first.Digest(), again.Digest())
		assert.Equal(t, string(first.Bytes()), string(again.Bytes()))
		assert.Equal(t, first.Spec.Provenance, again.Spec.Provenance)
		assert.Equal(t, first.Status, again.Status)
		assert.Equal(t, 10, *again.Spec.CanaryPercent)
		assert.Equal(t, []float64{-.31, .1, 1e-17, 0}, again.Spec.Weights)
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing is left beside it")
	info, err := files[0].Info()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode())
	require.Error(t, first.Save(filepath.Join(dir, "none", "policy.yaml")))
	_, err = Load(filepath.Join(dir, "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestDigestIsOfWhatItDoes: every number counts; name, mode, provenance and
// status do not.
func TestDigestIsOfWhatItDoes(t *testing.T) {
	parse := func(old, replaced string) *Object {
		require.Contains(t, objectText, old)
		o, err := Parse("p.yaml", []byte(strings.Replace(objectText, old, replaced, 1)))
		require.NoError(t, err)
		return o
	}
	base := parse("", "").Digest()
	require.Regexp(t, "^sha256:[0-9a-f]{64}$", base)
	for _, same := range [][2]string{
		{"name: general", "name: other"},
		{"mode: canary", "mode: live"},
		{"canaryPercent: 10", "canaryPercent: 0"},
		{"replays: 10000", "replays: 1"},
		{statusText, ""},
		{"- -0.0", "- 0"},
		{"eta: 0.75\n    z: -0.05", "z: -0.05\n    eta: 0.75"},
	} {
		assert.Equal(t, base, parse(same[0], same[1]).Digest(), same[1])
	}
	for _, other := range [][2]string{
		{"1e-17", "1.0000000000000002e-17"},
		{"eta: 0.75", "eta: 0.76"},
		{"z: -0.05", "q: 0"},
		{"K1+clock", "K1"},
		{"- util\n", "- mean\n"},
	} {
		assert.NotEqual(t, base, parse(other[0], other[1]).Digest(), other[1])
	}
}

// TestMalformed: the error names file, line and field.
func TestMalformed(t *testing.T) {
	names := strings.Join(ModelOf("linear").FeatureNames(), ", ")
	for _, tc := range []struct{ name, old, replaced, want string }{
		{"empty file", objectText, "", "p.yaml: the file is empty"},
		{"a comment", objectText, "# nothing\n", "p.yaml: the file is empty"},
		{"no mapping", objectText, "- 1\n", "p.yaml: yaml: unmarshal errors:\n  line 1: cannot unmarshal !!seq into policy.Object"},
		{"null", objectText, "~\n", `p.yaml:1: apiVersion "": want "sigma-scheduler.io/v1alpha1"`},
		{"not YAML", "knowledge: K1+clock", "knowledge: [", "p.yaml: yaml: line "},
		{"binary", objectText, "\x00\xff", "p.yaml: yaml: "},
		{"two documents", "status:", "---\nstatus:", "p.yaml: more than one document"},
		{"apiVersion", "v1alpha1", "v2", `p.yaml:1: apiVersion "sigma-scheduler.io/v2": want "sigma-scheduler.io/v1alpha1"`},
		{"kind", "PlacementPolicy", "PlacementRule", `p.yaml:2: kind "PlacementRule": want "PlacementPolicy"`},
		{"no name", "  name: general\n", "", "p.yaml:4: metadata.name is empty"},
		{"unknown key", "  mode: canary", "  made: canary", "p.yaml: yaml: unmarshal errors:\n  line 25: field made not found in type policy.Spec"},
		{"unknown key at the top", "status:", "state:", "p.yaml: yaml: unmarshal errors:\n  line 31: field state not found in type policy.Object"},
		{"key twice", "  mode: canary", "  model: linear", "p.yaml: yaml: unmarshal errors:\n  line 25: mapping key \"model\" already defined at line 10"},
		{"feature version", "featureVersion: 1", "featureVersion: 2", "p.yaml:9: spec.featureVersion 2: this build knows 1"},
		{"no feature version", "  featureVersion: 1\n", "", "p.yaml:9: spec.featureVersion 0: this build knows 1"},
		{"model", "model: linear", "model: forest", `p.yaml:10: spec.model "forest": known are ` + strings.Join(ModelNames(), ", ")},
		{"model of the laboratory", "model: linear", "model: rollout", `p.yaml:10: spec.model "rollout": a model of the laboratory; use sigma-lab`},
		{"knowledge", "K1+clock", "K3", `p.yaml:11: spec.knowledge "K3": known are K0, K0+clock, K1, K1+clock, K2`},
		{"feature", "- closing", "- closng", `p.yaml:15: spec.features[2] "closng": known are ` + names},
		{"feature per dimension", "- closing", "- closing:cpu", `p.yaml:15: spec.features[2] "closing:cpu": known are ` + names},
		{"feature of no dimension", "util:cpu", `"util:"`, `p.yaml:14: spec.features[1] "util:": known are ` + names},
		{"feature twice", "- closing", "- util", `p.yaml:15: spec.features[2] "util" is listed twice`},
		{"too few weights", "    - 0.1\n", "", "p.yaml:18: spec.weights has 3 numbers for 4 features"},
		{"too many weights", "    - 0.1\n", "    - 0.1\n    - 1\n", "p.yaml:18: spec.weights has 5 numbers for 4 features"},
		{"no weights", objectText[strings.Index(objectText, "  weights:"):strings.Index(objectText, "  parameters:")], "", "p.yaml:9: spec.weights has 0 numbers for 4 features"},
		{"NaN", "- 0.1", "- .nan", `p.yaml:19: spec.weights[1] NaN of feature "util:cpu": want a number within ±100`},
		{"infinite", "- 0.1", "- .inf", `p.yaml:19: spec.weights[1] +Inf of feature "util:cpu": want a number within ±100`},
		{"minus infinite", "- 0.1", "- -.inf", `p.yaml:19: spec.weights[1] -Inf of feature "util:cpu": want a number within ±100`},
		{"large", "- 0.1", "- 100.001", `p.yaml:19: spec.weights[1] 100.001 of feature "util:cpu": want a number within ±100`},
		{"no number", "- 0.1", "- much", "p.yaml: yaml: unmarshal errors:\n  line 19: cannot unmarshal !!str `much` into float64"},
		{"out of range", "- 0.1", "- 1e999", "p.yaml: yaml: unmarshal errors:\n  line 19: cannot unmarshal !!"},
		{"parameter", "z: -0.05", "zet: -0.05", "p.yaml:24: spec.parameters.zet: the model linear has alpha, beta, eta, pace, q, rho, z"},
		{"parameter of another model", "z: -0.05", "slack: .1", "p.yaml:24: spec.parameters.slack: the model linear has alpha, beta, eta, pace, q, rho, z"},
		{"parameter too small", "eta: 0.75", "eta: 0.05", "p.yaml:23: spec.parameters.eta 0.05: want 0.1 to 7.9"},
		{"parameter too large", "z: -0.05", "z: 1.5", "p.yaml:24: spec.parameters.z 1.5: want -1 to 1"},
		{"parameter NaN", "z: -0.05", "z: .nan", "p.yaml:24: spec.parameters.z NaN: want -1 to 1"},
		{"mode", "mode: canary", "mode: dark", `p.yaml:25: spec.mode "dark": want shadow, canary or live`},
		{"canary below", "canaryPercent: 10", "canaryPercent: -1", "p.yaml:26: spec.canaryPercent -1: want 0 to 100"},
		{"canary above", "canaryPercent: 10", "canaryPercent: 101", "p.yaml:26: spec.canaryPercent 101: want 0 to 100"},
		{"feature version in parts", "featureVersion: 1", "featureVersion: 1.5", "p.yaml:9: spec.featureVersion 1.5: want a whole number"},
		{"canary in parts", "canaryPercent: 10", "canaryPercent: 1.5", "p.yaml:26: spec.canaryPercent 1.5: want a whole number"},
		{"K0 without alpha", "K1+clock", "K0", "p.yaml:23: spec.parameters.alpha is needed"},
		{"K0+clock without alpha", "K1+clock", "K0+clock", "p.yaml:23: spec.parameters.alpha is needed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Contains(t, objectText, tc.old)
			text := strings.Replace(objectText, tc.old, tc.replaced, 1)
			_, err := Parse("p.yaml", []byte(text))
			require.Error(t, err)
			require.True(t, strings.HasPrefix(err.Error(), tc.want), "%s\nwant %s", err, tc.want)
		})
	}
}

// TestAccepted: the bounds themselves, flow style, no last newline, a status of
// any content.
func TestAccepted(t *testing.T) {
	for _, tc := range [][2]string{
		{"", ""},
		{"- 0.1", "- 100"},
		{"- 0.1", "- -100"},
		{"z: -0.05", "z: -1"},
		{"eta: 0.75", "eta: 7.9"},
		{"canaryPercent: 10", "canaryPercent: 0"},
		{"canaryPercent: 10", "canaryPercent: 100"},
		{"  canaryPercent: 10\n", ""},
		{"  mode: canary\n", ""},
		{"observedGeneration: 1", "whatever: {a: [1, .nan, ~]}"},
		{statusText, "status: {}"},
	} {
		_, err := Parse("p.yaml", []byte(strings.Replace(objectText, tc[0], tc[1], 1)))
		require.NoError(t, err, tc[1])
	}
}

// FuzzLoadPolicy: no bytes make it panic; what loads saves and loads again as
// the same policy, which scores finitely.
func FuzzLoadPolicy(f *testing.F) {
	f.Add([]byte(objectText))
	f.Add([]byte(strings.Replace(objectText, "K1+clock", "K1", 1)))
	f.Add([]byte(strings.Replace(objectText, "K1+clock", "K2", 1)))
	f.Add([]byte(strings.Replace(strings.Replace(objectText, "K1+clock", "K0+clock", 1), "z:", "alpha: 2\n    z:", 1)))
	f.Add([]byte(ruleText))
	f.Add([]byte(splitOf(splitText)))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("{apiVersion: sigma-scheduler.io/v1alpha1, kind: PlacementPolicy, metadata: {name: x}, spec: {featureVersion: 1, model: linear, knowledge: K0, features: [], weights: []}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := Parse("p.yaml", text)
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "p.yaml:"), err.Error())
			return
		}
		saved := o.Bytes()
		again, err := Parse("saved.yaml", saved)
		require.NoError(t, err, "%s", saved)
		require.Equal(t, o.Digest(), again.Digest(), "%s", saved)
		if o.Spec.Provenance == nil && o.Status == nil { // these may hold maps in no order
			require.True(t, bytes.Equal(saved, again.Bytes()), "%s", saved)
		}
		p, err := again.Policy()
		require.NoError(t, err)
		s := packtest.Small(p.Knowledge())
		scorer := p.Scorer(s)
		for i, app := range []int32{0, 0, 1, 1, 1, 0, 2, 2} {
			s.Arrive(app, 1)
			all := s.Feasible(app, nil)
			out := slices.Repeat([]float64{math.NaN()}, len(all))
			scorer.Score(binpack.Item{App: app}, all, out)
			for _, score := range out {
				require.False(t, math.IsNaN(score) || math.IsInf(score, 0), fmt.Sprint(out))
			}
			s.Place(binpack.Item{App: app}, all[i%len(all)], nil)
		}
	})
}
