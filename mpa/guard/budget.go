package guard

import "time"

// After is the part of a list of ascending times that lies after t.
func After(list []time.Time, t time.Time) []time.Time {
	for len(list) > 0 && !list[0].After(t) {
		list = list[1:]
	}
	return list
}
