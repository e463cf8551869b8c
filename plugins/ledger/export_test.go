package ledger

// Forget makes the next query rebuild the columns.
func (l *Ledger) Forget() { l.stale = true }
