package binpack

import (
	"math"
	"slices"
)

// preferred returns those of the candidates among which the policy decides: machines that
// hold less than the share of the app, then those of the best soft score. It is never empty
// where candidates are not, and valid until the next call.
func (s *State) preferred(app int32, candidates []int32) []int32 {
	limit, last := s.shareLimit(app), &s.preference
	asked := question{s.seq, app, limit, s.Care}
	if last.question == asked && slices.Equal(last.candidates, candidates) {
		if len(last.kept) == len(candidates) { // where all are, kept may have been the caller's
			return candidates
		}
		return last.kept
	}
	kept := s.prefer(app, limit, candidates)
	last.question, last.candidates, last.kept = asked, append(last.candidates[:0], candidates...), kept
	return kept
}

// A preference is the last answer of preferred: a scheduler calls it twice for each pod,
// for Best-Fit and for the policy.
type preference struct {
	question
	candidates, kept []int32
}

// A question holds the inputs of preferred in addition to the candidates.
type question struct {
	at    uint64 // of the journal
	app   int32
	limit int32
	care  Care
}

func (s *softLimits) prefer(app, limit int32, candidates []int32) []int32 {
	if limit > 0 {
		group := s.inst.Apps[app].Group
		if full := s.full(group, limit); len(full) > 0 {
			s.kept = s.kept[:0]
			for _, m := range candidates {
				if s.onMachine[m] == 0 {
					s.kept = append(s.kept, m)
				}
			}
			if len(s.kept) > 0 {
				candidates = s.kept
			}
			for _, m := range full {
				s.onMachine[m] = 0
			}
		}
	}
	if !s.hasTerms(app) || s.Care.Mode == SoftTrade || len(candidates) < 2 {
		return candidates
	}
	terms := s.inst.Apps[app].Soft
	if s.zones.elastic {
		scores := s.softScores(terms, candidates)
		least := s.bestThere(candidates, scores)
		if math.IsInf(least, -1) {
			least = slices.Max(scores)
		}
		least -= s.Care.Loss
		kept := s.kept[:0] // a machine is written no later than it was read
		for i, m := range candidates {
			if scores[i] >= least {
				kept = append(kept, m)
			}
		}
		s.kept = kept
		return kept
	}
	s.tally(terms, candidates)
	defer s.endTally(terms)
	// Most often some machine has all that a machine can have.
	most := s.mostSoft(terms)
	best := s.atLeast(most-s.Care.Loss, candidates)
	if best < most {
		s.atLeast(best-s.Care.Loss, candidates)
	}
	return s.best
}

// prefersAll reports whether a machine that takes an item of the app is certainly among those that
// preferred keeps: it holds less than the share of the app, and no machine can have more of the soft score.
func (s *softLimits) prefersAll(app, m int32) bool {
	group := s.inst.Apps[app].Group
	if limit := s.shareLimit(app); limit > 0 && s.Count(group, m) >= limit {
		return false
	}
	if !s.hasTerms(app) {
		return true
	}
	terms := s.inst.Apps[app].Soft
	s.tally(terms, nil)
	defer s.endTally(terms)
	z := int32(0)
	if s.zones.ofLine != nil {
		z = s.zones.ofLine[s.line[m]]
	}
	return s.onMachine[m]+s.inZone[z] >= s.mostSoft(terms)-s.Care.Loss
}

// mostSoft is the most that a machine can have of the additional parts of a tally.
func (s *softLimits) mostSoft(terms []SoftTerm) float64 {
	most := slices.Max(s.inZone)
	for _, t := range terms {
		if t.Kind == Near && !t.Zone {
			most += float64(t.Weight)
		}
	}
	return most
}

// atLeast keeps the candidates with a tally of least or more, and returns the highest of all.
func (s *softLimits) atLeast(least float64, candidates []int32) (highest float64) {
	s.best = slices.Grow(s.best[:0], len(candidates))[:len(candidates)]
	kept, n := s.best, 0
	onMachine, inZone, line, ofLine := s.onMachine, s.inZone, s.line, s.zones.ofLine
	highest = math.Inf(-1)
	for _, m := range candidates {
		z := int32(0)
		if ofLine != nil {
			z = ofLine[line[m]]
		}
		sum := onMachine[m] + inZone[z]
		kept[n] = m
		if sum >= least {
			n++
		}
		if sum > highest {
			highest = sum
		}
	}
	s.best = kept[:n]
	return highest
}
