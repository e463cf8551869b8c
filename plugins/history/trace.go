package history

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// Options configure the trace of a history.
type Options struct {
	Name   string
	Fleet  string // open or fixed; empty: the scheduler's own
	Method string // for the trace's source
}

// Trace makes a trace of the window. The notes list the adjustments.
//
// The pods on nodes at its beginning are placed.csv, in the order of age. Every later stay
// on a node is a create at its beginning and a delete at its end, and the source's
// placements, which the policy current reads, contain its node. A pod that waited
// arrives when it gets its node, and one that never got one when it began to wait.
//
// A node is a machine when it held pods, or is neither cordoned at the end nor removed
// before the window. One that was present for a while counts as present all the time,
// since a trace has one fleet.
// Pods that no node can take are left out: they would spoil every comparison.
func (h *History) Trace(opt Options) (t *trace.Trace, notes []string, err error) {
	if h.at < h.from {
		return nil, nil, fmt.Errorf("the window is empty: the log ends at %s", instant(h.at))
	}
	w := &writer{past: h, from: max(h.from, h.began), fixed: map[string]any{}, ignored: map[string]any{}, held: map[string]bool{}, stood: map[string]bool{}, hopeless: map[string]bool{}}
	for _, p := range h.stays {
		copied := *p
		if copied.left = h.leftAt(p); p.left < 0 {
			copied.leftOrder = p.order // lost at a start: not before its arrival
		}
		if !w.counts(&copied) {
			continue
		}
		w.stays = append(w.stays, &copied)
		if copied.node != "" {
			w.held[copied.node], w.stood[copied.app] = true, true
		}
	}
	if len(w.stays) == 0 && h.needsPods {
		return nil, nil, fmt.Errorf("the window is empty: no pod stands or waits between %s and %s", instant(w.from), instant(min(h.until, h.at)))
	}
	fleet := cmp.Or(opt.Fleet, h.start.Fleet)
	if err := w.makeInstance(fleet); err != nil {
		return nil, nil, err
	}
	if w.findHopeless() {
		if err := w.makeInstance(fleet); err != nil {
			return nil, nil, err
		}
	}
	dimensions := make([]string, len(w.instance.Dimensions))
	for d, dim := range w.instance.Dimensions {
		dimensions[d] = dim.Name
	}
	if err := trace.CheckDimensions(dimensions); err != nil {
		return nil, nil, fmt.Errorf("the log's resources: %w", err)
	}
	w.trace = &trace.Trace{Name: opt.Name, MeasureFrom: math.NaN(), Instance: w.instance}
	w.makeRequests()
	w.makeRoom()
	w.letStay()
	w.nameTypes()
	tally := h.Counts()
	w.trace.Source = map[string]any{
		"origin": "Kubernetes cluster", "method": opt.Method, "taken": instant(w.from),
		"nodes": tally.Nodes, "pods": tally.Placed + tally.Waiting,
	}
	if len(w.fixed) > 0 {
		w.trace.Source["fixed"] = w.fixed
	}
	if len(w.ignored) > 0 {
		w.trace.Source["ignored"] = w.ignored
	}
	if h.start.Currency != "" {
		w.trace.Source["currency"] = h.start.Currency
	}
	if len(w.adjusted) > 0 {
		w.trace.Source["adjusted"] = w.adjusted
	}
	if h.at > w.from {
		w.trace.Source["seconds"] = w.seconds(h.at)
	}
	if len(w.placements) > 0 {
		w.trace.Source["placements"] = w.placements
	}
	return w.trace, w.notes, nil
}

// instant formats a time for people.
func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano) }

// A writer makes one trace.
type writer struct {
	past       *History
	from       int64          // time 0 of the trace
	stays      []*stay        // that count
	fixed      map[string]any // requests that fit nowhere else, each with the reason
	ignored    map[string]any // those that wait and fit nowhere, of an app with fixed ones
	trace      *trace.Trace
	instance   *binpack.Instance
	held       map[string]bool // nodes that hold a pod at some time
	stood      map[string]bool // apps of which a pod had a node
	hopeless   map[string]bool // apps that no node can take
	line       map[string]int32
	app        map[string]int32
	ordered    []*stay // by request
	placements map[string]any
	adjusted   map[string]any
	notes      []string
}

// seconds returns a time of the trace.
func (w *writer) seconds(ms int64) float64 { return float64(max(0, ms-w.from)) / 1e3 }

// initial reports whether a pod is in placed.csv.
func (w *writer) initial(p *stay) bool { return p.node != "" && (p.first || p.came < w.from) }

