package learned_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// A noisyLife has noise of 5 % on cpu and latency.
type noisyLife struct {
	*life
	rng     *rand.Rand
	found   []string
	minutes []float64 // since begin
}

func (l *noisyLife) live(d time.Duration, cost, latency float64) {
	for end := l.now.Add(d); l.now.Before(end); {
		l.cost = cost * (1 + .05*l.rng.NormFloat64())
		r := l.agent.Recommend(l.observe(100, latency*(1+.05*l.rng.NormFloat64())))
		if r.Drift != "" {
			l.found = append(l.found, r.Drift)
			l.minutes = append(l.minutes, l.now.Sub(mpatest.Begin).Minutes())
		}
	}
}

func newNoisyLife() *noisyLife {
	return &noisyLife{life: newLife(), rng: rand.New(rand.NewPCG(5, 5))}
}

// memory is what the agent remembers.
func memory(t *testing.T, a *learned.Agent) map[string]any {
	t.Helper()
	data, err := a.MarshalJSON()
	require.NoError(t, err)
	var all map[string]any
	require.NoError(t, json.Unmarshal(data, &all))
	return all
}

// A change is found within minutes, once, in its direction, and the cpu of a request is
// learned from what follows.
func TestDrift(t *testing.T) {
	for factor, direction := range map[float64]string{1.2: "higher", 1.4: "higher", .7: "lower"} {
		l := newNoisyLife()
		l.live(4*time.Hour, .01, .1)
		require.Empty(t, l.found)
		usual := memory(t, l.agent)["usual"].(map[string]any)["96"].(float64) // 8:00
		l.live(4*time.Hour, .01*factor, .1)
		require.Len(t, l.found, 1)
		assert.True(t, strings.HasPrefix(l.found[0], "cpu per request is "+direction), l.found[0])
		assert.LessOrEqual(t, l.minutes[0], 240.+15)
		all := memory(t, l.agent)
		assert.InEpsilon(t, .01*factor, all["cost"], .03)
		assert.InEpsilon(t, usual*factor, all["usual"].(map[string]any)["96"], .06)
	}
	l := newNoisyLife()
	l.live(4*time.Hour, .01, .1)
	l.live(time.Hour, .01, .25)
	require.Len(t, l.found, 1)
	assert.True(t, strings.HasPrefix(l.found[0], "latency is higher"), l.found[0])
}

// An agent that is restarted at any time finds the change in the same minute.
func TestDriftSurvivesARestart(t *testing.T) {
	one, other := newNoisyLife(), newNoisyLife()
	for minute := range 360 {
		cost := .01
		if minute >= 240 {
			cost = .012
		}
		one.live(time.Minute, cost, .1)
		state, err := other.agent.MarshalJSON()
		require.NoError(t, err)
		other.agent = newLife().agent
		require.NoError(t, other.agent.UnmarshalJSON(state))
		other.live(time.Minute, cost, .1)
	}
	require.Len(t, one.found, 1)
	assert.Equal(t, one.found, other.found)
	assert.Equal(t, one.minutes, other.minutes)
}

// Retries and backlogs are no new version: nothing is learned in overload, and nothing found.
func TestOverloadIsNoDrift(t *testing.T) {
	l := newNoisyLife()
	l.live(4*time.Hour, .01, .1)
	l.served = .8
	l.live(2*time.Hour, .02, .5)
	assert.Empty(t, l.found)
}
