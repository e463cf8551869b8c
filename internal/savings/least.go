package savings

import (
	"context"
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
)

// A least is a lower bound on the cost an hour of a trace whose placed items stay.
type least struct {
	cost  float64
	binds string // the cause of most of it: a resource, a kind of constraint, or the pods that stay
}

// leastOf bounds the cost of a trace from below: the machines of placed items are paid, and the others need at
// least the bound of the items that arrive, for which the room that is left on those machines costs nothing.
// It is above the bound of all items where many stay, and the higher of the two counts.
func leastOf(ctx context.Context, t *trace.Trace, work int64) least {
	arrive, all := make([]int64, len(t.Instance.Apps)), make([]int64, len(t.Instance.Apps))
	for _, e := range t.Events {
		arrive[t.Requests[e.Request].App] += int64(e.Count)
	}
	copy(all, arrive)
	for _, p := range t.Placed {
		all[t.Requests[p.Request].App] += int64(p.Count)
	}
	loosened := mayRemain(t)
	rest, paid := remainder(t, loosened)
	best := least{}
	for _, of := range []struct {
		inst  *binpack.Instance
		items []int64
		paid  float64
	}{{rest, arrive, paid}, {merged(loosened), all, 0}} {
		if slices.Max(append(of.items, 0)) == 0 {
			if of.paid > best.cost {
				best = least{of.paid, stays}
			}
			continue
		}
		b := bound.Best(ctx, of.inst, of.items, bound.Options{Work: work})
		if b.Short {
			continue // it counts machines that the fleet lacks
		}
		if cost := of.paid + b.Cost; cost > best.cost || best.binds == "" && cost == best.cost {
			best = least{cost, stays}
			if b.Cost > of.paid {
				best.binds = binding(of.inst, of.items, b.Bound)
			}
		}
	}
	return best
}

// mayRemain is the loosened instance in which apps may also use the types of machines that their items are on now: a workload
// may have been kept off them since.
func mayRemain(t *trace.Trace) *binpack.Instance {
	own := *t.Loosened()
	own.Apps = slices.Clone(own.Apps)
	now, err := compare.StayOf(t)
	if now == nil || err != nil { // with any number of machines they have other names, and the bound of the present counts too
		return &own
	}
	for _, e := range t.Events {
		line, _, _, ok := now.Where(e.Request, 0)
		if !ok {
			continue
		}
		if app, of := &own.Apps[t.Requests[e.Request].App], own.Machines[line].Type; !app.MayUse(of) {
			app.Types = append(slices.Clone(app.Types), of)
		}
	}
	return &own
}

// remainder is an instance with the room that placed items leave: their machines cost nothing, since their cost is paid.
func remainder(t *trace.Trace, loosened *binpack.Instance) (inst *binpack.Instance, paid float64) {
	own := *loosened
	own.Machines = nil
	free := map[spot][]int64{}
	for _, p := range t.Placed {
		at := spot{p.Line, p.Index}
		if free[at] == nil {
			free[at] = slices.Clone(t.Instance.Machines[p.Line].Capacity)
		}
		for d, n := range t.Instance.Apps[t.Requests[p.Request].App].Demand {
			free[at][d] -= n * int64(p.Count)
		}
	}
	taken := make([]int, len(loosened.Machines))
	order := make([]spot, 0, len(free))
	for at := range free {
		order = append(order, at)
	}
	slices.SortFunc(order, func(a, b spot) int { return int(a.line-b.line)<<1 | b2i(a.line == b.line)*int(a.index-b.index) })
	for _, at := range order {
		m := loosened.Machines[at.line]
		taken[at.line]++
		paid += m.Cost
		m.Name, m.Count, m.Cost = fmt.Sprint("paid-", at.line, "-", at.index), 1, 0
		m.Capacity = free[at]
		for d, dim := range loosened.Dimensions {
			m.Capacity[d] = max(0, m.Capacity[d])
			if dim.Device { // a device of which a share is free counts whole
				m.Capacity[d] = (m.Capacity[d] + dim.One - 1) / dim.One * dim.One
			}
		}
		own.Machines = append(own.Machines, m)
	}
	for i, m := range loosened.Machines {
		if m.Count != binpack.Unlimited {
			m.Count -= taken[i]
		}
		if m.Count != 0 {
			own.Machines = append(own.Machines, m)
		}
	}
	return merged(&own), paid
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// merged joins equal lines of machines: bounds take each kind once.
func merged(inst *binpack.Instance) *binpack.Instance {
	own := *inst
	own.Machines = nil
	line := map[string]int{}
	for _, m := range inst.Machines {
		key := fmt.Sprint(m.Type, m.Cost, m.Zone, m.Capacity)
		i, ok := line[key]
		if !ok {
			line[key] = len(own.Machines)
			own.Machines = append(own.Machines, m)
			continue
		}
		if m.Count == binpack.Unlimited || own.Machines[i].Count == binpack.Unlimited {
			own.Machines[i].Count = binpack.Unlimited
		} else {
			own.Machines[i].Count += m.Count
		}
	}
	return &own
}

// binding is the cause of a bound: the resource whose volume alone gives it, or the method.
func binding(inst *binpack.Instance, items []int64, b bound.Bound) string {
	at, most := "", -1.0
	for d, dim := range inst.Dimensions {
		one := *inst
		one.Apps = slices.Clone(inst.Apps)
		for a := range one.Apps {
			demand := make([]int64, len(inst.Dimensions))
			demand[d] = inst.Apps[a].Demand[d]
			one.Apps[a].Demand = demand
		}
		if cost := bound.Volume(&one, items).Cost; cost > most {
			at, most = dim.Name+" binds", cost
		}
	}
	if most < b.Cost {
		switch b.Method {
		case bound.MethodLimit:
			return "one workload needs it alone"
		case bound.MethodClique:
			return "workloads that share no node"
		}
	}
	return at
}
