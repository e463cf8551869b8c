package swarm

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Topology selects the best that attracts a particle in addition to its own.
type Topology string

const (
	// Global is the best of the whole swarm.
	Global Topology = "global"
	// Ring is the best of the particle and its two neighbours.
	Ring Topology = "ring"
)

// Defaults of [PSOSettings].
const (
	DefaultInertia     = .72
	DefaultCognitive   = 1.49
	DefaultSocial      = 1.49
	DefaultMaxVelocity = .5
)

// PSOSettings are the constants of the velocity formula.
type PSOSettings struct {
	Inertia     float64 // w: the fraction of velocity kept
	Cognitive   float64 // c1: the pull to the personal best
	Social      float64 // c2: the pull to the global best
	MaxVelocity float64 // as a fraction of the box width, above 0 and at most 1
	Topology    Topology
}

// DefaultPSO returns the settings that the constants name, in a global
// neighbourhood.
func DefaultPSO() PSOSettings {
	return PSOSettings{
		Inertia:     DefaultInertia,
		Cognitive:   DefaultCognitive,
		Social:      DefaultSocial,
		MaxVelocity: DefaultMaxVelocity,
		Topology:    Global,
	}
}

func (p PSOSettings) check() error {
	for _, c := range []struct {
		name  string
		value float64
	}{{"inertia", p.Inertia}, {"cognitive", p.Cognitive}, {"social", p.Social}} {
		if !finite(c.value) || c.value < 0 {
			return fmt.Errorf("swarm: %s %v is not a finite number from 0 up", c.name, c.value)
		}
	}
	if !(p.MaxVelocity > 0 && p.MaxVelocity <= 1) {
		return fmt.Errorf("swarm: max velocity %v is not above 0 and at most 1", p.MaxVelocity)
	}
	if p.Topology != Global && p.Topology != Ring {
		return fmt.Errorf("swarm: no topology %q: %s or %s", p.Topology, Global, Ring)
	}
	return nil
}

// PSO is the particle swarm, SwarmRL when the objective is the cost of a
// policy. All particles move at once: a step uses the bests of the generation
// before.
type PSO struct {
	search   Search
	settings PSOSettings
	rngs     []*rand.Rand

	positions  [][]float64 // positions[particle][dimension]
	velocities [][]float64
	bests      [][]float64 // personal bests
	values     []float64   // of the personal bests; +Inf before there is one

	// guides returns the bests that attract particle i in its next step.
	guides func(i int) (own, shared []float64)

	started  bool
	stale    bool
	renewals []int // particles whose personal best the last Ask began with
}

// NewPSO prepares a swarm. Particles 0, 1, … take the starting positions, the
// others a uniform draw from the box; velocities are drawn uniformly below the
// cap.
func NewPSO(s Search, settings PSOSettings) (*PSO, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if err := settings.check(); err != nil {
		return nil, err
	}
	p := &PSO{
		search:     s,
		settings:   settings,
		rngs:       s.streams(),
		positions:  matrix(s.Size, s.Box.Dim()),
		velocities: matrix(s.Size, s.Box.Dim()),
		bests:      matrix(s.Size, s.Box.Dim()),
		values:     make([]float64, s.Size),
	}
	p.guides = func(i int) (own, shared []float64) {
		return p.attractor(i, i), p.attractor(p.leader(i), i)
	}
	for i, rng := range p.rngs {
		s.first(rng, p.positions[i])
		for d := range p.velocities[i] {
			most := p.cap(d)
			if s.Reach > 0 {
				most = min(most, s.Reach*s.Box.width(d))
			}
			p.velocities[i][d] = float64(2*rng.Float64()-1) * most
		}
		p.values[i] = math.Inf(1)
	}
	for i, x := range s.Start {
		copy(p.positions[i], x)
	}
	return p, nil
}

// cap is the largest velocity in dimension d.
func (p *PSO) cap(d int) float64 { return p.settings.MaxVelocity * p.search.Box.width(d) }

