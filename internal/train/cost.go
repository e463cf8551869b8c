package train

import (
	"context"
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// The weights of the training cost.
const (
	tieWeight      = .3  // of the summed squared free share, which a machine about to be spared has most of
	rejectedWeight = 100 // per share of rejected demand
	firstWeight    = 2   // per share of the volume that arrived after the first rejection
)

// Cost is the cost of a run, in units of the trace's volume bound: the machines it
// opened (with departures the integral of their cost), a smooth tie-breaker and a
// large price on unplaced items. On a fixed fleet, where the machines are given, it
// is the rejected share and the time of its beginning.
func Cost(r *cerebro.Replayer, run cerebro.Run, scale float64, untied bool) float64 {
	if r.Trace().Instance.Fleet == binpack.Fixed {
		return penalty(run)
	}
	if r.Deletes() {
		return run.CostSeconds/scale + penalty(run)
	}
	tie := tieWeight * run.ImbalanceTie * float64(run.Machines)
	if untied {
		tie = 0
	}
	return (run.Cost-tie)/scale + penalty(run)
}

// penalty is the price of the unplaced items.
func penalty(run cerebro.Run) float64 {
	rejected := 0.0
	for _, share := range run.Rejected {
		rejected = max(rejected, share)
	}
	return rejectedWeight*rejected + firstWeight*(1-run.FirstRejection)
}

// A scale is a trace's volume bound, or the least cost of some rules, so that large and small traces
// count equally: the machines, and the cost or with departures its integral.
type scale struct{ machines, cost float64 }

// scaleOf replays the rules of Against, if there are any, once in the trace's own order.
func (e *evaluator) scaleOf(ctx context.Context, t *trace.Trace) (scale, error) {
	if len(e.cfg.Against) == 0 {
		return scaleOf(t), nil
	}
	least := scale{math.Inf(1), math.Inf(1)}
	r := cerebro.NewReplayer(t)
	for _, name := range e.cfg.Against {
		if err := ctx.Err(); err != nil {
			return least, err
		}
		p, err := rule.ByName(name, rule.Options{Seed: e.cfg.Seed})
		if err != nil {
			return least, err
		}
		run, err := r.Run(p, cerebro.Options{Seed: e.cfg.Seed, Brief: true, Retry: e.cfg.Retry})
		if err != nil {
			return least, err
		}
		cost := run.Cost
		if r.Deletes() {
			cost = run.CostSeconds
		}
		least.machines, least.cost = min(least.machines, max(1, float64(run.Machines))), min(least.cost, max(1, cost))
	}
	return least, nil
}

func scaleOf(t *trace.Trace) scale {
	items := make([]int64, len(t.Instance.Apps))
	var changes []bound.Change
	deletes := false
	for _, q := range t.Requests[:t.Initial] {
		items[q.App] += int64(q.Count)
		if len(t.Events) > 0 {
			changes = append(changes, bound.Change{Time: t.Events[0].Time, App: q.App, Count: q.Count})
		}
	}
	for _, e := range t.Events {
		q := t.Requests[e.Request]
		if e.Kind == trace.Delete {
			deletes = true
			changes = append(changes, bound.Change{Time: e.Time, App: q.App, Count: -e.Count})
			continue
		}
		items[q.App] += int64(q.Count)
		changes = append(changes, bound.Change{Time: e.Time, App: q.App, Count: q.Count})
	}
	if deletes {
		b := bound.VolumeOverTime(t.Instance, changes, t.MeasureFrom)
		return scale{max(1, float64(b.Machines)), max(1, b.CostSeconds)}
	}
	b := bound.Volume(t.Instance, items)
	return scale{max(1, float64(b.Machines)), max(1, b.Cost)}
}
