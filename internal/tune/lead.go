package tune

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// shifted is the most by which a copied day shifts the events of an app, in seconds.
const shifted = hour

// A leader copies the first day of a window in front of it.
type leader struct {
	window *trace.Trace
	from   float64
	events []trace.Event
	waits  [][]int32 // copied requests that live when the window begins, by app, the last first
}

// ledByItself is a window of a trace, led in by a copy of its first day. Of the pods that live at the end
// of the copy as many of each app remain as the window has at its beginning or gets in its first hour; the
// rest leave. The copy shifts the events of each app by up to an hour: every draw leaves other gaps.
func ledByItself(t *trace.Trace, from, until float64, rng *rand.Rand) *trace.Trace {
	w := t.Window(from, until, rng)
	l := leader{window: w, from: from, waits: make([][]int32, len(w.Instance.Apps))}
	requests := l.copyDay(rng)
	return l.follow(requests)
}

// copyDay appends the first day of the window, a day earlier.
func (l *leader) copyDay(rng *rand.Rand) []trace.Request {
	shift := make([]float64, len(l.waits))
	for app := range shift {
		shift[app] = shifted * (2*rng.Float64() - 1)
	}
	var requests []trace.Request
	var left []int32
	var came []float64
	for _, e := range l.window.Events {
		if e.Time >= l.from+day {
			break
		}
		app := l.window.Requests[e.Request].App
		if e.Time > l.from+trace.Settling {
			e.Time = min(max(e.Time+shift[app], l.from+trace.Settling), l.from+day)
		}
		if e.Time -= day; e.Kind == trace.Create {
			q := l.window.Requests[e.Request]
			q.Name = "before " + q.Name
			requests, left, came = append(requests, q), append(left, q.Count), append(came, e.Time)
		} else {
			left[e.Request] -= e.Count
			e.Time = max(e.Time, came[e.Request])
		}
		l.events = append(l.events, e)
	}
	for i, q := range slices.Backward(requests) {
		if left[i] > 0 {
			l.waits[q.App] = append(l.waits[q.App], int32(i))
		}
	}
	for i, q := range requests { // a request that has lost items is none of the window's
		if left[i] > 0 && left[i] < q.Count {
			l.waits[q.App] = slices.DeleteFunc(l.waits[q.App], func(k int32) bool { return k == int32(i) })
			l.events = append(l.events, trace.Event{Time: l.from, Kind: trace.Delete, Request: int32(i), Count: left[i]})
		}
	}
	return requests
}

// follow appends the window.
func (l *leader) follow(requests []trace.Request) *trace.Trace {
	w := l.window
	number := make([]int32, len(w.Requests))
	for _, e := range w.Events {
		q := w.Requests[e.Request]
		if e.Kind == trace.Delete {
			e.Request = number[e.Request]
			l.events = append(l.events, e)
			continue
		}
		waits := l.waits[q.App]
		if k := len(waits) - 1; k >= 0 && e.Time <= l.from+trace.Settling && requests[waits[k]].Count == q.Count {
			number[e.Request], l.waits[q.App] = waits[k], waits[:k]
			requests[waits[k]].Name = q.Name // recorded use is by name
			continue
		}
		number[e.Request] = int32(len(requests))
		e.Request = number[e.Request]
		requests, l.events = append(requests, q), append(l.events, e)
	}
	for _, waits := range l.waits {
		for _, i := range waits {
			l.events = append(l.events, trace.Event{Time: l.from + trace.Settling, Kind: trace.Delete, Request: i, Count: requests[i].Count})
		}
	}
	slices.SortStableFunc(l.events, func(a, b trace.Event) int { return cmp.Compare(a.Time, b.Time) })
	out := *w
	out.Events, out.Requests = l.events, make([]trace.Request, 0, len(requests))
	position := make([]int32, len(requests))
	for i := range out.Events {
		e := &out.Events[i]
		if e.Kind == trace.Create {
			position[e.Request] = int32(len(out.Requests))
			out.Requests = append(out.Requests, requests[e.Request])
		}
		e.Request = position[e.Request]
	}
	return &out
}
