package trace

import (
	"iter"
	"maps"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Loosened returns the trace's instance with each constraint that placed.csv breaks relaxed
// just so far that placed.csv keeps it. Placed items stay, and a machine that breaks a
// constraint takes no items that break it further.
func (t *Trace) Loosened() *binpack.Instance {
	if len(t.Placed) == 0 {
		return t.Instance
	}
	in := *t.Instance
	in.Groups, in.Apps = slices.Clone(in.Groups), slices.Clone(in.Apps)
	in.Rules, in.ZoneRules = slices.Clone(in.Rules), slices.Clone(in.ZoneRules)
	type position struct{ line, index int32 }
	on := map[position]map[int32]int32{} // items by group
	zones := map[string]map[int32]int32{}
	for _, p := range t.Placed {
		at, app := position{p.Line, p.Index}, &in.Apps[t.Requests[p.Request].App]
		if on[at] == nil {
			on[at] = map[int32]int32{}
		}
		on[at][app.Group] += p.Count
		zone := in.Machines[p.Line].Zone
		if zones[zone] == nil {
			zones[zone] = map[int32]int32{}
		}
		zones[zone][app.Group] += p.Count
		group := &in.Groups[app.Group]
		group.SpreadMin, group.Zone.SpreadMin, group.Zone.Skew = 0, 0, 0
		if group.Limit > 0 {
			group.Limit = max(group.Limit, on[at][app.Group])
		}
		if group.Zone.Limit > 0 {
			group.Zone.Limit = max(group.Zone.Limit, zones[zone][app.Group])
		}
		if typ := in.Machines[p.Line].Type; !app.MayUse(typ) {
			app.Types = append(slices.Clone(app.Types), typ)
		}
	}
	keepRules(in.Rules, maps.Values(on))
	keepRules(in.ZoneRules, maps.Values(zones))
	return &in
}

// keepRules relaxes rules so far that machines or zones, with their items by group, keep them.
func keepRules(rules []binpack.Rule, places iter.Seq[map[int32]int32]) {
	of := map[int32][]*binpack.Rule{} // by A
	for i := range rules {
		of[rules[i].A] = append(of[rules[i].A], &rules[i])
	}
	for groups := range places {
		for a := range groups {
			for _, r := range of[a] {
				r.Max = max(r.Max, groups[r.B])
			}
		}
	}
}
