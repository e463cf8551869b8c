package swarm

import "math/rand/v2"

// RandomSearch draws every position uniformly from the box, or from its part
// within reach: the control that learns nothing.
type RandomSearch struct {
	incumbent
	search    Search
	rngs      []*rand.Rand
	positions [][]float64
	started   bool
}

// NewRandomSearch prepares a random search.
func NewRandomSearch(s Search) (*RandomSearch, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return &RandomSearch{
		incumbent: newIncumbent(),
		search:    s,
		rngs:      s.streams(),
		positions: matrix(s.Size, s.Box.Dim()),
	}, nil
}

// Ask implements [Optimizer].
func (r *RandomSearch) Ask() [][]float64 {
	for i, x := range r.positions {
		r.search.first(r.rngs[i], x)
	}
	if !r.started {
		r.started = true
		for i, x := range r.search.Start {
			copy(r.positions[i], x)
		}
	}
	return r.ask(r.positions)
}

// Tell implements [Optimizer].
func (r *RandomSearch) Tell(values []float64) { r.tell(values, r.positions) }

// Motion implements [Optimizer].
func (r *RandomSearch) Motion() (meanVelocity, diversity float64) {
	return 0, r.search.Box.diversity(r.positions, r.position)
}
