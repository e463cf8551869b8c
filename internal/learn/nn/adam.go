package nn

import (
	"fmt"
	"math"
)

// Moment decay rates and ε of Adam, as Kingma and Ba advise.
const beta1, beta2, epsilon = .9, .999, 1e-8

// Below this a moment is 0. Moments of a weight without gradient would otherwise end as
// subnormal numbers, with which a processor is many times slower.
const tiny = 1e-30

// Adam is the optimiser of Kingma and Ba, 2015 (algorithm 1).
type Adam[T Float] struct {
	Rate           float64 // of learning; may change between steps
	steps          int
	mean, variance []T
}

// NewAdam makes an optimiser of params parameters.
func NewAdam[T Float](rate float64, params int) *Adam[T] {
	return &Adam[T]{Rate: rate, mean: make([]T, params), variance: make([]T, params)}
}

// Step moves the parameters against the gradient.
func (a *Adam[T]) Step(params, grad []T) {
	if len(params) != len(a.mean) || len(grad) != len(a.mean) {
		panic(fmt.Sprintf("nn: Adam of %d parameters got %d and a gradient of %d", len(a.mean), len(params), len(grad)))
	}
	a.steps++
	t := float64(a.steps)
	step, widen := T(a.Rate/(1-math.Pow(beta1, t))), T(1/math.Sqrt(1-math.Pow(beta2, t))) // with the bias corrections
	mean, variance := a.mean[:len(params)], a.variance[:len(params)]
	for i, g := range grad {
		m := beta1*mean[i] + (1-beta1)*g
		v := beta2*variance[i] + (1-beta2)*g*g
		if m < tiny && m > -tiny {
			m = 0
		}
		if v < tiny {
			v = 0
		}
		mean[i], variance[i] = m, v
		params[i] -= step * m / (widen*T(math.Sqrt(float64(v))) + epsilon)
	}
}

// AdamState is the state of an optimiser, for a file.
type AdamState struct {
	Steps    int    `json:"steps"`
	Mean     string `json:"mean"`     // by EncodeFloats
	Variance string `json:"variance"` // by EncodeFloats
}

// State returns the optimiser's state.
func (a *Adam[T]) State() AdamState {
	return AdamState{Steps: a.steps, Mean: EncodeFloats(a.mean), Variance: EncodeFloats(a.variance)}
}

// Restore takes a state of an optimiser of as many parameters. An error names the field
// and leaves the optimiser as it was.
func (a *Adam[T]) Restore(s AdamState) error {
	if s.Steps < 0 {
		return fmt.Errorf("steps: %d, want 0 or more", s.Steps)
	}
	mean, err := DecodeFloats[T](s.Mean, len(a.mean))
	if err != nil {
		return fmt.Errorf("mean: %w", err)
	}
	variance, err := DecodeFloats[T](s.Variance, len(a.mean))
	if err != nil {
		return fmt.Errorf("variance: %w", err)
	}
	for i, v := range variance {
		if v < 0 {
			return fmt.Errorf("variance: number %d is %v, want 0 or more", i, v)
		}
	}
	a.steps, a.mean, a.variance = s.Steps, mean, variance
	return nil
}

// SoftUpdate does target ← target + τ·(source − target): Polyak averaging (Lillicrap et
// al. 2016, algorithm 1).
func SoftUpdate[T Float](target, source []T, tau T) {
	if len(target) != len(source) {
		panic(fmt.Sprintf("nn: soft update of %d parameters from %d", len(target), len(source)))
	}
	for i, s := range source {
		target[i] += tau * (s - target[i])
	}
}
