package plan

import (
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// planZones holds a search's data on zones. Machines without a zone are in one of their own, the
// last: hard limits refuse it, and no rule by zone counts there.
type planZones struct {
	inst   *binpack.Instance
	of     []int32 // per kind
	count  [][]int32
	open   []int            // per zone: open machines
	usable [][]bool         // [zone][app]: it has machines of a type of the app
	rules  [][]binpack.Rule // per group: rules by zone that it is part of
	shut   []bool           // of closedTo
}

// newPlanZones is nil where no limit or rule by zone binds a group.
func newPlanZones(inst *binpack.Instance) *planZones {
	if !ByZone(inst) {
		return nil
	}
	z := &planZones{inst: inst, rules: make([][]binpack.Rule, len(inst.Groups))}
	for _, r := range inst.ZoneRules {
		z.rules[r.A], z.rules[r.B] = append(z.rules[r.A], r), append(z.rules[r.B], r)
	}
	names := z.names()
	z.count, z.open, z.shut = make([][]int32, len(names)), make([]int, len(names)), make([]bool, len(names))
	for _, name := range names {
		usable := make([]bool, len(inst.Apps))
		for a := range inst.Apps {
			usable[a] = name != "" && slices.ContainsFunc(inst.Machines, func(m binpack.MachineLine) bool {
				return m.Zone == name && m.Count != 0 && inst.Apps[a].MayUse(m.Type)
			})
		}
		z.usable = append(z.usable, usable)
	}
	for i := range z.count {
		z.count[i] = make([]int32, len(inst.Groups))
	}
	return z
}

// names lists the zones; the last is that of machines without one.
func (z *planZones) names() (names []string) {
	for _, m := range z.inst.Machines {
		if m.Zone != "" && !slices.Contains(names, m.Zone) {
			names = append(names, m.Zone)
		}
	}
	return append(names, "")
}

// add counts items of a group on a machine of a kind.
func (z *planZones) add(kind, group, items int32) {
	if z != nil {
		z.count[z.of[kind]][group] += items
	}
}

// closedTo marks the zones that take no more items of an app; nil = all take one. It is valid
// until the next call.
func (z *planZones) closedTo(a int32) []bool {
	if z == nil {
		return nil
	}
	group := z.inst.Apps[a].Group
	limits, rules := z.inst.Groups[group].Zone, z.rules[group]
	if !limits.Binds() && len(rules) == 0 {
		return nil
	}
	none, held, fewest := len(z.count)-1, int32(0), int32(-1)
	for i, row := range z.count[:none] {
		if row[group] > 0 {
			held++
		}
		if z.usable[i][a] && (fewest < 0 || row[group] < fewest) {
			fewest = row[group]
		}
	}
	for i, row := range z.count[:none] {
		z.shut[i] = limits.Refuses(row[group], 1, held, max(0, fewest)) != binpack.Accepted || slices.ContainsFunc(rules, func(r binpack.Rule) bool {
			if r.A == group {
				return r.Forbids(row[r.A]+1, row[r.B])
			}
			return r.Forbids(row[r.A], row[r.B]+1)
		})
	}
	z.shut[none] = limits.Binds()
	return z.shut
}

// emptier reports whether the zone of a kind has fewer open machines than that of another.
func (z *planZones) emptier(kind, other int32) bool {
	return z != nil && z.open[z.of[kind]] < z.open[z.of[other]]
}

// opened counts machines of a kind that were opened.
func (z *planZones) opened(kind int32, machines int) {
	if z != nil {
		z.open[z.of[kind]] += machines
	}
}
