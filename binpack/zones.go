package binpack

import "slices"

// ZoneLimits are hard: no item of their group is placed against them, and no such item on a
// machine without a zone. The zero value sets no limit.
type ZoneLimits struct {
	Limit     int32 // items in a zone; 0 = no limit
	SpreadMin int32 // distinct zones before any zone takes a second; 0 or 1 = no spread
	// Skew is the most items by which a zone may exceed the zone that holds fewest, of those with
	// a machine of a type that the app may use; 0 = any number. Kubernetes calls it maxSkew.
	Skew int32
}

// Binds reports whether the limits refuse anything at all.
func (z ZoneLimits) Binds() bool { return z.Limit > 0 || z.SpreadMin > 1 || z.Skew > 0 }

// And are the stricter of both limits.
func (z ZoneLimits) And(other ZoneLimits) ZoneLimits {
	least := func(a, b int32) int32 {
		if a == 0 || b > 0 && b < a {
			return b
		}
		return a
	}
	return ZoneLimits{least(z.Limit, other.Limit), max(z.SpreadMin, other.SpreadMin), least(z.Skew, other.Skew)}
}

// Refuses returns the reason why a zone takes no more items of the group: LimitReached,
// SpreadWanted or Uneven; Accepted = it does. The zone holds own of them, held zones hold
// some, and every zone holds at least fewest. With more = 0 it is the reason why the zone has
// too many. The scheduler plugin calls it for machines too: their limits are of the same form.
func (z ZoneLimits) Refuses(own, more, held, fewest int32) ReasonKind {
	switch {
	case z.Limit > 0 && own+more > z.Limit:
		return LimitReached
	case more > 0 && own > 0 && held < z.SpreadMin:
		return SpreadWanted
	case z.Skew > 0 && more > 0 && own+more-fewest > z.Skew:
		return Uneven
	}
	return Accepted
}

// Forbids reports whether the rule forbids that so many items of A and B are together.
func (r Rule) Forbids(a, b int32) bool { return a > 0 && b > r.Max }

// zones counts the items of each group in each zone. Machines without a zone are in one
// of their own, for preferences; hard limits refuse them.
type zones struct {
	ofLine  []int32   // nil = no machine has a zone
	elastic bool      // a line has no limit
	hard    bool      // limits or rules by zone bind some group
	count   [][]int32 // [zone][group]
	none    int32     // the zone of machines without one; -1 = there are no such machines
	types   [][]bool  // [zone][machine type]: it has such machines
	rules   [][]int32 // per group: those of Instance.ZoneRules that it is part of; nil = no zone rules
	closed  []bool    // of closedZones
}

func (z *zones) compile(inst *Instance) {
	z.elastic = slices.ContainsFunc(inst.Machines, func(m MachineLine) bool { return m.Count == Unlimited })
	z.addRules(inst)
	z.hard = z.rules != nil || slices.ContainsFunc(inst.Groups, func(g Group) bool { return g.Zone.Binds() })
	if !slices.ContainsFunc(inst.Machines, func(m MachineLine) bool { return m.Zone != "" }) {
		return
	}
	index := map[string]int32{}
	z.none = -1
	for _, m := range inst.Machines {
		i, ok := index[m.Zone]
		if !ok {
			i = int32(len(index))
			index[m.Zone] = i
			z.count = append(z.count, make([]int32, len(inst.Groups)))
			z.types = append(z.types, make([]bool, len(inst.Types)))
		}
		if m.Zone == "" {
			z.none = i
		}
		z.types[i][m.Type] = z.types[i][m.Type] || m.Count != 0
		z.ofLine = append(z.ofLine, i)
	}
}

func (z *zones) addRules(inst *Instance) {
	if len(inst.ZoneRules) == 0 {
		return
	}
	z.rules = make([][]int32, len(inst.Groups))
	for i, r := range inst.ZoneRules {
		z.rules[r.A], z.rules[r.B] = append(z.rules[r.A], int32(i)), append(z.rules[r.B], int32(i))
	}
}

// rulesOf lists the rules by zone that a group is part of.
func (z *zones) rulesOf(group int32) []int32 {
	if z.rules == nil {
		return nil
	}
	return z.rules[group]
}

