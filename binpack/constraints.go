package binpack

import (
	"iter"
	"math/bits"
	"slices"
)

type groupInfo struct {
	apps    []int32
	limit   int32
	spread  int32
	effects []Effect // rules by which one more of this group may block others
	into    []Rule   // rules (A, this, k)
	out     []Rule   // rules (this, B, k)
	simple  bool     // all effects happen with the first item
	capped  bool     // a rule (A, this, k > 0) limits the group on a machine with A
}

// limits hold the machines that constraints, types and zones close to apps.
type limits struct {
	columns

	// offered has a bit for every machine that may be a candidate.
	offered []uint64

	// blocked has for each app a row of words bits over machines: constraint
	// or type forbids one more item there. blockedBy is its transpose.
	blocked    []uint64
	words      int // of a row of blocked
	blockedBy  []uint64
	holding    []uint64 // for each group a row of words
	appWords   int      // of a row of blockedBy that hold apps
	appStride  int      // of a row of blockedBy; the rest is for later apps
	regrouped  []int32  // see Regrouped
	groups     []groupInfo
	spread     []int32    // per group: machines that hold it
	typeBlocks [][]uint64 // per machine type: bits of apps that must not use it; nil = no bits
	typed      int        // machines whose types are in blocked
	zones      zones
}

// An Effect of a group on another: with at least Own items of the group and
// Others items of Other on a machine, Other is closed there.
type Effect struct {
	Other, Own, Others int32
}

func (s *limits) compileRules() {
	for g := range s.groups {
		s.groups[g].simple = true
	}
	for _, r := range s.inst.Rules {
		s.compileRule(r)
	}
}

func (s *limits) compileRule(r Rule) {
	a, b := &s.groups[r.A], &s.groups[r.B]
	a.out = append(a.out, r)
	b.into = append(b.into, r)
	a.addEffect(Effect{r.B, 1, r.Max})
	b.addEffect(Effect{r.A, r.Max + 1, 0})
	if r.Max > 0 {
		b.capped = true
	}
}

func (g *groupInfo) addEffect(e Effect) {
	if !slices.Contains(g.effects, e) {
		g.effects = append(g.effects, e)
		g.simple = g.simple && e.Own <= 1 && e.Others == 0
	}
}

func (s *limits) compileTypes() {
	restricted := false
	for _, app := range s.inst.Apps {
		restricted = restricted || app.Types != nil
	}
	if !restricted {
		return
	}
	s.typeBlocks = make([][]uint64, len(s.inst.Types))
	for t := range s.typeBlocks {
		row := make([]uint64, s.appStride)
		for a, app := range s.inst.Apps {
			if !app.MayUse(int32(t)) {
				row[a/64] |= 1 << (a % 64)
			}
		}
		s.typeBlocks[t] = row
	}
}

// MayUse reports whether an app may use machines of a type.
func (a *App) MayUse(machineType int32) bool {
	return a.Types == nil || slices.Contains(a.Types, machineType)
}

// FitsEmpty reports whether an empty machine of a type takes an item of the app, by types and capacity alone.
func (a *App) FitsEmpty(machineType int32, capacity []int64) bool {
	for d, need := range a.Demand {
		if need > capacity[d] {
			return false
		}
	}
	return a.MayUse(machineType)
}

// Spread is the number of machines that hold a group.
func (s *limits) Spread(group int32) int32 { return s.spread[group] }

// Holding is a bitset of the machines that hold a group. Read only.
func (s *limits) Holding(group int32) []uint64 {
	row := int(group) * s.words
	return s.holding[row : row+len(s.offered)]
}

// holders are the machines that hold a group.
func (s *limits) holders(group int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for w, word := range s.Holding(group) {
			for ; word != 0; word &= word - 1 {
				if !yield(int32(w*64 + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}

// Holds reports whether a machine holds a group.
func (s *limits) Holds(group, m int32) bool {
	return s.holding[int(group)*s.words+int(m)/64]>>(m%64)&1 != 0
}

// Blocked is a bitset of the machines that a constraint or their type closes
// to an app. Capacity, devices and spread are not part of it. Read only.
func (s *limits) Blocked(app int32) []uint64 {
	if s.typeBlocks != nil {
		s.blockTypes()
	}
	row := int(app) * s.words
	return s.blocked[row : row+len(s.offered)]
}

// BlockedApps is a bitset of the apps that a constraint or its type closes a
// machine to: the transpose of Blocked. Read only.
func (s *limits) BlockedApps(m int32) []uint64 {
	row := int(m) * s.appStride
	return s.blockedBy[row : row+s.appWords]
}

// Effects lists the effects by which items of a group may close machines. Read only.
func (s *limits) Effects(group int32) []Effect { return s.groups[group].effects }

// Count is the number of items of a group on a machine.
func (s *columns) Count(group, m int32) int32 {
	n := int32(0)
	for _, e := range s.contents[m] {
		if e.Group == group {
			n += e.Count
		}
	}
	return n
}

func (s *limits) spreadAllows(app, m int32) bool {
	g := s.inst.Apps[app].Group
	spread := s.groups[g].spread
	return spread <= 1 || s.Spread(g) >= spread || s.Count(g, m) == 0
}

// close updates which apps machine m is blocked for after the count-th item of a
// group arrived.
func (s *limits) close(group, m, count int32) {
	gi := &s.groups[group]
	if gi.limit > 0 && count >= gi.limit || gi.capped && s.groupBlocked(group, m) {
		s.setBlocked(gi, m)
	}
	if gi.simple && count > 1 {
		return
	}
	for _, e := range gi.effects {
		if count >= e.Own && (e.Others == 0 || s.Count(e.Other, m) >= e.Others) {
			s.setBlocked(&s.groups[e.Other], m)
		}
	}
}

func (s *limits) setBlocked(gi *groupInfo, m int32) {
	for _, a := range gi.apps {
		s.blockApp(a, m)
	}
}

func (s *limits) blockApp(a, m int32) {
	s.blocked[int(a)*s.words+int(m)/64] |= 1 << (m % 64)
	s.blockedBy[int(m)*s.appStride+int(a)/64] |= 1 << (a % 64)
}

// refreshBlocked computes again whether a group is blocked on a machine.
func (s *limits) refreshBlocked(group, m int32) {
	gi := &s.groups[group]
	if s.groupBlocked(group, m) {
		s.setBlocked(gi, m)
		return
	}
	for _, a := range gi.apps {
		if s.typeBlocks != nil && s.typeBlocks[s.kinds[s.kind[m]].Type][a/64]>>(a%64)&1 != 0 {
			continue
		}
		s.blocked[int(a)*s.words+int(m)/64] &^= 1 << (m % 64)
		s.blockedBy[int(m)*s.appStride+int(a)/64] &^= 1 << (a % 64)
	}
}

// groupBlocked reports whether limit or rules forbid one more of a group.
func (s *limits) groupBlocked(group, m int32) bool {
	gi := &s.groups[group]
	count := s.Count(group, m)
	if gi.limit > 0 && count >= gi.limit {
		return true
	}
	for _, r := range gi.into {
		if count >= r.Max && s.Count(r.A, m) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(gi.out, func(r Rule) bool { return s.Count(r.B, m) > r.Max })
}

// narrow reports whether the spread rule leaves a group only machines without it.
func (s *limits) narrow(group int32) bool {
	spread := s.groups[group].spread
	return spread > 1 && s.Spread(group) < spread
}
