package nn

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestForward(t *testing.T) {
	m, err := NewMLP[float32](stream(1), Shape{Sizes: []int{2, 2, 1}, Hidden: ReLU, Output: Linear}, 0)
	require.NoError(t, err)
	// h = relu(x·[[1 2] [3 4]] + [.5 −20]), y = h·[10 100]ᵀ + 1.
	copy(m.Params(), []float32{1, 2, 3, 4, .5, -20, 10, 100, 1})
	x := Matrix[float32]{Rows: 2, Cols: 2, Data: []float32{1, 2, 5, 6}}
	// x = (1, 2): h = (7.5, relu(−10) = 0), y = 76; x = (5, 6): h = (23.5, 14), y = 1636.
	require.Equal(t, []float32{76, 1636}, m.Pass(2).Forward(x).Data)
}

func TestInitialBounds(t *testing.T) {
	m, err := NewMLP[float64](stream(1), Shape{Sizes: []int{100, 25, 4}, Hidden: ReLU, Output: Tanh}, .003)
	require.NoError(t, err)
	largest := func(v []float64) (out float64) {
		for _, w := range v {
			out = max(out, math.Abs(w))
		}
		return out
	}
	first := 101 * 25
	require.InDelta(t, .1, largest(m.Params()[:first]), .001)
	require.InDelta(t, .003, largest(m.Params()[first:]), .0002)
}

// Adam's first step is the rate against the gradient's sign; the second is computed
// here from the paper's algorithm 1.
func TestAdam(t *testing.T) {
	a := NewAdam[float64](.1, 2)
	p := []float64{1, 1}
	a.Step(p, []float64{4, -.5})
	require.InDeltaSlice(t, []float64{.9, 1.1}, p, 1e-6)
	a.Step(p, []float64{2, -.5})
	m := (.9*.1*4 + .1*2) / (1 - .9*.9)
	v := (.999*.001*16 + .001*4) / (1 - .999*.999)
	require.InDelta(t, .9-.1*m/math.Sqrt(v), p[0], 1e-6)
}

// A weight that lost its gradient ends with moments of 0, not subnormal ones.
func TestAdamEndsAtZero(t *testing.T) {
	a := NewAdam[float32](.1, 1)
	p := []float32{0}
	a.Step(p, []float32{1e-12})
	for range 10000 {
		a.Step(p, []float32{0})
	}
	require.Zero(t, a.mean[0])
	require.Zero(t, a.variance[0])
}

func TestSoftUpdate(t *testing.T) {
	target := []float64{0, 10}
	SoftUpdate(target, []float64{1, 0}, .1)
	require.InDeltaSlice(t, []float64{.1, 9}, target, 1e-12)
}

// train fits |x₀|+x₁ and the last sign of a sequence, and returns all bytes.
func train(t testing.TB, seed uint64) (loss float32, bytes string) {
	rng := stream(seed)
	m, err := NewMLP[float32](rng, Shape{Sizes: []int{2, 16, 1}, Hidden: ReLU, Output: Linear}, 0)
	require.NoError(t, err)
	g, err := NewGRU[float32](rng, 1, 8)
	require.NoError(t, err)
	mlp, gru := newFit(m.Params()), newFit(g.Params())
	pass, sequence := m.Pass(16), g.Pass(5, 16)
	x, y, d := NewMatrix[float32](16, 2), NewMatrix[float32](16, 1), NewMatrix[float32](16, 1)
	s, want, ds := NewMatrix[float32](5*16, 1), NewMatrix[float32](5*16, 8), NewMatrix[float32](5*16, 8)
	for range 600 {
		for i := range y.Data {
			a, b := rng.NormFloat64(), rng.NormFloat64()
			x.Data[2*i], x.Data[2*i+1], y.Data[i] = float32(a), float32(b), float32(math.Abs(a)+b)
		}
		loss = MSE(pass.Forward(x), y, d)
		mlp.step(func(grad []float32) { pass.Backward(d, grad, false) })
		for i := range s.Data {
			s.Data[i] = float32(rng.NormFloat64())
		}
		loss += MSE(sequence.Forward(s), want, ds)
		gru.step(func(grad []float32) { sequence.Backward(ds, grad) })
	}
	a, err := m.Encode()
	require.NoError(t, err)
	b, err := g.Encode()
	require.NoError(t, err)
	return loss, string(a) + string(b)
}

type fit struct {
	adam         *Adam[float32]
	params, grad []float32
}

