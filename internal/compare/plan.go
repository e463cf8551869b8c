package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/plan"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A Plan packs all items of a trace at once.
type Plan struct {
	Machines int     // that hold an item, those of placed.csv included
	Cost     float64 // of these
	Standing int     // items that stay where they were
	Placed   int     // items
	Unplaced int     // items
	// AllocationRate is placed demand ÷ capacity of these machines (open fleet)
	// or of all (fixed), per dimension.
	AllocationRate []float64
	Bound          report.Bound // Optimal is there when Proven
	Proven         bool         // nothing is left out, and the cost is the bound
	// Placements place the items in an order that breaks no constraint: the order of the
	// events, except that second items of a group on a machine are last where the group
	// must be spread first.
	Placements []trace.Placement

	t        *trace.Trace
	items    []int64
	standing []plan.Machine
}

// DefaultStarts is the number of searches of a plan.
const DefaultStarts = 4

// NewPlan plans a trace around the items of placed.csv. It ignores Standing and Loosened of
// the options. A trace whose items also leave is an error, and so is a constraint that
// the independent checker finds broken. When the context ends, the search ends with
// the best plan so far.
func NewPlan(ctx context.Context, t *trace.Trace, opt plan.Options) (*Plan, error) {
	if i := slices.IndexFunc(t.Events, func(e trace.Event) bool { return e.Kind == trace.Delete }); i >= 0 {
		e := t.Events[i]
		return nil, fmt.Errorf("trace %s: items of request %s leave at %g s: a plan is for items that stay; name a moment with --at", t.Name, t.Requests[e.Request].Name, e.Time)
	}
	items := make([]int64, len(t.Instance.Apps))
	for _, e := range t.Events {
		q := t.Requests[e.Request]
		items[q.App] += int64(q.Count)
	}
	opt.Standing, opt.Loosened = standing(t), t.Loosened()
	packing := plan.Pack(ctx, t.Instance, items, opt)
	p := &Plan{Proven: packing.Proven, Bound: report.Bound{
		Machines: packing.Bound.Machines, Cost: packing.Bound.Cost, Method: packing.Bound.Method,
	}, t: t, items: items, standing: opt.Standing}
	if err := p.take(&packing); err != nil {
		return nil, err
	}
	if p.Proven {
		p.Bound.Cost = min(p.Bound.Cost, p.Cost) // which differ by the rounding of sums at most
		p.Bound.Optimal = &p.Cost
	}
	return p, nil
}

// take copies a packing into the plan.
func (p *Plan) take(packing *plan.Packing) error {
	p.Cost = costOf(p.t.Instance, packing, len(p.standing))
	if err := p.place(p.t, packing, p.standing); err != nil {
		return err
	}
	p.allocate(p.t, packing, p.standing)
	return nil
}

// CheckModel refuses a trace that the integer program of a plan describes insufficiently.
func CheckModel(t *trace.Trace) error {
	if plan.ByZone(t.Instance) {
		return fmt.Errorf("trace %s: it has limits or rules by zone: the integer program leaves them out, since what a skew permits depends on the order of placements", t.Name)
	}
	return nil
}

// Model returns the plan's task as an integer program.
func (p *Plan) Model() *plan.Model { return plan.NewModel(p.t.Instance, p.items, p.standing, p.Cost) }

// Prove uses a solver's solution of the plan's model: a proof that no plan is cheaper, or
// a cheaper plan. A solution that the checker rejects, because it breaks a constraint
// that the model leaves out, proves nothing.
func (p *Plan) Prove(s plan.Solved, solver string) {
	const tolerance = 1e-6 // of the cost: solvers compute in floating point
	if !s.Optimal {
		return
	}
	if s.Cost < p.Cost*(1-tolerance) {
		better := &Plan{Bound: p.Bound, t: p.t, items: p.items, standing: p.standing}
		if err := better.take(&s.Packing); err != nil || better.Unplaced > 0 || better.Cost >= p.Cost {
			return
		}
		*p = *better
	}
	if p.Proven = s.Cost >= p.Cost*(1-tolerance); p.Proven {
		p.Bound.Cost, p.Bound.Method, p.Bound.Optimal = p.Cost, solver, &p.Cost
	}
}

