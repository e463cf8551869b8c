package bound

import (
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// perMachine returns an instance with limits by machine in the place of those by zone. They are
// implied: a machine is in one zone, so it holds no more of a group than its zone may, and pairs
// of groups that are apart by zone share no machine of a zone; items in so many zones are on as
// many machines. The other limits by zone are dropped, so a bound of it is one of the instance.
//
// items[a] are the items of each app a that are placed in some order and do not depart; nil = items
// also leave, which leaves zones uneven. So may moves: with a skew above 1 the last item of a zone may
// move to another zone, if that holds less than the fullest. No move fills a zone beyond what a skew
// permits to as many items, and with a skew of 1, or a spread, the last item of a zone moves only to a
// zone without any.
func perMachine(inst *binpack.Instance, items []int64, moves bool) *binpack.Instance {
	if len(inst.ZoneRules) == 0 && !slices.ContainsFunc(inst.Groups, func(g binpack.Group) bool { return g.Zone.Binds() }) {
		return inst
	}
	out := *inst
	out.Rules = slices.Clone(inst.Rules)
	outside := slices.ContainsFunc(inst.Machines, func(m binpack.MachineLine) bool { return m.Zone == "" && m.Count != 0 })
	for _, r := range inst.ZoneRules { // a machine without a zone takes both, unless a limit keeps one away
		if !outside || inst.Groups[r.A].Zone.Binds() || inst.Groups[r.B].Zone.Binds() {
			out.Rules = append(out.Rules, r)
		}
	}
	out.ZoneRules, out.Groups = nil, slices.Clone(inst.Groups)
	even, total := evenZones(inst), make([]int64, len(inst.Groups))
	for a, n := range items {
		total[inst.Apps[a].Group] += n
	}
	for i := range out.Groups {
		g := &out.Groups[i]
		limit, skew, zones := int64(g.Zone.Limit), int64(g.Zone.Skew), int64(even[i].zones)
		if skew > 0 && items != nil && zones > 0 && even[i].all {
			// Of all n items a zone has at most skew more than the fewest, and the others have those.
			if most := (total[i] + (zones-1)*skew) / zones; most > 0 && (limit == 0 || most < limit) {
				limit = most
			}
		}
		if limit > 0 && (g.Limit == 0 || limit < int64(g.Limit)) {
			g.Limit = int32(min(limit, math.MaxInt32))
		}
		g.SpreadMin = max(g.SpreadMin, g.Zone.SpreadMin)
		switch {
		case skew == 1: // no zone takes a second item before each has one
			g.SpreadMin = max(g.SpreadMin, int32(zones))
		case skew > 1 && items != nil && !moves: // while a zone has no item, the others have at most skew
			g.SpreadMin = max(g.SpreadMin, int32(min(zones, (total[i]+skew-1)/skew)))
		}
		g.Zone = binpack.ZoneLimits{}
	}
	return &out
}

// An evenness is the zones that each app of a group may use, at least; all = each may use all.
type evenness struct {
	zones int32
	all   bool
}

// evenZones counts for each group the zones over which a skew spreads it.
func evenZones(inst *binpack.Instance) []evenness {
	types := map[string][]int32{} // by zone
	for _, m := range inst.Machines {
		if m.Count != 0 && m.Zone != "" {
			types[m.Zone] = append(types[m.Zone], m.Type)
		}
	}
	even := make([]evenness, len(inst.Groups))
	for i := range even {
		even[i] = evenness{int32(len(types)), true}
	}
	for a := range inst.Apps {
		app, n := &inst.Apps[a], int32(0)
		for _, has := range types {
			if app.Types == nil || slices.ContainsFunc(has, func(t int32) bool { return slices.Contains(app.Types, t) }) {
				n++
			}
		}
		e := &even[app.Group]
		e.zones, e.all = min(e.zones, n), e.all && int(n) == len(types)
	}
	return even
}
