package savings

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/plan"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
)

// AnyNumber is the trace with any number of each kind of machine. Of those with one type, cost and zone the smallest
// counts: nodes of one kind report some kB more or less. Spot nodes keep their number, of which there may
// be no more, and so do nodes that stay.
func AnyNumber(t *trace.Trace) (*trace.Trace, error) {
	f, err := factsOf(t)
	if err != nil {
		return nil, err
	}
	own, inst := *t, *t.Instance
	inst.Machines, inst.Fleet = slices.Clone(inst.Machines), binpack.Open
	type kind struct {
		of   int32
		cost float64
		zone string
	}
	smallest := map[kind]int{}
	for i, m := range inst.Machines {
		k := kind{m.Type, m.Cost, m.Zone}
		at, ok := smallest[k]
		if f.spot[m.Name] || f.nodes[m.Name].stays || ok && slices.Compare(inst.Machines[at].Capacity, m.Capacity) <= 0 {
			continue
		}
		smallest[k] = i
	}
	for _, i := range smallest {
		inst.Machines[i].Count = binpack.Unlimited
	}
	own.Instance = &inst
	return &own, nil
}

// shapes plans the pods on the cheapest mix of the kinds of nodes that exist, any number of each, and then of all instance
// types known. Each step is the difference of two plans, so that the gap between a policy and a plan is no part of it.
func (b *builder) shapes(ctx context.Context) error {
	numbers := Step{Cause: "shapes", Risk: "other node groups; pods start again", text: "another mix of the same node types"}
	types := Step{Cause: "shapes", AnyType: true, Risk: "node groups of types that the cluster does not have; pods start again; allocatable is estimated", text: "any instance type in these pools"}
	if len(b.model.Events) == 0 {
		numbers.Money, types.Money, numbers.Risk, types.Risk = fixedMoney(0), fixedMoney(0), "none", "none"
		b.add(numbers)
		b.add(types)
		return nil
	}
	free, err := AnyNumber(b.model)
	if err != nil {
		return err
	}
	before := &mix{t: b.model, least: b.least, flags: "--present"}
	after := &mix{t: free, flags: "--present --any-number"}
	if err := b.mixed(ctx, &numbers, before, after); err != nil {
		return err
	}
	all, err := AnyType(b.model)
	if no, ok := errors.AsType[*noTypesError](err); ok {
		types.text, types.Risk, types.Bound = "other types: "+no.why, "unknown", max(0, b.level-b.always)
		b.add(types)
		return nil
	} else if err != nil {
		return err
	}
	return b.mixed(ctx, &types, after, &mix{t: all, flags: "--present --any-type"})
}

// A mix is a choice of kinds of nodes with its plan.
type mix struct {
	t     *trace.Trace
	flags string // of sigma plan
	least least
	plan  *compare.Plan // nil = not planned yet
	cost  float64       // of its own plan
}

// mixed adds the step from the plan of one choice of nodes to that of a wider one.
func (b *builder) mixed(ctx context.Context, step *Step, from, to *mix) error {
	step.Money = fixedMoney(0)
	to.least = leastOf(ctx, to.t, b.work())
	to.least.cost = min(to.least.cost, from.least.cost) // the wider choice has each plan of the other
	b.least = to.least
	step.Bound = max(0, b.level-b.monthly(to.least.cost))
	if aMonth(from.least.cost-to.least.cost) <= 0 && b.level <= b.monthly(from.least.cost) {
		b.add(*step) // the bound before is reached, and this one is no lower
		return nil
	}
	for _, m := range []*mix{from, to} {
		if m.plan != nil {
			continue
		}
		var err error
		if m.plan, err = b.plan(ctx, m.t); err != nil {
			return err
		}
		m.cost = m.plan.Cost
	}
	p, q := from.plan, to.plan
	if q.Unplaced == 0 {
		base := b.level
		if p.Unplaced == 0 {
			base = min(base, b.monthly(p.Cost))
		}
		saved := max(0, base-b.monthly(q.Cost))
		if step.Money = fixedMoney(saved); p.Unplaced == 0 {
			step.Prints = aMonth(from.cost - to.cost)
		}
		if saved > 0 {
			step.Nodes = b.nodes - float64(q.Machines)
			b.nodes = float64(q.Machines)
			step.Command = fmt.Sprintf("sigma plan --trace %s %s --starts 1 --steps %d%s", b.trace(), to.flags, b.planSteps(), b.seed())
			if b.byUse { // a plan has no risk, so none is of a trace by use
				step.Command, step.Prints = fmt.Sprintf("sigma savings --trace %s%s --report savings.html", b.trace(), b.seed()), saved
			}
		}
		if p.Unplaced == 0 && p.Cost < q.Cost {
			to.plan = p // which the wider choice has too
		}
	}
	b.add(*step)
	return nil
}

// mostPlanned is the number of pods up to which plans search after their construction.
const mostPlanned = 5000

// plan plans a trace around its placed items.
func (b *builder) plan(ctx context.Context, t *trace.Trace) (*compare.Plan, error) {
	return compare.NewPlan(ctx, b.p.closed(t), plan.Options{Seed: b.opt.Seed, Starts: 1, Workers: max(1, b.opt.Workers), Steps: b.planSteps()})
}

func (b *builder) planSteps() int {
	if b.bill.pods > mostPlanned {
		return 1
	}
	return plan.DefaultSteps / 10
}
