package swarm

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// DefaultSigma is the first step size of [CMAES], as a fraction of the box.
const DefaultSigma = .3

// CMAES is the covariance matrix adaptation evolution strategy, the control that
// learns the most from an evaluation. It samples a normal distribution N(m, σ²C) in
// coordinates in which the box is the unit cube, without its fixed dimensions; a
// sample that leaves the cube is evaluated at its reflection Φ. Weights, paths and
// rates are those of Hansen's tutorial (2016, figure 6), with positive weights
// only. When the distribution has shrunk to a point, it restarts at a random mean,
// so that the whole budget is used.
//
// Why not gonum's optimize.CmaEsChol: it can be driven by ask and tell (with as
// many tasks as its population it sends them in order, so that its answer does
// not depend on workers), but as of v0.17.0 it draws its samples from N(m, C),
// without the step size σ, and scales the rank-μ update by 1/σ in place of
// 1/σ². On a sphere in 10 dimensions it takes fourteen to twenty-two times the
// evaluations of this one to the same level. As a control at equal budget it
// would make the swarm look better than it is.
type CMAES struct {
	incumbent
	search    Search
	rngs      []*rand.Rand
	axes      []int       // dimensions that are not fixed
	samples   [][]float64 // unit coordinates of the axes, not reflected
	positions [][]float64
	started   bool

	weights                  []float64 // of the best half of a generation
	muEff                    float64
	cSigma, dSigma           float64
	cC, c1, cMu              float64
	expectedNorm             float64 // E‖N(0, I)‖
	generation               int     // since the last restart
	mean, pathSigma, pathC   []float64
	sigma                    float64
	covariance               *mat.SymDense
	basis                    mat.Dense // eigenvectors of the covariance, in columns
	deviations               []float64 // square roots of its eigenvalues
	scratch, shift, whitened []float64
}

// NewCMAES prepares a CMA-ES whose generation has at least two positions. Its
// first mean is the first starting position, or the middle of the box.
func NewCMAES(s Search) (*CMAES, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Size < 2 {
		return nil, errors.New("swarm: CMA-ES needs a generation of at least 2 positions")
	}
	c := &CMAES{
		incumbent: newIncumbent(),
		search:    s,
		rngs:      s.streams(),
		positions: matrix(s.Size, s.Box.Dim()),
	}
	for d := range s.Box.Dim() {
		if s.Box.width(d) > 0 {
			c.axes = append(c.axes, d)
		}
	}
	for _, x := range c.positions {
		copy(x, s.Box.Lo)
	}
	n := len(c.axes)
	c.samples = matrix(s.Size, n)
	c.mean = make([]float64, n)
	c.scratch, c.shift, c.whitened = make([]float64, n), make([]float64, n), make([]float64, n)
	if n == 0 {
		return c, nil
	}
	c.setRates()
	for k := range c.mean {
		c.mean[k] = .5
	}
	if len(s.Start) > 0 {
		c.toUnit(s.Start[0], c.mean)
	}
	c.reset()
	return c, nil
}

// setRates computes the constants from the dimension and the population, by the
// names and formulas of the tutorial's table 1.
func (c *CMAES) setRates() {
	n := float64(len(c.axes))
	c.weights = make([]float64, c.search.Size/2)
	for i := range c.weights {
		c.weights[i] = math.Log(float64(c.search.Size+1)/2) - math.Log(float64(i+1))
	}
	floats.Scale(1/floats.Sum(c.weights), c.weights)
	c.muEff = 1 / floats.Dot(c.weights, c.weights)

	c.cSigma = (c.muEff + 2) / (n + c.muEff + 5)
	c.dSigma = 1 + 2*max(0, math.Sqrt((c.muEff-1)/(n+1))-1) + c.cSigma
	c.cC = (4 + c.muEff/n) / (n + 4 + 2*c.muEff/n)
	c.c1 = 2 / ((n+1.3)*(n+1.3) + c.muEff)
	c.cMu = min(1-c.c1, 2*(.25+c.muEff+1/c.muEff-2)/((n+2)*(n+2)+c.muEff))
	c.expectedNorm = math.Sqrt(n) * (1 - 1/(4*n) + 1/(21*n*n))
}

// reset makes the distribution a sphere of the first step size about the mean.
func (c *CMAES) reset() {
	n := len(c.axes)
	c.generation = 0
	c.sigma = cmp.Or(c.search.Reach, DefaultSigma)
	c.pathSigma, c.pathC = make([]float64, n), make([]float64, n)
	c.deviations = make([]float64, n)
	c.covariance = mat.NewSymDense(n, nil)
	c.basis.Reset()
	c.basis.ReuseAs(n, n)
	for k := range n {
		c.deviations[k] = 1
		c.covariance.SetSym(k, k, 1)
		c.basis.Set(k, k, 1)
	}
}

// Ask implements [Optimizer]: samples m + σ·B·D·z with z ~ N(0, I).
func (c *CMAES) Ask() [][]float64 {
	for i, u := range c.samples {
		for k := range c.scratch {
			c.scratch[k] = c.deviations[k] * c.rngs[i].NormFloat64()
		}
		multiply(&c.basis, false, u, c.scratch)
		for k := range u {
			u[k] = c.mean[k] + c.sigma*u[k]
		}
		c.fromUnit(u, c.positions[i])
	}
	if !c.started {
		c.started = true
		c.inject()
	}
	return c.ask(c.positions)
}

