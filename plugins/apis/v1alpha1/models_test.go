package v1alpha1_test

import (
	"encoding/json"
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
	takes := func(s learned.Spec, model string) bool {
		text, err := json.Marshal(map[string]any{
			"apiVersion": policy.APIVersion, "kind": policy.ObjectKind, "metadata": map[string]any{"name": "p"},
			"spec": policy.Spec{
				FeatureVersion: policy.FeatureVersion, Model: model, Knowledge: s.Knowledge.String(),
				Features: s.Features, Weights: s.Weights, Parameters: s.Parameters,
			},
		})
		require.NoError(t, err)
		_, err = d.Create(t, text)
		return err == nil
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
				everything.Features, everything.Weights = append(everything.Features, name), append(everything.Weights, 1)
			}
			for _, p := range m.Parameters {
				everything.Parameters[p.Name] = p.Low
			}
			require.True(t, takes(everything, m.Name), "all that the model has")
			for know := binpack.K0; know <= binpack.K2; know++ {
				s := everything
				s.Knowledge = know
				require.Equal(t, m.Takes(know), takes(s, m.Name), know)
			}
			for _, name := range slices.Compact(features) {
				s := learned.Spec{Knowledge: everything.Knowledge, Features: []string{name}, Weights: []float64{0}}
				i, _ := m.Feature(name)
				require.Equal(t, i >= 0, takes(s, m.Name), name)
			}
			for _, name := range slices.Sorted(maps.Keys(parameters)) {
				p, own := m.Parameter(name)
				for v, want := range map[float64]bool{
					p.Low: own, p.High: own,
					math.Nextafter(p.Low, math.Inf(-1)): false, math.Nextafter(p.High, math.Inf(1)): false,
				} {
					s := learned.Spec{Knowledge: everything.Knowledge, Parameters: map[string]float64{name: v}}
					require.Equal(t, want, takes(s, m.Name), "%s: %v", name, v)
				}
			}
		})
	}
}
