package rl

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/sigma-scheduler/sigma/internal/learn/nn"
)

// Numbers of TD3 (Fujimoto et al. 2018, section 6.1).
const (
	smoothing     = .2 // deviation of the noise on the target's action
	mostSmoothing = .5 // and its bound
	actorEvery    = 2  // updates
)

// firstBound is the bound of the initial parameters of the last layers (Lillicrap et al.
// 2016).
const firstBound = .003

// A learner is a network with its target and its optimiser.
type learner struct {
	net, target   *nn.MLP[float32]
	pass, behind  *nn.MLPPass[float32] // of the network and of its target
	adam          *nn.Adam[float32]
	grad          []float32
	loss, outputs nn.Matrix[float32] // the gradient by the outputs; their targets
}

func newLearner(rng *rand.Rand, shape nn.Shape, rate float64, batch int) (*learner, error) {
	net, err := nn.NewMLP[float32](rng, shape, firstBound)
	if err != nil {
		return nil, err
	}
	l := &learner{net: net, target: net.Clone(), adam: nn.NewAdam[float32](rate, len(net.Params())), grad: make([]float32, len(net.Params()))}
	l.pass, l.behind = l.net.Pass(batch), l.target.Pass(batch)
	n := shape.Sizes[len(shape.Sizes)-1]
	l.loss, l.outputs = nn.NewMatrix[float32](batch, n), nn.NewMatrix[float32](batch, n)
	return l, nil
}

// step descends the gradient l.loss.
func (l *learner) step() {
	clear(l.grad)
	l.pass.Backward(l.loss, l.grad, false)
	l.adam.Step(l.net.Params(), l.grad)
}

func (l *learner) follow(tau float64) {
	nn.SoftUpdate(l.target.Params(), l.net.Params(), float32(tau))
}

// A DDPG is an actor μ(s), which chooses the action, and a critic Q(s, a), which estimates
// its value: the sum of discounted future rewards. One goroutine may use it.
type DDPG struct {
	config  Config
	actor   *learner
	critics []*learner
	buffer  *buffer
	source  *rand.PCG
	rng     *rand.Rand
	noise   []float64
	seen    int // transitions
	updates int

	batch     batch
	nextBoth  nn.Matrix[float32] // next states, and the target's actions there
	actedBoth nn.Matrix[float32] // states, and the actor's actions there
	one       *nn.MLPPass[float32]
	oneState  nn.Matrix[float32]
}

// New makes an untrained agent. An error names the field of the configuration.
func New(c Config) (*DDPG, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("rl: %w", err)
	}
	source := rand.NewPCG(c.Seed, 0)
	d := &DDPG{config: c, buffer: newBuffer(c), source: source, rng: rand.New(source), noise: make([]float64, c.Action)}
	shape := func(in, out int, output nn.Activation) nn.Shape {
		sizes := append([]int{in}, c.Hidden...)
		return nn.Shape{Sizes: append(sizes, out), Hidden: nn.ReLU, Output: output}
	}
	var err error
	if d.actor, err = newLearner(d.rng, shape(c.State, c.Action, nn.Tanh), c.ActorRate, c.Batch); err != nil {
		return nil, fmt.Errorf("rl: hidden: %w", err)
	}
	critics := 1
	if c.Twin {
		critics = 2
	}
	for range critics {
		l, err := newLearner(d.rng, shape(c.State+c.Action, 1, nn.Linear), c.CriticRate, c.Batch)
		if err != nil {
			return nil, fmt.Errorf("rl: hidden: %w", err)
		}
		d.critics = append(d.critics, l)
	}
	d.batch = newBatch(c.Batch, c.State, c.Action)
	d.nextBoth, d.actedBoth = nn.NewMatrix[float32](c.Batch, c.State+c.Action), nn.NewMatrix[float32](c.Batch, c.State+c.Action)
	d.one, d.oneState = d.actor.net.Pass(1), nn.NewMatrix[float32](1, c.State)
	return d, nil
}

// Actor returns the network that acts: from a state to an action. The next update
// changes it.
func (d *DDPG) Actor() *nn.MLP[float32] { return d.actor.net }

// Act writes to action the actor's choice, from −1 to 1.
func (d *DDPG) Act(state, action []float32) {
	if len(state) != d.config.State || len(action) != d.config.Action {
		panic(fmt.Sprintf("rl: state of %d and action of %d, want %d and %d", len(state), len(action), d.config.State, d.config.Action))
	}
	copy(d.oneState.Data, state)
	copy(action, d.one.Forward(d.oneState).Data)
}

