package savings

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// The policies of the step packing: rules that cost nothing, and the learned policy.
const (
	mostAllocated = "mostallocated"
	bestFit       = "bestfit"
	learned       = "learned"
)

// A contender is a policy with its costs an hour and nodes by order.
type contender struct {
	name  string
	costs []float64
	nodes []float64
	use   []*report.Use
	// stayed is the most items of an order that keep their machines, since the policy leaves them out.
	stayed int
}

func (c *contender) mean() float64 { return meanOf(c.costs) }

func meanOf(values []float64) float64 { return sheet.EstimateOf(values).Mean }

// replay compares policies on the model over as many orders as sigma compare. Those that leave an item out in some order are not in the
// result, but in the second.
func (b *builder) replay(ctx context.Context, t *trace.Trace, names []string) (all []contender, out []string, err error) {
	r, err := compare.Run(ctx, []*trace.Trace{b.p.closed(t)}, names, b.opt.Catalog, compare.Options{Orders: compare.SnapshotOrders, Seed: b.opt.Seed, Workers: max(1, b.opt.Workers), Once: true, Present: true})
	if err != nil {
		return nil, nil, err
	}
	if r.Violations > 0 {
		return nil, nil, fmt.Errorf("%d constraints are broken: this is a bug, please report it with the trace", r.Violations)
	}
	for _, result := range r.Comparisons[0].Results {
		c := contender{name: result.Policy}
		unplaced := 0
		for _, run := range result.Runs {
			if run.Order > 0 {
				c.costs, c.nodes, c.use = append(c.costs, run.Cost), append(c.nodes, float64(run.Machines)), append(c.use, run.Use)
				unplaced, c.stayed = max(unplaced, run.Unplaced), max(c.stayed, run.Stayed)
			}
		}
		if unplaced > 0 {
			out = append(out, fmt.Sprintf("%s leaves out up to %s", c.name, plural.Of(unplaced, "pod")))
			continue
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(x, y contender) int { // the cheapest first
		switch d := x.mean() - y.mean(); {
		case d < 0:
			return -1
		case d > 0:
			return 1
		}
		return 0
	})
	return all, out, nil
}

// packing compares the best free rule and the learned policy on the pods that may be replaced.
func (b *builder) packing(ctx context.Context) error {
	step := Step{Cause: "packing", Money: fixedMoney(0), Bound: max(0, b.level-b.monthly(b.least.cost)), Risk: "none: it acts on pods as they are replaced"}
	if len(b.model.Events) == 0 {
		step.text = "no pod may be replaced elsewhere"
		b.add(step)
		return nil
	}
	names := []string{mostAllocated, learned}
	if b.bill.pods <= mostPlanned {
		names = append(names, bestFit)
	}
	all, out, err := b.replay(ctx, b.model, names)
	if err != nil {
		return err
	}
	b.bill.unplaced = out
	if len(all) == 0 {
		step.text = "no policy places all pods again"
		b.add(step)
		return nil
	}
	best := choose(all)
	b.saveBy(&step, best)
	b.policy = best
	if best.stayed > 0 {
		step.Risk += fmt.Sprintf("; up to %s of an order stay, since it leaves them out otherwise", plural.Of(best.stayed, "pod"))
	}
	step.Command, step.Prints = b.compareCommand(best)
	step.text = packingText(best.name, step.Money)
	switch {
	case step.Money.Mean == 0:
	case best.name == mostAllocated:
		step.advice = "set in kube-scheduler: NodeResourcesFit, scoringStrategy: MostAllocated"
	case best.name == bestFit:
		step.advice = "install sigma-scheduler: without a policy it does this"
	}
	b.add(step)
	return nil
}

// compareCommand compares a policy with the state after the moves, and the money that it prints.
func (b *builder) compareCommand(c *contender) (command string, prints Cents) {
	from := "--present"
	if b.freed {
		from = "--after moves.csv"
	}
	return fmt.Sprintf("sigma compare --trace %s %s --policy current,%s%s", b.trace(), from, c.name, b.seed()), aMonth(b.moved - c.mean())
}

// choose returns the policy to take: the best free rule, unless the learned policy is better with its whole interval.
func choose(all []contender) *contender {
	at := slices.IndexFunc(all, func(c contender) bool { return c.name != learned })
	of := slices.IndexFunc(all, func(c contender) bool { return c.name == learned })
	if at < 0 {
		return &all[of]
	}
	if of >= 0 {
		e := sheet.EstimateOf(all[of].costs)
		if e.Mean+e.Half < all[at].mean() {
			return &all[of]
		}
	}
	return &all[at]
}

// packingText is the line of the step on the screen.
func packingText(policy string, money *Money) string {
	switch {
	case money.Mean == 0:
		return "pack new pods: no policy is better"
	case policy == mostAllocated:
		return "pack new pods: MostAllocated, free"
	case policy == bestFit:
		return "pack new pods: Best-Fit, free"
	}
	return "pack new pods: the learned policy"
}

// interval is the mean of savings an hour with the ends of its 95 % interval, as money.
func interval(values []float64) *Money {
	e := sheet.EstimateOf(values)
	if math.IsNaN(e.Mean) {
		return nil
	}
	if e.Mean <= 0 {
		return &Money{}
	}
	return &Money{aMonth(e.Mean), aMonth(e.Mean - e.Half), aMonth(e.Mean + e.Half)}
}
