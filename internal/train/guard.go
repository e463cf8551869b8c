package train

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A guard keeps a policy from rejecting one class of items in favour of others, for
// instance items that take much room, or nothing that the cost counts. It holds the
// share of each class that a reference policy rejects in a scenario.
type guard struct {
	class     []int     // per app
	items     []float64 // per class
	reference []float64 // per class: the share of its items that is rejected
}

// excess is the sum over classes of the share that is rejected beyond the
// reference's.
func (g *guard) excess(rejected []float64) float64 {
	sum := 0.0
	for class, share := range rejected {
		sum += max(0, share-g.reference[class])
	}
	return sum
}

// setGuards replays the reference once in every scenario.
func (e *evaluator) setGuards(ctx context.Context) error {
	if e.cfg.Guard == 0 {
		return nil
	}
	reference, err := rule.ByName(e.cfg.Reference, rule.Options{Seed: e.cfg.Seed})
	if err != nil {
		return err
	}
	for t, tr := range e.cfg.Traces {
		class, items := classesOf(tr)
		r := cerebro.NewReplayer(tr)
		for i := range e.scenarios {
			sc := &e.scenarios[i]
			if sc.trace != t {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			sc.guard = &guard{class: class, items: items}
			if _, sc.guard.reference, err = e.replay(r, reference, *sc); err != nil {
				return err
			}
		}
	}
	return nil
}

// replay runs a scenario. With a guard, rejected is the share of each class of items
// that was left out.
func (e *evaluator) replay(r *cerebro.Replayer, p binpack.Policy, sc scenario) (run cerebro.Run, rejected []float64, err error) {
	opt := cerebro.Options{
		Order: sc.Order, Seed: e.cfg.Seed, Brief: true, Retry: e.cfg.Retry, Repair: e.cfg.Repair, Rebalance: e.cfg.Rebalance,
		Snapshot: sc.Snapshot, Before: rule.BestFit{},
	}
	if g := sc.guard; g != nil {
		rejected = make([]float64, len(g.items))
		requests := r.Trace().Requests
		opt.Record = func(d cerebro.Decision) {
			if d.Kind == cerebro.Unplaced {
				class := g.class[requests[d.Request].App]
				rejected[class] += 1 / g.items[class]
			}
		}
	}
	if run, err = r.Run(p, opt); err != nil {
		return run, nil, fmt.Errorf("trace %q, order %d: %w", r.Trace().Name, sc.Order, err)
	}
	return run, rejected, nil
}

// classesOf gives each app the class of items that a guard counts it in, and each
// class its items. A class requests no device, a share of one, 1, 2 or 3, 4 to 7, 8
// to 15 and so on; with several dimensions of devices it is one such number for
// each.
func classesOf(t *trace.Trace) (class []int, items []float64) {
	index := map[string]int{}
	for _, app := range t.Instance.Apps {
		var devices []int
		for d, dim := range t.Instance.Dimensions {
			if need := app.Demand[d]; dim.Device {
				n := bits.Len64(uint64(need / dim.One))
				if need > 0 && n == 0 {
					n = -1 // a share
				}
				devices = append(devices, n)
			}
		}
		key := fmt.Sprint(devices)
		c, ok := index[key]
		if !ok {
			c = len(index)
			index[key] = c
			items = append(items, 0)
		}
		class = append(class, c)
	}
	for _, q := range t.Requests {
		items[class[q.App]] += float64(q.Count)
	}
	return class, items
}
