package ledger

// Forget makes the next question build the columns anew.
func (l *Ledger) Forget() { l.stale = true }
