package guard

import (
	"fmt"
	"time"
)

// A CoolDown is the least time between two changes.
type CoolDown time.Duration

// Over reports whether the last of some changes, which ascend in time, is at least that long
// ago.
func (c CoolDown) Over(changes []time.Time, now time.Time) bool {
	n := len(changes)
	return n == 0 || !now.Before(changes[n-1].Add(time.Duration(c)))
}

// A Budget is the most changes in any hour. Shrinking may use half of them, and keeps a
// cool-down after any change. It is for changes that shrink or disrupt, not for growth that a load needs.
type Budget struct {
	PerHour  int
	CoolDown CoolDown
}

// Refuse returns the reason that no change is allowed now, given those of the last hour;
// empty = one is allowed.
func (b Budget) Refuse(changes []time.Time, now time.Time, shrinks bool) string {
	most := b.PerHour
	if shrinks {
		most = (most + 1) / 2
		if !b.CoolDown.Over(changes, now) {
			return fmt.Sprintf("changed less than %v ago", time.Duration(b.CoolDown))
		}
	}
	if len(changes) >= most {
		return fmt.Sprintf("%d changes within an hour", len(changes))
	}
	return ""
}

// LastHour returns the part of some changes, which ascend in time, that counts for a budget.
func LastHour(changes []time.Time, now time.Time) []time.Time {
	hour := now.Add(-time.Hour)
	for len(changes) > 0 && !changes[0].After(hour) {
		changes = changes[1:]
	}
	return changes
}
