package binpack

import "slices"

// A Ranked machine is one of an order of preference.
type Ranked struct {
	Machine int32
	Score   float64
}

// Order replaces buf by the candidates in the order of preference of Choose, the
// first top of them: higher scores first, equal ones by position. Candidates fit
// the item. The error is ErrNotFinite. A scheduler that has the last word on where
// an item goes asks for this; Choose is what the first one is.
func (s *State) Order(scorer Scorer, item Item, candidates []int32, top int, buf []Ranked) ([]Ranked, error) {
	n := len(candidates)
	if cap(s.scores) < n {
		s.scores = make([]float64, n+n/2+64)
	}
	out := s.scores[:n]
	scorer.Score(item, candidates, out)
	// A heap of the best so far, the last of them on top.
	buf = buf[:0]
	for i, score := range out {
		if score-score != 0 { // NaN or an infinity
			return buf, ErrNotFinite
		}
		r := Ranked{candidates[i], score}
		switch {
		case len(buf) < top:
			buf = append(buf, r)
			s.siftUp(buf)
		case top > 0 && s.compare(r, buf[0]) < 0:
			buf[0] = r
			s.siftDown(buf)
		}
	}
	slices.SortFunc(buf, s.compare)
	return buf, nil
}

// compare is negative when a comes before b in the order of preference.
func (s *State) compare(a, b Ranked) int {
	switch {
	case a.Score > b.Score:
		return -1
	case a.Score < b.Score:
		return 1
	case a.Machine == b.Machine:
		return 0
	case s.before(a.Machine, b.Machine):
		return -1
	}
	return 1
}

func (s *State) siftUp(heap []Ranked) {
	for i := len(heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if s.compare(heap[i], heap[parent]) < 0 {
			return
		}
		heap[i], heap[parent] = heap[parent], heap[i]
		i = parent
	}
}

func (s *State) siftDown(heap []Ranked) {
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
