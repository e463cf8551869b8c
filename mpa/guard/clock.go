package guard

import "time"

// Clock is the longest time between two looks, in order, that is not taken for a jump of
// the clock.
type Clock time.Duration

// Jump is the time from the last look to now where the clock has jumped, back or far
// ahead, else 0. The zero time stands for no look yet.
func (c Clock) Jump(last, now time.Time) time.Duration {
	d := now.Sub(last)
	if last.IsZero() || d >= 0 && d <= time.Duration(c) {
		return 0
	}
	return d
}

// Moved is t moved by d, so that it keeps its age over a jump. The zero time, which
// stands for none, stays.
func Moved(t time.Time, d time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(d)
}
