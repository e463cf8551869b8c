package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// A GRU is a layer of gated recurrent units over a sequence that begins with h₀ = 0:
//
//	r = σ(x·Wr + br + h·Ur + cr)
//	z = σ(x·Wz + bz + h·Uz + cz)
//	n = tanh(x·Wn + bn + r ⊙ (h·Un + cn))
//	h' = (1 − z) ⊙ n + z ⊙ h
//
// (Cho et al. 2014, with the reset gate behind the product, as cuDNN and PyTorch.)
type GRU[T Float] struct {
	in, hidden int
	params     []T
}

// NewGRU draws all parameters uniformly from ± 1 ÷ √hidden.
func NewGRU[T Float](rng *rand.Rand, in, hidden int) (*GRU[T], error) {
	g := &GRU[T]{in: in, hidden: hidden}
	if err := g.check(); err != nil {
		return nil, fmt.Errorf("nn: %w", err)
	}
	g.params = make([]T, g.size())
	uniform(rng, 1/math.Sqrt(float64(hidden)), g.params)
	return g, nil
}

func (g *GRU[T]) check() error {
	if g.in < 1 || g.in > mostSize {
		return fmt.Errorf("inputs: %d, want 1 to %d", g.in, mostSize)
	}
	if g.hidden < 1 || g.hidden > mostSize {
		return fmt.Errorf("hidden: %d, want 1 to %d", g.hidden, mostSize)
	}
	return nil
}

func (g *GRU[T]) size() int { return (g.in + g.hidden + 2) * 3 * g.hidden }

// Params returns W (inputs × 3·hidden), U (hidden × 3·hidden), b and c (3·hidden
// each); the columns are r, z, n. Writing to them changes the network.
func (g *GRU[T]) Params() []T { return g.params }

// parts cuts parameters, or a gradient, into W, U, b and c.
func (g *GRU[T]) parts(params []T) (w, u Matrix[T], b, c []T) {
	gates := 3 * g.hidden
	toU := g.in * gates
	toB := toU + g.hidden*gates
	return Matrix[T]{Rows: g.in, Cols: gates, Data: params[:toU]},
		Matrix[T]{Rows: g.hidden, Cols: gates, Data: params[toU:toB]},
		params[toB : toB+gates], params[toB+gates:]
}

// A GRUPass holds the buffers of a network for sequences of one length in batches of
// one size. One goroutine may use it.
type GRUPass[T Float] struct {
	net          *GRU[T]
	steps, batch int
	in           Matrix[T] // of the last Forward
	x, h         Matrix[T] // x·W + b and h·U + c of each row and gate
	gates        Matrix[T] // r, z, n
	out          Matrix[T] // h'
	dx, dh       Matrix[T] // gradients by x and h
	din          Matrix[T] // by the input
	carry        Matrix[T] // by the h that a step begins with
	flip         []T
}

// Pass makes the buffers for batches of sequences of the given number of steps.
func (g *GRU[T]) Pass(steps, batch int) *GRUPass[T] {
	if steps < 1 || batch < 1 {
		panic(fmt.Sprintf("nn: %d steps, batch of %d", steps, batch))
	}
	rows, gates := steps*batch, 3*g.hidden
	return &GRUPass[T]{
		net: g, steps: steps, batch: batch,
		x: NewMatrix[T](rows, gates), h: NewMatrix[T](rows, gates), gates: NewMatrix[T](rows, gates), out: NewMatrix[T](rows, g.hidden),
		dx: NewMatrix[T](rows, gates), dh: NewMatrix[T](rows, gates), din: NewMatrix[T](rows, g.in), carry: NewMatrix[T](batch, g.hidden),
		flip: make([]T, max(g.in, g.hidden)*gates),
	}
}