// inject puts the starting positions in the place of the first samples. For the
// update a far one counts as nearer, on the same line from the mean, at the
// length that Hansen (2011) allows: √n + 2n ÷ (n + 2) deviations.
func (c *CMAES) inject() {
	n := float64(len(c.axes))
	for i, x := range c.search.Start {
		copy(c.positions[i], x)
		u := c.samples[i]
		c.toUnit(x, u)
		floats.Sub(u, c.mean)
		if length := floats.Norm(u, 2) / c.sigma; length > 0 {
			floats.Scale(min(1, (math.Sqrt(n)+2*n/(n+2))/length), u)
		}
		floats.Add(u, c.mean)
	}
}

// Tell implements [Optimizer].
func (c *CMAES) Tell(values []float64) {
	values = c.tell(values, c.positions)
	if len(c.axes) == 0 {
		return
	}
	order := make([]int, c.search.Size)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(valueAt(values, i), valueAt(values, j)) })
	c.update(order)
	if c.degenerate() {
		for k := range c.mean {
			c.mean[k] = c.rngs[0].Float64()
		}
		c.reset()
	}
}

// update adapts mean, paths, covariance and step size to the samples in order,
// best first.
func (c *CMAES) update(order []int) {
	c.generation++
	// y_i = (x_i − m) ÷ σ; the mean moves by σ·⟨y⟩, with ⟨y⟩ = Σ w_i·y_i.
	shift := c.shift
	clear(shift)
	for i, w := range c.weights {
		y := c.samples[order[i]]
		floats.Sub(y, c.mean)
		floats.Scale(1/c.sigma, y)
		floats.AddScaled(shift, w, y)
	}
	floats.AddScaled(c.mean, c.sigma, shift)

	// p_σ ← (1 − c_σ)·p_σ + √(c_σ·(2 − c_σ)·μ_eff)·C^−½·⟨y⟩, C^−½ = B·D⁻¹·Bᵀ.
	multiply(&c.basis, true, c.scratch, shift)
	floats.Div(c.scratch, c.deviations)
	multiply(&c.basis, false, c.whitened, c.scratch)
	floats.Scale(1-c.cSigma, c.pathSigma)
	floats.AddScaled(c.pathSigma, math.Sqrt(c.cSigma*(2-c.cSigma)*c.muEff), c.whitened)
	norm := floats.Norm(c.pathSigma, 2)

	// p_c stalls (h_σ = 0) while p_σ is long, so that C does not grow along the
	// path when it is the step size that is too small.
	n := float64(len(c.axes))
	hSigma := 0.0
	if norm/math.Sqrt(1-math.Pow(1-c.cSigma, 2*float64(c.generation))) < (1.4+2/(n+1))*c.expectedNorm {
		hSigma = 1
	}
	floats.Scale(1-c.cC, c.pathC)
	floats.AddScaled(c.pathC, hSigma*math.Sqrt(c.cC*(2-c.cC)*c.muEff), shift)

	// C ← (1 − c_1 − c_μ + (1 − h_σ)·c_1·c_c·(2 − c_c))·C + c_1·p_c·p_cᵀ + c_μ·Σ w_i·y_i·y_iᵀ.
	c.covariance.ScaleSym(1-c.c1-c.cMu+(1-hSigma)*c.c1*c.cC*(2-c.cC), c.covariance)
	c.covariance.SymRankOne(c.covariance, c.c1, mat.NewVecDense(len(c.axes), c.pathC))
	for i, w := range c.weights {
		c.covariance.SymRankOne(c.covariance, c.cMu*w, mat.NewVecDense(len(c.axes), c.samples[order[i]]))
	}

	// σ ← σ·exp(c_σ ÷ d_σ · (‖p_σ‖ ÷ E‖N(0, I)‖ − 1)), at most the whole box:
	// beyond it a reflected sample is uniform, and there is nothing more to learn.
	c.sigma = min(1, c.sigma*math.Exp(c.cSigma/c.dSigma*(norm/c.expectedNorm-1)))
}

// degenerate decomposes the covariance and reports whether the distribution can no
// longer be sampled with profit: not positive, too long and thin for float64, or
// shrunk to a point.
func (c *CMAES) degenerate() bool {
	var eigen mat.EigenSym
	if !eigen.Factorize(c.covariance, true) {
		return true
	}
	eigen.VectorsTo(&c.basis)
	eigen.Values(c.deviations) // ascending
	low, high := c.deviations[0], c.deviations[len(c.deviations)-1]
	if !(low > 0 && finite(high) && high/low < 1e14) {
		return true
	}
	for k, v := range c.deviations {
		c.deviations[k] = math.Sqrt(v)
	}
	return !(c.sigma*math.Sqrt(high) > 1e-12)
}

// Motion implements [Optimizer].
func (c *CMAES) Motion() (meanVelocity, diversity float64) {
	return 0, c.search.Box.diversity(c.positions, c.position)
}

// toUnit and fromUnit change between positions in the box and coordinates of the
// unit cube; fromUnit reflects coordinates outside the cube.
func (c *CMAES) toUnit(x, u []float64) {
	for k, d := range c.axes {
		u[k] = (x[d] - c.search.Box.Lo[d]) / c.search.Box.width(d)
	}
}

func (c *CMAES) fromUnit(u, x []float64) {
	for k, d := range c.axes {
		folded, _ := fold(u[k], 0, 1)
		x[d] = c.search.Box.Lo[d] + folded*c.search.Box.width(d)
	}
	c.search.Box.Reflect(x, nil) // rounding may move a position past the wall
}

// multiply sets to = m·x, or mᵀ·x.
func multiply(m *mat.Dense, transposed bool, to, x []float64) {
	if len(x) == 0 {
		return
	}
	var a mat.Matrix = m
	if transposed {
		a = m.T()
	}
	mat.NewVecDense(len(to), to).MulVec(a, mat.NewVecDense(len(x), x))
}
