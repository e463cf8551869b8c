package ledger

import "github.com/sigma-scheduler/sigma/binpack"

// Forget makes the next query rebuild the columns.
func (l *Ledger) Forget() { l.stale = true }

// Rebuilds is how often the columns were built.
func (l *Ledger) Rebuilds() int { return l.rebuilds }

// Scorer is the scorer of a role, nil when it has to be made.
func (l *Ledger) Scorer(role Role) binpack.Scorer { return l.scorers[l.policies[role]] }
