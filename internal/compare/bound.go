package compare

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A limit is the bound beside figures, and the bound by volume alone.
type limit struct{ best, volume report.Bound }

// meanBound is the bound beside figures over shuffled orders: the mean of their bounds.
// Without departures all orders have the same bound. Departures move with their
// requests, so the bound of the file's order may be far from the others'.
func meanBound(ctx context.Context, t *trace.Trace, deletes bool, seed uint64, orders int, opt bound.Options) limit {
	if orders == 0 || !deletes {
		return limitOf(t, Bounds(ctx, t, seed, 0, opt))
	}
	opt.Work /= int64(orders)
	mean := limit{}
	for i := range orders {
		l := limitOf(t, Bounds(ctx, t, seed, i+1, opt))
		sum(&mean.best, l.best, i == 0)
		sum(&mean.volume, l.volume, i == 0)
	}
	for _, b := range []*report.Bound{&mean.best, &mean.volume} {
		b.Machines /= orders // rounded down, still a bound
		b.Cost /= float64(orders)
		b.MachineSeconds /= float64(orders)
		b.CostSeconds /= float64(orders)
	}
	return mean
}

// sum adds to the figures of a bound. Of several orders' methods the longest name
// stays: it names the most methods.
func sum(to *report.Bound, b report.Bound, first bool) {
	to.Machines += b.Machines
	to.Cost += b.Cost
	to.MachineSeconds += b.MachineSeconds
	to.CostSeconds += b.CostSeconds
	if first {
		to.Optimal = b.Optimal
	}
	if len(b.Method) > len(to.Method) {
		to.Method = b.Method
	}
}

func limitOf(t *trace.Trace, b bound.Bounds) limit {
	return limit{ReportBound(t, b.Bound), ReportBound(t, b.Each[0])}
}

// Bound is the lower bound of a trace in an order of arrival, by the methods that cost
// little. It includes the proven optimum that the trace's source states
// (source.optimal).
func Bound(t *trace.Trace, seed uint64, order int) report.Bound {
	return ReportBound(t, Bounds(context.Background(), t, seed, order, bound.Options{}).Bound)
}

// Bounds computes all bounds of a trace's events in an order of arrival.
func Bounds(ctx context.Context, t *trace.Trace, seed uint64, order int, opt bound.Options) bound.Bounds {
	events := t.Order(seed, order)
	changes := make([]bound.Change, 0, len(t.Placed)+len(events))
	start := 0.0
	if len(events) > 0 {
		start = events[0].Time
	}
	for _, p := range t.Placed {
		changes = append(changes, bound.Change{Time: start, App: t.Requests[p.Request].App, Count: p.Count})
	}
	for _, e := range events {
		q := &t.Requests[e.Request]
		c := bound.Change{Time: e.Time, App: q.App, Count: q.Count}
		if e.Kind == trace.Delete {
			c.Count = -e.Count
		}
		changes = append(changes, c)
	}
	return bound.BestOverTime(ctx, loosened(t), changes, t.MeasureFrom, opt)
}

// loosened returns a trace's instance with each constraint that placed.csv breaks relaxed
// just so far that placed.csv keeps it. Placed items stay, and a machine that breaks a
// constraint takes no items that break it further.
func loosened(t *trace.Trace) *binpack.Instance {
	if len(t.Placed) == 0 {
		return t.Instance
	}
	in := *t.Instance
	in.Groups, in.Rules, in.Apps = slices.Clone(in.Groups), slices.Clone(in.Rules), slices.Clone(in.Apps)
	type position struct{ line, index int32 }
	on := map[position]map[int32]int32{} // items by group
	for _, p := range t.Placed {
		at, app := position{p.Line, p.Index}, &in.Apps[t.Requests[p.Request].App]
		if on[at] == nil {
			on[at] = map[int32]int32{}
		}
		on[at][app.Group] += p.Count
		group := &in.Groups[app.Group]
		group.SpreadMin = 0
		if group.Limit > 0 {
			group.Limit = max(group.Limit, on[at][app.Group])
		}
		if typ := in.Machines[p.Line].Type; app.Types != nil && !slices.Contains(app.Types, typ) {
			app.Types = append(slices.Clone(app.Types), typ)
		}
	}
	for i := range in.Rules {
		r := &in.Rules[i]
		for groups := range maps.Values(on) {
			if groups[r.A] > 0 {
				r.Max = max(r.Max, groups[r.B])
			}
		}
	}
	return &in
}

// ReportBound converts a bound for a report and adds the optimum that the trace states.
func ReportBound(t *trace.Trace, b bound.Bound) report.Bound {
	out := report.Bound{
		Machines: b.Machines, Cost: b.Cost,
		MachineSeconds: b.MachineSeconds, CostSeconds: b.CostSeconds, Method: b.Method,
	}
	switch optimal := t.Source["optimal"].(type) {
	case int:
		v := float64(optimal)
		out.Optimal = &v
	case float64:
		out.Optimal = &optimal
	}
	if out.Optimal != nil && *out.Optimal < out.Cost {
		out.Optimal = nil // below a proven bound, so it is a mistake
	}
	return out
}

func digestOf(t *trace.Trace) (report.Digest, error) {
	instance, whole, err := t.Digests()
	return report.Digest{Instance: instance, Trace: whole}, err
}

// Describe returns the head of a comparison on a trace. The error says that a machine has
// no room for its items in placed.csv.
func Describe(t *trace.Trace, r *cerebro.Replayer) (report.Trace, error) {
	if err := r.CheckPlaced(); err != nil {
		return report.Trace{}, fmt.Errorf("trace %s: %w", t.Name, err)
	}
	digest, err := digestOf(t)
	if err != nil {
		return report.Trace{}, err
	}
	out := report.Trace{
		Name:    t.Name,
		Digest:  digest,
		Apps:    len(t.Instance.Apps),
		Fleet:   t.Instance.Fleet.String(),
		Deletes: r.Deletes(),
	}
	for _, d := range t.Instance.Dimensions {
		out.Dimensions = append(out.Dimensions, d.Name)
	}
	for _, q := range t.Requests {
		out.Items += int(q.Count)
	}
	for _, m := range t.Instance.Machines {
		if m.Count == binpack.Unlimited {
			out.Machines = -1
			break
		}
		out.Machines += m.Count
	}
	expected := make([]float64, len(t.Instance.Apps))
	for a, app := range t.Instance.Apps {
		expected[a] = app.Expected
	}
	out.Forecast = report.NewForecast(expected, r.Totals())
	return out, nil
}
