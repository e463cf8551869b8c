package defrag

import (
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// ByMemory is a trace of a snapshot in which the items of an app take the memory that they use now, on average, where that is more
// than they request: a node without it ends pods. A machine that is too small for its items then is as large as they are.
func ByMemory(t *trace.Trace) *trace.Trace {
	d := slices.IndexFunc(t.Instance.Dimensions, func(dim binpack.Dimension) bool { return dim.Name == "memory" })
	if d < 0 || t.Source["sizes"] != nil { // demands are by use already
		return t
	}
	use, own, inst := podsOf(t, "use"), *t, *t.Instance
	inst.Apps, inst.Machines = slices.Clone(inst.Apps), slices.Clone(inst.Machines)
	more := false
	for a := range inst.Apps {
		app := &inst.Apps[a]
		of, _ := use[app.Name].(map[string]any)
		memory, _ := number(of["memory"])
		pods, _ := number(of["pods"])
		if mean := int64(math.Ceil(memory / pods * float64(inst.Dimensions[d].One))); pods > 0 && mean > app.Demand[d] {
			app.Demand = slices.Clone(app.Demand)
			app.Demand[d], more = mean, true
		}
	}
	if !more {
		return t
	}
	lost, sums := podsOf(t, "lost"), map[[2]int32]int64{}
	for _, p := range t.Placed {
		if q := t.Requests[p.Request]; lost[q.Name] == nil {
			sums[[2]int32{p.Line, p.Index}] += inst.Apps[q.App].Demand[d] * int64(p.Count)
		}
	}
	for at, sum := range sums {
		if m := &inst.Machines[at[0]]; sum > m.Capacity[d] {
			m.Capacity = slices.Clone(m.Capacity)
			m.Capacity[d] = sum
		}
	}
	own.Instance = &inst
	return &own
}

// Movable is [ByMemory] without the items that are being deleted, and without the room that they have until then: no item moves there.
func Movable(t *trace.Trace) *trace.Trace {
	lost := podsOf(t, "lost")
	gone := func(p trace.Placed) bool { return lost[t.Requests[p.Request].Name] != nil }
	if !slices.ContainsFunc(t.Placed, gone) {
		return ByMemory(t)
	}
	own, inst := *t, *t.Instance
	inst.Machines = slices.Clone(inst.Machines)
	for _, p := range t.Placed {
		if !gone(p) {
			continue
		}
		m := &inst.Machines[p.Line]
		m.Capacity = slices.Clone(m.Capacity)
		for d, n := range inst.Apps[t.Requests[p.Request].App].Demand {
			if !inst.Dimensions[d].Device { // others of the machine's devices have items
				m.Capacity[d] -= n * int64(p.Count)
			}
		}
	}
	own.Instance, own.Placed = &inst, slices.DeleteFunc(slices.Clone(t.Placed), gone)
	return ByMemory(&own)
}
