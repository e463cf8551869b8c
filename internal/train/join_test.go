package train

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// The best of two trainings and their mean on other traces is chosen, the same for any number of workers, and
// all evaluations count.
func TestJoin(t *testing.T) {
	var all []*policy.Object
	cfg := smallConfig(1, 2)
	for seed := range uint64(2) {
		cfg.Seed = seed + 1
		o, err := Run(t.Context(), cfg)
		require.NoError(t, err)
		all = append(all, o)
	}
	other := smallTraces(4, 100)
	joined, err := Join(t.Context(), cfg, all[1], all[:1], other)
	require.NoError(t, err)
	cfg.Workers = 3
	again, err := Join(t.Context(), cfg, all[1], all[:1], other)
	require.NoError(t, err)
	require.Equal(t, joined, again)
	p := joined.Spec.Provenance
	require.Equal(t, 2*cfg.Evaluations, p["evaluations"])
	rows := p["joined"].(map[string]any)["policies"].([]any)
	require.Len(t, rows, 3)
	var fitness []float64
	chosen := -1
	for i, row := range rows {
		fitness = append(fitness, row.(map[string]any)["fitness"].(float64))
		if row.(map[string]any)["chosen"] == true {
			chosen = i
		}
	}
	require.Equal(t, slices.Index(fitness, slices.Min(fitness)), chosen)
	if chosen < 2 {
		require.Equal(t, rows[chosen].(map[string]any)["digest"], joined.Digest())
	}
	require.Len(t, p["joined"].(map[string]any)["traces"], 4)

	twice, err := Join(t.Context(), cfg, all[0], []*policy.Object{joined}, other)
	require.NoError(t, err)
	require.Equal(t, 3*cfg.Evaluations, twice.Spec.Provenance["evaluations"])
	require.Equal(t, rows, twice.Spec.Provenance["joined"].(map[string]any)["policies"].([]any)[1].(map[string]any)["joined"])

	cfg.Features = []string{"util"}
	odd, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	_, err = Join(t.Context(), cfg, odd, all[:1], other)
	require.ErrorContains(t, err, `policy "test": features [`)
	cfg.Features, cfg.Knowledge = nil, binpack.K0
	require.ErrorContains(t, Joins(cfg, all), `policy "test": knowledge K1, the training has K0`)
	cfg.Knowledge = binpack.K1
	require.NoError(t, Joins(cfg, all))
	delete(all[1].Spec.Provenance, "replays")
	require.EqualError(t, Joins(cfg, all), `policy "test": spec.provenance.replays is missing`)
}

// Against rules a fitness of 1 is the cost of the best of them.
func TestAgainst(t *testing.T) {
	cfg := smallConfig(1, 2)
	cfg.Against, cfg.Untied, cfg.Risk = []string{"firstfit", "bestfit"}, true, 0
	cfg.Features, cfg.Orders = []string{"util"}, 0
	cfg.Knowledge, cfg.Evaluations = 0, 1
	o := &policy.Object{APIVersion: policy.APIVersion, Kind: policy.ObjectKind}
	o.Metadata.Name = "full"
	o.Spec = policy.Spec{FeatureVersion: policy.FeatureVersion, Model: "linear", Knowledge: "K0", Features: []string{"util"}, Weights: []float64{1}}
	cfg.Start = o
	full, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.InDelta(t, 1, full.Spec.Provenance["fitness"], .1)
	cfg.Start.Spec.Weights[0] = -1
	empty, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.NotEqual(t, full.Spec.Provenance["fitness"], empty.Spec.Provenance["fitness"])
	require.Equal(t, []string{"firstfit", "bestfit"}, full.Spec.Provenance["against"])
}