// Explore writes to action one to try, from −1 to 1: uniformly random while it warms up, then
// the actor's action with noise.
func (d *DDPG) Explore(state, action []float32) {
	d.Act(state, action)
	if d.seen < d.config.Warmup {
		for i := range action {
			action[i] = float32(2*d.rng.Float64() - 1)
		}
		return
	}
	n := d.config.Noise
	for i, x := range d.noise {
		x += -n.Theta*x*n.Dt + n.Sigma*math.Sqrt(n.Dt)*d.rng.NormFloat64()
		d.noise[i] = x
		action[i] = clip(action[i]+float32(x), 1)
	}
}

func clip(v, bound float32) float32 { return max(-bound, min(bound, v)) }

// Observe adds the result of an action, of the agent or of another one. A transition of other
// sizes, or with a number that is not finite, is refused and changes nothing.
func (d *DDPG) Observe(t Transition) error {
	if err := d.buffer.check(t); err != nil {
		return err
	}
	d.buffer.add(t)
	d.seen++
	if t.End != Continues {
		clear(d.noise)
	}
	return nil
}

// Losses are figures of one update.
type Losses struct {
	Critic float32 // mean of (Q − target)², of the first critic
	Value  float32 // mean of Q(s, μ(s)); 0 where the actor was not moved
}

// Update learns from one batch. It does nothing while the agent warms up. It returns an error
// if the numbers have diverged; the agent is then useless.
func (d *DDPG) Update() (Losses, error) {
	if d.seen < d.config.Warmup || d.buffer.size == 0 {
		return Losses{}, nil
	}
	d.updates++
	d.buffer.sample(d.rng, &d.batch)
	l := Losses{Critic: d.moveCritics()}
	if !d.config.Twin || d.updates%actorEvery == 0 {
		l.Value = d.moveActor()
		d.actor.follow(d.config.Tau)
		for _, c := range d.critics {
			c.follow(d.config.Tau)
		}
	}
	if !finite(l.Critic) || !finite(l.Value) {
		return l, fmt.Errorf("rl: update %d: the training has diverged: the critic's loss is %v, the value %v", d.updates, l.Critic, l.Value)
	}
	return l, nil
}

// moveCritics moves the critics towards y = r + γ·Q'(s', μ'(s')), where Q' is the lower of
// two targets in TD3.
func (d *DDPG) moveCritics() (loss float32) {
	actions := d.actor.behind.Forward(d.batch.next)
	if d.config.Twin {
		for i, a := range actions.Data {
			noise := clip(float32(smoothing*d.rng.NormFloat64()), mostSmoothing)
			actions.Data[i] = clip(a+noise, 1)
		}
	}
	join(d.batch.next, actions, d.nextBoth)
	want := d.critics[0].outputs.Data
	for k, c := range d.critics {
		for i, q := range c.behind.Forward(d.nextBoth).Data {
			if k == 0 || q < want[i] {
				want[i] = q
			}
		}
	}
	for i, r := range d.batch.reward {
		want[i] = r + d.batch.discount[i]*want[i]
	}
	for k, c := range d.critics {
		of := nn.MSE(c.pass.Forward(d.batch.both), d.critics[0].outputs, c.loss)
		if k == 0 {
			loss = of
		}
		c.step()
	}
	return loss
}

// moveActor ascends Q(s, μ(s)), and moves towards demonstrated actions.
func (d *DDPG) moveActor() (value float32) {
	actions := d.actor.pass.Forward(d.batch.state)
	join(d.batch.state, actions, d.actedBoth)
	critic := d.critics[0]
	n := float32(d.config.Batch)
	for _, q := range critic.pass.Forward(d.actedBoth).Data {
		value += q / n
	}
	for i := range critic.loss.Data {
		critic.loss.Data[i] = -1 / n
	}
	down := critic.pass.Backward(critic.loss, nil, true)
	state := d.config.State
	for i := range d.config.Batch {
		to := d.actor.loss.Row(i)
		copy(to, down.Row(i)[state:])
		if d.batch.demonstrated[i] {
			for j, a := range d.batch.both.Row(i)[state:] {
				to[j] += 2 * float32(d.config.Imitation) / n * (actions.Row(i)[j] - a)
			}
		}
	}
	d.actor.step()
	return value
}

// join writes states and actions side by side.
func join(states, actions, both nn.Matrix[float32]) {
	for i := range both.Rows {
		row := both.Row(i)
		copy(row[copy(row, states.Row(i)):], actions.Row(i))
	}
}
