package v1alpha1_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

const settingsHead = policyHead + `spec:
  featureVersion: 1
  model: rule
  knowledge: K0
  mode: shadow
`

// goodSettings are policies of the model rule.
var goodSettings = []string{
	"  rule: {name: bestfit}\n",
	"  rule: {name: requestedtocapacityratio, resources: {cpu: 1, example.com/gpu: 100}, shape: [[0, 0], [50, 10], [100, 3]]}\n",
	"  rule: {onePerNode: {name: bestfit}, others: {name: leastallocated, resources: {cpu: 2}}}\n",
	"  features: []\n  weights: []\n  parameters: {}\n  rule: {name: mostallocated}\n",
}

// TestDoorAgreesOnRules: on random settings near the limits, the door lets in what the
// loader takes and nothing else.
func TestDoorAgreesOnRules(t *testing.T) {
	d := loadCRD(t, "placementpolicies")
	rng := rand.New(rand.NewPCG(3, 4))
	names := append(rule.Names(), "bestfit-l1", "", "mostallocated", "mostallocated", "requestedtocapacityratio", "requestedtocapacityratio", "requestedtocapacityratio")
	choice := func() map[string]any {
		c := map[string]any{"name": pick(rng, names...)}
		if rng.IntN(10) == 0 {
			delete(c, "name")
		}
		if rng.IntN(4) == 0 {
			c["resources"] = pick[any](rng, map[string]any{"cpu": 1, "memory": 100}, map[string]any{"cpu": 1}, map[string]any{"cpu": 0},
				map[string]any{"cpu": 101}, map[string]any{"cpu": 1.5}, map[string]any{})
		}
		if rng.IntN(4) == 0 {
			shape := []any{}
			for at := rng.IntN(40); at <= 105; at += rng.IntN(60) {
				shape = append(shape, pick(rng, []any{at, rng.IntN(11)}, []any{at, rng.IntN(11)}, []any{at, rng.IntN(11)}, []any{at, rng.IntN(12)}))
			}
			c["shape"] = pick[any](rng, shape, shape, shape, []any{}, []any{[]any{50}}, []any{[]any{50, 0, 1}}, []any{[]any{50, .5}}, []any{[]any{-1, 0}}, []any{[]any{0, -1}})
		}
		return c
	}
	taken, rounds := 0, 4000
	for range rounds {
		settings := choice()
		if rng.IntN(3) == 0 {
			settings = map[string]any{"onePerNode": choice(), "others": choice()}
			switch rng.IntN(12) {
			case 0:
				delete(settings, pick(rng, "onePerNode", "others"))
			case 1:
				settings[pick(rng, "name", "shape")] = pick[any](rng, "bestfit", []any{[]any{0, 1}})
			}
		}
		spec := map[string]any{"featureVersion": 1, "model": "rule", "knowledge": "K0", "rule": settings}
		switch rng.IntN(24) {
		case 0:
			spec["model"] = "linear"
		case 1:
			delete(spec, "rule")
		case 2:
			spec["knowledge"] = "K1"
		case 3:
			spec["features"], spec["weights"] = []any{"util"}, []any{1}
		case 4:
			spec["weights"] = []any{1}
		case 5:
			spec["parameters"] = map[string]any{"z": 0}
		}
		text, err := json.Marshal(map[string]any{
			"apiVersion": policy.APIVersion, "kind": policy.ObjectKind, "metadata": map[string]any{"name": "r"}, "spec": spec,
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
