package rl

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func reinforce(t *testing.T, change func(*ReinforceConfig)) (*Reinforce, error) {
	t.Helper()
	c := ReinforceConfig{State: 1, Action: 2, Hidden: []int{16}, Rate: 3e-3, Sigma: .3, Discount: .5, Episode: 32, Seed: 1}
	if change != nil {
		change(&c)
	}
	return NewReinforce(c)
}

// The reward is best where the first number is half the state and the second one minus half of it. Nothing
// learned, the error is .083 in the mean.
func TestReinforceLearns(t *testing.T) {
	r, err := reinforce(t, func(c *ReinforceConfig) { c.Discount = 0 })
	require.NoError(t, err)
	state, action := make([]float32, 1), make([]float32, 2)
	wrong := func() float64 {
		a, b := float64(action[0]-state[0]/2), float64(action[1]+state[0]/2)
		return a*a + b*b
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		state[0] = float32(2*rng.Float64() - 1)
		r.Explore(state, action)
		require.NoError(t, r.Reward(-wrong()))
	}
	sum := 0.
	for i := range 41 {
		state[0] = float32(i-20) / 20
		r.Act(state, action)
		sum += wrong() / 41
	}
	require.Less(t, sum, .02)
}

// An action that pays later is learned where rewards to come count, and is not where they do not.
func TestReinforceLooksAhead(t *testing.T) {
	for discount, want := range map[float64]float64{0: -.5, .9: .5} {
		r, err := reinforce(t, func(c *ReinforceConfig) { c.Discount, c.Rate, c.Sigma = discount, 1e-2, .5 })
		require.NoError(t, err)
		state, action := make([]float32, 1), make([]float32, 2)
		last := 0.
		for range 20_000 {
			r.Explore(state, action)
			now := float64(action[0])
			require.NoError(t, r.Reward(3*last-now)) // costs now, three times as much comes back
			last = now
		}
		r.Act(state, action)
		require.Positive(t, float64(action[0])*want, "discount %v: %v", discount, action[0])
		require.Greater(t, math.Abs(float64(action[0])), .5)
	}
}

func TestReinforceRefuses(t *testing.T) {
	for want, change := range map[string]func(*ReinforceConfig){
		"rl: state: 0, want 1 to 16384":    func(c *ReinforceConfig) { c.State = 0 },
		"rl: episode: 1, want 2 to 65536":  func(c *ReinforceConfig) { c.Episode = 1 },
		"rl: sigma: NaN, want 0.001 to 10": func(c *ReinforceConfig) { c.Sigma = math.NaN() },
		"rl: hidden: no layer":             func(c *ReinforceConfig) { c.Hidden = nil },
	} {
		_, err := reinforce(t, change)
		require.EqualError(t, err, want)
	}
	r, err := reinforce(t, nil)
	require.NoError(t, err)
	require.ErrorContains(t, r.Reward(1), "no action was tried")
	r.Explore([]float32{1}, make([]float32, 2))
	require.ErrorContains(t, r.Reward(math.Inf(1)), "+Inf")
	require.NoError(t, r.Reward(1))
}
