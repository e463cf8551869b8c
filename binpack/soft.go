package binpack

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A SoftTerm is something that the items of an app prefer. It never leaves an item
// without a machine.
type SoftTerm struct {
	Kind   SoftKind
	Zone   bool  // it looks at zones, not at machines
	Weight int32 // 1 to 100
	Group  int32 // whose items count
}

// SoftKind is the kind of preference of a [SoftTerm].
type SoftKind uint8

// The kinds of terms. A term that holds on a machine adds its weight to the machine's
// soft score.
const (
	Apart SoftKind = iota // holds where the machine or zone has no item of the group
	Near                  // holds where it has one
	Even                  // takes off the weight for each item of the group beyond the least that a candidate's has
)

var softKinds, softScopes = []string{"apart", "near", "even"}, []string{"machine", "zone"}

// ParseSoftTerm reads kind:scope:weight[:group], as apps.csv and decision logs have it.
// The group is its name; "" = the app's own.
func ParseSoftTerm(text string) (term SoftTerm, group string, err error) {
	parts := strings.SplitN(text, ":", 4)
	if len(parts) < 3 {
		return term, "", fmt.Errorf("%q: want kind:scope:weight or kind:scope:weight:group", text)
	}
	kind, scope := slices.Index(softKinds, parts[0]), slices.Index(softScopes, parts[1])
	weight, err := strconv.Atoi(parts[2])
	switch {
	case kind < 0:
		return term, "", fmt.Errorf("%q: kind %q: want apart, near or even", text, parts[0])
	case scope < 0:
		return term, "", fmt.Errorf("%q: scope %q: want machine or zone", text, parts[1])
	case err != nil || weight < 1 || weight > 100:
		return term, "", fmt.Errorf("%q: weight %q: want 1 to 100", text, parts[2])
	}
	if len(parts) == 4 {
		if group = parts[3]; group == "" {
			return term, "", fmt.Errorf("%q: the group is empty", text)
		}
	}
	return SoftTerm{Kind: SoftKind(kind), Zone: scope == 1, Weight: int32(weight)}, group, nil
}

// Text returns the form that [ParseSoftTerm] reads.
func (t SoftTerm) Text(group string) string {
	scope := softScopes[0]
	if t.Zone {
		scope = softScopes[1]
	}
	text := fmt.Sprintf("%s:%s:%d", softKinds[t.Kind], scope, t.Weight)
	if group != "" {
		text += ":" + group
	}
	return text
}

// SoftMode is a policy's handling of preferences; "" is [SoftKeep].
type SoftMode string

// The modes.
const (
	SoftKeep   SoftMode = "keep"   // the policy decides among the machines of the best soft score
	SoftTrade  SoftMode = "trade"  // the soft score is part of the policy's
	SoftIgnore SoftMode = "ignore" // the policy decides alone
)

// Care is the extent to which preferences bind a policy. The zero value keeps them all.
type Care struct {
	Mode  SoftMode
	Loss  float64 // of keep: how far below the best soft score a machine may be
	Price float64 // of trade: a soft score of 1 in the policy's score
	// MaxShareOfApp is the share of a group's declared items that one machine holds, at least
	// one, while another that takes the item holds less; 0 = the instance's.
	MaxShareOfApp float64
}

// Validate reports the first fault, with its field.
func (c Care) Validate() error {
	switch {
	case !slices.Contains([]SoftMode{"", SoftKeep, SoftTrade, SoftIgnore}, c.Mode):
		return fmt.Errorf("soft.mode %q: want keep, trade or ignore", c.Mode)
	case !(c.Loss >= 0 && c.Loss <= 1e6):
		return fmt.Errorf("soft.loss %v: want 0 to 1e6", c.Loss)
	case c.Loss > 0 && c.Mode != "" && c.Mode != SoftKeep:
		return fmt.Errorf("soft.loss %v: the mode %s has none; keep has", c.Loss, c.Mode)
	case !(c.Price >= 0 && c.Price <= 1e6):
		return fmt.Errorf("soft.price %v: want 0 to 1e6", c.Price)
	case (c.Price > 0) != (c.Mode == SoftTrade):
		return fmt.Errorf("soft.price %v: the mode trade has one above 0, the others none", c.Price)
	case !(c.MaxShareOfApp >= 0 && c.MaxShareOfApp <= 1):
		return fmt.Errorf("maxShareOfApp %v: want a number above 0, up to 1", c.MaxShareOfApp)
	}
	return nil
}

