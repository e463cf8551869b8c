package swarm

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// An Optimizer proposes positions and learns from their values; lower is better.
// Ask and Tell alternate. Its behaviour depends on its seed and on the values given
// to Tell, on nothing else. It is not safe for concurrent use: only the evaluations
// between Ask and Tell run in parallel.
type Optimizer interface {
	// Ask returns the positions of the next generation, all inside the box. They
	// belong to the optimiser: they are read, never written, and are valid until
	// the next Ask.
	Ask() [][]float64
	// Tell gives the value of each position of the last Ask, in its order. Fewer
	// values than positions mean that the budget ended there. A value that is
	// not finite counts as +Inf and never becomes a best.
	Tell(values []float64)
	// Renew announces that the objective has changed, so that every remembered
	// value is stale. The next Ask begins with the remembered positions, best
	// first, and their new values replace the old ones.
	Renew()
	// Best returns the best position and its value; nil and +Inf before there is
	// a finite value. The position is the caller's.
	Best() (position []float64, value float64)
	// Motion describes the last generation: the mean |velocity| ÷ box width (0
	// for optimisers without velocities) and the diversity, which is the mean
	// normalised distance to the global best.
	Motion() (meanVelocity, diversity float64)
}

// Search is the start of every optimiser.
type Search struct {
	Box  Box
	Seed uint64
	// Size is the number of positions in a generation; 0 = [DefaultParticles].
	Size int
	// Start holds positions to begin with, at most Size of them; the first
	// generation evaluates them in the first places.
	Start [][]float64
	// Reach makes the search begin near the first starting position (the middle
	// of the box without one). It is the first step size, or the first distance of
	// the particles from there, as a fraction of the box. 0 = anywhere in the box.
	Reach float64
}

// DefaultParticles is the number of particles, and the size of a generation of
// the controls.
const DefaultParticles = 20

// check fills in the default size and returns an error for invalid fields.
func (s *Search) check() error {
	if err := s.Box.Validate(); err != nil {
		return fmt.Errorf("swarm: %w", err)
	}
	s.Size = cmp.Or(s.Size, DefaultParticles)
	if !(s.Reach >= 0 && s.Reach <= 1) {
		return fmt.Errorf("swarm: reach %v is not a fraction of the box", s.Reach)
	}
	if s.Size < 1 {
		return fmt.Errorf("swarm: a generation of %d positions", s.Size)
	}
	if len(s.Start) > s.Size {
		return fmt.Errorf("swarm: %d starting positions for a generation of %d", len(s.Start), s.Size)
	}
	for i, x := range s.Start {
		if len(x) != s.Box.Dim() {
			return fmt.Errorf("swarm: starting position %d has %d dimensions, the box %d", i, len(x), s.Box.Dim())
		}
		if !s.Box.Contains(x) {
			return fmt.Errorf("swarm: starting position %d is outside the box: %v", i, x)
		}
	}
	return nil
}

// streams returns one random stream for each place in a generation, so that the
// draws of one never depend on the others.
func (s *Search) streams() []*rand.Rand {
	rngs := make([]*rand.Rand, s.Size)
	for i := range rngs {
		rngs[i] = rand.New(rand.NewPCG(s.Seed, uint64(i)))
	}
	return rngs
}

// first draws a first position.
func (s *Search) first(rng *rand.Rand, x []float64) {
	s.Box.uniform(rng, x)
	if s.Reach == 0 {
		return
	}
	for d := range x {
		middle := s.Box.Lo[d] + s.Box.width(d)/2
		centre := middle
		if len(s.Start) > 0 {
			centre = s.Start[0][d]
		}
		x[d] = centre + float64(2*s.Reach*(x[d]-middle))
	}
	s.Box.Reflect(x, nil)
}

// uniform draws a position from the box.
func (b Box) uniform(rng *rand.Rand, x []float64) {
	for d := range x {
		x[d] = b.Lo[d] + float64(rng.Float64()*b.width(d))
	}
	b.Reflect(x, nil) // rounding may move a draw past the wall
}

// matrix allocates n positions of dim dimensions.
func matrix(n, dim int) [][]float64 {
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = make([]float64, dim)
	}
	return rows
}

// valueAt is the value of place i, +Inf when it is not finite or when the
// budget ended before it.
func valueAt(values []float64, i int) float64 {
	if i >= len(values) || !finite(values[i]) {
		return math.Inf(1)
	}
	return values[i]
}

// An incumbent is the memory of an optimiser that remembers one position.
type incumbent struct {
	position []float64
	value    float64
	stale    bool // the next generation begins with the position
	asked    int  // length of the last Ask
}

func newIncumbent() incumbent { return incumbent{value: math.Inf(1)} }

// Renew implements [Optimizer].
func (m *incumbent) Renew() { m.stale = m.position != nil }

// Best implements [Optimizer].
func (m *incumbent) Best() (position []float64, value float64) {
	return slices.Clone(m.position), m.value
}

// ask puts the position to be evaluated again, if any, before the new ones.
func (m *incumbent) ask(positions [][]float64) [][]float64 {
	if m.stale {
		positions = append([][]float64{m.position}, positions...)
	}
	m.asked = len(positions)
	return positions
}

// tell updates the remembered value, keeps the best and returns the values that
// belong to the new positions.
func (m *incumbent) tell(values []float64, positions [][]float64) []float64 {
	mustFit(values, m.asked)
	if m.stale {
		m.stale = false
		m.value = valueAt(values, 0)
		values = values[min(1, len(values)):]
		if math.IsInf(m.value, 1) {
			m.position = nil
		}
	}
	for i, x := range positions {
		if v := valueAt(values, i); v < m.value {
			m.position, m.value = slices.Clone(x), v
		}
	}
	return values
}

// mustFit panics if there are more values than positions.
func mustFit(values []float64, asked int) {
	if len(values) > asked {
		panic(fmt.Sprintf("swarm: Tell with %d values for %d positions", len(values), asked))
	}
}
