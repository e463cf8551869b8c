package evidence

import (
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Bound is the least cost of the nodes in use on a trace, in hours, whatever the placement: a sum
// over the pods' demands at each time.
func Bound(t *trace.Trace) float64 {
	var changes []bound.Change
	start := 0.
	if len(t.Events) > 0 {
		start = t.Events[0].Time
	}
	for _, p := range t.Placed {
		changes = append(changes, bound.Change{Time: start, App: t.Requests[p.Request].App, Count: p.Count})
	}
	for _, e := range t.Events {
		c := bound.Change{Time: e.Time, App: t.Requests[e.Request].App, Count: e.Count}
		if e.Kind == trace.Delete {
			c.Count = -e.Count
		}
		changes = append(changes, c)
	}
	return bound.VolumeOverTime(t.Instance, changes, t.MeasureFrom).CostSeconds / hour
}