// CareOf returns the Care that a policy states, or the zero value.
func CareOf(p Policy) Care {
	if c, ok := p.(interface{ Care() Care }); ok {
		return c.Care()
	}
	return Care{}
}

// softLimits weigh the preferences of items.
type softLimits struct {
	classIndex

	// Care is the extent to which preferences bind the policy; the driver fills it.
	Care Care
	// Declared is the number of items that a share of an app refers to, per app: the expected
	// items, at every level of knowledge. Scorers do not read it; the driver fills it.
	Declared []float64

	soft       []float64 // of softScores
	kept, best []int32   // of preferred
	onMachine  []float64 // of softScores and full, by machine; 0 between two calls
	inZone     []float64 // of softScores
	marked     []int32   // of full
}

// cares reports whether preferences affect the placement of an app's items.
func (s *softLimits) cares(app int32) bool {
	return s.hasTerms(app) || s.shareLimit(app) > 0
}

// hasTerms reports whether soft terms affect the placement of an app's items.
func (s *softLimits) hasTerms(app int32) bool {
	return len(s.inst.Apps[app].Soft) > 0 && s.Care.Mode != SoftIgnore
}

// shareLimit is the most items of an app's group that a machine should hold; 0 = any
// number.
func (s *softLimits) shareLimit(app int32) int32 {
	share := s.Care.MaxShareOfApp
	share = cmp.Or(share, s.inst.MaxShareOfApp)
	if share == 0 || share == 1 || s.Declared == nil {
		return 0
	}
	declared := 0.
	for _, a := range s.groups[s.inst.Apps[app].Group].apps {
		declared += max(0, s.Declared[a])
	}
	if declared == 0 {
		return 0
	}
	return int32(min(math.MaxInt32, max(1, math.Ceil(share*declared-1e-9))))
}

// full lists the machines that hold limit items of a group or more, and marks them in onMachine.
func (s *softLimits) full(group, limit int32) []int32 {
	s.marked = s.marked[:0]
	s.onMachine = extend(s.onMachine, len(s.kind))
	for m := range s.holders(group) {
		if s.Count(group, m) >= limit {
			s.marked = append(s.marked, m)
			s.onMachine[m] = 1
		}
	}
	return s.marked
}

// there reports whether a machine need not be added first. An empty machine of a line without
// limit is one that an autoscaler would add, and no autoscaler adds one for a preference.
func (s *softLimits) there(m int32) bool {
	return !s.zones.elastic || s.items[m] > 0 || s.inst.Machines[s.line[m]].Count != Unlimited
}

// EmptyPenalty is subtracted by learned policies from the score of an empty machine that they
// keep back; it exceeds any score.
const EmptyPenalty = 1e6

// sellKeptBack gives machines that are kept back a score that preferences can outweigh: 1 less
// than the least of the others, where there are any. Machines that would have to be added first
// are not for sale.
func (s *softLimits) sellKeptBack(candidates []int32, scores []float64) {
	least := math.Inf(1)
	for _, score := range scores {
		if score > -EmptyPenalty/2 {
			least = min(least, score)
		}
	}
	for i, score := range scores {
		if score <= -EmptyPenalty/2 && !math.IsInf(least, 1) && s.there(candidates[i]) {
			scores[i] = least - 1
		}
	}
}

// bestThere is the best score of the machines that are there; −∞ without one.
func (s *softLimits) bestThere(candidates []int32, scores []float64) float64 {
	best := math.Inf(-1)
	for i, m := range candidates {
		if scores[i] > best && s.there(m) {
			best = scores[i]
		}
	}
	return best
}

// tradedScores are the soft scores of candidates where they are part of the policy's: no machine
// is added for a preference, so that one that is not there has at most the best of those that are.
func (s *softLimits) tradedScores(app int32, candidates []int32) []float64 {
	scores := s.softScores(s.inst.Apps[app].Soft, candidates)
	best := s.bestThere(candidates, scores)
	for i, m := range candidates {
		if !s.there(m) && !math.IsInf(best, -1) {
			scores[i] = min(scores[i], best)
		}
	}
	return scores
}

