package bound

import (
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// perMachine returns an instance with limits by machine in the place of those by zone. They are
// implied: a machine is in one zone, so it holds no more of a group than its zone may, and pairs
// of groups that are apart by zone share no machine; items in so many zones are on as many
// machines. Nothing is left of the rest, so a bound of it is one of the instance.
func perMachine(inst *binpack.Instance) *binpack.Instance {
	bind := func(g binpack.Group) bool { return g.Zone != binpack.ZoneLimits{} }
	if len(inst.ZoneRules) == 0 && !slices.ContainsFunc(inst.Groups, bind) {
		return inst
	}
	out := *inst
	out.Rules = append(slices.Clone(inst.Rules), inst.ZoneRules...)
	out.ZoneRules, out.Groups = nil, slices.Clone(inst.Groups)
	even := evenZones(inst)
	for i := range out.Groups {
		g := &out.Groups[i]
		if z := g.Zone.Limit; z > 0 && (g.Limit == 0 || z < g.Limit) {
			g.Limit = z
		}
		g.SpreadMin = max(g.SpreadMin, g.Zone.SpreadMin)
		if g.Zone.Skew == 1 {
			g.SpreadMin = max(g.SpreadMin, even[i])
		}
		g.Zone = binpack.ZoneLimits{}
	}
	return &out
}

// evenZones counts for each group the zones that all of its apps may use: with a skew of 1 none
// takes a second item before each has one.
func evenZones(inst *binpack.Instance) []int32 {
	types := map[string][]int32{} // by zone
	for _, m := range inst.Machines {
		if m.Count != 0 && m.Zone != "" {
			types[m.Zone] = append(types[m.Zone], m.Type)
		}
	}
	even := make([]int32, len(inst.Groups))
	for i := range even {
		even[i] = int32(len(types))
	}
	for a := range inst.Apps {
		app, n := &inst.Apps[a], int32(0)
		for _, has := range types {
			if app.Types == nil || slices.ContainsFunc(has, func(t int32) bool { return slices.Contains(app.Types, t) }) {
				n++
			}
		}
		even[app.Group] = min(even[app.Group], n)
	}
	return even
}
