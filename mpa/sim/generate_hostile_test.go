package sim

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each kind of hostility shows in its scenarios, and each seed gives the same one again.
func TestHostile(t *testing.T) {
	g, err := NewGenerator("train", "")
	require.NoError(t, err)
	shows := map[string]func(plain, s *Scenario) bool{
		"steps of ten": func(_, s *Scenario) bool {
			return slices.Max(s.Load.PerSec) > 9.99*slices.Min(s.Load.PerSec) && len(slices.Compact(slices.Sorted(slices.Values(s.Load.PerSec)))) == 2
		},
		"no traffic":      func(_, s *Scenario) bool { return slices.Min(s.Load.PerSec) == 0 && s.Load.Peak() > 0 },
		"noise":           func(_, s *Scenario) bool { return s.Load.PerSec[5] != s.Load.PerSec[6] },
		"missing metrics": func(_, s *Scenario) bool { return s.Site.Miss >= .2 && len(s.Site.Outages) > 1 },
		"stale metrics":   func(_, s *Scenario) bool { return s.Site.Lag >= 45 && s.Site.Miss < .01 },
		"retries": func(plain, s *Scenario) bool {
			return s.App.Retries == 4 && s.App.Timeout < plain.App.Timeout && s.App.Timeout > s.App.Target.SLO.Latency
		},
	}
	seen := map[string]int{}
	for seed := range uint64(60) {
		s, err := g.Hostile(seed)
		require.NoError(t, err)
		again, err := g.Hostile(seed)
		require.NoError(t, err)
		require.Equal(t, s, again)
		plain, err := g.Generate(seed)
		require.NoError(t, err)
		seen[s.Name]++
		assert.True(t, shows[s.Name](&plain, &s), "seed %d: %s", seed, s.Name)
		assert.LessOrEqual(t, s.Load.Peak(), 40.001)
	}
	assert.Len(t, seen, len(shows))
	_, err = g.Hostile(FirstTestSeed)
	require.ErrorContains(t, err, "is not of the train side")
}
