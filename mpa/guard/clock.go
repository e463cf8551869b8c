package guard

import "time"

// Moved is t moved by d. The zero time, which stands for none, stays.
func Moved(t time.Time, d time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(d)
}
