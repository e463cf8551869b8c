package rl

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/sigma-scheduler/sigma/internal/learn/nn"
)

// A ReinforceConfig is the configuration of a [Reinforce].
type ReinforceConfig struct {
	State    int     // numbers that describe a state
	Action   int     // dimensions of an action
	Hidden   []int   // neurons of each hidden layer
	Rate     float64 // of learning, by Adam
	Sigma    float64 // deviation of the actions tried, in each dimension
	Discount float64 // γ, a step
	Episode  int     // steps an update, 2 or more
	Seed     uint64
}

// Check returns an error that names the field.
func (c ReinforceConfig) Check() error {
	for _, f := range []struct {
		name              string
		value, least, top float64
	}{
		{"state", float64(c.State), 1, 1 << 14},
		{"action", float64(c.Action), 1, 1 << 12},
		{"episode", float64(c.Episode), 2, 1 << 16},
		{"rate", c.Rate, 0, 1},
		{"sigma", c.Sigma, 1e-3, 10},
		{"discount", c.Discount, 0, 1},
	} {
		if !(f.value >= f.least && f.value <= f.top) {
			return fmt.Errorf("%s: %v, want %v to %v", f.name, f.value, f.least, f.top)
		}
	}
	if len(c.Hidden) == 0 {
		return fmt.Errorf("hidden: no layer")
	}
	return nil
}

// A Reinforce is a policy that draws actions from a normal distribution around its network's
// output, and moves the network towards those that returned more than the others of their
// episode:
//
//	μ(s) ← μ(s) + rate · (G − mean G) ÷ deviation of G · (a − μ(s)) ÷ σ²
//
// where G is the sum of discounted rewards from the action to the end of the episode. One
// goroutine may use it.
type Reinforce struct {
	config  ReinforceConfig
	net     *nn.MLP[float32]
	adam    *nn.Adam[float32]
	rng     *rand.Rand
	pass    *nn.MLPPass[float32]
	grad    []float32
	states  nn.Matrix[float32]
	actions nn.Matrix[float32] // the drawn actions
	loss    nn.Matrix[float32] // gradient by the outputs
	returns []float64
	steps   int // of this episode with a reward
	tried   bool

	one      *nn.MLPPass[float32]
	oneState nn.Matrix[float32]
}

// NewReinforce makes an untrained policy. An error names the field of the configuration.
func NewReinforce(c ReinforceConfig) (*Reinforce, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("rl: %w", err)
	}
	rng := rand.New(rand.NewPCG(c.Seed, 0))
	sizes := append(append([]int{c.State}, c.Hidden...), c.Action)
	net, err := nn.NewMLP[float32](rng, nn.Shape{Sizes: sizes, Hidden: nn.ReLU, Output: nn.Tanh}, firstBound)
	if err != nil {
		return nil, fmt.Errorf("rl: hidden: %w", err)
	}
	return &Reinforce{
		config: c, net: net, adam: nn.NewAdam[float32](c.Rate, len(net.Params())), rng: rng,
		pass: net.Pass(c.Episode), grad: make([]float32, len(net.Params())),
		states: nn.NewMatrix[float32](c.Episode, c.State), actions: nn.NewMatrix[float32](c.Episode, c.Action),
		loss: nn.NewMatrix[float32](c.Episode, c.Action), returns: make([]float64, c.Episode),
		one: net.Pass(1), oneState: nn.NewMatrix[float32](1, c.State),
	}, nil
}

// Act writes to action the policy's choice, from −1 to 1.
func (r *Reinforce) Act(state, action []float32) {
	if len(state) != r.config.State || len(action) != r.config.Action {
		panic(fmt.Sprintf("rl: state of %d and action of %d, want %d and %d", len(state), len(action), r.config.State, r.config.Action))
	}
	copy(r.oneState.Data, state)
	copy(action, r.one.Forward(r.oneState).Data)
}

// Explore writes to action one to try, from −1 to 1. A [Reinforce.Reward] follows it.
func (r *Reinforce) Explore(state, action []float32) {
	r.Act(state, action)
	copy(r.states.Row(r.steps), state)
	drawn := r.actions.Row(r.steps)
	for i, mean := range action {
		drawn[i] = mean + float32(r.config.Sigma*r.rng.NormFloat64())
		action[i] = clip(drawn[i], 1)
	}
	r.tried = true
}

// Reward adds the reward of the last explored action; with the last one of an episode the policy
// learns. A reward that is not finite, and one with no action before it, are refused.
func (r *Reinforce) Reward(reward float64) error {
	switch {
	case !r.tried:
		return fmt.Errorf("rl: reward: no action was tried")
	case math.IsNaN(reward) || math.IsInf(reward, 0):
		return fmt.Errorf("rl: reward: %v", reward)
	}
	r.returns[r.steps], r.tried = reward, false
	if r.steps++; r.steps == r.config.Episode {
		r.steps = 0
		r.learn()
	}
	return nil
}

func (r *Reinforce) learn() {
	n := float64(len(r.returns))
	mean, square := 0., 0.
	for i := len(r.returns) - 1; i >= 0; i-- {
		if i+1 < len(r.returns) {
			r.returns[i] += r.config.Discount * r.returns[i+1]
		}
		mean += r.returns[i] / n
	}
	for _, g := range r.returns {
		square += (g - mean) * (g - mean) / n
	}
	if square == 0 {
		return // all actions were equally good
	}
	means := r.pass.Forward(r.states)
	scale := 1 / (math.Sqrt(square) * r.config.Sigma * r.config.Sigma * n)
	for i, g := range r.returns {
		to, middle, drawn := r.loss.Row(i), means.Row(i), r.actions.Row(i)
		for k := range to {
			to[k] = -float32((g-mean)*scale) * (drawn[k] - middle[k])
		}
	}
	clear(r.grad)
	r.pass.Backward(r.loss, r.grad, false)
	r.adam.Step(r.net.Params(), r.grad)
}
