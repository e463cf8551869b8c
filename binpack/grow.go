package binpack

import "slices"

// AddApp adds an app behind the others and returns its index. Nothing else changes: the
// state is that of the larger instance, with the same items and the same history.
//
// app.Group is an index; with the number of groups, group is created. at is the app's
// place among those of its group: models add floats in that order. The cost does not
// depend on the number of apps, but for memory that grows by half at a time.
func (s *State) AddApp(app App, group Group, at int) int32 {
	a := int32(len(s.inst.Apps))
	s.inst.Apps = append(s.inst.Apps, app)
	if int(app.Group) == len(s.groups) {
		s.inst.Groups = append(s.inst.Groups, group)
		s.groups = append(s.groups, groupInfo{limit: group.Limit, spread: group.SpreadMin, simple: true})
		s.spread = append(s.spread, 0)
		s.holding = slices.Grow(s.holding, s.words)[:len(s.holding)+s.words]
		clear(s.holding[len(s.holding)-s.words:])
		s.zones.addGroup(group.Zone)
	}
	s.groups[app.Group].apps = slices.Insert(s.groups[app.Group].apps, at, a)
	if s.least != nil {
		s.peak = append(s.peak, peaks(app.Demand))
	}
	s.addHistory()
	s.addRow(a)
	s.regrouped = append(s.regrouped, app.Group)
	return a
}

// addHistory begins the history of a new app.
func (s *State) addHistory() {
	for _, column := range []*[]int64{&s.seen, &s.requests, &s.sumSq, &s.alive, &s.sampled} {
		*column = append(*column, 0)
	}
	if s.Declared != nil {
		s.Declared = append(s.Declared, -1)
	}
	known := &s.Known
	if known.Expected != nil {
		known.Expected = append(known.Expected, -1)
	}
	if known.Lifetime != nil {
		known.Lifetime = append(known.Lifetime, -1)
	}
	if known.Total != nil {
		known.Total = append(known.Total, 0)
	}
}

// addRow finds the machines that are closed to a new app.
func (s *limits) addRow(a int32) {
	if s.appWords = int(a)/64 + 1; s.appWords > s.appStride {
		s.widen(s.appWords + s.appWords/2)
	}
	s.blocked = slices.Grow(s.blocked, s.words)[:len(s.blocked)+s.words]
	clear(s.blocked[int(a)*s.words:])
	app := &s.inst.Apps[a]
	if app.Types != nil {
		s.addTypes(a)
	}
	if gi := &s.groups[app.Group]; gi.limit == 0 && len(gi.into)+len(gi.out) == 0 || s.Spread(app.Group) == 0 && len(gi.effects) == 0 {
		return
	}
	for m := range int32(len(s.kind)) {
		if s.groupBlocked(app.Group, m) {
			s.blockApp(a, m)
		}
	}
}

// addTypes closes the machines of other types to a new app.
func (s *limits) addTypes(a int32) {
	if s.typeBlocks == nil {
		s.typeBlocks = make([][]uint64, len(s.inst.Types))
		for t := range s.typeBlocks {
			s.typeBlocks[t] = make([]uint64, s.appStride)
		}
	}
	app := &s.inst.Apps[a]
	for t, row := range s.typeBlocks {
		if !app.MayUse(int32(t)) {
			row[a/64] |= 1 << (a % 64)
		}
	}
	for m, k := range s.kind {
		if !app.MayUse(s.kinds[k].Type) {
			s.blockApp(a, int32(m))
		}
	}
}

// widen gives the rows over apps more words.
func (s *limits) widen(stride int) {
	rows := make([]uint64, len(s.kind)*stride)
	for m := range s.kind {
		copy(rows[m*stride:], s.blockedBy[m*s.appStride:(m+1)*s.appStride])
	}
	for t, row := range s.typeBlocks {
		s.typeBlocks[t] = append(make([]uint64, 0, stride), row...)[:stride]
	}
	s.blockedBy, s.appStride = rows, stride
}

// AddRules adds rules behind the others. Machines that they close, or that hold one of
// their groups, have changed. The cost does not depend on the number of apps.
func (s *State) AddRules(rules []Rule) {
	partners := map[int32][]int32{} // by group with items: those it may close a machine to
	for _, r := range rules {
		s.inst.Rules = append(s.inst.Rules, r)
		s.compileRule(r)
		s.regrouped = append(s.regrouped, r.A, r.B)
		if s.Spread(r.A) > 0 {
			partners[r.A] = append(partners[r.A], r.B)
		}
		if s.Spread(r.B) > 0 {
			partners[r.B] = append(partners[r.B], r.A)
		}
	}
	if len(partners) == 0 {
		return
	}
	stands := make([]bool, len(s.groups))
	for g := range partners {
		stands[g] = true
	}
	for m := range int32(len(s.kind)) {
		found := false
		for _, e := range s.contents[m] {
			if !stands[e.Group] {
				continue
			}
			found = true
			for _, other := range partners[e.Group] {
				s.refreshBlocked(other, m)
			}
		}
		if found {
			s.note(m, -1)
		}
	}
}

// GroupApps are the apps of a group. Read only.
func (s *limits) GroupApps(group int32) []int32 { return s.groups[group].apps }

// Regrouped lists the groups that [State.AddApp] and [State.AddRules] gave an app or a
// rule, in that order, some more than once. Read only.
func (s *limits) Regrouped() []int32 { return s.regrouped }
