package binpack

import (
	"errors"
	"math/bits"
)

// A Reason is the reason why a machine does not take an item.
type Reason struct {
	Kind ReasonKind
	// Index is the dimension of TooSmall and NoDevice, and of RuleForbids the
	// rule's place in Instance.Rules, or in ZoneRules.
	Index int
	Zone  bool // the constraint is about the machine's zone
}

// ReasonKind is the constraint that forbids it.
type ReasonKind uint8

// The constraints in the order in which they are checked.
const (
	Accepted ReasonKind = iota
	TooSmall            // less is free than the item needs
	NoDevice            // enough is free in all, but not on suitable devices
	WrongType
	LimitReached
	RuleForbids
	SpreadWanted // the group must be on more machines first
	NoZone       // the machine has no zone
	Uneven       // the zone would hold too many more than another one
)

// Why is the first reason, in the order of kinds, dimensions and rules, for
// which a machine does not take one more item of an app; Accepted when it does. It
// agrees with Fits and is slow.
func (s *room) Why(app, m int32) Reason {
	return s.why(app, m, s.rulesOf(s.inst.Apps[app].Group))
}

// Rejections counts the machines on offer that do not take one more item of an
// app, each by its first reason (see [State.Why]), and all machines on offer.
func (s *room) Rejections(app int32) (counts map[Reason]int, offered int) {
	counts = map[Reason]int{}
	rules := s.rulesOf(s.inst.Apps[app].Group)
	for w, word := range s.offered {
		for ; word != 0; word &= word - 1 {
			m := int32(w*64 + bits.TrailingZeros64(word))
			offered++
			if r := s.why(app, m, rules); r.Kind != Accepted {
				counts[r]++
			}
		}
	}
	return counts, offered
}

// rulesOf lists the rules that a group is part of, by index.
func (s *columns) rulesOf(group int32) []int {
	var list []int
	for i, r := range s.inst.Rules {
		if r.A == group || r.B == group {
			list = append(list, i)
		}
	}
	return list
}

func (s *room) why(app, m int32, rules []int) Reason {
	a := &s.inst.Apps[app]
	for d, need := range a.Demand {
		if need > s.free[d][m] {
			return Reason{Kind: TooSmall, Index: d}
		}
	}
	for _, d := range s.deviceDims {
		if !s.deviceFits(a.Demand[d], m, d) {
			return Reason{Kind: NoDevice, Index: d}
		}
	}
	if s.typeBlocks != nil && s.typeBlocks[s.kinds[s.kind[m]].Type][app/64]>>(app%64)&1 != 0 {
		return Reason{Kind: WrongType}
	}
	count := s.Count(a.Group, m)
	if limit := s.groups[a.Group].limit; limit > 0 && count >= limit {
		return Reason{Kind: LimitReached}
	}
	for _, i := range rules {
		// With the item there: some of A, and more than Max of B.
		r := s.inst.Rules[i]
		if r.A == a.Group && s.Count(r.B, m) > r.Max || r.B == a.Group && count >= r.Max && s.Count(r.A, m) > 0 {
			return Reason{Kind: RuleForbids, Index: i}
		}
	}
	if !s.spreadAllows(app, m) {
		return Reason{Kind: SpreadWanted}
	}
	return s.whyZone(app, m)
}

// deviceFits reports whether the devices of one dimension serve a demand.
func (s *room) deviceFits(need int64, m int32, d int) bool {
	one := s.inst.Dimensions[d].One
	wanted := need / one
	if need > 0 && need < one {
		wanted = 1
	}
	for _, share := range s.Devices(m, d) {
		if share >= min(need, one) {
			wanted--
		}
	}
	return wanted <= 0
}

// A Term is a part of a score. Contribution is Weight·Value unless the term
// does not count on this machine, then 0.
type Term struct {
	Name                        string
	Weight, Value, Contribution float64
}

// An Explainer is a Scorer that takes its scores apart.
type Explainer interface {
	Scorer
	// Explain gives for a candidate the terms whose contributions add up to its
	// score (to the rounding of sums); an empty list where the score has no parts.
	// Terms are in the same order for all candidates.
	Explain(item Item, m int32) []Term
}

// An Explanation takes a ranking apart.
type Explanation struct {
	Candidates int     // machines that were compared
	Choice     *Choice // of a [Switch]; nil = the scorer is not one
	// Chosen is nil without a candidate, RunnerUp with fewer than two.
	Chosen, RunnerUp *Candidate
	Tied             int // other candidates with the score of the chosen one
	// Fleet reports whether empty machines were kept back; nil = the policy never does.
	Fleet *FleetTarget
	// Preferences is nil where the item prefers nothing and no share of its app counts.
	Preferences *Preferences
	// Fallback: a score was not finite, and the fallback's ranking is shown.
	Fallback bool
}

// A Candidate is a machine that takes the item.
type Candidate struct {
	Machine     int32
	Line, Index int32
	Items       int32   // already on it
	Free        []int64 // per dimension, before
	Score       float64
	Terms       []Term // of the score; empty where it has no parts
}

// Explain ranks candidates as [State.Rank] does, by the fallback where a score is
// not finite, and takes the first two apart.
func (s *State) Explain(scorer, fallback Scorer, item Item, candidates []int32) (Explanation, error) {
	e := Explanation{Candidates: len(candidates)}
	if choice, ok := ChoiceOf(scorer); ok {
		e.Choice, scorer = &choice, deciding(scorer)
	}
	ranked, err := s.Rank(scorer, item, candidates, len(candidates), nil)
	if errors.Is(err, ErrNotFinite) {
		e.Fallback, scorer = true, fallback
		ranked, err = s.Rank(scorer, item, candidates, len(candidates), nil)
	}
	if err != nil {
		return Explanation{}, err
	}
	if f, ok := scorer.(FleetExplainer); ok {
		target := f.ExplainFleet()
		e.Fleet = &target
	}
	if len(ranked) > 0 {
		e.Chosen = s.describe(scorer, item, ranked[0])
		e.Preferences = s.explainPreferences(scorer, item, candidates, ranked[0])
	}
	if len(ranked) > 1 {
		e.RunnerUp = s.describe(scorer, item, ranked[1])
	}
	s.explainTrade(item, &e, candidates)
	for e.Tied+1 < len(ranked) && ranked[e.Tied+1].Score == ranked[0].Score {
		e.Tied++
	}
	return e, nil
}

func (s *State) describe(scorer Scorer, item Item, r Ranked) *Candidate {
	c := &Candidate{Machine: r.Machine, Items: s.items[r.Machine], Score: r.Score}
	c.Line, c.Index = s.Position(r.Machine)
	for d := range s.free {
		c.Free = append(c.Free, s.free[d][r.Machine])
	}
	if e, ok := scorer.(Explainer); ok {
		c.Terms = e.Explain(item, r.Machine)
	}
	return c
}

// A FleetTarget reports whether empty machines are kept back, with the reason.
type FleetTarget struct {
	KeptBack bool
	Why      string
	// Wanted is per dimension, where there is a target: in machines of the
	// largest capacity.
	Wanted []FleetWanted
	By     string // the source of the volume's estimate
}

// FleetWanted is the target of a dimension.
type FleetWanted struct {
	Volume  float64 // estimated, of all past and future items
	Arrived float64 // part of it; once items have left, the living items
	Target  float64 // machines wanted open by now
	Open    float64 // machines in use
}

// A FleetExplainer is a Scorer that may keep empty machines back.
type FleetExplainer interface {
	Scorer
	// ExplainFleet describes the state at the time of the latest Score.
	ExplainFleet() FleetTarget
}
