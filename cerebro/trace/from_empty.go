package trace

import "slices"

// Kept is the number of requests that lead placed.csv and of which the trace lacks constraints: their items stay in place
// when all others are placed again. A snapshot's trace has them first.
func (t *Trace) Kept() (requests int) {
	ignored, _ := t.Ignored() // the error is reported where the trace is read
	for requests < t.Initial && ignored[t.Requests[requests].Name] != nil {
		requests++
	}
	return requests
}

// FromEmpty returns the trace with empty machines at the beginning, but for the items of [Trace.Kept]: the items of
// placed.csv arrive at the time of the first event, in the order of its lines, and are
// placed like all others.
func (t *Trace) FromEmpty() *Trace {
	kept := t.Kept()
	if t.Initial == kept {
		return t
	}
	start := 0.0
	if len(t.Events) > 0 {
		start = t.Events[0].Time
	}
	var arrivals []Event
	for i, q := range t.Requests[kept:t.Initial] {
		arrivals = append(arrivals, Event{start, Create, int32(kept + i), q.Count})
	}
	empty := *t
	empty.Initial, empty.Placed = kept, nil
	for _, p := range t.Placed {
		if int(p.Request) < kept {
			empty.Placed = append(empty.Placed, p)
		}
	}
	empty.Events = slices.Concat(arrivals, t.Events)
	return &empty
}
