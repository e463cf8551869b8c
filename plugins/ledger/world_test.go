package ledger_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// world is the dumb second version of a ledger: it knows what stands where, and
// computes everything from that for every query.
type world struct {
	nodes    map[string]*ledger.Machine
	apps     map[string]*ledger.App
	closed   map[string]bool // selectors
	rules    []ledger.Rule
	pods     map[string]*standing
	expected map[string]float64

	placed, departed uint64
	lastUsed, opened map[string]uint64 // by node
	seen             map[string]int64  // by app
	last             string            // app that arrived last

	reserved map[[2]string]int32 // by node and app
}

type standing struct {
	app, node string // node "" = nowhere
	arrived   bool
}

func (w *world) uids() []string { return slices.Sorted(maps.Keys(w.pods)) }

// standing are the pods that stand somewhere.
func (w *world) standing() []string {
	return slices.DeleteFunc(w.uids(), func(uid string) bool { return w.pods[uid].node == "" })
}

func (w *world) apply(e *ledger.Event) {
	switch e.Kind {
	case ledger.KindNode:
		w.nodes[e.Node] = e.Machine
	case ledger.KindSelector:
		for name, n := range w.nodes {
			m := *n
			m.RemoveSelectors(func(id string) bool { return id == e.Select.ID })
			if slices.Contains(e.Select.Nodes, name) {
				m.AddSelector(e.Select.ID, e.Select.Closed)
			}
			w.nodes[name] = &m
		}
		w.closed[e.Select.ID] = e.Select.Closed
	case ledger.KindApp:
		before := w.apps[e.App]
		w.apps[e.App] = e.Spec
		w.drop(before)
	case ledger.KindRule:
		if e.Reset {
			w.rules = nil
		}
		w.rules = append(w.rules, e.Rules...)
	case ledger.KindForecast:
		maps.Copy(w.expected, e.Expected)
	case ledger.KindForget:
		w.forget(e)
	case ledger.KindArrive:
		w.arrive(e)
	case ledger.KindPlace, ledger.KindDecide:
		w.place(e)
	case ledger.KindFailed:
		w.takeOff(w.pods[e.UID])
	case ledger.KindRemove:
		w.takeOff(w.pods[e.UID])
		delete(w.pods, e.UID)
	case ledger.KindReserve:
		w.reserved[[2]string{e.Node, e.App}] += e.Reserved.Pods
	case ledger.KindRelease:
		at := [2]string{e.Node, e.App}
		if w.reserved[at] -= e.Reserved.Pods; w.reserved[at] == 0 {
			delete(w.reserved, at)
		}
	case ledger.KindStart, ledger.KindPolicy, ledger.KindChoose, ledger.KindWindow, ledger.KindPast:
	}
}

// drop forgets the selector of an app that has another now, or is gone, if no app has it any more.
func (w *world) drop(before *ledger.App) {
	if before != nil && !slices.ContainsFunc(slices.Collect(maps.Values(w.apps)), func(a *ledger.App) bool { return a.Selector == before.Selector }) {
		delete(w.closed, before.Selector)
	}
}

func (w *world) forget(e *ledger.Event) {
	for uid, p := range w.pods {
		if e.Node != "" && p.node == e.Node {
			w.takeOff(p)
		}
		if e.App != "" && p.app == e.App {
			delete(w.pods, uid)
		}
	}
	if e.App == "" {
		maps.DeleteFunc(w.reserved, func(at [2]string, _ int32) bool { return at[0] == e.Node })
		delete(w.nodes, e.Node)
		delete(w.lastUsed, e.Node)
		delete(w.opened, e.Node)
		return
	}
	before := w.apps[e.App]
	delete(w.apps, e.App)
	w.drop(before)
	delete(w.seen, e.App)
	delete(w.expected, e.App)
	if w.last == e.App {
		w.last = ""
	}
}

