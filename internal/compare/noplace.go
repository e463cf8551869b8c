package compare

import (
	"context"
	"maps"
	"slices"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// leaveOut takes the items out of the comparison that no policy places, with a bound of the others. total is the number of
// items by app.
func (c *comparison) leaveOut(ctx context.Context, t *trace.Trace, head *report.Trace, policies []report.PolicyRuns, total []int64, r *Result) error {
	left := report.Unplaceable(policies, head.Deletes, total)
	if c.opt.Retry || len(left) == 0 {
		return nil
	}
	rest, err := c.limitOf(ctx, withoutItems(t, left), head.Deletes, r)
	if err != nil {
		return err
	}
	head.NoPlace = &report.NoPlace{Bound: rest.best}
	for _, app := range slices.Sorted(maps.Keys(left)) {
		head.NoPlace.Items = append(head.NoPlace.Items, report.AppItems{App: t.Instance.Apps[app].Name, Items: left[app]})
	}
	return nil
}

// withoutItems is a trace with fewer items of some apps: the last that arrive are missing. An app with departures
// loses all of them.
func withoutItems(t *trace.Trace, left map[int32]int) *trace.Trace {
	rest := *t
	rest.Requests, rest.Events = slices.Clone(t.Requests), slices.Clone(t.Events)
	rest.Source = maps.Clone(t.Source)
	delete(rest.Source, "optimal") // of all items
	left = maps.Clone(left)
	for i := len(rest.Events) - 1; i >= 0; i-- {
		e := &rest.Events[i]
		q := &rest.Requests[e.Request]
		if e.Kind == trace.Create {
			n := min(int32(left[q.App]), q.Count)
			left[q.App] -= int(n)
			q.Count -= n
		}
	}
	for i := range rest.Events {
		if e := &rest.Events[i]; e.Kind == trace.Create {
			e.Count = rest.Requests[e.Request].Count
		}
	}
	rest.Events = slices.DeleteFunc(rest.Events, func(e trace.Event) bool { return rest.Requests[e.Request].Count == 0 })
	return &rest
}
