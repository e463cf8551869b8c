package guard

import "time"

// Freshness is the age that data may have. Data that are by more than that of the future
// are of another clock and count as little as old ones.
type Freshness time.Duration

// Known reports whether there are data, of a time that is near enough to now. The zero
// time stands for none.
func (f Freshness) Known(t, now time.Time) bool {
	d := time.Duration(f)
	return !t.IsZero() && !t.Before(now.Add(-d)) && !t.After(now.Add(d))
}
