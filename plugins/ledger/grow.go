package ledger

import (
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// columnsOf records the content of the columns, so that apps and rules can be added to them.
// Columns that grew give the same scores as new ones: only the order of apps differs,
// and no score depends on it, since the apps of a group stay in the order of their names.
type columnsOf struct {
	dims     []string
	groupAt  map[string]int32
	types    typesOf
	compiled int             // rules that are in the columns
	dormant  map[string]bool // groups of those rules that have no app
	zoned    bool            // the columns have zones
	sentTo   map[string]bool // groups that some app sends to
	rebuilds int
}

// addApp adds a new app to the columns. It returns false if they have to be rebuilt
// instead.
func (l *columns) addApp(a *AppEntry) bool {
	if !l.ready() || l.dormant[a.spec.Group] || a.spec.byZone() && !l.zoned || len(a.spec.Sends) > 0 || l.sentTo[a.spec.Group] {
		return false
	}
	if _, expected := l.expected[a.name]; expected {
		return false
	}
	for dim, n := range a.spec.Demand {
		if n > 0 && !slices.Contains(l.dims, dim) {
			return false
		}
	}
	group := binpack.Group{Name: a.spec.Group, Limit: a.spec.MaxPerMachine, SpreadMin: a.spec.SpreadMin, Zone: a.spec.zoneLimits()}
	g, at := int32(len(l.groupAt)), 0
	if known, ok := l.groupAt[a.spec.Group]; ok {
		if has := l.state.Instance().Groups[known]; group.Limit > has.Limit || group.SpreadMin > has.SpreadMin || group.Zone != has.Zone {
			return false
		}
		g = known
		at, _ = slices.BinarySearchFunc(l.state.GroupApps(g), a.name, func(i int32, name string) int {
			return strings.Compare(l.appAt[i].name, name)
		})
	}
	l.groupAt[a.spec.Group] = g
	a.index = l.state.AddApp(l.appOf(a, g), group, at)
	l.appAt = append(l.appAt, a)
	l.keepGrowers()
	return true
}

// addRules adds the rules to the columns that are new since the last call.
func (l *columns) addRules() {
	if list, _ := l.newRules(); len(list) > 0 { // where there are rules by zone, the columns are rebuilt
		l.state.AddRules(list)
		l.keepGrowers()
	}
}

// newRules returns the rules that the columns lack, between groups that have apps.
func (l *columns) newRules() (list, byZone []binpack.Rule) {
	for _, r := range l.rules[l.compiled:] {
		a, okA := l.groupAt[r.App]
		b, okB := l.groupAt[r.Other]
		switch {
		case !okA || !okB:
			l.dormant[r.App] = l.dormant[r.App] || !okA
			l.dormant[r.Other] = l.dormant[r.Other] || !okB
		case a == b:
		case r.Scope == ZoneScope:
			byZone = append(byZone, binpack.Rule{A: a, B: b, Max: r.Max})
		default:
			list = append(list, binpack.Rule{A: a, B: b, Max: r.Max})
		}
	}
	l.compiled = len(l.rules)
	return list, byZone
}

// keepGrowers forgets the scorers that do not follow new apps and rules.
func (l *columns) keepGrowers() {
	maps.DeleteFunc(l.scorers, func(_ *policyInUse, s binpack.Scorer) bool {
		_, ok := s.(binpack.Grower)
		return !ok
	})
}
