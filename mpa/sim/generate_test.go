package sim

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
)

// No profile, family or trace is on both sides, and neither side takes the other's seeds.
func TestGeneratedSidesAreApart(t *testing.T) {
	folder := os.Getenv("SIGMA_DATA")
	if folder != "" {
		folder += "/workloads"
	}
	seen := map[string]map[string]bool{}
	for _, side := range Sides() {
		g, err := NewGenerator(side, folder)
		require.NoError(t, err)
		own := map[string]bool{}
		first := uint64(0)
		if side == "test" {
			first = FirstTestSeed
		}
		for seed := first; seed < first+300; seed++ {
			s, err := g.Generate(seed)
			require.NoError(t, err)
			own["load "+s.Name] = true
			for _, p := range s.App.Segments {
				own["profile "+p.Name] = true
			}
		}
		_, err = g.Generate(FirstTestSeed - 1 + (FirstTestSeed-first)/FirstTestSeed)
		require.ErrorContains(t, err, "is not of the "+side+" side")
		seen[side] = own
	}
	for name := range seen["train"] {
		assert.NotContains(t, seen["test"], name, "on both sides")
	}
	assert.Len(t, seen["train"], 8+len(generatedFamilies["train"])+map[bool]int{true: 2}[folder != ""])
	assert.Len(t, seen["test"], 8+len(generatedFamilies["test"])+map[bool]int{true: 3}[folder != ""])
}

func TestGenerate(t *testing.T) {
	g, err := NewGenerator("train", "")
	require.NoError(t, err)
	for seed := range uint64(200) {
		s, err := g.Generate(seed)
		require.NoError(t, err)
		again, err := g.Generate(seed)
		require.NoError(t, err)
		require.Equal(t, s, again, "same seed, another scenario")
		work := s.Load.Peak() * s.App.CPUPerRequest()
		assert.True(t, work > .499 && work < 4.001, "%v cores at the peak", work)
		assert.True(t, s.Load.Peak() >= 15 && s.Load.Peak() <= 40)
		assert.True(t, fits(&s.App, DefaultSite().Nodes))
		require.NoError(t, s.App.Target.Validate())
	}
	_, err = NewGenerator("tset", "")
	require.EqualError(t, err, `unknown side "tset": there are train, test`)
	_, err = NewGenerator("train", "nowhere")
	require.ErrorContains(t, err, "azure-llm-code")
}

// A pod that is larger than every node, or than its bounds, is refused.
func TestFits(t *testing.T) {
	app := webApp()
	assert.True(t, fits(&app, DefaultSite().Nodes))
	app.Replicas = 200
	assert.False(t, fits(&app, DefaultSite().Nodes), "more pods than nodes have room for")
	app.Replicas, app.Target.Containers[0].Max = 1, mpa.Resources{}
	app.Request.Memory = 65 << 30
	assert.False(t, fits(&app, DefaultSite().Nodes), "larger than a node")
}

// With an update each new pod has another cost of a request, and all pods are replaced
// without a gap.
func TestUpdates(t *testing.T) {
	cfg := Config{App: webApp(), Load: daily(60, 60.001), Seconds: 3600, Seed: 1, Guards: mpa.DefaultGuards(), Site: DefaultSite()}
	plain, err := RunAgent(t.Context(), cfg, "static")
	require.NoError(t, err)
	cfg.Updates = []Update{{At: 0, CPU: 1.5, Memory: 2}}
	updated, err := RunAgent(t.Context(), cfg, "static")
	require.NoError(t, err)
	assert.InEpsilon(t, 1.5*plain.CPUUtilisation, updated.CPUUtilisation, .04)
	assert.Greater(t, updated.MemUtilisation, plain.MemUtilisation)
	assert.Less(t, updated.Violations, updated.Requests/50)
	cfg.Updates[0] = Update{CPU: 1, Memory: 1, Wait: 3}
	slower, err := RunAgent(t.Context(), cfg, "static")
	require.NoError(t, err)
	assert.Greater(t, slower.P50, 1.3*plain.P50)
	assert.InEpsilon(t, plain.CPUUtilisation, slower.CPUUtilisation, .04)
	cfg.Updates[0] = Update{At: 60, CPU: 1.5, Memory: 2}
	var names []string
	cfg.Decided = func(o *mpa.Observation, _ mpa.Decision) {
		for _, p := range o.Pods {
			names = append(names, p.Name)
		}
		if n := len(o.Live()); n < 4 || n > 5 {
			t.Errorf("%d pods at %v, want 4 and one more while they are replaced", n, o.Time.Format(time.TimeOnly))
		}
	}
	_, err = RunAgent(t.Context(), cfg, "static")
	require.NoError(t, err)
	slices.Sort(names)
	assert.Len(t, slices.Compact(names), 8)
	cfg.Updates[0].CPU = -1
	_, err = RunAgent(t.Context(), cfg, "static")
	require.EqualError(t, err, "updates[0]: at 60, cpu -1, memory 2, wait 0: want a time from 0 and factors above 0")
}

func BenchmarkGenerated(b *testing.B) {
	g, err := NewGenerator("train", "")
	require.NoError(b, err)
	seed := uint64(0)
	for b.Loop() {
		s, err := g.Generate(seed)
		require.NoError(b, err)
		_, err = RunAgent(b.Context(), s.Config(seed), "hpa+vpa")
		require.NoError(b, err)
		seed++
	}
}
