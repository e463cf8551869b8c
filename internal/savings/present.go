package savings

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/defrag"
)

// A present is the state of a trace at its end: items on machines, and items that wait.
type present struct {
	t       *trace.Trace      // its items are all in placed.csv
	given   *trace.Trace      // as it was read
	waiting []string          // requests without room
	held    map[string]bool   // requests that wait and fit: they are part of every step
	ending  map[string]bool   // machines with items that are being deleted: these are in no step
	fixed   map[string]string // items that stay at every step
	follow  map[string]string // items that stay where moves alone count
	facts   *facts
}

// origin is that of the trace of a cluster.
const origin = "Kubernetes cluster"

var errNoPlacement = errors.New("nothing says where the items are: it has no placed.csv; sigma snapshot writes a trace with one")

// presentOf returns the state at the end of a trace, without the items that leave before. The source's placements have the
// machines of later ones.
func presentOf(given *trace.Trace) (*present, error) {
	t := defrag.ByMemory(given)
	p := &present{given: given, fixed: map[string]string{}, follow: map[string]string{}, held: map[string]bool{}, ending: map[string]bool{}}
	var err error
	if p.facts, err = factsOf(t); err != nil {
		return nil, err
	}
	if len(t.Placed) == 0 && t.Source["origin"] != origin {
		return nil, errNoPlacement
	}
	left := make([]int32, len(t.Requests))
	for i, q := range t.Requests {
		left[i] = q.Count
	}
	for _, e := range t.Events {
		if e.Kind == trace.Delete {
			left[e.Request] -= e.Count
		}
	}
	later, ok := mapping(t.Source["placements"])
	if !ok {
		return nil, errors.New("trace.yaml: source.placements: want requests, each with a machine")
	}
	own := *t
	own.Requests, own.Placed, own.Events, own.Source = nil, nil, nil, map[string]any{}
	maps.Copy(own.Source, t.Source)
	delete(own.Source, "placements")
	names := trace.NewMachineNames(t.Instance)
	add := func(i int32, line, index, count int32, devices []trace.Device) {
		if n := len(own.Requests); n == 0 || own.Requests[n-1].Name != t.Requests[i].Name {
			own.Requests = append(own.Requests, trace.Request{Name: t.Requests[i].Name, App: t.Requests[i].App})
		}
		q := int32(len(own.Requests) - 1)
		own.Requests[q].Count += count
		own.Placed = append(own.Placed, trace.Placed{Request: q, Line: line, Index: index, Count: count, Devices: devices})
	}
	for _, at := range byRequest(t.Placed) {
		if p.facts.lost[t.Requests[at.Request].Name] != "" {
			left[at.Request] = 0
			p.ending[t.MachineName(at.Line, at.Index)] = true
		}
		if n := min(at.Count, left[at.Request]); n > 0 {
			left[at.Request] -= n
			add(at.Request, at.Line, at.Index, n, at.Devices)
		}
	}
	requested := given
	if len(p.facts.waiting) > 0 {
		if requested, _, err = split(given); err != nil {
			return nil, err
		}
	}
	held, err := defrag.Held(requested)
	if err != nil {
		return nil, err
	}
	for _, at := range held {
		if left[at.Request] > 0 {
			left[at.Request]--
			p.held[t.Requests[at.Request].Name] = true
			add(at.Request, at.Line, at.Index, 1, at.Devices)
		}
	}
	for _, e := range t.Events {
		if e.Kind != trace.Create || left[e.Request] == 0 {
			continue
		}
		q := t.Requests[e.Request]
		machine, ok := later[q.Name]
		if !ok {
			p.waiting = append(p.waiting, q.Name)
			continue
		}
		line, index, err := names.Parse(fmt.Sprint(machine))
		if err != nil {
			return nil, fmt.Errorf("trace.yaml: source.placements: %s: machine %q: %w", q.Name, machine, err)
		}
		add(e.Request, line, index, left[e.Request], nil)
	}
	own.Initial = len(own.Requests)
	p.t = &own
	return p, p.setFixed()
}

// byRequest are the lines of placed.csv by request, those of one in their order.
func byRequest(placed []trace.Placed) []trace.Placed {
	placed = slices.Clone(placed)
	slices.SortStableFunc(placed, func(a, b trace.Placed) int { return int(a.Request - b.Request) })
	return placed
}

// setFixed lists the items that stay where they are: those that must not move, those with constraints that the trace
// lacks, and those of machines that no step removes.
func (p *present) setFixed() error {
	fixed, err := p.given.Fixed()
	if err != nil {
		return err
	}
	ignored, err := p.given.Ignored()
	if err != nil {
		return err
	}
	for _, at := range p.t.Placed {
		name := p.t.Requests[at.Request].Name
		switch {
		case p.facts.follow[name] != nil && fixed[name] != nil && ignored[name] == nil:
			p.follow[name] = fmt.Sprint(fixed[name])
		case p.held[name]:
		case fixed[name] != nil:
			p.fixed[name] = fmt.Sprint(fixed[name])
		case ignored[name] != nil:
			p.fixed[name] = dependsOn + fmt.Sprint(ignored[name])
		default:
			if n := p.facts.nodes[p.t.MachineName(at.Line, at.Index)]; n.stays {
				p.fixed[name] = "its node stays: " + n.why
			}
		}
	}
	stay := map[string]any{}
	for name, why := range p.stay() {
		stay[name] = why
	}
	p.t.Source["fixed"] = stay
	return nil
}

// heldText is the reason of pods that wait and fit on a machine now.
const heldText = "fit now: each step leaves them room"