// GivenUp is the share of an app's soft terms, by weight, that its next item would give up on a
// machine that takes it: how far the soft score is below the best of those that are there, 1 at
// most. ok is false where the app prefers nothing.
func (s *softLimits) GivenUp(app, m int32) (share float64, ok bool) {
	terms := s.inst.Apps[app].Soft
	if len(terms) == 0 {
		return 0, false
	}
	weights := 0.
	for _, t := range terms {
		weights += float64(t.Weight)
	}
	candidates := s.Feasible(app, nil)
	scores := s.softScores(terms, candidates)
	best, at := s.bestThere(candidates, scores), slices.Index(candidates, m)
	if at < 0 || math.IsInf(best, -1) {
		return 0, true
	}
	return min(1, max(0, best-scores[at])/weights), true
}

// softScores are the soft scores of candidates, valid until the next call. They are sums of
// whole numbers: a part of all candidates, and the additional parts of some machines and
// zones.
func (s *softLimits) softScores(terms []SoftTerm, candidates []int32) []float64 {
	s.soft = slices.Grow(s.soft[:0], len(candidates))[:len(candidates)]
	all := s.tally(terms, candidates)
	soft, onMachine, inZone, line, ofLine := s.soft, s.onMachine, s.inZone, s.line, s.zones.ofLine
	for i, m := range candidates {
		z := int32(0)
		if ofLine != nil {
			z = ofLine[line[m]]
		}
		soft[i] = all + onMachine[m] + inZone[z]
	}
	s.endTally(terms)
	return s.soft
}

// tally sums the scores of terms: over all machines, and in onMachine and inZone the additional ones. Without
// candidates the sums of all machines are higher or lower by the same number.
func (s *softLimits) tally(terms []SoftTerm, candidates []int32) (all float64) {
	s.onMachine = extend(s.onMachine, len(s.kind))
	s.inZone = extend(s.inZone, max(1, len(s.zones.count)))
	clear(s.inZone)
	for _, t := range terms {
		least := int32(0)
		if t.Kind == Even && candidates != nil {
			least = s.fewest(t, candidates)
		}
		if t.Zone {
			for z := range s.inZone {
				s.inZone[z] += t.score(s.countIn(t.Group, int32(z)), least)
			}
			continue
		}
		none := t.score(0, least)
		all += none
		for m := range s.holders(t.Group) {
			s.onMachine[m] += t.score(s.Count(t.Group, m), least) - none
		}
	}
	return all
}

// endTally makes onMachine zeros again.
func (s *softLimits) endTally(terms []SoftTerm) {
	for _, t := range terms {
		if !t.Zone {
			for m := range s.holders(t.Group) {
				s.onMachine[m] = 0
			}
		}
	}
}

// extend appends zeros up to a length.
func extend(list []float64, n int) []float64 {
	if n > len(list) {
		list = append(list, make([]float64, n-len(list))...)
	}
	return list
}

// score is the contribution of a term where n of the items that it counts are; least is
// their lowest number on a candidate.
func (t SoftTerm) score(n, least int32) float64 {
	switch {
	case t.Kind == Even:
		return -float64(t.Weight) * float64(n-least)
	case (n > 0) == (t.Kind == Near):
		return float64(t.Weight)
	}
	return 0
}

// fewest is the fewest items that a term counts on, or in the zone of, any candidate.
func (s *softLimits) fewest(t SoftTerm, candidates []int32) int32 {
	if !t.Zone && len(candidates) > int(s.Spread(t.Group)) {
		return 0 // one of them has no such item
	}
	lowest, least := int32(0), int32(math.MaxInt32)
	if t.Zone {
		lowest = math.MaxInt32
		for z := range s.inZone {
			lowest = min(lowest, s.countIn(t.Group, int32(z)))
		}
	}
	for _, m := range candidates {
		switch {
		case t.Zone && s.zones.ofLine == nil:
			return s.countIn(t.Group, 0)
		case t.Zone:
			least = min(least, s.countIn(t.Group, s.zones.ofLine[s.line[m]]))
		default:
			least = min(least, s.Count(t.Group, m))
		}
		if least == lowest { // no candidate has fewer
			break
		}
	}
	return least
}
