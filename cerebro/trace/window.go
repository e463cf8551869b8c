package trace

import (
	"maps"
	"math/rand/v2"
)

// Settling is the time after its beginning in which a window is not measured: the
// items that live at the beginning arrive at once, which they never did.
const Settling = 3600

// Window returns the part of a trace from a time to before another. The items that live
// at the beginning arrive there at one instant, in the order of their arrival; those of
// placed.csv are first. Later events keep their times. With rng the arrivals of that
// instant are shuffled, which changes no load. A window is measured from its second hour.
//
// The living items of a request keep their numbers, since the highest leave first.
func (t *Trace) Window(from, until float64, rng *rand.Rand) *Trace {
	left := make([]int32, len(t.Requests))
	var arrived []int32
	for i, q := range t.Requests[:t.Initial] {
		left[i] = q.Count
		arrived = append(arrived, int32(i))
	}
	next := 0
	for ; next < len(t.Events) && t.Events[next].Time < from; next++ {
		if e := t.Events[next]; e.Kind == Create {
			left[e.Request] = e.Count
			arrived = append(arrived, e.Request)
		} else {
			left[e.Request] -= e.Count
		}
	}
	if rng != nil {
		rng.Shuffle(len(arrived), func(i, j int) { arrived[i], arrived[j] = arrived[j], arrived[i] })
	}
	w := *t
	w.Initial, w.Placed, w.Requests, w.Events, w.MeasureFrom = 0, nil, nil, nil, from+Settling
	number := make([]int32, len(t.Requests)) // in the window
	create := func(at float64, request, count int32) {
		q := t.Requests[request]
		number[request], q.Count = int32(len(w.Requests)), count
		w.Events = append(w.Events, Event{at, Create, number[request], count})
		w.Requests = append(w.Requests, q)
	}
	for _, request := range arrived {
		if left[request] > 0 {
			create(from, request, left[request])
		}
	}
	for ; next < len(t.Events) && t.Events[next].Time < until; next++ {
		if e := t.Events[next]; e.Kind == Create {
			create(e.Time, e.Request, e.Count)
		} else {
			w.Events = append(w.Events, Event{e.Time, Delete, number[e.Request], e.Count})
		}
	}
	w.Source = maps.Clone(t.Source)
	if w.Source == nil {
		w.Source = map[string]any{}
	}
	w.Source["window"] = map[string]any{"from": from, "until": until}
	return &w
}
