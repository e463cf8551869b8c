package train

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Every position is a rule that a policy file may hold, and a rule that was found is at its position.
func TestRulesSpace(t *testing.T) {
	r := &Rules{Names: []string{"mostallocated", "leastallocated", ratio}, Resources: []string{"cpu", "memory"}}
	sp := r.newSpace()
	require.Len(t, sp.box.Lo, 3+len(utilisations))
	rng := rand.New(rand.NewPCG(1, 1))
	seen := map[string]bool{}
	for range 500 {
		x := make([]float64, len(sp.box.Lo))
		for i := range x {
			x[i] = rng.Float64()
		}
		o := sp.object(x)
		_, err := o.Policy()
		require.NoError(t, err)
		c := o.Spec.Rule.Choice
		seen[c.Name] = true
		require.LessOrEqual(t, len(c.Shape), 10)
		again, err := sp.position(o)
		require.NoError(t, err)
		require.Equal(t, c, r.choice(again))
	}
	require.Len(t, seen, 3)
	eks := (&Rules{Names: []string{"mostallocated", "leastallocated"}, Resources: []string{"cpu"}}).newSpace()
	require.Len(t, eks.box.Lo, 2, "no shape")
}

// A search of rules gives the same rule with 1 and 3 workers, no worse than where it began.
func TestRulesSearch(t *testing.T) {
	tr, err := generate.Generate("small", 301, nil)
	require.NoError(t, err)
	start := &policy.Object{Spec: policy.Spec{Model: policy.RuleModel, Rule: &rule.Settings{Choice: rule.Choice{Name: "mostallocated"}}}}
	find := func(workers, evaluations int) *policy.Object {
		o, err := Run(t.Context(), Config{
			Traces: []*trace.Trace{tr}, Orders: 2, Evaluations: evaluations, Seed: 1, Workers: workers, Start: start,
			Rules: &Rules{Names: []string{"mostallocated", ratio}, Resources: []string{"cpu", "memory"}},
		})
		require.NoError(t, err)
		return o
	}
	first, one, three := find(1, 1), find(1, 60), find(3, 60)
	require.Equal(t, one.Spec, three.Spec)
	require.Equal(t, policy.RuleModel, one.Spec.Model)
	require.LessOrEqual(t, one.Spec.Provenance["fitness"], first.Spec.Provenance["fitness"])
}
