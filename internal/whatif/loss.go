package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
)

// A loss is that of one machine, and of others that look like it.
type loss struct {
	at    position
	alike int
	t     *trace.Trace // without the machine
	p     *compare.Plan
	final bool // the plan is not searched for again
}

// worse orders plans: most items left out, then the highest cost.
func worse(a, b *compare.Plan) int {
	return cmp.Or(cmp.Compare(b.Unplaced, a.Unplaced), cmp.Compare(b.Cost, a.Cost))
}

// quick constructs a plan and reports whether no plan is better: it leaves out the items for which there is no room, and opens
// no machine. A search finds none that is worse.
func (o *Options) quick(ctx context.Context, t *trace.Trace, work int64) (p *compare.Plan, exact bool, err error) {
	quick := o.Plan
	quick.Steps, quick.Starts, quick.Work = -1, 1, work
	if p, err = compare.NewPlan(ctx, t, quick); err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, false, err
	}
	return p, p.Machines == len(newSite(t).positions()) && p.Unplaced == noRoom(t), nil
}

// losses constructs a plan for the loss of each machine, once for those that look alike.
func (o *Options) losses(ctx context.Context, full *trace.Trace, positions []position) ([]*loss, error) {
	var list []*loss
	known := map[string]*loss{}
	for i, at := range positions {
		if o.Progress != nil {
			o.Progress(i, len(positions))
		}
		key := looks(full, at)
		if l := known[key]; l != nil {
			l.alike++
			continue
		}
		lost := newSite(full)
		lost.loseMachine(at)
		p, exact, err := o.quick(ctx, lost.t, 0)
		if err != nil {
			return nil, err
		}
		known[key] = &loss{at: at, alike: 1, t: lost.t, p: p, final: exact}
		list = append(list, known[key])
	}
	return list, nil
}

// worst is the loss with the worst plan, the first by position of several. It searches where the construction leaves out more than it
// must, and where it may be the worst: a search only makes a plan better.
func (o *Options) worst(ctx context.Context, list []*loss) (*loss, error) {
	order := slices.Clone(list)
	slices.SortStableFunc(order, func(a, b *loss) int { return worse(a.p, b.p) })
	var worst *loss
	for _, l := range order {
		if !l.final && (worst == nil || worse(l.p, worst.p) <= 0 || l.p.Unplaced > 0) {
			if err := o.search(ctx, l); err != nil {
				return nil, err
			}
		}
		if worst == nil || cmp.Or(worse(l.p, worst.p), cmp.Compare(slices.Index(list, l), slices.Index(list, worst))) < 0 {
			worst = l
		}
	}
	return worst, o.search(ctx, worst) // for its bound
}

// search replaces a plan by one with the bound that a whole search has, if that is no worse.
func (o *Options) search(ctx context.Context, l *loss) error {
	p, err := o.plan(ctx, l.t)
	if err != nil {
		return err
	}
	if worse(p, l.p) < 0 {
		l.p.Bound, l.p.Proven = p.Bound, l.p.Unplaced == 0 && l.p.Cost <= p.Bound.Cost
		p = l.p
	}
	l.p, l.final = p, true
	return nil
}

// noRoom counts the items that arrive and for which there is no room beside those that stay, if no others arrive: by capacity,
// types and limits.
func noRoom(t *trace.Trace) (items int) {
	inst := t.Instance
	used, groups := map[position][]int64{}, map[position]map[int32]int64{}
	taken := make([]int64, len(inst.Machines)) // machines that hold something
	for _, p := range t.Placed {
		at, app := position{p.Line, p.Index}, inst.Apps[t.Requests[p.Request].App]
		if used[at] == nil {
			used[at], groups[at] = make([]int64, len(inst.Dimensions)), map[int32]int64{}
			taken[p.Line]++
		}
		for d, need := range app.Demand {
			used[at][d] += int64(p.Count) * need
		}
		groups[at][app.Group] += int64(p.Count)
	}
	coming := make([]int64, len(inst.Apps))
	for _, e := range t.Events {
		coming[t.Requests[e.Request].App] += int64(e.Count)
	}
	for a, n := range coming {
		app := &inst.Apps[a]
		more := func(line int32, used []int64, held int64) int64 { // items that fit beside the used amounts
			m := &inst.Machines[line]
			if !app.MayUse(m.Type) {
				return 0
			}
			k := n
			if limit := int64(inst.Groups[app.Group].Limit); limit > 0 {
				k = min(k, limit-held)
			}
			for d, need := range app.Demand {
				if need > 0 {
					k = min(k, (m.Capacity[d]-used[d])/need)
				}
			}
			return max(0, k)
		}
		empty := make([]int64, len(inst.Dimensions))
		for line, m := range inst.Machines {
			if k := more(int32(line), empty, 0); m.Count == binpack.Unlimited && k > 0 {
				n = 0
			} else {
				n -= min(n, (int64(m.Count)-taken[line])*k)
			}
		}
		for at, on := range used {
			n -= min(n, more(at.line, on, groups[at][app.Group]))
		}
		items += int(n)
	}
	return items
}

// looks describes a machine and its items: the loss of machines that look alike is the same.
func looks(t *trace.Trace, at position) string {
	m := t.Instance.Machines[at.line]
	var held []string
	for _, p := range t.Placed {
		if p.Line == at.line && p.Index == at.index {
			held = append(held, fmt.Sprint(t.Requests[p.Request].App, p.Count, p.Devices))
		}
	}
	slices.Sort(held)
	return fmt.Sprint(m.Type, m.Cost, m.Capacity, m.Zone, m.Count == binpack.Unlimited, held)
}