// hindsight plans a trace; if the plan is proven, its cost is the optimum.
func (c *comparison) hindsight(ctx context.Context, t *trace.Trace, best *report.Bound, r *Result) error {
	p, err := NewPlan(ctx, t, plan.Options{Seed: c.opt.Seed, Work: c.opt.Bound.Work, Starts: DefaultStarts, Workers: c.opt.Workers, Moves: c.moves()})
	if stated, ok := optimal(t, false); err == nil && ok && p.Unplaced == 0 && !c.opt.Repack {
		err = disproof(t, stated, p.Cost, "a plan in hindsight")
	}
	switch {
	case err != nil:
		return err
	case p.Proven:
		*best = p.Bound
	case p.Unplaced > 0:
		r.add("%s: in hindsight the best plan found leaves out %d of %d items", t.Name, p.Unplaced, p.Placed+p.Unplaced)
	default:
		r.add("%s: in hindsight the best plan found costs %.6g; the bound of %.6g does not prove it", t.Name, p.Cost, best.Cost)
	}
	return nil
}

// Moment returns a trace of the items that live at a time in seconds; those of placed.csv
// stay there. Items keep their numbers, since the highest leave first.
func Moment(t *trace.Trace, at float64) *trace.Trace {
	left := make([]int32, len(t.Requests))
	for i := range t.Initial {
		left[i] = t.Requests[i].Count
	}
	var creates []trace.Event
	for _, e := range t.Events {
		switch {
		case e.Time > at:
		case e.Kind == trace.Delete:
			left[e.Request] -= e.Count
		default:
			left[e.Request] = t.Requests[e.Request].Count
			creates = append(creates, e)
		}
	}
	m := *t
	m.Requests, m.Placed, m.Events = slices.Clone(t.Requests), nil, nil
	for i := range m.Requests {
		m.Requests[i].Count = left[i]
	}
	for _, p := range t.Placed {
		p.Count = min(p.Count, left[p.Request])
		left[p.Request] -= p.Count
		if p.Count > 0 {
			m.Placed = append(m.Placed, p)
		}
	}
	for _, e := range creates {
		if e.Count = m.Requests[e.Request].Count; e.Count > 0 {
			m.Events = append(m.Events, e)
		}
	}
	return &m
}

// Peak is the first time of the largest demand, in machines of the largest kind and in
// the dimension with the largest demand.
func Peak(t *trace.Trace) float64 {
	inst := t.Instance
	load, largest := make([]float64, len(inst.Dimensions)), make([]float64, len(inst.Dimensions))
	for _, m := range inst.Machines {
		for d, c := range m.Capacity {
			largest[d] = max(largest[d], float64(c), 1)
		}
	}
	change := func(app, n int32) {
		for d, need := range inst.Apps[app].Demand {
			load[d] += float64(n) * float64(need) // whole numbers: exact below 2⁵³
		}
	}
	for _, q := range t.Requests[:t.Initial] {
		change(q.App, q.Count)
	}
	at, most := 0.0, 0.0
	for i, e := range t.Events {
		q := t.Requests[e.Request]
		if e.Kind == trace.Delete {
			change(q.App, -e.Count)
		} else {
			change(q.App, q.Count)
		}
		if i+1 < len(t.Events) && t.Events[i+1].Time == e.Time {
			continue
		}
		for d := range load {
			if v := load[d] / largest[d]; v > most {
				at, most = e.Time, v
			}
		}
	}
	return at
}

// standing lists the machines of placed.csv in order of position.
func standing(t *trace.Trace) []plan.Machine {
	placed := slices.Clone(t.Placed)
	app := func(p trace.Placed) int32 { return t.Requests[p.Request].App }
	slices.SortStableFunc(placed, func(a, b trace.Placed) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Index, b.Index), cmp.Compare(app(a), app(b)))
	})
	var out []plan.Machine
	for i, p := range placed {
		if i == 0 || p.Line != placed[i-1].Line || p.Index != placed[i-1].Index {
			out = append(out, plan.Machine{Line: p.Line, Index: p.Index, Devices: [][]binpack.Device{}})
		}
		m := &out[len(out)-1]
		if n := len(m.Items); n == 0 || m.Items[n-1].App != app(p) {
			m.Items = append(m.Items, binpack.Entry{App: app(p), Group: t.Instance.Apps[app(p)].Group})
		}
		m.Items[len(m.Items)-1].Count += p.Count
		for range p.Count {
			m.Devices = append(m.Devices, p.Devices)
		}
	}
	return out
}

