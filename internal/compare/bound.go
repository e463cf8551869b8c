package compare

import (
	"context"
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// clusterOrigin is source.origin of a trace of a real cluster.
const clusterOrigin = "Kubernetes cluster"

// A limit is the bound next to figures, and the bound by volume alone.
type limit struct{ best, volume report.Bound }

// meanBound is the bound next to figures over shuffled orders: the mean of their
// bounds. Without departures all orders have the same bound. Departures move with their
// requests, so the bound of the file's order may be far from the others'; those of a trace by use stay in time.
func meanBound(ctx context.Context, t *trace.Trace, deletes bool, seed uint64, orders int, opt bound.Options) limit {
	if orders == 0 || !deletes || sized.BySize(t) {
		return limitOf(t, Bounds(ctx, t, seed, 0, opt), opt.Moves)
	}
	opt.Work /= int64(orders)
	mean := limit{}
	steps := opt.Steps
	for i := range orders {
		opt.Steps = steps && i == 0
		l := limitOf(t, Bounds(ctx, t, seed, i+1, opt), opt.Moves)
		if opt.Steps {
			mean.best.Steps = l.best.Steps
		}
		sum(&mean.best, l.best)
		sum(&mean.volume, l.volume)
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
// stays: it names the most methods. A stated optimum is not one of a shuffled order.
func sum(to *report.Bound, b report.Bound) {
	to.Machines += b.Machines
	to.Cost += b.Cost
	to.MachineSeconds += b.MachineSeconds
	to.CostSeconds += b.CostSeconds
	if len(b.Method) > len(to.Method) {
		to.Method = b.Method
	}
}

func limitOf(t *trace.Trace, b bound.Bounds, moves bool) limit {
	l := limit{ReportBound(t, b.Bound, moves), ReportBound(t, b.Each[0], moves)}
	for _, s := range b.Steps {
		l.best.Steps = append(l.best.Steps, report.Step{Time: s.Time, Value: float64(s.Machines)})
	}
	return l
}

// Bound is the lower bound of a trace in an order of arrival, by the methods that cost
// little; with moves, it also holds where a replay moves items. It includes the proven optimum that
// the trace's source states (source.optimal).
func Bound(t *trace.Trace, seed uint64, order int, moves bool) report.Bound {
	return ReportBound(t, Bounds(context.Background(), t, seed, order, bound.Options{Moves: moves}).Bound, moves)
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
	return bound.BestOverTime(ctx, t.Loosened(), changes, t.MeasureFrom, opt)
}

// ReportBound converts a bound for a report and adds the optimum that the trace states.
func ReportBound(t *trace.Trace, b bound.Bound, moves bool) report.Bound {
	out := report.Bound{
		Machines: b.Machines, Cost: b.Cost,
		MachineSeconds: b.MachineSeconds, CostSeconds: b.CostSeconds, Method: b.Method,
	}
	if v, ok := optimal(t, moves); ok && v >= out.Cost { // below a proven bound it is a mistake
		out.Optimal = &v
	}
	return out
}

// optimal is the least cost that a trace states: of placements, so with moves, which may empty a
// zone within a skew above 1, it states no cost.
func optimal(t *trace.Trace, moves bool) (cost float64, ok bool) {
	if moves && slices.ContainsFunc(t.Instance.Groups, func(g binpack.Group) bool { return g.Zone.Skew > 1 }) {
		return 0, false
	}
	switch v := t.Source["optimal"].(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// Disproved returns an error if a run without retry placed every item of a trace at a cost
// below the optimum that the trace states, which is that of the peak where items also leave.
func Disproved(t *trace.Trace, deletes bool, found Found, run cerebro.Run) error {
	cost := run.Cost
	if deletes {
		dearest := 0.0
		for _, m := range t.Instance.Machines {
			dearest = max(dearest, m.Cost)
		}
		cost = dearest * float64(run.PeakMachines) // at least the peak's
	}
	stated, ok := optimal(t, run.Moves > 0)
	_, past := found.Policy.(cerebro.Follower) // which need not keep the constraints
	shuffled := deletes && run.Order > 0       // departures moved: another task
	if !ok || past || shuffled || run.Unplaced > 0 || run.Violations > 0 {
		return nil
	}
	return disproof(t, stated, cost, fmt.Sprintf("policy %s, order %d,", found.Name, run.Order))
}

// disproof returns an error if a placement needs less than the stated optimum.
func disproof(t *trace.Trace, stated, cost float64, by string) error {
	const tolerance = 1e-9
	if cost >= stated*(1-tolerance) {
		return nil
	}
	return fmt.Errorf("trace %s: trace.yaml: source.optimal: %g is not the least cost: %s places all items at %.10g; correct it or leave it out", t.Name, stated, by, cost)
}

// disproved is [Disproved] for all runs of a trace that was replayed as it is.
func (c *comparison) disproved(i int, deletes bool) error {
	if c.played[i] != c.traces[i] {
		return nil // placed.csv again: another task
	}
	for p, runs := range c.runs[i] {
		for _, run := range runs {
			if err := Disproved(c.traces[i], deletes, c.policies[i][p], run); err != nil {
				return err
			}
		}
	}
	return nil
}

func digestOf(t *trace.Trace) (report.Digest, error) {
	instance, whole, err := t.Digests()
	return report.Digest{Instance: instance, Trace: whole}, err
}

// Describe returns the head of a comparison on a trace. It fails if a machine has no room
// for its items in placed.csv.
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
	ignored, err := t.Ignored()
	if err != nil {
		return report.Trace{}, err
	}
	out.Ignored = len(ignored)
	out.Mixed = slices.ContainsFunc(t.Instance.Machines, func(m binpack.MachineLine) bool { return m.Cost != t.Instance.Machines[0].Cost })
	out.Currency, _ = t.Source["currency"].(string)
	out.Seconds = seconds(t)
	out.Standing = out.Seconds == 0
	out.Unseen, out.ByUse = sized.UnseenOf(t), sized.BySize(t)
	out.Cluster = t.Source["origin"] == clusterOrigin
	out.Zones = !slices.ContainsFunc(t.Instance.Machines, func(m binpack.MachineLine) bool { return m.Zone == "" })
	expected := make([]float64, len(t.Instance.Apps))
	for a, app := range t.Instance.Apps {
		expected[a] = app.Expected
	}
	out.Forecast = report.NewForecast(expected, r.Totals())
	return out, nil
}
