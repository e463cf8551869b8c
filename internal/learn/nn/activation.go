package nn

import (
	"fmt"
	"math"
	"slices"
)

// An Activation is a function that a layer applies to each of its sums.
type Activation string

// Linear is x, ReLU max(0, x), Tanh the hyperbolic tangent, Sigmoid 1 ÷ (1 + e⁻ˣ).
const (
	Linear  Activation = "linear"
	ReLU    Activation = "relu"
	Tanh    Activation = "tanh"
	Sigmoid Activation = "sigmoid"
)

var activations = []Activation{Linear, ReLU, Tanh, Sigmoid}

func (a Activation) check() error {
	if !slices.Contains(activations, a) {
		return fmt.Errorf("unknown activation %q: there are %v", string(a), activations)
	}
	return nil
}

// apply replaces each x by its activation.
func apply[T Float](a Activation, x []T) {
	switch a {
	case ReLU:
		for i, v := range x {
			x[i] = max(v, 0)
		}
	case Tanh:
		for i, v := range x {
			x[i] = tanh(v)
		}
	case Sigmoid:
		for i, v := range x {
			x[i] = sigmoid(v)
		}
	case Linear:
	}
}

// applyGradient multiplies each d by the derivative of the activation where it has the
// value y. That of ReLU at 0 is 0.
func applyGradient[T Float](a Activation, y, d []T) {
	switch a {
	case ReLU:
		for i, v := range y {
			if v <= 0 {
				d[i] = 0
			}
		}
	case Tanh:
		for i, v := range y {
			d[i] *= 1 - v*v
		}
	case Sigmoid:
		for i, v := range y {
			d[i] *= v * (1 - v)
		}
	case Linear:
	}
}

func tanh[T Float](x T) T { return T(math.Tanh(float64(x))) }

func sigmoid[T Float](x T) T { return T(1 / (1 + math.Exp(-float64(x)))) }
