package ledger

import (
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

const zoneLabel = "topology.kubernetes.io/zone"

// terms returns the app's preferences, for which its group's pods count.
func (a *App) terms(group int32) []binpack.SoftTerm {
	var terms []binpack.SoftTerm
	for _, text := range a.Soft {
		term, _, _ := binpack.ParseSoftTerm(text) // setApp has refused others
		term.Group = group
		terms = append(terms, term)
	}
	return terms
}

// zoneLimits returns the app's limits by zone.
func (a *App) zoneLimits() binpack.ZoneLimits {
	return binpack.ZoneLimits{Limit: a.MaxPerZone, SpreadMin: a.ZoneSpreadMin, Skew: a.ZoneSkew}
}

// byZone reports whether the app has a preference or a limit by zone.
func (a *App) byZone() bool {
	return a.zoneLimits() != binpack.ZoneLimits{} || slices.ContainsFunc(a.terms(0), func(t binpack.SoftTerm) bool { return t.Zone })
}

// zone returns the zone of a machine in the columns. If no app has a term or limit by zone, and no
// rule is about zones, it is empty, so that machines of a kind stay alike.
func (l *columns) zone(n *Node) string {
	if !l.zoned {
		return ""
	}
	return n.spec.Labels[zoneLabel]
}

// care returns how far preferences bind the policy of a role, also outside of its windows. The
// terms of the primary policy bind Best-Fit.
func (l *Ledger) care(role Role) binpack.Care {
	if role == BestFit {
		role = Primary
	}
	if p := l.policies[role]; p != nil {
		return p.object.Spec.Care()
	}
	return binpack.Care{}
}

// tellForecast sets the expected numbers in the columns.
func (l *columns) tellForecast() {
	known := l.known()
	l.state.Known.Expected, l.state.Declared = known, slices.Clone(known)
	for i, a := range l.appAt {
		if l.undeclared[a.name] {
			l.state.Declared[i] = -1
		}
	}
}