// Forward returns h' of each step (steps·batch × hidden) for x (steps·batch × inputs),
// both time-major. The next Forward overwrites the result. Backward reads x again, so
// that it must not change before.
func (p *GRUPass[T]) Forward(x Matrix[T]) Matrix[T] {
	g := p.net
	x.want("input", p.x.Rows, g.in)
	p.in = x
	w, u, b, c := g.parts(g.params)
	fillRows(p.x, b)
	product(false, false, x, w, 1, p.x)
	fillRows(p.h, c)
	for t := range p.steps {
		from, to := t*p.batch, (t+1)*p.batch
		if t > 0 {
			product(false, false, p.out.rows(from-p.batch, from), u, 1, p.h.rows(from, to))
		}
		for row := from; row < to; row++ {
			p.step(row)
		}
	}
	return p.out
}

// before returns h of the step before, at the same sample; nil for h₀ = 0.
func (p *GRUPass[T]) before(row int) []T {
	if row < p.batch {
		return nil
	}
	return p.out.Row(row - p.batch)
}

func (p *GRUPass[T]) step(row int) {
	n := p.net.hidden
	x, h, gates, out, before := p.x.Row(row), p.h.Row(row), p.gates.Row(row), p.out.Row(row), p.before(row)
	for j := range n {
		r, z := sigmoid(x[j]+h[j]), sigmoid(x[n+j]+h[n+j])
		fresh := tanh(x[2*n+j] + r*h[2*n+j])
		gates[j], gates[n+j], gates[2*n+j] = r, z, fresh
		out[j] = (1 - z) * fresh
		if before != nil {
			out[j] += z * before[j]
		}
	}
}

// Backward takes the gradient of a loss by h' of each step of the last Forward
// (steps·batch × hidden). It adds the gradient by the parameters to grad, and returns the gradient
// by x (steps·batch × inputs); that is valid until the next Backward.
func (p *GRUPass[T]) Backward(d Matrix[T], grad []T) (dx Matrix[T]) {
	g := p.net
	d.want("gradient", p.out.Rows, p.out.Cols)
	if len(grad) != len(g.params) {
		panic(fmt.Sprintf("nn: gradient of %d numbers, want %d", len(grad), len(g.params)))
	}
	w, u, _, _ := g.parts(g.params)
	flipped := transpose(u, p.flip)
	clear(p.carry.Data)
	for t := p.steps - 1; t >= 0; t-- {
		from, to := t*p.batch, (t+1)*p.batch
		for row := from; row < to; row++ {
			p.stepBack(row, d.Row(row), p.carry.Row(row-from))
		}
		product(false, false, p.dh.rows(from, to), flipped, 1, p.carry)
	}
	dw, du, db, dc := g.parts(grad)
	product(true, false, p.in, p.dx, 1, dw)
	if rows := p.out.Rows - p.batch; rows > 0 {
		product(true, false, p.out.rows(0, rows), p.dh.rows(p.batch, p.dh.Rows), 1, du)
	}
	addColumnSums(p.dx, db)
	addColumnSums(p.dh, dc)
	product(false, false, p.dx, transpose(w, p.flip), 0, p.din)
	return p.din
}

// stepBack fills the row's dx and dh, and leaves in carry the gradient that z passes to the
// step before.
func (p *GRUPass[T]) stepBack(row int, d, carry []T) {
	n := p.net.hidden
	h, gates, dx, dh, before := p.h.Row(row), p.gates.Row(row), p.dx.Row(row), p.dh.Row(row), p.before(row)
	for j := range n {
		r, z, fresh := gates[j], gates[n+j], gates[2*n+j]
		var old T
		if before != nil {
			old = before[j]
		}
		sum := d[j] + carry[j]
		dFresh := sum * (1 - z) * (1 - fresh*fresh)
		dr := dFresh * h[2*n+j] * r * (1 - r)
		dz := sum * (old - fresh) * z * (1 - z)
		dx[j], dx[n+j], dx[2*n+j] = dr, dz, dFresh
		dh[j], dh[n+j], dh[2*n+j] = dr, dz, dFresh*r
		carry[j] = sum * z
	}
}
