package rl

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/sigma-scheduler/sigma/internal/learn/nn"
)

// An End is whether an episode ends with a transition, and the reason.
type End uint8

// How a transition ends.
const (
	Continues End = iota // the episode continues
	Terminal             // nothing follows: the value of the next state is 0
	TimeLimit            // the episode was cut: the next state has its value
)

// A Transition is one step: state, action and result.
type Transition struct {
	State, Action []float32
	Reward        float32
	Next          []float32 // the state after it
	End           End
	Demonstrated  bool // the action is to be imitated
}

// A batch of transitions, one in each row; discount is the factor of the value of the next
// state.
type batch struct {
	state, both, next nn.Matrix[float32] // both is state and action, side by side
	reward, discount  []float32
	demonstrated      []bool
}

func newBatch(size, state, action int) batch {
	return batch{
		state: nn.NewMatrix[float32](size, state), both: nn.NewMatrix[float32](size, state+action), next: nn.NewMatrix[float32](size, state),
		reward: make([]float32, size), discount: make([]float32, size), demonstrated: make([]bool, size),
	}
}

// copyRow makes row i the row j of another batch.
func (b *batch) copyRow(i int, from *batch, j int) {
	copy(b.state.Row(i), from.state.Row(j))
	copy(b.both.Row(i), from.both.Row(j))
	copy(b.next.Row(i), from.next.Row(j))
	b.reward[i], b.discount[i], b.demonstrated[i] = from.reward[j], from.discount[j], from.demonstrated[j]
}

// A buffer keeps the last transitions in a ring. Rewards are summed over steps ahead:
//
//	r₀ + γ·r₁ + … + γⁿ⁻¹·rₙ₋₁, then the state after that with discount γⁿ,
//
// with a smaller n at the end of an episode, where the discount is 0 after a terminal
// state.
type buffer struct {
	rows         batch
	size, oldest int   // of the ring
	window       batch // transitions that wait for later ones, in order
	waiting      int
	gamma        float32
}

func newBuffer(c Config) *buffer {
	return &buffer{
		rows: newBatch(c.Capacity, c.State, c.Action), window: newBatch(c.Steps, c.State, c.Action), gamma: float32(c.Discount),
	}
}

// check returns an error for an invalid transition.
func (b *buffer) check(t Transition) error {
	state := b.rows.state.Cols
	for _, part := range []struct {
		name   string
		values []float32
		want   int
	}{{"state", t.State, state}, {"action", t.Action, b.rows.both.Cols - state}, {"next state", t.Next, state}} {
		if len(part.values) != part.want {
			return fmt.Errorf("rl: %s has %d numbers, want %d", part.name, len(part.values), part.want)
		}
		for i, v := range part.values {
			if !finite(v) {
				return fmt.Errorf("rl: %s[%d] is %v", part.name, i, v)
			}
		}
	}
	if !finite(t.Reward) {
		return fmt.Errorf("rl: reward is %v", t.Reward)
	}
	if t.End > TimeLimit {
		return fmt.Errorf("rl: a transition does not end in way %d", t.End)
	}
	return nil
}

func finite(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

// add takes a transition that passed check. Those that its reward completes can be
// sampled from now on.
func (b *buffer) add(t Transition) {
	w := &b.window
	copy(w.both.Row(b.waiting)[copy(w.both.Row(b.waiting), t.State):], t.Action)
	copy(w.state.Row(b.waiting), t.State)
	w.reward[b.waiting], w.discount[b.waiting], w.demonstrated[b.waiting] = 0, 1, t.Demonstrated
	b.waiting++
	for i := range b.waiting {
		w.reward[i] += w.discount[i] * t.Reward
		w.discount[i] *= b.gamma
		copy(w.next.Row(i), t.Next)
	}
	done := 0
	switch {
	case t.End != Continues:
		done = b.waiting
	case b.waiting == len(w.reward):
		done = 1
	}
	for i := range done {
		if t.End == Terminal {
			w.discount[i] = 0
		}
		b.keep(i)
	}
	b.waiting -= done
	for i := range b.waiting {
		w.copyRow(i, w, i+done)
	}
}

// keep puts a row of the window into the ring.
func (b *buffer) keep(row int) {
	at := b.size
	if b.size == len(b.rows.reward) {
		at = b.oldest
		b.oldest = (b.oldest + 1) % b.size
	} else {
		b.size++
	}
	b.rows.copyRow(at, &b.window, row)
}

// sample fills out with transitions drawn uniformly, with replacement.
func (b *buffer) sample(rng *rand.Rand, out *batch) {
	for i := range out.reward {
		out.copyRow(i, &b.rows, rng.IntN(b.size))
	}
}
