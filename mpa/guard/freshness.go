package guard

import "time"

// Freshness is the age that data may have. Data from further than that in the future are from
// another clock and do not count either.
type Freshness time.Duration

// Known reports whether the time of data is near enough to now. The zero time means no data.
func (f Freshness) Known(t, now time.Time) bool {
	d := time.Duration(f)
	return !t.IsZero() && !t.Before(now.Add(-d)) && !t.After(now.Add(d))
}
