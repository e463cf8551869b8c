package scaling

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/swarm"
)

// A search spends the safety that its scenarios do not need. So families and a profile that
// it never saw choose among what it found: not the last and cheapest, which keeps fewer
// promises there.
func TestValidationChooses(t *testing.T) {
	training := small()
	training.Scenarios = 12
	search, validation, err := training.splits(t.Context())
	require.NoError(t, err)
	for i := range search.scenarios {
		s := &search.scenarios[i]
		assert.NotContains(t, heldFamilies, s.Name)
		for _, g := range s.App.Segments {
			assert.NotEqual(t, heldProfile, g.Name)
		}
	}
	safe := positionOf(learned.General().Values)
	values := learned.General().Values
	for i, n := range learned.Numbers {
		if slices.Contains([]string{"firstShare", "hourShare", "noiseDeviations"}, n.Name) {
			values[i] = n.Min
		}
	}
	bare := positionOf(values)
	found := swarm.Result{Evaluations: 2, Value: .1}
	out, err := training.choose(t.Context(), validation, [][]float64{safe, bare}, found, len(search.scenarios), nil)
	require.NoError(t, err)
	assert.Equal(t, valuesOf(safe), out.Policy.Values)
	_, worse, err := validation.judge(t.Context(), valuesOf(bare), 2)
	require.NoError(t, err)
	assert.Less(t, worse.Ratio, out.Found.Ratio, "or the test shows nothing")
	assert.Less(t, worse.Kept, out.Found.Kept, "or the test shows nothing")
}

// Few simulated requests make percentiles noise: agents meet the same requests, and a mean
// has an interval.
func TestAgentsMeetTheSameRequests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "same.yaml")
	require.NoError(t, os.WriteFile(path, learned.GeneralFile(), 0o600))
	list, err := Agents([]string{"hpa+vpa", "learned", path}, "")
	require.NoError(t, err)
	g := Generated{Side: "train", Seed: 40, Count: 3, Agents: list, Workers: 2}
	c, err := g.Compare(t.Context())
	require.NoError(t, err)
	assert.Equal(t, c.Agents[1].Runs, c.Agents[2].Runs)
	assert.NotEqual(t, c.Agents[1].Runs[0].Result, c.Agents[1].Runs[1].Result)
	assert.Positive(t, c.Agents[1].Half)
	assert.Zero(t, c.Agents[0].Half)
}
