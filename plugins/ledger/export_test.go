package ledger

// Forget makes the next query rebuild the columns.
func (l *Ledger) Forget() { l.stale = true }

// Rebuilds is how often the columns were built.
func (l *Ledger) Rebuilds() int { return l.rebuilds }
