package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// TestCRDHoldsTheModels: the marks of the CRD, which are written by hand, take what
// each Model value lists and nothing else. A new model, feature, parameter, range or
// level fails here until the marks say the same.
func TestCRDHoldsTheModels(t *testing.T) {
	d := loadCRD(t, "placementpolicies")
	create := func(s learned.Spec, model string) error {
		text, err := json.Marshal(map[string]any{
			"apiVersion": policy.APIVersion, "kind": policy.ObjectKind, "metadata": map[string]any{"name": "p"},
			"spec": policy.Spec{
				FeatureVersion: policy.FeatureVersion, Model: model, Knowledge: s.Knowledge.String(),
				Features: s.Features, Weights: s.Weights, Parameters: s.Parameters,
			},
		})
		require.NoError(t, err)
		_, err = d.Create(t, text)
		return err
	}
	requireTakes := func(t *testing.T, want bool, s learned.Spec, model, what string) {
		t.Helper()
		err := create(s, model)
		if want {
			require.NoError(t, err, "the marks refuse what the model %s takes: %s", model, what)
		} else {
			require.Error(t, err, "the marks take what the model %s refuses: %s", model, what)
		}
	}
	var features []string
	parameters := map[string]bool{}
	for _, m := range policy.Models() {
		features = append(features, m.FeatureNames()...)
		for _, p := range m.Parameters {
			parameters[p.Name] = true
		}
	}
	slices.Sort(features)
	for _, m := range policy.Models() {
		t.Run(m.Name, func(t *testing.T) {
			everything := learned.Spec{Knowledge: binpack.K1, Parameters: map[string]float64{}}
			if m.Knowledge != nil {
				everything.Knowledge = m.Knowledge[0]
			}
			for _, name := range m.FeatureNames() {
				if name == "press" { // in place of slot
					continue
				}
				everything.Features, everything.Weights = append(everything.Features, name), append(everything.Weights, 1)
			}
			for _, p := range m.Parameters {
				everything.Parameters[p.Name] = p.Low
			}
			requireTakes(t, true, everything, m.Name, "all its features and parameters")
			for know := binpack.K0; know <= binpack.K2; know++ {
				s := everything
				s.Knowledge = know
				requireTakes(t, m.Takes(know), s, m.Name, "knowledge "+know.String())
			}
			for _, name := range slices.Compact(features) {
				s := learned.Spec{Knowledge: everything.Knowledge, Features: []string{name}, Weights: []float64{0}}
				i, _ := m.Feature(name)
				requireTakes(t, i >= 0, s, m.Name, "feature "+name)
			}
			for _, name := range slices.Sorted(maps.Keys(parameters)) {
				p, own := m.Parameter(name)
				for v, want := range map[float64]bool{
					p.Low: own, p.High: own,
					math.Nextafter(p.Low, math.Inf(-1)): false, math.Nextafter(p.High, math.Inf(1)): false,
				} {
					s := learned.Spec{Knowledge: everything.Knowledge, Parameters: map[string]float64{name: v}}
					requireTakes(t, want, s, m.Name, fmt.Sprintf("parameter %s %v", name, v))
				}
			}
		})
	}
}