// stay are the items that moves leave, with the reasons.
func (p *present) stay() map[string]string {
	all := maps.Clone(p.fixed)
	maps.Copy(all, p.follow)
	for name := range p.held {
		all[name] = heldText
	}
	return all
}

// Present is the model of the bill for other commands: the items of a trace that are on machines at its end arrive in the
// order of placed.csv, those that must not move stay, and those that wait are left out. The source's placements have the
// machines of those that arrive, after the moves of a file of sigma rebalance; "" = there are none.
func Present(t *trace.Trace, moves string) (*trace.Trace, error) {
	p, err := presentOf(t)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", t.Name, err)
	}
	if moves != "" {
		if p.t.Placed, err = defrag.ReadMoves(p.t, moves); err != nil {
			return nil, err
		}
	}
	if !sized.BySize(t) {
		p.t.SetUsage(nil) // it judges the model by use alone
		return p.closed(p.loose(0)), nil
	}
	at, err := sized.From(t)
	if err != nil {
		return nil, err
	}
	if u, err := t.Usage(); err != nil {
		return nil, err
	} else if u != nil {
		from, _ := u.Span()
		at = max(at, from)
	}
	return p.closed(p.loose(at)), nil
}

// Without is [Present] without a constraint by its name in the bill, such as "spread of all pods".
func Without(t *trace.Trace, what string) (*trace.Trace, error) {
	p, err := presentOf(t)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", t.Name, err)
	}
	b := &builder{p: p}
	var names []string
	for _, one := range b.named() {
		if one.what == what {
			return p.closed(b.relaxed(one)), nil
		}
		names = append(names, one.what)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("trace %s: its pods have no constraints", t.Name)
	}
	return nil, fmt.Errorf("trace %s: no constraint %q: it has %s", t.Name, what, strings.Join(names, "; "))
}

// A spot is a machine: a line and the index within it.
type spot struct{ line, index int32 }

// inUse are the machines with an item of some lines of placed.csv.
func inUse(placed []trace.Placed) map[spot]bool {
	on := map[spot]bool{}
	for _, at := range placed {
		on[spot{at.Line, at.Index}] = true
	}
	return on
}

// machines calls each for every machine of the bill: all of a cluster, but of another trace, and of a line without limit,
// only those in use.
func (p *present) machines(each func(at spot, line *binpack.MachineLine, used bool)) {
	on := inUse(p.t.Placed)
	for i := range p.t.Instance.Machines {
		line := &p.t.Instance.Machines[i]
		if line.Count == binpack.Unlimited {
			continue
		}
		cluster := p.t.Source["origin"] == origin
		for k := range line.Count {
			at := spot{int32(i), int32(k)}
			if cluster || on[at] {
				each(at, line, on[at])
			}
		}
	}
	for at := range on {
		if line := &p.t.Instance.Machines[at.line]; line.Count == binpack.Unlimited {
			each(at, line, true)
		}
	}
}

// running are the lines of placed.csv of the items that run.
func (p *present) running() []trace.Placed {
	return slices.DeleteFunc(slices.Clone(p.t.Placed), func(at trace.Placed) bool { return p.held[p.t.Requests[at.Request].Name] })
}

// kept calls each for a copy of the machines of an instance that hold no item at present and stay at every step.
func (p *present) kept(inst *binpack.Instance, each func(*binpack.MachineLine)) *binpack.Instance {
	own := *inst
	own.Machines = slices.Clone(inst.Machines)
	p.machines(func(at spot, _ *binpack.MachineLine, used bool) {
		if !used && p.facts.nodes[p.t.MachineName(at.line, at.index)].stays {
			each(&own.Machines[at.line])
		}
	})
	return &own
}

// closed is a model for policies and plans: they put nothing on empty machines that stay, which are for new pods.
// Bounds are of the model with these machines, for nothing.
func (p *present) closed(t *trace.Trace) *trace.Trace {
	own := *t
	own.Instance = p.kept(t.Instance, func(m *binpack.MachineLine) { m.Capacity = make([]int64, len(m.Capacity)) })
	return &own
}

// loose is the present with all items but the fixed ones arriving at a time, in the order of placed.csv: the others
// may be replaced.
func (p *present) loose(at float64) *trace.Trace {
	own := *p.t
	own.Requests, own.Placed, own.Events, own.Instance = nil, nil, nil, p.kept(p.t.Instance, func(m *binpack.MachineLine) { m.Cost = 0 }) // they are in the bill anyway
	var free []trace.Request
	where := map[string]any{}
	own.Source = maps.Clone(p.t.Source)
	own.Source["placements"] = where
	number := make([]int32, len(p.t.Requests)) // of a fixed request
	for i, q := range p.t.Requests {
		if p.fixed[q.Name] != "" {
			number[i] = int32(len(own.Requests))
			own.Requests = append(own.Requests, q)
		} else {
			number[i] = -1
			free = append(free, q)
		}
	}
	own.Initial = len(own.Requests)
	for _, placed := range p.t.Placed {
		q := &p.t.Requests[placed.Request]
		if q.Count == placed.Count && placed.Devices == nil {
			where[q.Name] = p.t.MachineName(placed.Line, placed.Index)
		}
		if placed.Request = number[placed.Request]; placed.Request >= 0 {
			own.Placed = append(own.Placed, placed)
		}
	}
	for _, q := range free {
		own.Requests = append(own.Requests, q)
		own.Events = append(own.Events, trace.Event{Time: at, Kind: trace.Create, Request: int32(len(own.Requests) - 1), Count: q.Count})
	}
	return &own
}