// Ask implements [Optimizer]. The first generation is the swarm as it was
// prepared; each later one moves every particle.
func (p *PSO) Ask() [][]float64 {
	if p.started {
		p.move()
	}
	p.started = true

	p.renewals = p.renewals[:0]
	if !p.stale {
		return p.positions
	}
	p.stale = false
	for i, v := range p.values {
		if !math.IsInf(v, 1) {
			p.renewals = append(p.renewals, i)
		}
	}
	// Best first: should the budget end within, the global best has a value.
	slices.SortStableFunc(p.renewals, func(i, j int) int { return cmp.Compare(p.values[i], p.values[j]) })
	asked := make([][]float64, 0, len(p.renewals)+len(p.positions))
	for _, i := range p.renewals {
		asked = append(asked, p.bests[i])
	}
	return append(asked, p.positions...)
}

// move takes one step with every particle:
//
//	v ← w·v + c1·ξ1·(personal best − x) + c2·ξ2·(global best − x)
//	x ← Φ(x + v)
//
// The products are rounded one by one (the conversions forbid fused
// multiply-add), so that all architectures walk the same way.
func (p *PSO) move() {
	for i, x := range p.positions {
		v, rng := p.velocities[i], p.rngs[i]
		own, shared := p.guides(i)
		for d := range x {
			pull1 := float64(p.settings.Cognitive * rng.Float64())
			pull2 := float64(p.settings.Social * rng.Float64())
			step := float64(p.settings.Inertia*v[d]) +
				float64(pull1*(own[d]-x[d])) +
				float64(pull2*(shared[d]-x[d]))
			v[d] = min(max(step, -p.cap(d)), p.cap(d))
		}
		for d := range x {
			x[d] += v[d]
		}
		p.search.Box.Reflect(x, v)
	}
}

// attractor returns the personal best of particle of, or, before there is one, the
// position of particle i, which does not pull it.
func (p *PSO) attractor(of, i int) []float64 {
	if math.IsInf(p.values[of], 1) {
		return p.positions[i]
	}
	return p.bests[of]
}

// leader is the particle with the best personal best in the neighbourhood of i.
func (p *PSO) leader(i int) int {
	if p.settings.Topology == Global {
		return p.globalBest()
	}
	n := len(p.values)
	best := i
	for _, j := range [...]int{(i + n - 1) % n, (i + 1) % n} {
		if p.values[j] < p.values[best] {
			best = j
		}
	}
	return best
}

// globalBest is the particle with the best personal best, the first of equals.
func (p *PSO) globalBest() int {
	best := 0
	for i, v := range p.values {
		if v < p.values[best] {
			best = i
		}
	}
	return best
}

// Tell implements [Optimizer].
func (p *PSO) Tell(values []float64) {
	mustFit(values, len(p.renewals)+len(p.positions))
	for k, i := range p.renewals {
		p.values[i] = valueAt(values, k)
	}
	for i, x := range p.positions {
		if v := valueAt(values, len(p.renewals)+i); v < p.values[i] {
			copy(p.bests[i], x)
			p.values[i] = v
		}
	}
}

// Renew implements [Optimizer]: the next generation evaluates every personal
// best again, before the particles.
func (p *PSO) Renew() { p.stale = true }

// Best implements [Optimizer].
func (p *PSO) Best() (position []float64, value float64) {
	i := p.globalBest()
	if math.IsInf(p.values[i], 1) {
		return nil, p.values[i]
	}
	return slices.Clone(p.bests[i]), p.values[i]
}

// Motion implements [Optimizer].
func (p *PSO) Motion() (meanVelocity, diversity float64) {
	sum := 0.0
	for _, v := range p.velocities {
		for d := range v {
			if w := p.search.Box.width(d); w > 0 {
				sum += math.Abs(v[d]) / w
			}
		}
	}
	best, _ := p.Best()
	return sum / float64(len(p.velocities)*p.search.Box.Dim()), p.search.Box.diversity(p.positions, best)
}