// counts reports whether a pod is in the trace: not when it had left at the
// beginning, nor when it began to wait and left in the same moment.
func (w *writer) counts(p *stay) bool {
	return (p.left < 0 || p.left >= w.from) && (p.node != "" || p.left != p.came)
}

// makeInstance builds the instance with a ledger, as the scheduler does.
func (w *writer) makeInstance(fleet string) error {
	l, h := ledger.New(), w.past
	var specs []*app
	for _, name := range slices.Sorted(maps.Keys(h.apps)) {
		if !w.hopeless[name] {
			specs = append(specs, h.apps[name])
		}
	}
	events := []*ledger.Event{{Kind: ledger.KindStart, Start: &ledger.Start{
		Version: ledger.Version, Fleet: fleet, Units: h.start.Units, MaxShareOfApp: h.start.MaxShareOfApp,
	}}}
	refusals := newRefusals(h)
	for _, id := range refusals.ids {
		if h.selectors[id].closed {
			events = append(events, &ledger.Event{Kind: ledger.KindSelector, Select: &ledger.Selection{ID: id, Closed: true}})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.nodes)) {
		n := h.nodes[name]
		if (h.closed(n) || h.lostBefore(n, w.from)) && !w.held[name] {
			continue
		}
		m := n.spec
		m.Cordoned = false
		refusals.of(n, &m)
		events = append(events, &ledger.Event{Kind: ledger.KindNode, Node: name, Machine: &m})
	}
	for _, a := range specs {
		events = append(events, &ledger.Event{Kind: ledger.KindApp, App: a.name, Spec: &a.spec})
	}
	events = append(events, &ledger.Event{Kind: ledger.KindRule, Rules: h.allRules()})
	for _, e := range events {
		if err := l.Apply(e); err != nil {
			return fmt.Errorf("%s %s%s: %w", e.Kind, e.Node, e.App, err)
		}
	}
	w.instance, w.line, w.app = l.Columns().Instance(), map[string]int32{}, map[string]int32{}
	for i, m := range w.instance.Machines {
		w.line[m.Name] = int32(i)
	}
	for i := range w.instance.Apps {
		a := &w.instance.Apps[i]
		w.app[a.Name] = int32(i)
		a.Expected = h.apps[a.Name].expected
	}
	if w.instance.MaxShareOfApp > 0 {
		h.setDeclared(w.instance)
	}
	w.closeCordoned()
	return nil
}

// setDeclared sets the totals of which shares are taken, where they differ from the expected numbers: the
// first app of a group has the total that the group declares.
func (h *History) setDeclared(inst *binpack.Instance) {
	expected, first := make([]float64, len(inst.Groups)), make([]bool, len(inst.Groups))
	for _, a := range inst.Apps {
		expected[a.Group] += max(0, a.Expected)
	}
	for i := range inst.Apps {
		a := &inst.Apps[i]
		most := h.declared[inst.Groups[a.Group].Name]
		if most == expected[a.Group] {
			continue
		}
		if a.Declared = -1; most > 0 && !first[a.Group] {
			a.Declared = most
		}
		first[a.Group] = true
	}
}

// fits reports whether some machine takes an item of an app when it is empty.
func (w *writer) fits(a *binpack.App) bool {
	return slices.ContainsFunc(w.instance.Machines, func(m binpack.MachineLine) bool { return a.FitsEmpty(m.Type, m.Capacity) })
}

// findHopeless finds the apps that no node can take and no node ever took.
func (w *writer) findHopeless() (any bool) {
	for i := range w.instance.Apps {
		if a := &w.instance.Apps[i]; !w.stood[a.Name] && !w.fits(a) {
			w.hopeless[a.Name], any = true, true
		}
	}
	waiting := map[string]int{}
	for _, p := range w.stays {
		if w.hopeless[p.app] {
			waiting[p.app]++
		}
	}
	for _, app := range slices.Sorted(maps.Keys(waiting)) {
		w.notes = append(w.notes, fmt.Sprintf("%s fits no node, not even an empty one: waiting pods left out: %d", app, waiting[app]))
	}
	return any
}

// letStay adds the types of the nodes on which pods of an app ran to those that the
// app may use, if it fits nowhere else.
func (w *writer) letStay() {
	for i := range w.instance.Apps {
		a := &w.instance.Apps[i]
		if !w.stood[a.Name] || w.fits(a) {
			continue
		}
		types := slices.Clone(a.Types)
		for _, p := range w.ordered {
			if p.app == a.Name && w.past.at == w.from { // a longer past had other moments
				of := w.fixed
				if p.node == "" {
					of = w.ignored
				}
				of[p.name] = "it fits no node that it may go to now"
			}
			if p.app == a.Name && p.node != "" {
				types = append(types, w.instance.Machines[w.line[p.node]].Type)
			}
		}
		slices.Sort(types)
		a.Types = slices.Compact(types)
		w.notes = append(w.notes, fmt.Sprintf("%s fits no node that its pods may go to now: they may be where they stand", a.Name))
	}
}