// add counts items of a group that arrived on a machine of a line, or left it.
func (z *zones) add(line, group, items int32) {
	if z.ofLine != nil {
		z.count[z.ofLine[line]][group] += items
	}
}

func (z *zones) addGroup(limits ZoneLimits) {
	z.hard = z.hard || limits.Binds()
	for i := range z.count {
		z.count[i] = append(z.count[i], 0)
	}
	if z.rules != nil {
		z.rules = append(z.rules, nil)
	}
}

func (z *zones) reset() {
	for _, row := range z.count {
		clear(row)
	}
}

// countIn is the number of items of a group in a zone. Without zones all machines are in one.
func (s *limits) countIn(group, zone int32) int32 {
	if s.zones.ofLine != nil {
		return s.zones.count[zone][group]
	}
	n := int32(0)
	for _, a := range s.groups[group].apps {
		n += int32(s.alive[a])
	}
	return n
}

// ByZone reports whether hard limits or rules by zone bind a group.
func (s *limits) ByZone(group int32) bool {
	return s.zones.hard && (s.inst.Groups[group].Zone.Binds() || len(s.zones.rulesOf(group)) > 0)
}

// whyZone is the reason why the zone of a machine does not take one more item of an app.
func (s *limits) whyZone(app, m int32) Reason {
	if !s.ByZone(s.inst.Apps[app].Group) {
		return Reason{}
	}
	zone := int32(0)
	if s.zones.ofLine != nil {
		zone = s.zones.ofLine[s.line[m]]
	}
	held, fewest := s.zoned(app)
	return s.refusedIn(app, zone, held, fewest)
}

// zoned is the number of zones that hold the group of an app, and the least number of its
// items in a zone that the app may use.
func (s *limits) zoned(app int32) (held, fewest int32) {
	a, any := &s.inst.Apps[app], false
	for i, row := range s.zones.count {
		if int32(i) == s.zones.none {
			continue
		}
		n := row[a.Group]
		if n > 0 {
			held++
		}
		if (!any || n < fewest) && s.zones.has(i, a) {
			fewest, any = n, true
		}
	}
	return held, fewest
}

// has reports whether a zone has machines that an app may use.
func (z *zones) has(zone int, a *App) bool {
	if a.Types == nil {
		return true
	}
	return slices.ContainsFunc(a.Types, func(t int32) bool { return z.types[zone][t] })
}

// refusedIn is the reason why a zone does not take one more item of an app.
func (s *limits) refusedIn(app, zone, held, fewest int32) Reason {
	group := s.inst.Apps[app].Group
	limits := s.inst.Groups[group].Zone
	if s.zones.ofLine == nil || zone == s.zones.none {
		if limits.Binds() {
			return Reason{Kind: NoZone, Zone: true}
		}
		return Reason{} // a machine without a zone shares no zone
	}
	count := s.zones.count[zone]
	if kind := limits.Refuses(count[group], 1, held, fewest); kind != Accepted {
		return Reason{Kind: kind, Zone: true}
	}
	for _, i := range s.zones.rulesOf(group) {
		r := s.inst.ZoneRules[i]
		a, b := count[r.A], count[r.B]
		if r.A == group {
			a++
		} else {
			b++
		}
		if r.Forbids(a, b) {
			return Reason{Kind: RuleForbids, Index: int(i), Zone: true}
		}
	}
	return Reason{}
}

// openZones removes the machines from list whose zones do not take one more item of an app.
func (s *limits) openZones(app int32, list []int32) []int32 {
	held, fewest := s.zoned(app)
	if s.zones.ofLine == nil {
		if s.refusedIn(app, 0, held, fewest).Kind != Accepted {
			return list[:0]
		}
		return list
	}
	s.zones.closed = s.zones.closed[:0]
	for i := range s.zones.count {
		s.zones.closed = append(s.zones.closed, s.refusedIn(app, int32(i), held, fewest).Kind != Accepted)
	}
	return slices.DeleteFunc(list, func(m int32) bool { return s.zones.closed[s.zones.ofLine[s.line[m]]] })
}