// A slot is a place for one item.
type slot struct {
	line, index int32
	devices     []binpack.Device
	late        bool // only once the group is spread
	turn        int  // in the packing's order, if it has one
}

// slots lists the places of each app, the late ones last.
func slots(inst *binpack.Instance, packing *plan.Packing, standing []plan.Machine) [][]slot {
	out := make([][]slot, len(inst.Apps))
	for i, m := range packing.Machines {
		holds := map[int32]bool{} // groups
		if i < len(standing) {
			for _, e := range standing[i].Items {
				holds[e.Group] = true
			}
		}
		at := 0
		for _, e := range m.Items {
			for range e.Count {
				s := slot{line: m.Line, index: m.Index, late: holds[e.Group] && inst.Groups[e.Group].SpreadMin > 1}
				if m.Devices != nil {
					s.devices = m.Devices[at]
				}
				at++
				holds[e.Group] = true
				out[e.App] = append(out[e.App], s)
			}
		}
	}
	if packing.Order != nil {
		clear(out)
		for turn, s := range packing.Order {
			out[s.App] = append(out[s.App], slot{line: s.Line, index: s.Index, devices: s.Devices, turn: turn})
		}
	}
	for _, list := range out {
		slices.SortStableFunc(list, func(a, b slot) int { return compareBool(a.late, b.late) })
	}
	return out
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// place places the items in the order of the events and checks each placement.
func (p *Plan) place(t *trace.Trace, packing *plan.Packing, standing []plan.Machine) error {
	free := slots(t.Instance, packing, standing)
	type placing struct {
		trace.Placement
		app int32
		slot
	}
	var now, late []placing
	for _, e := range t.Events {
		q := t.Requests[e.Request]
		for i := range q.Count {
			one := placing{Placement: trace.Placement{
				Time: e.Time, Request: q.Name, Item: int(i), App: t.Instance.Apps[q.App].Name, Kind: trace.Unplaced,
			}, app: q.App}
			if len(free[q.App]) == 0 {
				now = append(now, one)
				p.Unplaced++
				continue
			}
			one.slot, free[q.App] = free[q.App][0], free[q.App][1:]
			one.Kind, one.Machine = trace.Place, t.MachineName(one.line, one.index)
			one.Devices = trace.FormatDevices(t.Instance, one.devices)
			p.Placed++
			if one.late {
				late = append(late, one)
			} else {
				now = append(now, one)
			}
		}
	}
	checker := binpack.NewChecker(t.Instance)
	for _, q := range t.Placed {
		for range q.Count {
			p.Standing++
			if err := checker.Initial(t.Requests[q.Request].App, q.Line, q.Index, q.Devices); err != nil {
				return err
			}
		}
	}
	var broken []error
	slices.SortStableFunc(now, func(a, b placing) int { return cmp.Compare(a.turn, b.turn) })
	for _, one := range append(now, late...) {
		p.Placements = append(p.Placements, one.Placement)
		if one.Kind == trace.Place {
			if err := checker.Place(one.app, one.line, one.index, one.devices); err != nil {
				broken = append(broken, err)
			}
		}
	}
	p.Machines = checker.Machines()
	if len(broken) > 0 {
		return fmt.Errorf("the plan breaks %d constraints: this is a bug, please report it with the trace: %w", len(broken), errors.Join(broken[:min(3, len(broken))]...))
	}
	return nil
}

// allocate computes the allocation rates.
func (p *Plan) allocate(t *trace.Trace, packing *plan.Packing, standing []plan.Machine) {
	inst := t.Instance
	for d := range inst.Dimensions {
		demand, capacity := 0.0, 0.0
		for i, m := range packing.Machines {
			held := m.Items
			if i < len(standing) {
				held = slices.Concat(held, standing[i].Items)
			}
			for _, e := range held {
				demand += float64(float64(e.Count) * float64(inst.Apps[e.App].Demand[d]))
			}
			if inst.Fleet == binpack.Open && len(held) > 0 {
				capacity += float64(inst.Machines[m.Line].Capacity[d])
			}
		}
		if inst.Fleet == binpack.Fixed {
			for _, line := range inst.Machines {
				capacity += float64(float64(line.Count) * float64(line.Capacity[d]))
			}
		}
		rate := 0.0
		if capacity > 0 {
			rate = demand / capacity
		}
		p.AllocationRate = append(p.AllocationRate, rate)
	}
}
