package compare

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A Plan packs all that a trace asks for at once.
type Plan struct {
	Machines int     // that hold something, with those that stood before
	Cost     float64 // of these
	Placed   int     // items
	Unplaced int     // items
	// AllocationRate is placed demand ÷ capacity of these machines (open fleet)
	// or of all (fixed), per dimension.
	AllocationRate []float64
	Bound          report.Bound // Optimal is there when Proven
	Proven         bool         // nothing is left out, and the cost is the bound
	// Placements put every item into its place in an order that breaks nothing:
	// that of the events, but for the second items of a group on a machine where
	// the group has to be spread first.
	Placements []trace.Placement
}

// NewPlan plans a trace around what placed.csv holds. A trace whose items also
// leave is an error. The options' Standing are not read. What the independent
// checker finds broken is an error.
func NewPlan(t *trace.Trace, opt bound.PlanOptions) (*Plan, error) {
	if i := slices.IndexFunc(t.Events, func(e trace.Event) bool { return e.Kind == trace.Delete }); i >= 0 {
		e := t.Events[i]
		return nil, fmt.Errorf("trace %s: items of request %s leave at %g s: a plan is for items that stay, so it needs a trace without deletes", t.Name, t.Requests[e.Request].Name, e.Time)
	}
	items := make([]int64, len(t.Instance.Apps))
	for _, e := range t.Events {
		items[t.Requests[e.Request].App] += int64(e.Count)
	}
	opt.Standing = standing(t)
	packing := bound.Plan(t.Instance, items, opt)
	p := &Plan{Cost: packing.Cost, Proven: packing.Proven, Bound: Bound(t, 0, 0)}
	if p.Proven {
		p.Bound.Optimal = &p.Cost
	}
	if err := p.place(t, &packing, opt.Standing); err != nil {
		return nil, err
	}
	p.allocate(t, &packing, opt.Standing)
	return p, nil
}

// standing lists the machines of placed.csv in order of position.
func standing(t *trace.Trace) []bound.PlannedMachine {
	placed := slices.Clone(t.Placed)
	app := func(p trace.Placed) int32 { return t.Requests[p.Request].App }
	slices.SortStableFunc(placed, func(a, b trace.Placed) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Index, b.Index), cmp.Compare(app(a), app(b)))
	})
	var out []bound.PlannedMachine
	for i, p := range placed {
		if i == 0 || p.Line != placed[i-1].Line || p.Index != placed[i-1].Index {
			out = append(out, bound.PlannedMachine{Line: p.Line, Index: p.Index, Devices: [][]binpack.Device{}})
		}
		m := &out[len(out)-1]
		if n := len(m.Items); n == 0 || m.Items[n-1].App != app(p) {
			m.Items = append(m.Items, binpack.Entry{App: app(p), Group: t.Instance.Apps[app(p)].Group})
		}
		m.Items[len(m.Items)-1].Count += p.Count
		for range p.Count {
			m.Devices = append(m.Devices, checkedDevices(p.Devices))
		}
	}
	return out
}

func checkedDevices(devices []trace.Device) []binpack.Device {
	var out []binpack.Device
	for _, d := range devices {
		out = append(out, binpack.Device(d))
	}
	return out
}

// A slot is a place for one item.
type slot struct {
	line, index int32
	devices     []binpack.Device
	late        bool // only once the group is spread
}

// slots lists the places of each app, the late ones last.
func slots(inst *binpack.Instance, packing *bound.Packing, standing []bound.PlannedMachine) [][]slot {
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

// place gives the items their places in the order of the events, and has each
// placement judged.
func (p *Plan) place(t *trace.Trace, packing *bound.Packing, standing []bound.PlannedMachine) error {
	free := slots(t.Instance, packing, standing)
	type placing struct {
		trace.Placement
		app int32
		slot
	}
	var now, late []placing
	for _, e := range t.Events {
		q := t.Requests[e.Request]
		for i := range e.Count {
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
			one.Devices = trace.FormatDevices(t.Instance, traceDevices(one.devices))
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
			if err := checker.Initial(t.Requests[q.Request].App, q.Line, q.Index, checkedDevices(q.Devices)); err != nil {
				return err
			}
		}
	}
	var broken []error
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

func traceDevices(devices []binpack.Device) []trace.Device {
	var out []trace.Device
	for _, d := range devices {
		out = append(out, trace.Device(d))
	}
	return out
}

// allocate sums up demand and capacity.
func (p *Plan) allocate(t *trace.Trace, packing *bound.Packing, standing []bound.PlannedMachine) {
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
