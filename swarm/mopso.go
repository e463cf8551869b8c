package swarm

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// A MultiOptimizer learns from all objectives of a position, not from the one value
// that represents them.
type MultiOptimizer interface {
	Optimizer
	// TellObjectives precedes each Tell, with the objectives of the same positions.
	TellObjectives(objectives [][]float64)
}

// MOPSO is the particle swarm for several objectives. It moves like [PSO], but
// each particle has a weight for each objective. The best for it, among its own
// positions and among those of the archive, has the least
//
//	max over k of λ_k·z_k + .01·Σ z_k,   z_k = (f_k − lowest_k) ÷ (highest_k − lowest_k)
//
// the augmented Chebyshev distance to the best that the archive has in each
// objective, in units of its range (decomposition: Zhang and Li 2007, for
// swarms Zapotecas Martínez and Coello Coello 2011). The first particles look at
// one objective each, the next one at all in equal parts, and the others at random
// mixtures.
type MOPSO struct {
	*PSO
	best       incumbent
	weights    [][]float64 // λ[particle][objective]
	objectives [][]float64 // of the personal bests
	latest     [][]float64 // objectives of the last generation
	archive    *Archive
	points     []Point // of the archive
	lowest     []float64
	highest    []float64
}

// shareOfAll keeps points from being equal that differ in an objective of
// weight 0.
const shareOfAll = .01

// NewMOPSO prepares a swarm for the given number of objectives, at least 2. The
// topology of the settings has no meaning here.
func NewMOPSO(s Search, settings PSOSettings, objectives int) (*MOPSO, error) {
	if objectives < 2 {
		return nil, fmt.Errorf("swarm: %d objectives: want at least 2", objectives)
	}
	pso, err := NewPSO(s, settings)
	if err != nil {
		return nil, err
	}
	m := &MOPSO{
		PSO: pso, best: newIncumbent(), archive: NewArchive(objectives),
		objectives: make([][]float64, len(pso.positions)), weights: matrix(len(pso.positions), objectives),
	}
	for i, w := range m.weights {
		mix(w, i, pso.rngs[i])
	}
	pso.guides = m.guides
	return m, nil
}

// mix sets the weights of particle i, with sum 1.
func mix(weights []float64, i int, rng *rand.Rand) {
	n := len(weights)
	switch {
	case i < n:
		weights[i] = 1
		return
	case i == n:
		for k := range weights {
			weights[k] = 1 / float64(n)
		}
		return
	}
	sum := 0.0
	for k := range weights { // exponential draws ÷ their sum: uniform on the simplex
		weights[k] = rng.ExpFloat64()
		sum += weights[k]
	}
	for k := range weights {
		weights[k] /= sum
	}
}

// guides are the personal best of a particle and the point of the archive that
// is the best for it.
func (m *MOPSO) guides(i int) (own, shared []float64) {
	own = m.attractor(i, i)
	if len(m.points) == 0 {
		return own, own
	}
	leader := slices.MinFunc(m.points, func(a, b Point) int {
		return cmp.Compare(m.distance(i, a.Objectives), m.distance(i, b.Objectives))
	})
	return own, leader.Position
}

// distance is the distance of objectives from the best, for particle i.
func (m *MOPSO) distance(i int, objectives []float64) float64 {
	most, sum := math.Inf(-1), 0.0
	for k, f := range objectives {
		z := f - m.lowest[k]
		if width := m.highest[k] - m.lowest[k]; width > 0 {
			z /= width
		}
		most = max(most, float64(m.weights[i][k]*z))
		sum += z
	}
	return most + float64(shareOfAll*sum)
}

// TellObjectives implements [MultiOptimizer].
func (m *MOPSO) TellObjectives(objectives [][]float64) { m.latest = objectives }

// Tell implements [Optimizer]. A position with an objective that is not finite
// counts as one without a finite value.
func (m *MOPSO) Tell(values []float64) {
	mustFit(values, len(m.renewals)+len(m.positions))
	usable := func(k int) bool { return k < len(values) && finite(values[k]) && allFinite(m.latest[k]) }
	at := func(k int) (particle int, x []float64) {
		if k < len(m.renewals) {
			return m.renewals[k], m.bests[m.renewals[k]]
		}
		return k - len(m.renewals), m.positions[k-len(m.renewals)]
	}
	for k := range values {
		_, x := at(k)
		if !usable(k) {
			continue
		}
		if _, err := m.archive.Add(Point{Objectives: m.latest[k], Position: x}); err != nil {
			panic(err.Error()) // of the number of objectives, which is the caller's
		}
		if values[k] < m.best.value {
			m.best.position, m.best.value = slices.Clone(x), values[k]
		}
	}
	m.look()
	for k := range values {
		i, x := at(k)
		switch renewed := k < len(m.renewals); {
		case !usable(k) && renewed:
			m.values[i] = math.Inf(1)
		case !usable(k):
		case renewed, math.IsInf(m.values[i], 1), m.distance(i, m.latest[k]) < m.distance(i, m.objectives[i]):
			copy(m.bests[i], x)
			m.values[i], m.objectives[i] = values[k], slices.Clone(m.latest[k])
		}
	}
}

// look takes the archive's points and ranges.
func (m *MOPSO) look() {
	m.points = m.archive.Points()
	if len(m.points) == 0 {
		return
	}
	m.lowest, m.highest = slices.Clone(m.points[0].Objectives), slices.Clone(m.points[0].Objectives)
	for _, p := range m.points {
		for k, f := range p.Objectives {
			m.lowest[k], m.highest[k] = min(m.lowest[k], f), max(m.highest[k], f)
		}
	}
}

// Renew implements [Optimizer]: the archive is rebuilt from the personal bests.
func (m *MOPSO) Renew() {
	m.PSO.Renew()
	m.best, m.archive = newIncumbent(), NewArchive(m.archive.objectives)
}

// Best implements [Optimizer]: the position of the lowest value.
func (m *MOPSO) Best() (position []float64, value float64) { return m.best.Best() }