func newFit(params []float32) *fit {
	return &fit{adam: NewAdam[float32](.01, len(params)), params: params, grad: make([]float32, len(params))}
}

func (f *fit) step(backward func(grad []float32)) {
	clear(f.grad)
	backward(f.grad)
	f.adam.Step(f.params, f.grad)
}

func TestSameSeedSameBytes(t *testing.T) {
	loss, a := train(t, 5)
	require.Less(t, loss, float32(.02), "it learns")
	_, b := train(t, 5)
	require.Equal(t, a, b)
	_, c := train(t, 6)
	require.NotEqual(t, a, c)
}

func TestNoAllocation(t *testing.T) {
	rng := stream(2)
	// Larger than what gonum would multiply in goroutines.
	m, err := NewMLP[float32](rng, Shape{Sizes: []int{300, 300, 2}, Hidden: ReLU, Output: Tanh}, 0)
	require.NoError(t, err)
	g, err := NewGRU[float32](rng, 10, 80)
	require.NoError(t, err)
	mlp, gru := newFit(m.Params()), newFit(g.Params())
	pass, sequence := m.Pass(150), g.Pass(4, 60)
	x, y, d := random[float32](rng, 150, 300), NewMatrix[float32](150, 2), NewMatrix[float32](150, 2)
	s, q, ds := random[float32](rng, 240, 10), NewMatrix[float32](240, 40), NewMatrix[float32](240, 80)
	quantiles := []float32{.5, .9}
	target := m.Clone().Params()
	require.Zero(t, testing.AllocsPerRun(5, func() {
		MSE(pass.Forward(x), y, d)
		mlp.step(func(grad []float32) { pass.Backward(d, grad, true) })
		SoftUpdate(target, m.Params(), .01)
		Pinball(sequence.Forward(s), q, quantiles, ds)
		gru.step(func(grad []float32) { sequence.Backward(ds, grad) })
	}))
}

func TestRefusedShapes(t *testing.T) {
	for want, shape := range map[string]Shape{
		"sizes: 1 sizes":   {Sizes: []int{3}, Hidden: ReLU, Output: Linear},
		"sizes[1]: 0":      {Sizes: []int{3, 0, 1}, Hidden: ReLU, Output: Linear},
		"sizes[0]: 100000": {Sizes: []int{100000, 1}, Hidden: ReLU, Output: Linear},
		`hidden: unknown activation "gelu": there are [linear relu tanh sigmoid]`: {Sizes: []int{3, 1}, Hidden: "gelu", Output: Linear},
		`output: unknown activation ""`:                                           {Sizes: []int{3, 1}, Hidden: ReLU},
	} {
		_, err := NewMLP[float32](stream(1), shape, 0)
		require.ErrorContains(t, err, want)
	}
	_, err := NewMLP[float32](stream(1), shapes[0], math.NaN())
	require.ErrorContains(t, err, "bound of the last layer: NaN")
	_, err = NewGRU[float32](stream(1), 0, 3)
	require.ErrorContains(t, err, "inputs: 0")
	_, err = NewGRU[float32](stream(1), 3, -1)
	require.ErrorContains(t, err, "hidden: -1")
}

func TestFiles(t *testing.T) {
	m, err := NewMLP[float32](stream(1), shapes[1], 0)
	require.NoError(t, err)
	data, err := m.Encode()
	require.NoError(t, err)
	back, err := DecodeMLP[float32]("net.json", data, 10, 3)
	require.NoError(t, err)
	require.Equal(t, m, back)

	g, err := NewGRU[float64](stream(1), 4, 5)
	require.NoError(t, err)
	gru, err := g.Encode()
	require.NoError(t, err)
	again, err := DecodeGRU[float64]("gru.json", gru, 4, 5)
	require.NoError(t, err)
	require.Equal(t, g, again)

	_, err = DecodeMLP[float32]("net.json", data, 11, 3)
	require.EqualError(t, err, "net.json: sizes: [10 12 12 3], want 11 inputs and 3 outputs")
	_, err = DecodeMLP[float64]("net.json", data, 10, 3)
	require.EqualError(t, err, `net.json: numbers: "float32", want "float64"`)
	_, err = DecodeGRU[float64]("gru.json", gru, 4, 6)
	require.EqualError(t, err, "gru.json: inputs: 4 and hidden: 5, want 4 and 6")
	_, err = DecodeGRU[float64]("gru.json", data, 4, 5)
	require.EqualError(t, err, `gru.json: format: "sigma-mlp", want "sigma-gru"`)

	for cut := range len(data) - 1 {
		_, err := DecodeMLP[float32]("net.json", data[:cut], 10, 3)
		require.EqualError(t, err, "net.json:1: the file is cut off")
	}
	for want, change := range map[string][2]string{
		"net.json:1: invalid character":                     {`{"format"`, `{format`},
		`net.json:2: invalid character`:                     {`"version":1,`, "\n\"version\":1,,"},
		"net.json:1: json: unknown field":                   {`"version"`, `"Vintage":1,"version"`},
		"net.json:2: more than one JSON value":              {"}}\n", "}}\n{}"},
		"net.json: version: 2, this program reads 1":        {`"version":1`, `"version":2`},
		"net.json: digest: the content has sha256:":         {`"relu"`, `"tanh"`},
		`net.json:1: json: cannot unmarshal string into Go`: {`"version":1`, `"version":"1"`},
	} {
		bad := strings.Replace(string(data), change[0], change[1], 1)
		require.NotEqual(t, string(data), bad)
		_, err := DecodeMLP[float32]("net.json", []byte(bad), 10, 3)
		require.ErrorContains(t, err, want)
	}
}

