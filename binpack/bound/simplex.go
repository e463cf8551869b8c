package bound

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// A column of a linear program: entries at rows, ascending, and a cost.
type column struct {
	rows  []int32
	value []float64
	cost  float64
}

func (c *column) dot(y []float64) float64 {
	sum := 0.0
	for i, r := range c.rows {
		sum += c.value[i] * y[r]
	}
	return sum
}

// A program is a linear program that grows: min Σ cost·x with Σ column·x = right
// hand side, x ≥ 0. It is solved by the revised simplex method, which keeps the
// inverse of the basis from one solution to the next.
//
// Its answers are approximate and only hints: bounds are computed from rounded
// prices.
type program struct {
	rhs     []float64
	columns []column
	basis   []int     // per row: its column
	inverse []float64 // of the basis, row by row
	x       []float64 // per row: the value of its column
	y       []float64 // per row: the price
	pivots  int
	stale   int // pivots since the inverse was last computed
}

const (
	tolerance    = 1e-9
	refactorEach = 400 // pivots
)

// newProgram begins with a basis of one column per row, each with a single 1, in its
// row.
func newProgram(rhs []float64, basis []column) *program {
	n := len(rhs)
	p := &program{
		rhs: rhs, columns: basis, basis: make([]int, n),
		inverse: make([]float64, n*n), x: make([]float64, n), y: make([]float64, n),
	}
	copy(p.x, rhs)
	for i := range n {
		p.basis[i] = i
		p.inverse[i*n+i] = 1
		p.y[i] = basis[i].cost
	}
	return p
}

func (p *program) add(c column) { p.columns = append(p.columns, c) }

// solve pivots until no column has a negative reduced cost or the work is used up,
// and reports whether it is finished.
func (p *program) solve(work *int64) bool {
	n := int64(len(p.rhs))
	direction := make([]float64, n)
	for *work > 0 {
		enter, reduced := -1, -tolerance
		for j := range p.columns {
			c := &p.columns[j]
			*work -= int64(len(c.rows))
			if r := c.cost - c.dot(p.y); r < reduced {
				enter, reduced = j, r
			}
		}
		if enter < 0 {
			if p.stale == 0 || p.consistent() {
				return true
			}
			if !p.refactor() {
				return false
			}
			*work -= n * n * n
			continue
		}
		p.direction(&p.columns[enter], direction)
		leave := p.leaving(direction)
		if leave < 0 {
			return false // unbounded: only rounding makes it look so
		}
		p.pivot(enter, leave, reduced, direction)
		*work -= n*n + n*int64(len(p.columns[enter].rows))
		if p.stale >= refactorEach {
			if !p.refactor() {
				return false
			}
			*work -= n * n * n
		}
	}
	return false
}

// consistent reports whether the prices are those of the basis, whose columns
// have no reduced cost.
func (p *program) consistent() bool {
	for _, j := range p.basis {
		if c := &p.columns[j]; math.Abs(c.cost-c.dot(p.y)) > 1e-7 {
			return false
		}
	}
	return true
}

// direction is the column in terms of the basis.
func (p *program) direction(c *column, out []float64) {
	n := len(p.rhs)
	for i := range out {
		row, sum := p.inverse[i*n:(i+1)*n], 0.0
		for k, r := range c.rows {
			sum += row[r] * c.value[k]
		}
		out[i] = sum
	}
}

// leaving is the row that runs out first; of several the one with the largest
// entry, for the sake of precision.
func (p *program) leaving(direction []float64) int {
	leave, least := -1, math.Inf(1)
	for i, d := range direction {
		if d <= tolerance {
			continue
		}
		ratio := max(0, p.x[i]) / d
		if leave < 0 || ratio < least-tolerance || ratio < least+tolerance && d > direction[leave] {
			leave, least = i, ratio
		}
	}
	return leave
}

func (p *program) pivot(enter, leave int, reduced float64, direction []float64) {
	n := len(p.rhs)
	row := p.inverse[leave*n : (leave+1)*n]
	floats.Scale(1/direction[leave], row)
	step := max(0, p.x[leave]) / direction[leave]
	for i, d := range direction {
		if i != leave && d != 0 {
			floats.AddScaled(p.inverse[i*n:(i+1)*n], -d, row)
			p.x[i] -= d * step
		}
	}
	p.x[leave] = step
	floats.AddScaled(p.y, reduced, row)
	p.basis[leave] = enter
	p.pivots++
	p.stale++
}

// refactor recomputes inverse, values and prices from the basis.
func (p *program) refactor() bool {
	n := len(p.rhs)
	b := mat.NewDense(n, n, nil)
	for i, j := range p.basis {
		c := &p.columns[j]
		for k, r := range c.rows {
			b.Set(int(r), i, c.value[k])
		}
	}
	inverse := mat.NewDense(n, n, p.inverse)
	if err := inverse.Inverse(b); err != nil {
		if poor := mat.Condition(0); !errors.As(err, &poor) {
			return false
		}
	}
	p.stale = 0
	for i := range n {
		p.y[i] = 0
	}
	for i, j := range p.basis {
		row := p.inverse[i*n : (i+1)*n]
		p.x[i] = floats.Dot(row, p.rhs)
		floats.AddScaled(p.y, p.columns[j].cost, row)
	}
	return true
}

// value is the cost of the present solution.
func (p *program) value() float64 {
	sum := 0.0
	for i, j := range p.basis {
		sum += p.x[i] * p.columns[j].cost
	}
	return sum
}