func (w *world) place(e *ledger.Event) {
	p := w.pods[e.UID]
	if p == nil {
		p = &standing{}
		w.pods[e.UID] = p
	}
	if e.Kind == ledger.KindPlace && p.node == e.Node && p.app == e.App {
		return
	}
	w.takeOff(p)
	p.app, p.node = e.App, e.Node
	if e.Kind == ledger.KindDecide {
		w.arrive(e)
	}
	if !w.nodes[e.Node].Cordoned {
		w.placed++
	}
	w.lastUsed[e.Node] = w.placed
	if w.booked(e.Node, func(string) bool { return true }) == 1 {
		w.opened[e.Node] = w.placed
	}
}

func (w *world) arrive(e *ledger.Event) {
	p := w.pods[e.UID]
	if p == nil {
		p = &standing{app: e.App}
		w.pods[e.UID] = p
	}
	if !p.arrived {
		p.arrived = true
		w.seen[e.App]++
		w.last = e.App
	}
}

func (w *world) takeOff(p *standing) {
	if p.node != "" && !w.nodes[p.node].Cordoned {
		w.departed++
	}
	p.node = ""
}

// names are those of the machines in the columns.
func (w *world) names() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(w.nodes)), func(n string) bool { return w.nodes[n].Cordoned })
}

// count is the number of pods that stand on a node and that an app matches.
func (w *world) count(node string, match func(app string) bool) int32 {
	n := int32(0)
	for _, p := range w.pods {
		if p.node == node && match(p.app) {
			n++
		}
	}
	return n
}

// booked counts the reservations too.
func (w *world) booked(node string, match func(app string) bool) int32 {
	n := w.count(node, match)
	for at, pods := range w.reserved {
		if at[0] == node && match(at[1]) {
			n += pods
		}
	}
	return n
}

func (w *world) of(group string) func(app string) bool {
	return func(app string) bool { return w.apps[app].Group == group }
}

func (w *world) free(node, dim string) int64 {
	free := w.nodes[node].Capacity[dim]
	for _, p := range w.pods {
		if p.node == node {
			free -= w.apps[p.app].Demand[dim]
		}
	}
	for at, pods := range w.reserved {
		if at[0] == node {
			free -= int64(pods) * w.apps[at[1]].Demand[dim]
		}
	}
	return free
}

// fits is the definition of what our own model allows.
func (w *world) fits(app, node string) bool {
	a := w.apps[app]
	if n := w.nodes[node]; w.closed[a.Selector] && !slices.Contains(n.Admits, a.Selector) || !w.closed[a.Selector] && slices.Contains(n.Refuses, a.Selector) {
		return false
	}
	for _, dim := range []string{"cpu", "memory", "pods", "disk"} {
		if a.Demand[dim] > w.free(node, dim) { // nothing fits where it is negative
			return false
		}
	}
	own := w.booked(node, w.of(a.Group))
	limit, spread := int32(0), int32(0)
	for _, other := range w.apps {
		if other.Group == a.Group {
			limit, spread = max(limit, other.MaxPerMachine), max(spread, other.SpreadMin)
		}
	}
	if limit > 0 && own >= limit {
		return false
	}
	for _, r := range w.rules {
		switch {
		case r.App == r.Other:
		case r.App == a.Group && w.booked(node, w.of(r.Other)) > r.Max,
			r.Other == a.Group && w.booked(node, w.of(r.App)) > 0 && own+1 > r.Max:
			return false
		}
	}
	if own == 0 {
		return true
	}
	on := int32(0)
	for _, other := range w.names() {
		if w.booked(other, w.of(a.Group)) > 0 {
			on++
		}
	}
	return on >= spread
}

