package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// Cordoned is the type of the machines that take nothing any more.
const Cordoned = "cordoned"

// Trace makes a trace of what was recorded; fleet is open or fixed. notes say what
// was adjusted.
//
// What stood at the beginning is placed.csv, in the order of age; what waited then
// comes at time 0, what came later when it did. Where the latter went is the
// source's placements, which the policy current reads. A node is a machine when it
// is not cordoned, or holds pods; one that was there for a while only counts as
// there all the time, since a trace has one fleet. Pods that wait for a node that
// there is not are left out: they would stand in the way of every comparison.
func (r *Recorder) Trace(name, fleet string) (t *trace.Trace, notes []string, err error) {
	b := r.book
	w := &writer{book: b, held: map[string]bool{}, stood: map[string]bool{}, hopeless: map[string]bool{}}
	for _, p := range b.pods {
		if p.Node != "" {
			w.held[p.Node], w.stood[p.App] = true, true
		}
	}
	if err := w.makeInstance(fleet); err != nil {
		return nil, nil, err
	}
	if w.findHopeless() {
		if err := w.makeInstance(fleet); err != nil {
			return nil, nil, err
		}
	}
	w.trace = &trace.Trace{Name: name, MeasureFrom: math.NaN(), Instance: w.instance}
	w.makeRequests()
	w.makeRoom()
	w.letStay()
	w.nameTypes()
	tally := b.tally()
	w.trace.Source = map[string]any{"origin": "Kubernetes cluster", "method": "sigma snapshot", "taken": b.begin.Time, "nodes": tally.Nodes, "pods": tally.Standing + tally.Waiting}
	if len(w.adjusted) > 0 {
		w.trace.Source["adjusted"] = w.adjusted
	}
	if b.at > 0 {
		w.trace.Source["seconds"] = b.at
	}
	if len(w.placements) > 0 {
		w.trace.Source["placements"] = w.placements
	}
	return w.trace, w.notes, nil
}

// A writer makes one trace.
type writer struct {
	book       *book
	trace      *trace.Trace
	instance   *binpack.Instance
	held       map[string]bool // nodes that hold a pod at some time
	stood      map[string]bool // apps of which a pod had a node
	hopeless   map[string]bool // apps that no node can take
	line       map[string]int32
	app        map[string]int32
	ordered    []*seenPod // by request
	placements map[string]any
	adjusted   map[string]any
	notes      []string
}

// closed reports whether a node takes nothing any more. One that is gone was often
// cordoned before it went; it counts as it was in its time.
func (n *seenNode) closed() bool { return n.Machine.Cordoned && !n.gone }

// makeInstance lets a ledger make the instance, as the scheduler's own does.
func (w *writer) makeInstance(fleet string) error {
	l := ledger.New()
	events := []*ledger.Event{{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: fleet, Units: podspec.Units}}}
	for _, name := range slices.Sorted(maps.Keys(w.book.nodes)) {
		m := w.book.nodes[name].Machine
		m.Cordoned, m.Refuses = false, w.book.nodes[name].refuses(w.book.selectors)
		if !w.book.nodes[name].closed() || w.held[name] {
			events = append(events, &ledger.Event{Kind: ledger.KindNode, Node: name, Machine: &m})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.book.apps)) {
		if w.hopeless[name] {
			continue
		}
		spec := w.book.apps[name]
		events = append(events, &ledger.Event{Kind: ledger.KindApp, App: name, Spec: &spec})
	}
	events = append(events, &ledger.Event{Kind: ledger.KindRule, Rules: w.book.rules})
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
		if n, ok := w.book.expected[a.Name]; ok {
			a.Expected = n
		}
	}
	w.closeCordoned()
	return nil
}

// closeCordoned gives cordoned machines a type that no app may use.
func (w *writer) closeCordoned() {
	inst := w.instance
	closed := int32(len(inst.Types))
	var open []int32
	any := false
	for i := range inst.Machines {
		if w.book.nodes[inst.Machines[i].Name].closed() {
			inst.Machines[i].Type, any = closed, true
		}
	}
	if !any {
		return
	}
	inst.Types = append(inst.Types, Cordoned)
	for t := range closed {
		open = append(open, t)
	}
	for i := range inst.Apps {
		if inst.Apps[i].Types == nil {
			inst.Apps[i].Types = open
		}
	}
}

// fits reports whether some machine takes an item of an app when it is empty.
func (w *writer) fits(a *binpack.App) bool {
	return slices.ContainsFunc(w.instance.Machines, func(m binpack.MachineLine) bool {
		if a.Types != nil && !slices.Contains(a.Types, m.Type) {
			return false
		}
		for d, n := range a.Demand {
			if n > m.Capacity[d] {
				return false
			}
		}
		return true
	})
}

// findHopeless finds apps that no node can take, nor ever took.
func (w *writer) findHopeless() (any bool) {
	for i := range w.instance.Apps {
		if a := &w.instance.Apps[i]; !w.stood[a.Name] && !w.fits(a) {
			w.hopeless[a.Name], any = true, true
		}
	}
	waiting := map[string]int{}
	for _, p := range w.book.pods {
		if w.hopeless[p.App] {
			waiting[p.App]++
		}
	}
	for _, app := range slices.Sorted(maps.Keys(waiting)) {
		w.notes = append(w.notes, fmt.Sprintf("%s fits no node, not even an empty one: waiting pods left out: %d", app, waiting[app]))
	}
	return any
}

