package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// A Shape is the size of an [MLP]: Sizes are the number of inputs, then of the neurons of
// each layer, the last of which is the output.
type Shape struct {
	Sizes  []int      `json:"sizes"`
	Hidden Activation `json:"hidden"` // of all layers but the last
	Output Activation `json:"output"` // of the last layer
}

// The largest sizes that a file may have.
const mostSize, mostLayers = 1 << 14, 16

// Check returns an error for an invalid shape.
func (s Shape) Check() error {
	if n := len(s.Sizes); n < 2 || n > mostLayers {
		return fmt.Errorf("sizes: %d sizes, want 2 to %d", n, mostLayers)
	}
	for i, n := range s.Sizes {
		if n < 1 || n > mostSize {
			return fmt.Errorf("sizes[%d]: %d, want 1 to %d", i, n, mostSize)
		}
	}
	if err := s.Hidden.check(); err != nil {
		return fmt.Errorf("hidden: %w", err)
	}
	if err := s.Output.check(); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

// params is the number of weights and biases.
func (s Shape) params() (n int) {
	for l, in := range s.Sizes[:len(s.Sizes)-1] {
		n += (in + 1) * s.Sizes[l+1]
	}
	return n
}

// An MLP is a multilayer perceptron: y = f(x·W + b), layer after layer.
type MLP[T Float] struct {
	shape  Shape
	params []T
}

// NewMLP draws the weights and biases of each layer uniformly from ± 1 ÷ √inputs, those
// of the last layer from ± last where last is above 0 (Lillicrap et al. 2016 have .003:
// the first outputs are then near 0).
func NewMLP[T Float](rng *rand.Rand, shape Shape, last float64) (*MLP[T], error) {
	if err := shape.Check(); err != nil {
		return nil, fmt.Errorf("nn: %w", err)
	}
	if math.IsNaN(last) || math.IsInf(last, 0) || last < 0 {
		return nil, fmt.Errorf("nn: bound of the last layer: %v, want a number from 0 up", last)
	}
	shape.Sizes = slices.Clone(shape.Sizes)
	m := &MLP[T]{shape: shape, params: make([]T, shape.params())}
	at := 0
	for l := range m.layers() {
		in, out := shape.Sizes[l], shape.Sizes[l+1]
		bound := 1 / math.Sqrt(float64(in))
		if l == m.layers()-1 && last > 0 {
			bound = last
		}
		n := (in + 1) * out
		uniform(rng, bound, m.params[at:at+n])
		at += n
	}
	return m, nil
}

func uniform[T Float](rng *rand.Rand, bound float64, out []T) {
	for i := range out {
		out[i] = T(bound * (2*rng.Float64() - 1))
	}
}

// Shape returns the network's shape; do not change its sizes.
func (m *MLP[T]) Shape() Shape { return m.shape }

// Params returns all weights and biases, layer by layer: the weights (inputs ×
// neurons), then the biases. Writing to them changes the network.
func (m *MLP[T]) Params() []T { return m.params }

// Clone returns a network of its own with the same parameters.
func (m *MLP[T]) Clone() *MLP[T] {
	return &MLP[T]{shape: m.shape, params: slices.Clone(m.params)}
}

func (m *MLP[T]) layers() int  { return len(m.shape.Sizes) - 1 }
func (m *MLP[T]) inputs() int  { return m.shape.Sizes[0] }
func (m *MLP[T]) outputs() int { return m.shape.Sizes[m.layers()] }

func (m *MLP[T]) activation(layer int) Activation {
	if layer == m.layers()-1 {
		return m.shape.Output
	}
	return m.shape.Hidden
}

// layer returns the weights and biases of a layer in params, or in a gradient, and the rest
// behind them.
func (m *MLP[T]) layer(l int, params []T) (w Matrix[T], bias, rest []T) {
	in, out := m.shape.Sizes[l], m.shape.Sizes[l+1]
	return Matrix[T]{Rows: in, Cols: out, Data: params[:in*out]}, params[in*out : (in+1)*out], params[(in+1)*out:]
}

// An MLPPass holds the buffers of a network for batches of one size. It reads the
// network's parameters as they are at the time of a call. One goroutine may use it.
type MLPPass[T Float] struct {
	net   *MLP[T]
	in    Matrix[T]   // of the last Forward
	out   []Matrix[T] // of each layer
	d     []Matrix[T] // gradient by each layer's inputs
	flip  []T         // a layer's weights, transposed
	dFlip []T         // and their gradient
}

// Pass makes the buffers for batches of the given number of samples.
func (m *MLP[T]) Pass(batch int) *MLPPass[T] {
	if batch < 1 {
		panic(fmt.Sprintf("nn: batch of %d", batch))
	}
	p := &MLPPass[T]{net: m}
	largest := 0
	for l := range m.layers() {
		in, out := m.shape.Sizes[l], m.shape.Sizes[l+1]
		p.out = append(p.out, NewMatrix[T](batch, out))
		p.d = append(p.d, NewMatrix[T](batch, in))
		largest = max(largest, in*out)
	}
	p.d = append(p.d, NewMatrix[T](batch, m.outputs()))
	// Gonum's dot product sums in another order if its second operand does not begin at a
	// multiple of 16 bytes. Go aligns slices of 32 bytes and more so.
	p.flip, p.dFlip = make([]T, max(largest, 32)), make([]T, largest)
	return p
}

// Gemm runs along the rows of the right-hand matrix. With so few outputs it runs along
// the inputs instead, on transposed weights.
const fewOutputs = 8

// Forward returns the outputs (batch × outputs) for x (batch × inputs). The next Forward
// overwrites them. Backward reads x again, so that it must not change before.
func (p *MLPPass[T]) Forward(x Matrix[T]) Matrix[T] {
	m := p.net
	x.want("input", p.out[0].Rows, m.inputs())
	p.in = x
	params := m.params
	for l, y := range p.out {
		var w Matrix[T]
		var bias []T
		w, bias, params = m.layer(l, params)
		fillRows(y, bias)
		if w.Cols < fewOutputs {
			product(false, true, x, transpose(w, p.flip), 1, y)
		} else {
			product(false, false, x, w, 1, y)
		}
		apply(m.activation(l), y.Data)
		x = y
	}
	return x
}

// Backward takes the gradient of a loss by the outputs of the last Forward (batch ×
// outputs). It adds the gradient by the parameters to grad, unless that is nil, and
// returns the gradient by the inputs (batch × inputs) if inputs is true; that is
// valid until the next Backward.
func (p *MLPPass[T]) Backward(dy Matrix[T], grad []T, inputs bool) (dx Matrix[T]) {
	m := p.net
	last := m.layers()
	dy.want("gradient", p.d[last].Rows, p.d[last].Cols)
	if grad != nil && len(grad) != len(m.params) {
		panic(fmt.Sprintf("nn: gradient of %d numbers, want %d", len(grad), len(m.params)))
	}
	copy(p.d[last].Data, dy.Data)
	end := len(m.params)
	for l := last - 1; l >= 0; l-- {
		d, x := p.d[l+1], p.in
		if l > 0 {
			x = p.out[l-1]
		}
		applyGradient(m.activation(l), p.out[l].Data, d.Data)
		begin := end - (x.Cols+1)*d.Cols
		if grad != nil {
			w, bias, _ := m.layer(l, grad[begin:end])
			addColumnSums(d, bias)
			p.addWeights(x, d, w)
		}
		if l > 0 || inputs {
			w, _, _ := m.layer(l, m.params[begin:end])
			product(false, false, d, transpose(w, p.flip), 0, p.d[l])
		}
		end = begin
	}
	if !inputs {
		return Matrix[T]{}
	}
	return p.d[0]
}

// addWeights does dw ← dw + xᵀ·d.
func (p *MLPPass[T]) addWeights(x, d, dw Matrix[T]) {
	if dw.Cols >= fewOutputs {
		product(true, false, x, d, 1, dw)
		return
	}
	flipped := Matrix[T]{Rows: dw.Cols, Cols: dw.Rows, Data: p.dFlip[:len(dw.Data)]}
	product(true, false, d, x, 0, flipped)
	for i := range dw.Rows {
		for j := range dw.Cols {
			dw.Data[i*dw.Cols+j] += flipped.Data[j*dw.Rows+i]
		}
	}
}