// makeRequests makes a request of each stay: first of those on nodes at the beginning, by age,
// then of the others in order of arrival.
func (w *writer) makeRequests() {
	var later []*stay
	for _, p := range w.stays {
		switch {
		case w.hopeless[p.app]:
		case w.initial(p):
			w.ordered = append(w.ordered, p)
		default:
			later = append(later, p)
		}
	}
	slices.SortStableFunc(w.ordered, func(a, b *stay) int {
		return cmp.Or(cmp.Compare(a.created, b.created), strings.Compare(a.name, b.name))
	})
	slices.SortFunc(later, func(a, b *stay) int { return cmp.Or(cmp.Compare(a.came, b.came), cmp.Compare(a.order, b.order)) })
	w.trace.Initial = len(w.ordered)
	w.ordered = append(w.ordered, later...)

	times := map[string]int{} // for which a name was used
	var events []moment
	for i, p := range w.ordered {
		name := p.name
		if times[p.name]++; times[p.name] > 1 {
			name = fmt.Sprintf("%s#%d", p.name, times[p.name])
		}
		w.trace.Requests = append(w.trace.Requests, trace.Request{Name: name, App: w.app[p.app], Count: 1})
		at := int32(i)
		switch {
		case i < w.trace.Initial:
			w.trace.Placed = append(w.trace.Placed, trace.Placed{Request: at, Line: w.line[p.node], Count: 1})
		case p.node != "":
			if w.placements == nil {
				w.placements = map[string]any{}
			}
			w.placements[name] = p.node
		}
		if i >= w.trace.Initial {
			events = append(events, moment{trace.Event{Time: w.seconds(p.came), Kind: trace.Create, Request: at, Count: 1}, 1, p.order})
		}
		if p.left >= 0 {
			rank := 0 // a departure makes room, unless the pod arrived in the same moment
			if i >= w.trace.Initial && w.seconds(p.came) == w.seconds(p.left) {
				rank = 1
			}
			events = append(events, moment{trace.Event{Time: w.seconds(p.left), Kind: trace.Delete, Request: at, Count: 1}, rank, p.leftOrder})
		}
	}
	slices.SortStableFunc(events, func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.event.Time, b.event.Time), cmp.Compare(a.rank, b.rank), cmp.Compare(a.order, b.order))
	})
	for _, m := range events {
		w.trace.Events = append(w.trace.Events, m.event)
	}
}

// A moment is an event of the trace with the order among events of equal times.
type moment struct {
	event       trace.Event
	rank, order int
}

// makeRoom raises the capacity of machines that held more pods than they have room
// for: the capacity of a node may shrink below the demand of its pods.
func (w *writer) makeRoom() {
	inst := w.instance
	used := make([][]int64, len(inst.Machines))
	most := make([][]int64, len(inst.Machines))
	for m := range used {
		used[m], most[m] = make([]int64, len(inst.Dimensions)), make([]int64, len(inst.Dimensions))
	}
	move := func(p *stay, sign int64) {
		if p.node == "" {
			return
		}
		m := w.line[p.node]
		for d, n := range inst.Apps[w.app[p.app]].Demand {
			used[m][d] += sign * n
			most[m][d] = max(most[m][d], used[m][d])
		}
	}
	for i := range w.trace.Placed {
		move(w.ordered[i], 1)
	}
	for _, e := range w.trace.Events {
		if e.Kind == trace.Create {
			move(w.ordered[e.Request], 1)
		} else {
			move(w.ordered[e.Request], -1)
		}
	}
	for i := range inst.Machines {
		m := &inst.Machines[i]
		var raised []string
		for d, dim := range inst.Dimensions {
			if most[i][d] > m.Capacity[d] {
				raised = append(raised, fmt.Sprintf("%s %s to %s", dim.Name, trace.FormatQuantity(m.Capacity[d], dim), trace.FormatQuantity(most[i][d], dim)))
				m.Capacity[d] = most[i][d]
			}
		}
		if raised == nil {
			continue
		}
		if w.adjusted == nil {
			w.adjusted = map[string]any{}
		}
		w.adjusted[m.Name] = strings.Join(raised, ", ")
		w.notes = append(w.notes, fmt.Sprintf("node %s is overcommitted: its capacity is raised to what stands there: %s", m.Name, w.adjusted[m.Name]))
	}
}
