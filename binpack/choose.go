package binpack

import "math"

// Choose returns the machine that the scorer ranks first for an item among all
// that take it; equal scores go to the lowest position. The error is ErrNoFit
// or ErrNotFinite.
func (s *State) Choose(scorer Scorer, item Item) (int32, error) {
	s.candidates, s.pending = s.contenders(scorer, item, s.candidates[:0], s.pending[:0])
	n := len(s.candidates)
	if n == 0 {
		return -1, ErrNoFit
	}
	if cap(s.scores) < n {
		s.scores = make([]float64, n+n/2+64)
	}
	out := s.scores[:n]
	scorer.Score(item, s.candidates, out)
	best, most := -1, math.Inf(-1)
	for i, score := range out {
		if score-score != 0 { // NaN or an infinity
			return -1, ErrNotFinite
		}
		if score < most || len(s.pending) > 0 && s.pending[i] >= 0 {
			continue
		}
		if score > most || s.before(s.candidates[i], s.candidates[best]) {
			best, most = i, score
		}
	}
	// A class that was scored by a machine that does not take the item: no score
	// rises with the position, so that was the most the class can reach.
	for i, class := range s.pending {
		if class >= 0 && s.ranks(i, best, out) && s.settle(scorer, item, i, out) && s.ranks(i, best, out) {
			best = i
		}
	}
	if best < 0 {
		return -1, ErrNoFit
	}
	return s.candidates[best], nil
}

// ranks reports whether candidate i comes before the best so far, -1 = none.
func (s *State) ranks(i, best int, out []float64) bool {
	return best < 0 || out[i] > out[best] || out[i] == out[best] && s.before(s.candidates[i], s.candidates[best])
}

// contenders appends to buf machines that take the item, among them the one that
// the scorer ranks first. Those that stand for a class are noted in pending, see
// representatives; it is empty when there are none.
func (s *State) contenders(scorer Scorer, item Item, buf, pending []int32) (machines, classes []int32) {
	switch scorer := scorer.(type) {
	case ClassScorer:
		if s.useClasses() {
			return s.representatives(item.App, buf, pending)
		}
	case Shortlister:
		if buf, known := scorer.Contenders(item, buf); known {
			return buf, pending
		}
	}
	return s.Feasible(item.App, buf), pending
}
