package trace

import "slices"

// FromEmpty returns the trace with empty machines at the beginning: the items of
// placed.csv arrive at the time of the first event, in the order of its lines, and are
// placed like all others.
func (t *Trace) FromEmpty() *Trace {
	if t.Initial == 0 {
		return t
	}
	start := 0.0
	if len(t.Events) > 0 {
		start = t.Events[0].Time
	}
	var arrivals []Event
	for i, q := range t.Requests[:t.Initial] {
		arrivals = append(arrivals, Event{start, Create, int32(i), q.Count})
	}
	empty := *t
	empty.Initial, empty.Placed = 0, nil
	empty.Events = slices.Concat(arrivals, t.Events)
	return &empty
}