// letStay lets pods of an app that fits nowhere (any more) be on nodes of the types
// where they stand.
func (w *writer) letStay() {
	for i := range w.instance.Apps {
		a := &w.instance.Apps[i]
		if !w.stood[a.Name] || w.fits(a) {
			continue
		}
		types := slices.Clone(a.Types)
		for _, p := range w.ordered {
			if p.App == a.Name && p.Node != "" {
				types = append(types, w.instance.Machines[w.line[p.Node]].Type)
			}
		}
		slices.Sort(types)
		a.Types = slices.Compact(types)
		w.notes = append(w.notes, fmt.Sprintf("%s fits no node that its pods may go to now: they may be where they stand", a.Name))
	}
}

// makeRequests makes a request of each pod: first those that stood, by age, then the
// others as they came.
func (w *writer) makeRequests() {
	byAge := func(a, b *seenPod) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(a.Name, b.Name))
	}
	var later []*seenPod
	for _, p := range w.book.pods {
		if w.hopeless[p.App] {
			continue
		}
		if p.first {
			w.ordered = append(w.ordered, p)
		} else {
			later = append(later, p)
		}
	}
	slices.SortStableFunc(w.ordered, byAge)
	slices.SortStableFunc(later, func(a, b *seenPod) int { return cmp.Or(cmp.Compare(a.came, b.came), byAge(a, b)) })
	w.trace.Initial = len(w.ordered)
	w.ordered = append(w.ordered, later...)

	times := map[string]int{} // that a name was given
	for i, p := range w.ordered {
		name := p.Name
		if times[p.Name]++; times[p.Name] > 1 {
			name = fmt.Sprintf("%s#%d", p.Name, times[p.Name])
		}
		w.trace.Requests = append(w.trace.Requests, trace.Request{Name: name, App: w.app[p.App], Count: 1})
		at := int32(i)
		switch {
		case p.first:
			w.trace.Placed = append(w.trace.Placed, trace.Placed{Request: at, Line: w.line[p.Node], Count: 1})
		case p.Node != "":
			if w.placements == nil {
				w.placements = map[string]any{}
			}
			w.placements[name] = p.Node
		}
		if !p.first {
			w.trace.Events = append(w.trace.Events, trace.Event{Time: p.came, Kind: trace.Create, Request: at, Count: 1})
		}
		if p.left >= 0 {
			w.trace.Events = append(w.trace.Events, trace.Event{Time: p.left, Kind: trace.Delete, Request: at, Count: 1})
		}
	}
	slices.SortStableFunc(w.trace.Events, func(a, b trace.Event) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(b.Kind, a.Kind)) // what leaves makes room
	})
}

// makeRoom raises the capacity of machines on which more stood than there is room
// for: what a node allows may shrink under its pods.
func (w *writer) makeRoom() {
	inst := w.instance
	used := make([][]int64, len(inst.Machines))
	most := make([][]int64, len(inst.Machines))
	for m := range used {
		used[m], most[m] = make([]int64, len(inst.Dimensions)), make([]int64, len(inst.Dimensions))
	}
	move := func(p *seenPod, sign int64) {
		if p.Node == "" {
			return
		}
		m := w.line[p.Node]
		for d, n := range inst.Apps[w.app[p.App]].Demand {
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
				raised = append(raised, fmt.Sprintf("%s %s to %s", dim.Name, podspec.Format(dim.Name, m.Capacity[d]), podspec.Format(dim.Name, most[i][d])))
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

// namingLabels are labels by which people tell kinds of nodes apart, in the order in
// which they are tried.
var namingLabels = []string{
	"eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool", "karpenter.sh/nodepool",
	v1.LabelInstanceTypeStable, v1.LabelInstanceType, v1.LabelTopologyZone,
}

// nameTypes names the types, which are sets of nodes that admit the same pods, by
// what their nodes have in common and no other type's have: a label, or cores and
// memory; else by number.
func (w *writer) nameTypes() {
	inst := w.instance
	nodes := make([][]int32, len(inst.Types))
	for i, m := range inst.Machines {
		if inst.Types[m.Type] != Cordoned {
			nodes[m.Type] = append(nodes[m.Type], int32(i))
		}
	}
	taken := map[string]bool{Cordoned: true}
	names := make([]string, len(inst.Types))
	attributes := []func(machine int32) string{}
	for _, key := range namingLabels {
		attributes = append(attributes, func(m int32) string { return w.book.nodes[inst.Machines[m].Name].Labels[key] })
	}
	attributes = append(attributes, w.shape)
	for _, attribute := range attributes {
		in := map[string]map[int32]bool{} // types in which a value occurs
		for t := range nodes {
			for _, m := range nodes[t] {
				v := attribute(m)
				if in[v] == nil {
					in[v] = map[int32]bool{}
				}
				in[v][int32(t)] = true
			}
		}
		for t := range names {
			if names[t] != "" || len(nodes[t]) == 0 {
				continue
			}
			v := attribute(nodes[t][0])
			if v == "" || len(in[v]) > 1 || taken[v] || slices.ContainsFunc(nodes[t], func(m int32) bool { return attribute(m) != v }) {
				continue
			}
			names[t], taken[v] = v, true
		}
	}
	for t := range names {
		switch {
		case inst.Types[t] == Cordoned:
			names[t] = Cordoned
		case names[t] == "" && len(names) == 1:
			names[t] = "node"
		case names[t] == "":
			for n := t + 1; names[t] == "" || taken[names[t]]; n++ {
				names[t] = fmt.Sprint("type-", n)
			}
			taken[names[t]] = true
		}
	}
	inst.Types = names
}

// shape is a machine's cores and memory, roughly, as 16c64g.
func (w *writer) shape(m int32) string {
	node := w.book.nodes[w.instance.Machines[m].Name].Machine
	return fmt.Sprintf("%dc%dg", int64(math.Round(float64(node.Capacity["cpu"])/1e3)), int64(math.Round(float64(node.Capacity["memory"])/(1<<30))))
}
