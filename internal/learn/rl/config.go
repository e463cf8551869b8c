package rl

import (
	"fmt"
	"math"
)

// A Config is the configuration of a [DDPG].
type Config struct {
	State      int     `json:"state"`      // numbers that describe a state
	Action     int     `json:"action"`     // dimensions of an action
	Hidden     []int   `json:"hidden"`     // neurons of each hidden layer, of actor and critics
	ActorRate  float64 `json:"actorRate"`  // of learning, by Adam
	CriticRate float64 `json:"criticRate"` // of learning, by Adam
	Discount   float64 `json:"discount"`   // γ, a step
	Tau        float64 `json:"tau"`        // share by which targets follow, an update
	Batch      int     `json:"batch"`      // transitions an update
	Capacity   int     `json:"capacity"`   // transitions that the replay buffer keeps
	Warmup     int     `json:"warmup"`     // transitions before the first update; actions are random until then
	Noise      Noise   `json:"noise"`
	Seed       uint64  `json:"seed"`

	// Steps is n of n-step returns. They are not corrected for actions that the present
	// actor would not take.
	Steps int `json:"steps"`
	// Twin makes it TD3: two critics of which the lower value counts, noise on the
	// target's action, and an actor and targets that move every second update.
	Twin bool `json:"twin"`
	// Imitation w adds w·|actor(s) − a|² to the loss of the actor, for transitions that are
	// demonstrated. It weighs against the value −Q(s, actor(s)).
	Imitation float64 `json:"imitation"`
}

// A Noise is an Ornstein–Uhlenbeck process, added to each dimension of an action:
//
//	x ← x − θ·x·Δt + σ·√Δt·ξ, with ξ normal; 0 when an episode begins.
//
// Its deviation approaches σ ÷ √(2θ), within 1 ÷ (θ·Δt) steps.
type Noise struct {
	Theta float64 `json:"theta"`
	Sigma float64 `json:"sigma"`
	Dt    float64 `json:"dt"`
}

// AWARE returns the numbers of DDPG in AWARE's and FIRM's code. That code also
// normalises batches between layers and lets the noise fade by 10⁻⁶ a step; both are
// left out. With its Δt of .01 the noise moves by .02 a step.
func AWARE(state, action int, seed uint64) Config {
	return Config{
		State: state, Action: action, Hidden: []int{40, 40}, ActorRate: 3e-4, CriticRate: 3e-3, Discount: .9, Tau: 1e-3,
		Batch: 64, Capacity: 100_000, Warmup: 70, Noise: Noise{Theta: .15, Sigma: .2, Dt: .01}, Seed: seed, Steps: 1,
	}
}

// The largest replay buffer of a file, in numbers: 1 GiB.
const mostNumbers = 1 << 28

// Check returns an error that names the field.
func (c Config) Check() error {
	for _, f := range []struct {
		name  string
		value int
		most  int
	}{
		{"state", c.State, 1 << 14},
		{"action", c.Action, 1 << 12},
		{"batch", c.Batch, 1 << 16},
		{"capacity", c.Capacity, mostNumbers},
		{"warmup", c.Warmup, c.Capacity},
		{"steps", c.Steps, 1000},
	} {
		if f.value < 1 || f.value > f.most {
			return fmt.Errorf("%s: %d, want 1 to %d", f.name, f.value, f.most)
		}
	}
	if n := c.Capacity * (3*c.State + c.Action); n > mostNumbers {
		return fmt.Errorf("capacity: %d transitions are %d numbers, want at most %d", c.Capacity, n, mostNumbers)
	}
	if len(c.Hidden) == 0 {
		return fmt.Errorf("hidden: no layer")
	}
	for _, f := range []struct {
		name        string
		value       float64
		least, most float64
	}{
		{"actorRate", c.ActorRate, 0, 1},
		{"criticRate", c.CriticRate, 0, 1},
		{"discount", c.Discount, 0, 1},
		{"tau", c.Tau, 0, 1},
		{"noise.theta", c.Noise.Theta, 0, 1 / c.Noise.Dt},
		{"noise.sigma", c.Noise.Sigma, 0, 100},
		{"noise.dt", c.Noise.Dt, 1e-9, 1},
		{"imitation", c.Imitation, 0, 1e6},
	} {
		if math.IsNaN(f.value) || f.value < f.least || f.value > f.most {
			return fmt.Errorf("%s: %v, want %v to %v", f.name, f.value, f.least, f.most)
		}
	}
	return nil
}
