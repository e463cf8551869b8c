package binpack

import "slices"

// Preferences are the effects of the items' preferences on a choice.
type Preferences struct {
	Care  Care
	Terms []TermHeld // of the app
	// Limit is the most items of the group that a machine should hold; 0 = any number.
	Limit int32
	// Kept is the number of candidates that the policy decided among.
	Kept int
	// Soft is the chosen machine's soft score, Best the highest of any candidate below Limit.
	Soft, Best float64
	// Alone is the machine that the policy takes without preferences, nil where it is the
	// chosen one. Price is its score less that of the chosen one.
	Alone *Candidate
	Price float64
}

// A TermHeld is the contribution of a soft term to the soft score of the chosen machine.
type TermHeld struct {
	Term  SoftTerm
	Score float64
}

// explainPreferences is nil where the item prefers nothing and no share of its app counts.
func (s *State) explainPreferences(scorer Scorer, item Item, candidates []int32, chosen Ranked) *Preferences {
	app := &s.inst.Apps[item.App]
	limit := s.shareLimit(item.App)
	if len(app.Soft) == 0 && limit == 0 {
		return nil
	}
	p := &Preferences{Care: s.Care, Limit: limit, Kept: len(candidates)}
	below := slices.DeleteFunc(slices.Clone(candidates), func(m int32) bool { return limit > 0 && s.Count(app.Group, m) >= limit })
	if len(below) == 0 {
		below = candidates
	}
	at := slices.Index(below, chosen.Machine)
	if s.cares(item.App) {
		p.Kept = len(s.preferred(item.App, candidates))
	}
	for i := range app.Soft {
		if at >= 0 {
			p.Terms = append(p.Terms, TermHeld{app.Soft[i], s.softScores(app.Soft[i:i+1], below)[at]})
		}
	}
	scores := s.softScores(app.Soft, below)
	if p.Best = slices.Max(scores); at >= 0 {
		p.Soft = scores[at]
	}
	care := s.Care
	s.Care = Care{Mode: SoftIgnore, MaxShareOfApp: 1}
	defer func() { s.Care = care }()
	ranked, err := s.Rank(scorer, item, candidates, len(candidates), nil)
	if err != nil || len(ranked) == 0 || ranked[0].Machine == chosen.Machine {
		return p
	}
	p.Alone = s.describe(scorer, item, ranked[0])
	for _, r := range ranked {
		if r.Machine == chosen.Machine {
			p.Price = ranked[0].Score - r.Score
		}
	}
	return p
}

// explainTrade adds the value of preferences to the terms of the first two, where they are
// part of the score.
func (s *State) explainTrade(item Item, e *Explanation, candidates []int32) {
	if s.Care.Mode != SoftTrade || !s.hasTerms(item.App) || e.Chosen == nil {
		return
	}
	among := slices.Clone(s.preferred(item.App, candidates))
	scores := s.tradedScores(item.App, among)
	for _, c := range []*Candidate{e.Chosen, e.RunnerUp} {
		if c != nil {
			soft := scores[slices.Index(among, c.Machine)]
			sum := s.Care.Price * soft
			for _, t := range c.Terms {
				sum += t.Contribution
			}
			if sum < -EmptyPenalty/2 && c.Score > -EmptyPenalty/2 {
				c.Terms = append(c.Terms, Term{Name: "kept back, but for sale", Weight: 1, Value: c.Score - sum, Contribution: c.Score - sum})
			}
			c.Terms = append(c.Terms, Term{Name: "preferences", Weight: s.Care.Price, Value: soft, Contribution: s.Care.Price * soft})
		}
	}
}
