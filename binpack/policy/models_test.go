package policy_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
	"github.com/sigma-scheduler/sigma/binpack/policy"
)

func ExampleParse() {
	object, err := policy.Parse("mine.yaml", []byte(`
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementPolicy
metadata: {name: mine}
spec: {featureVersion: 1, model: linear, knowledge: K0, features: [util, frag], weights: [1, -0.5]}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := object.Policy()
	fmt.Println(object.Metadata.Name, p.Knowledge(), err)
	// Output: mine K0 <nil>
}

// TestModels holds each Model value to what loading, training and explaining take
// for granted.
func TestModels(t *testing.T) {
	for _, m := range policy.Models() {
		t.Run(m.Name, func(t *testing.T) {
			require.Same(t, m, policy.ModelOf(m.Name))
			require.Equal(t, m.Knowledge == nil, m.Basis == "", "a model that cannot use all levels says why")
			for know := binpack.K0; know <= binpack.K2; know++ {
				if !m.Takes(know) {
					continue
				}
				if m.Learns == nil {
					p, err := m.Build(learned.Spec{Knowledge: know})
					require.NoError(t, err)
					require.Equal(t, know, p.Knowledge())
					continue
				}
				for _, fixed := range []bool{false, true} {
					spec := learned.Spec{Knowledge: know, Parameters: map[string]float64{}}
					for _, name := range m.Learns(know, fixed) {
						if p, ok := m.Parameter(name); ok {
							spec.Parameters[name] = p.Low
							continue
						}
						i, _ := m.Feature(name)
						require.GreaterOrEqual(t, i, 0, "training searches %s, which the model has not", name)
						spec.Features, spec.Weights = append(spec.Features, name), append(spec.Weights, 1)
					}
					require.NotEqual(t, 0, len(spec.Features)+len(spec.Parameters), "training searches nothing")
					require.NoError(t, m.Check(spec))
					p, err := m.Build(spec)
					require.NoError(t, err)
					require.Equal(t, know, p.Knowledge())
					scorer := p.Scorer(packtest.Small(know))
					require.Implements(t, (*binpack.Explainer)(nil), scorer)
				}
			}
		})
	}
	require.Nil(t, policy.ModelOf("forest"))
	require.ErrorContains(t, (&policy.Spec{Model: "forest"}).Suits(packtest.Small(binpack.K0).Instance()), "forest")
}
