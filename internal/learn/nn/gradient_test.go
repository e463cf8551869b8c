package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func random[T Float](rng *rand.Rand, rows, cols int) Matrix[T] {
	m := NewMatrix[T](rows, cols)
	for i := range m.Data {
		m.Data[i] = T(rng.NormFloat64())
	}
	return m
}

func stream(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func dot[T Float](a, b []T) (sum T) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// checkGradient compares a gradient with central differences of f over x, in float64
// with a step of 1e-5: truncation and rounding are then about 1e-10. Errors are relative
// to the larger of the two, and to 1e-3 where both are smaller.
func checkGradient(t *testing.T, what string, x, gradient []float64, f func() float64) {
	t.Helper()
	const step = 1e-5
	worst := 0.
	for i, old := range x {
		x[i] = old + step
		up := f()
		x[i] = old - step
		down := f()
		x[i] = old
		want := (up - down) / (2 * step)
		worst = max(worst, math.Abs(gradient[i]-want)/max(math.Abs(want), math.Abs(gradient[i]), 1e-3))
	}
	t.Logf("%s: %d gradients, largest relative error %.1e", what, len(x), worst)
	require.LessOrEqual(t, worst, 1e-5, what)
	require.NotZero(t, dot(gradient, gradient), what)
}

var shapes = []Shape{
	{Sizes: []int{5, 3}, Hidden: Linear, Output: Linear},
	{Sizes: []int{10, 12, 12, 3}, Hidden: ReLU, Output: Tanh},
	{Sizes: []int{4, 9, 11, 1}, Hidden: Tanh, Output: Linear},
	{Sizes: []int{3, 8, 2, 9}, Hidden: Sigmoid, Output: Sigmoid},
	{Sizes: []int{70, 6, 200}, Hidden: ReLU, Output: ReLU}, // more than a block of Gemm
	{Sizes: []int{70, 66, 3}, Hidden: ReLU, Output: Linear},
}

func TestMLPGradients(t *testing.T) {
	for i, shape := range shapes {
		t.Run(fmt.Sprint(shape), func(t *testing.T) {
			rng := stream(uint64(i))
			m, err := NewMLP[float64](rng, shape, 0)
			require.NoError(t, err)
			const batch = 7
			x, c := random[float64](rng, batch, m.inputs()), random[float64](rng, batch, m.outputs())
			pass := m.Pass(batch)
			loss := func() float64 { return dot(pass.Forward(x).Data, c.Data) }

			loss()
			gradient := make([]float64, len(m.Params()))
			dx := append([]float64(nil), pass.Backward(c, gradient, true).Data...)
			checkGradient(t, "parameters", m.Params(), gradient, loss)
			checkGradient(t, "inputs", x.Data, dx, loss)

			loss()
			pass.Backward(c, gradient, false)
			twice := append([]float64(nil), gradient...)
			pass.Backward(c, nil, true)
			require.Equal(t, twice, gradient, "nil asks for no gradient by the parameters")
			require.Equal(t, dx, pass.d[0].Data)
		})
	}
}

func TestGRUGradients(t *testing.T) {
	for _, steps := range []int{1, 2, 9} {
		t.Run(fmt.Sprintf("steps=%d", steps), func(t *testing.T) {
			rng := stream(uint64(steps))
			g, err := NewGRU[float64](rng, 4, 6)
			require.NoError(t, err)
			const batch = 3
			x, c := random[float64](rng, steps*batch, 4), random[float64](rng, steps*batch, 6)
			pass := g.Pass(steps, batch)
			loss := func() float64 { return dot(pass.Forward(x).Data, c.Data) }
			loss()
			gradient := make([]float64, len(g.Params()))
			dx := append([]float64(nil), pass.Backward(c, gradient).Data...)
			checkGradient(t, "parameters", g.Params(), gradient, loss)
			checkGradient(t, "inputs", x.Data, dx, loss)
		})
	}
}

// An embedding is the last h alone, so that its gradient goes back through all steps.
func TestGRUGradientOfLastStep(t *testing.T) {
	rng := stream(1)
	const steps, batch = 12, 2
	g, err := NewGRU[float64](rng, 3, 5)
	require.NoError(t, err)
	x, c := random[float64](rng, steps*batch, 3), NewMatrix[float64](steps*batch, 5)
	for i := (steps - 1) * batch * 5; i < len(c.Data); i++ {
		c.Data[i] = rng.NormFloat64()
	}
	pass := g.Pass(steps, batch)
	loss := func() float64 { return dot(pass.Forward(x).Data, c.Data) }
	before := loss()
	gradient := make([]float64, len(g.Params()))
	dx := append([]float64(nil), pass.Backward(c, gradient).Data...)
	checkGradient(t, "inputs", x.Data, dx, loss)

	first, second := x.rows(0, batch), x.rows(batch, 2*batch)
	for i := range first.Data {
		first.Data[i], second.Data[i] = second.Data[i], first.Data[i]
	}
	require.NotEqual(t, before, loss(), "the order of time matters")
}

func TestLossGradients(t *testing.T) {
	rng := stream(3)
	predicted, target := random[float64](rng, 6, 4), random[float64](rng, 6, 4)
	gradient := NewMatrix[float64](6, 4)
	none := NewMatrix[float64](6, 4)
	MSE(predicted, target, gradient)
	checkGradient(t, "MSE", predicted.Data, gradient.Data, func() float64 { return MSE(predicted, target, none) })

	quantiles := []float64{.1, .97}
	target = random[float64](rng, 6, 2)
	Pinball(predicted, target, quantiles, gradient)
	checkGradient(t, "pinball", predicted.Data, gradient.Data, func() float64 { return Pinball(predicted, target, quantiles, none) })
}

func TestPinball(t *testing.T) {
	predicted := Matrix[float64]{Rows: 1, Cols: 4, Data: []float64{1, 2, 8, 5}}
	target := Matrix[float64]{Rows: 1, Cols: 2, Data: []float64{3, 5}}
	gradient := NewMatrix[float64](1, 4)
	// .5·(3−1) + .9·(3−2) + .5·(8−5) + 0 = 1 + .9 + 1.5, over 4 elements.
	require.InDelta(t, 3.4/4, Pinball(predicted, target, []float64{.5, .9}, gradient), 1e-12)
	require.InDeltaSlice(t, []float64{-.5 / 4, -.9 / 4, .5 / 4, 0}, gradient.Data, 1e-12)
	require.Panics(t, func() { Pinball(predicted, target, []float64{.5, 1}, gradient) })
}

// The float32 that training runs in is the code that was checked in float64: with equal
// weights and inputs both give the same gradients, to what float32 can tell.
func TestFloat32EqualsFloat64(t *testing.T) {
	near := func(want []float64, got []float32) {
		t.Helper()
		norm := math.Sqrt(dot(want, want))
		for i := range want {
			require.InDelta(t, want[i], float64(got[i]), 1e-5*norm)
		}
	}
	narrow := func(v []float64, out []float32) {
		for i := range v {
			out[i] = float32(v[i])
			v[i] = float64(out[i])
		}
	}
	for i, shape := range shapes {
		rng := stream(uint64(i))
		m, err := NewMLP[float64](rng, shape, 0)
		require.NoError(t, err)
		n, err := NewMLP[float32](rng, shape, 0)
		require.NoError(t, err)
		narrow(m.Params(), n.Params())
		const batch = 70
		x, c := random[float64](rng, batch, m.inputs()), random[float64](rng, batch, m.outputs())
		x32, c32 := NewMatrix[float32](batch, m.inputs()), NewMatrix[float32](batch, m.outputs())
		narrow(x.Data, x32.Data)
		narrow(c.Data, c32.Data)
		wide, pass := m.Pass(batch), n.Pass(batch)
		near(wide.Forward(x).Data, pass.Forward(x32).Data)
		want, got := make([]float64, len(m.Params())), make([]float32, len(n.Params()))
		near(wide.Backward(c, want, true).Data, pass.Backward(c32, got, true).Data)
		near(want, got)
	}
}
