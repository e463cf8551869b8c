package binpack

import (
	"errors"
	"math"
	"slices"
)

// A Ranked machine is a candidate with its score.
type Ranked struct {
	Machine int32
	Score   float64
}

// prefers is the tie-break, and the only one: it reports whether machine a with
// score x ranks before machine b with score y. A higher score ranks first, and of
// equal scores the lower position.
func (s *columns) prefers(a int32, x float64, b int32, y float64) bool {
	return x > y || x == y && s.Before(a, b)
}

// Rank replaces buf by the first top of the candidates in the order of preference.
// Candidates take the item (see [State.Candidates]); they may be in any order. It
// fails with ErrNotFinite: one such score invalidates the whole ranking.
//
// Where [State.Care] demands it, only machines that the items of the app prefer are ranked.
//
// Every placement is the first of a ranking. A scheduler that makes the final
// decision needs more than the first; a replay calls [State.Choose].
func (s *State) Rank(scorer Scorer, item Item, candidates []int32, top int, buf []Ranked) ([]Ranked, error) {
	buf, scorer = buf[:0], deciding(scorer)
	if s.cares(item.App) {
		candidates = s.preferred(item.App, candidates)
	}
	// A heap of the best so far, the last of them on top.
	for i, score := range s.score(scorer, item, candidates) {
		if score-score != 0 { // NaN or an infinity
			return buf[:0], ErrNotFinite
		}
		r := Ranked{candidates[i], score}
		switch {
		case len(buf) < top:
			buf = append(buf, r)
			s.siftUp(buf)
		case top > 0 && s.prefers(r.Machine, r.Score, buf[0].Machine, buf[0].Score):
			buf[0] = r
			s.siftDown(buf)
		}
	}
	slices.SortFunc(buf, s.compare)
	return buf, nil
}

// Choose returns the first of the ranking of all machines that take the item. It
// leaves out machines that cannot rank first, where the scorer identifies them
// ([ClassScorer], [Shortlister]). The error is ErrNoFit or ErrNotFinite.
func (s *State) Choose(scorer Scorer, item Item) (int32, error) {
	scorer = deciding(scorer)
	if !s.cares(item.App) {
		return s.choose(scorer, item)
	}
	if !s.hasTerms(item.App) || s.Care.Mode != SoftTrade { // else the scores are others
		// The scorer's shortlist ignores preferences, which most often leave its choice.
		if m, err := s.choose(scorer, item); errors.Is(err, ErrNoFit) || err == nil && s.prefersAll(item.App, m) {
			return m, err
		}
	}
	return s.chooseAmong(scorer, item)
}

// choose is Choose without preferences.
func (s *State) choose(scorer Scorer, item Item) (int32, error) {
	s.candidates, s.pending = s.contenders(scorer, item, s.candidates[:0], s.pending[:0])
	if len(s.candidates) == 0 {
		return -1, ErrNoFit
	}
	out := s.score(scorer, item, s.candidates)
	best, most := -1, math.Inf(-1)
	for i, score := range out {
		if score-score != 0 { // NaN or an infinity
			return -1, ErrNotFinite
		}
		if score < most || len(s.pending) > 0 && s.pending[i] >= 0 {
			continue
		}
		if best < 0 || s.prefers(s.candidates[i], score, s.candidates[best], most) {
			best, most = i, score
		}
	}
	// A class that was scored by a machine that does not take the item: no score
	// rises with the position, so that was the most the class can reach.
	for i, class := range s.pending {
		if class >= 0 && s.comesFirst(i, best, out) && s.settle(scorer, item, i, out) && s.comesFirst(i, best, out) {
			best = i
		}
	}
	if best < 0 {
		return -1, ErrNoFit
	}
	return s.candidates[best], nil
}

// chooseAmong is Choose for an app whose preferences count.
func (s *State) chooseAmong(scorer Scorer, item Item) (int32, error) {
	s.candidates = s.Feasible(item.App, s.candidates[:0])
	if len(s.candidates) == 0 {
		return -1, ErrNoFit
	}
	var first [1]Ranked
	ranked, err := s.Rank(scorer, item, s.candidates, 1, first[:0])
	if err != nil {
		return -1, err
	}
	return ranked[0].Machine, nil
}

// comesFirst reports whether candidate i ranks before the best so far; -1 = no best yet.
func (s *State) comesFirst(i, best int, out []float64) bool {
	return best < 0 || s.prefers(s.candidates[i], out[i], s.candidates[best], out[best])
}

// score returns the scorer's scores of candidates, valid until the next call.
func (s *State) score(scorer Scorer, item Item, candidates []int32) []float64 {
	n := len(candidates)
	if cap(s.scores) < n {
		s.scores = make([]float64, n+n/2+64)
	}
	out := s.scores[:n]
	if n > 0 {
		scorer.Score(item, candidates, out)
	}
	if s.Care.Mode == SoftTrade && s.hasTerms(item.App) {
		s.sellKeptBack(candidates, out)
		for i, soft := range s.tradedScores(item.App, candidates) {
			out[i] += s.Care.Price * soft
		}
	}
	return out
}

// contenders appends to buf machines that take the item, among them the one that
// the scorer ranks first. The classes of those that represent one are recorded in
// pending, see representatives; without such machines it is empty.
func (s *State) contenders(scorer Scorer, item Item, buf, pending []int32) (machines, classes []int32) {
	if s.ByZone(s.inst.Apps[item.App].Group) { // the scorer's shortlist ignores zones
		return s.Feasible(item.App, buf), pending
	}
	_, byClass := scorer.(ClassScorer)
	byClass = byClass && s.useClasses()
	if scorer, ok := scorer.(Shortlister); ok && (!byClass || len(s.classes.live) >= fewClasses) {
		if buf, known := scorer.Contenders(item, buf); known {
			return buf, pending
		}
	}
	if byClass {
		return s.representatives(item.App, buf, pending)
	}
	return s.Feasible(item.App, buf), pending
}

// compare is negative when a precedes b in the order of preference.
func (s *columns) compare(a, b Ranked) int {
	switch {
	case a.Machine == b.Machine:
		return 0
	case s.prefers(a.Machine, a.Score, b.Machine, b.Score):
		return -1
	}
	return 1
}

func (s *columns) siftUp(heap []Ranked) {
	for i := len(heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if s.compare(heap[i], heap[parent]) < 0 {
			return
		}
		heap[i], heap[parent] = heap[parent], heap[i]
		i = parent
	}
}

func (s *columns) siftDown(heap []Ranked) {
	for i := 0; ; {
		last := 2*i + 1
		if last >= len(heap) {
			return
		}
		if right := last + 1; right < len(heap) && s.compare(heap[right], heap[last]) > 0 {
			last = right
		}
		if s.compare(heap[last], heap[i]) < 0 {
			return
		}
		heap[i], heap[last] = heap[last], heap[i]
		i = last
	}
}
