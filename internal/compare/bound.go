package compare

import (
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// meanBound is the bound beside figures over a number of shuffled orders: the
// mean of theirs. Without departures all orders have the same. With departures,
// which move with their requests, the file's may be far from the others'.
func meanBound(t *trace.Trace, deletes bool, seed uint64, orders int) report.Bound {
	if orders == 0 || !deletes {
		return Bound(t, seed, 0)
	}
	mean := report.Bound{}
	for i := range orders {
		b := Bound(t, seed, i+1)
		mean.Method, mean.Optimal = b.Method, b.Optimal
		mean.Machines += b.Machines
		mean.Cost += b.Cost
		mean.MachineSeconds += b.MachineSeconds
		mean.CostSeconds += b.CostSeconds
	}
	mean.Machines /= orders // rounded down it is still a bound
	mean.Cost /= float64(orders)
	mean.MachineSeconds /= float64(orders)
	mean.CostSeconds /= float64(orders)
	return mean
}

// Bound is what no scheduler can beat on a trace: the volume bound of its
// events in an order of arrival and, where the trace's source states a proven
// optimum (source.optimal), that.
func Bound(t *trace.Trace, seed uint64, order int) report.Bound {
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
		c := bound.Change{Time: e.Time, App: t.Requests[e.Request].App, Count: e.Count}
		if e.Kind == trace.Delete {
			c.Count = -c.Count
		}
		changes = append(changes, c)
	}
	b := bound.VolumeOverTime(t.Instance, changes, t.MeasureFrom)
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
		out.Optimal = nil // below what is proven: a slip of the pen, not a proof
	}
	return out
}

func digestOf(t *trace.Trace) (report.Digest, error) {
	instance, whole, err := t.Digests()
	return report.Digest{Instance: instance, Trace: whole}, err
}

// Describe is the head of a comparison on a trace.
func Describe(t *trace.Trace, r *cerebro.Replayer) (report.Trace, error) {
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