// What a file may say with a right digest, and must not.
func TestRefusedContents(t *testing.T) {
	small := Shape{Sizes: []int{1, 1}, Hidden: ReLU, Output: Linear}
	huge := Shape{Sizes: []int{1, 1 << 14, 1 << 14, 1 << 40, 1}, Hidden: ReLU, Output: Linear}
	for want, content := range map[string]any{
		"f: weights: 4 bytes, want 8 for 2 numbers":   mlpContent{small, "float32", EncodeFloats([]float32{1})},
		"f: weights: number 1 is NaN":                 mlpContent{small, "float32", EncodeFloats([]float32{1, float32(math.NaN())})},
		"f: weights: number 0 is -Inf":                mlpContent{small, "float32", EncodeFloats([]float32{float32(math.Inf(-1)), 1})},
		"f: weights: not base64: illegal base64 data": mlpContent{small, "float32", "€"},
		"f: sizes[3]: 1099511627776, want 1 to 16384": mlpContent{huge, "float32", ""},
		"f: sizes: 0 sizes, want 2 to 16":             struct{}{},
		`f: content:1: json: unknown field "extra"`: struct {
			Extra int `json:"extra"`
		}{1},
		"f: content:1: json: cannot unmarshal number":       3,
		"f: content:1: json: cannot unmarshal string into ": map[string]any{"sizes": "two"},
	} {
		data, err := Seal(mlpFormat, content)
		require.NoError(t, err)
		_, err = DecodeMLP[float32]("f", data, 1, 1)
		require.ErrorContains(t, err, want)
	}
	data, err := Seal(gruFormat, gruContent{1, 0, "float32", ""})
	require.NoError(t, err)
	_, err = DecodeGRU[float32]("f", data, 1, 1)
	require.ErrorContains(t, err, "f: hidden: 0")

	m, err := NewMLP[float32](stream(1), small, 0)
	require.NoError(t, err)
	m.Params()[1] = float32(math.Inf(1))
	_, err = m.Encode()
	require.EqualError(t, err, "nn: weights: number 1 is +Inf")
}

func TestAdamState(t *testing.T) {
	a, b := NewAdam[float32](.1, 2), NewAdam[float32](.1, 2)
	p, q := []float32{1, 2}, []float32{1, 2}
	a.Step(p, []float32{3, 4})
	b.Step(q, []float32{3, 4})
	c := NewAdam[float32](.1, 2)
	require.NoError(t, c.Restore(b.State()))
	a.Step(p, []float32{-1, 2})
	c.Step(q, []float32{-1, 2})
	require.Equal(t, p, q)
	for want, change := range map[string]func(*AdamState){
		"steps: -1":                  func(s *AdamState) { s.Steps = -1 },
		"mean: 4 bytes, want 8":      func(s *AdamState) { s.Mean = EncodeFloats([]float32{1}) },
		"variance: number 1 is NaN":  func(s *AdamState) { s.Variance = EncodeFloats([]float32{1, float32(math.NaN())}) },
		"variance: number 0 is -0.5": func(s *AdamState) { s.Variance = EncodeFloats([]float32{-.5, 0}) },
	} {
		s := a.State()
		change(&s)
		require.ErrorContains(t, c.Restore(s), want)
	}
}
