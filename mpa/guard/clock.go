package guard

import "time"

// Clock is the longest time between two observations that does not count as a jump of the
// clock. A step back always does.
type Clock time.Duration

// Jump returns the time from the last observation to now if the clock has jumped, back or
// far ahead, else 0. The zero time means no observation yet.
func (c Clock) Jump(last, now time.Time) time.Duration {
	d := now.Sub(last)
	if last.IsZero() || d >= 0 && d <= time.Duration(c) {
		return 0
	}
	return d
}

// Moved returns t moved by d, so that it keeps its age over a jump. The zero time stays.
func Moved(t time.Time, d time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(d)
}
