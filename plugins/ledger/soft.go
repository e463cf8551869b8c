package ledger

import (
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

const zoneLabel = "topology.kubernetes.io/zone"

// terms are the app's preferences, which its group's pods count for.
func (a *App) terms(group int32) []binpack.SoftTerm {
	var terms []binpack.SoftTerm
	for _, text := range a.Soft {
		term, _, _ := binpack.ParseSoftTerm(text) // setApp has refused others
		term.Group = group
		terms = append(terms, term)
	}
	return terms
}

// zoneLimits are the app's limits by zone.
func (a *App) zoneLimits() binpack.ZoneLimits {
	return binpack.ZoneLimits{Limit: a.MaxPerZone, SpreadMin: a.ZoneSpreadMin, Skew: a.ZoneSkew}
}

// byZone reports whether the app prefers something of zones, or has a limit by zone.
func (a *App) byZone() bool {
	return a.zoneLimits() != binpack.ZoneLimits{} || slices.ContainsFunc(a.terms(0), func(t binpack.SoftTerm) bool { return t.Zone })
}

// zone is the zone of a machine in the columns. Where no app has a term or limit by zone, and no
// rule is about zones, they know none, so that machines of a kind stay alike.
func (l *Ledger) zone(n *Node) string {
	if !l.zoned {
		return ""
	}
	return n.spec.Labels[zoneLabel]
}

// care is how far preferences bind the policy of a role, also outside of its windows. What
// the primary policy states binds Best-Fit.
func (l *Ledger) care(role Role) binpack.Care {
	if role == BestFit {
		role = Primary
	}
	if p := l.policies[role]; p != nil {
		return p.object.Spec.Care()
	}
	return binpack.Care{}
}

// tellForecast gives the columns what is expected.
func (l *Ledger) tellForecast() {
	known := l.known()
	l.state.Known.Expected, l.state.Declared = known, slices.Clone(known)
	for i, a := range l.appAt {
		if l.undeclared[a.name] {
			l.state.Declared[i] = -1
		}
	}
}