// agree compares the columns with the world.
func (w *world) agree(tb testing.TB, l *ledger.Ledger) {
	tb.Helper()
	state := l.Columns()
	names := w.names()
	require.Equal(tb, len(names), state.Size())
	require.Equal(tb, w.placed, state.Placements())
	require.Equal(tb, w.departed, state.Departures())
	active, requests := 0, int64(0)
	for i, name := range names {
		m := l.MachineIndex(name)
		require.Equal(tb, name, l.NodeName(m))
		line, _ := state.Position(m)
		require.Equal(tb, i, int(line), "position of %s", name)
		items := w.booked(name, func(string) bool { return true })
		require.Equal(tb, items, state.Items(m), name)
		require.Equal(tb, w.lastUsed[name], state.LastUsed(m), name)
		require.Equal(tb, w.opened[name], state.Opened(m), name)
		for d, dim := range state.Instance().Dimensions {
			require.Equal(tb, w.free(name, dim.Name), state.Free(d)[m], "%s of %s", dim.Name, name)
		}
		if items > 0 {
			active++
		}
	}
	require.Equal(tb, active, state.Active())
	for name := range w.nodes {
		require.Equal(tb, w.nodes[name].Cordoned, l.MachineIndex(name) < 0)
	}
	require.Len(tb, state.Instance().Apps, len(w.apps))
	for name := range w.apps {
		a := l.AppIndex(name)
		require.Equal(tb, name, state.Instance().Apps[a].Name)
		require.Equal(tb, w.seen[name], state.Seen()[a], name)
		require.Equal(tb, w.seen[name], state.Requests()[a], name)
		requests += w.seen[name]
		alive := int64(0)
		for _, node := range names {
			alive += int64(w.booked(node, func(app string) bool { return app == name }))
		}
		require.Equal(tb, alive, state.Alive()[a], name)
		for _, node := range names {
			require.Equal(tb, w.fits(name, node), state.Fits(a, l.MachineIndex(node)), "%s on %s", name, node)
		}
		w.agreeForecast(tb, state, name, a)
	}
	require.Equal(tb, requests, state.RequestCount())
	w.agreeEntries(tb, l)
	if w.last != "" {
		require.Equal(tb, l.AppIndex(w.last), state.LastArrival())
	}
}

func (w *world) agreeForecast(tb testing.TB, state *binpack.State, name string, app int32) {
	tb.Helper()
	if n, ok := w.expected[name]; ok && n >= 0 {
		require.Equal(tb, n, state.Known.Expected[app], name)
	} else if state.Known.Expected != nil {
		require.Negative(tb, state.Known.Expected[app], name)
	}
}

// agreeEntries compares the ledger's nodes, pods, apps and groups with the world.
func (w *world) agreeEntries(tb testing.TB, l *ledger.Ledger) {
	tb.Helper()
	require.Equal(tb, len(w.nodes), l.NodeCount())
	groups, selectors := map[string]int{}, map[string]bool{}
	for name, spec := range w.apps {
		a := l.App(name)
		require.Equal(tb, *spec, *a.Spec())
		require.Same(tb, l.Group(spec.Group), a.Group())
		require.Contains(tb, a.Group().Apps(), a)
		groups[spec.Group]++
		selectors[spec.Selector] = true
		require.NotNil(tb, l.Selector(spec.Selector))
	}
	require.Len(tb, l.Groups(), len(groups))
	for s := range l.Selectors() {
		require.True(tb, selectors[s.ID()])
	}
	for _, g := range l.Groups() {
		require.Len(tb, g.Apps(), groups[g.Name()])
		on, pods := map[string]int32{}, 0
		for n, count := range g.CountsByNode() {
			on[n.Name()] = count
		}
		for name := range w.nodes {
			count := w.count(name, w.of(g.Name()))
			require.Equal(tb, count, g.CountOn(l.Node(name)))
			require.Equal(tb, count, on[name])
			pods += int(count)
			delete(on, name)
		}
		require.Empty(tb, on)
		require.Equal(tb, pods, g.Pods())
	}
	for uid, p := range w.pods {
		entry := l.Pod(uid)
		require.Equal(tb, p.app, entry.App().Name())
		if p.node == "" {
			require.Nil(tb, entry.Node())
		} else {
			require.Equal(tb, p.node, entry.Node().Name())
			require.Contains(tb, entry.Node().Pods(), entry)
		}
	}
}

func newWorld() *world {
	return &world{
		nodes: map[string]*ledger.Machine{}, apps: map[string]*ledger.App{}, pods: map[string]*standing{},
		expected: map[string]float64{}, lastUsed: map[string]uint64{}, opened: map[string]uint64{}, seen: map[string]int64{},
		reserved: map[[2]string]int32{}, closed: map[string]bool{},
	}
}
