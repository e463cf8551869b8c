package trace

import "slices"

// Anew is the trace with what placed.csv holds arriving at the time of the first
// event, in the order of its lines, instead of standing there from the beginning:
// the same items, to be placed from scratch.
func (t *Trace) Anew() *Trace {
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
	anew := *t
	anew.Initial, anew.Placed = 0, nil
	anew.Events = slices.Concat(arrivals, t.Events)
	return &anew
}
