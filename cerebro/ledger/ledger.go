package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// A Ledger is the situation of a cluster after a sequence of events. It serves
// one goroutine.
type Ledger struct {
	start    Start
	machines map[string]*machine
	apps     map[string]*app
	rules    []Rule
	expected map[string]float64
	pods     map[string]*pod // by UID; those that stand and those whose binding failed
	policies map[Role]*policyInUse
	placed   uint64 // placements so far
	departed uint64
	last     *app // that a pod arrived of

	// The columns. They are built anew when machines, apps or rules changed.
	state   *binpack.State
	stale   bool
	byIndex []*machine // [machine of state]
	appAt   []*app     // [app of state]
	scorers map[Role]binpack.Scorer

	candidates []int32
	firstEmpty []int32 // [kind]
}

type machine struct {
	name  string
	spec  Machine
	index int32           // in state, -1 = not there
	pods  map[string]*pod // by UID
	last  uint64          // placements made when it last took a pod
}

type app struct {
	name                      string
	spec                      App
	index                     int32 // in state
	seen, requests, sumSquare int64
	pods                      int // that stand
}

type pod struct {
	uid     string
	app     *app
	machine *machine // nil = it stands nowhere
	serial  uint64   // of its placement
	arrived bool     // it was counted as an arrival
}

type policyInUse struct {
	object *policy.Object
	digest string
	policy binpack.Policy
}

// New is an empty ledger; the first event is a start.
func New() *Ledger {
	l := &Ledger{}
	l.reset(Start{})
	return l
}

func (l *Ledger) reset(start Start) {
	*l = Ledger{
		start: start, machines: map[string]*machine{}, apps: map[string]*app{}, expected: map[string]float64{},
		pods: map[string]*pod{}, policies: map[Role]*policyInUse{}, stale: true,
	}
}

// Apply books an event. An event that cannot be is an error and changes nothing.
func (l *Ledger) Apply(e *Event) error {
	switch e.Kind {
	case KindStart:
		return l.begin(e)
	case KindNode:
		return l.setMachine(e)
	case KindApp:
		return l.setApp(e)
	case KindForget:
		return l.forget(e)
	case KindRule:
		if e.Reset {
			l.rules = nil
		}
		l.rules, l.stale = append(l.rules, e.Rules...), true
	case KindForecast:
		l.forecast(e.Expected)
	case KindPolicy:
		return l.setPolicy(e)
	case KindPlace, KindDecide:
		return l.place(e)
	case KindFailed, KindRemove:
		return l.takeAway(e)
	default:
		return fmt.Errorf("kind %q is unknown", e.Kind)
	}
	return nil
}

func (l *Ledger) begin(e *Event) error {
	if e.Start == nil {
		return errors.New("start: nothing says how")
	}
	if e.Start.Version != Version {
		return fmt.Errorf("start.version %d: this build knows %d", e.Start.Version, Version)
	}
	if f := e.Start.Fleet; f != binpack.Open.String() && f != binpack.Fixed.String() {
		return fmt.Errorf("start.fleet %q: want open or fixed", f)
	}
	l.reset(*e.Start)
	return nil
}

func (l *Ledger) setMachine(e *Event) error {
	if e.Node == "" || e.Machine == nil {
		return errors.New("node: name or machine is missing")
	}
	for dim, c := range e.Machine.Capacity {
		if c < 0 || c > binpack.MaxValue {
			return fmt.Errorf("machine.capacity.%s %d: want 0 to 2^50", dim, c)
		}
	}
	m, ok := l.machines[e.Node]
	if !ok {
		m = &machine{name: e.Node, index: -1, pods: map[string]*pod{}}
		l.machines[e.Node] = m
	}
	m.spec, l.stale = *e.Machine, true
	return nil
}

func (l *Ledger) setApp(e *Event) error {
	if e.App == "" || e.Spec == nil || e.Spec.Group == "" {
		return errors.New("app: name, spec or spec.group is missing")
	}
	for dim, n := range e.Spec.Demand {
		if n < 0 || n > binpack.MaxValue {
			return fmt.Errorf("spec.demand.%s %d: want 0 to 2^50", dim, n)
		}
	}
	a, ok := l.apps[e.App]
	if !ok {
		a = &app{name: e.App, index: -1}
		l.apps[e.App] = a
	}
	a.spec, l.stale = *e.Spec, true
	return nil
}

func (l *Ledger) forget(e *Event) error {
	l.stale = true
	if e.App != "" {
		a, ok := l.apps[e.App]
		if !ok || a.pods > 0 {
			return fmt.Errorf("app %q: unknown, or pods of it stand", e.App)
		}
		for uid, p := range l.pods {
			if p.app == a {
				delete(l.pods, uid)
			}
		}
		if l.last == a {
			l.last = nil
		}
		delete(l.apps, e.App)
		delete(l.expected, e.App)
		return nil
	}
	m, ok := l.machines[e.Node]
	if !ok {
		return fmt.Errorf("node %q is unknown", e.Node)
	}
	for _, p := range m.pods {
		p.machine = nil
		p.app.pods--
		delete(l.pods, p.uid)
		l.departed++
	}
	delete(l.machines, e.Node)
	return nil
}

func (l *Ledger) forecast(expected map[string]float64) {
	for name, n := range expected {
		if n < 0 {
			delete(l.expected, name)
		} else {
			l.expected[name] = n
		}
	}
	l.scorers = nil // they read it when they begin
	if l.state != nil && !l.stale {
		l.state.Known.Expected = l.known()
	}
}

func (l *Ledger) setPolicy(e *Event) error {
	delete(l.scorers, e.Role)
	if e.Policy == nil {
		delete(l.policies, e.Role)
		return nil
	}
	p, err := e.Policy.Policy()
	if err != nil {
		return err
	}
	if k := p.Knowledge(); k.Clock() || k == binpack.K2 {
		return fmt.Errorf("spec.knowledge %s: a live cluster has no end and no known totals; K0 and K1 work there", k)
	}
	l.policies[e.Role] = &policyInUse{e.Policy, e.Policy.Digest(), p}
	return nil
}

// place books a pod on a machine. One that stands elsewhere moves.
func (l *Ledger) place(e *Event) error {
	a, ok := l.apps[e.App]
	if !ok {
		return fmt.Errorf("app %q is unknown", e.App)
	}
	m, ok := l.machines[e.Node]
	if !ok {
		return fmt.Errorf("node %q is unknown", e.Node)
	}
	if e.UID == "" {
		return errors.New("uid is missing")
	}
	p, ok := l.pods[e.UID]
	if !ok {
		p = &pod{uid: e.UID}
		l.pods[e.UID] = p
	}
	l.takeOff(p)
	p.app = a
	if e.Kind == KindDecide && !p.arrived {
		p.arrived = true
		a.seen++
		a.requests++
		a.sumSquare++
		l.last = a
		if l.ready() && a.index >= 0 {
			l.state.Arrive(a.index, 1)
		}
	}
	l.placed++
	p.machine, p.serial = m, l.placed
	m.pods[p.uid] = p
	m.last = l.placed
	a.pods++
	if l.ready() && a.index >= 0 && m.index >= 0 {
		l.state.Book(a.index, m.index)
	} else {
		l.stale = true
	}
	return nil
}

func (l *Ledger) takeAway(e *Event) error {
	p, ok := l.pods[e.UID]
	if !ok {
		return fmt.Errorf("pod %q is unknown", e.UID)
	}
	l.takeOff(p)
	if e.Kind == KindRemove {
		delete(l.pods, e.UID)
	}
	return nil
}

func (l *Ledger) takeOff(p *pod) {
	m := p.machine
	if m == nil {
		return
	}
	p.machine = nil
	delete(m.pods, p.uid)
	p.app.pods--
	l.departed++
	if l.ready() && p.app.index >= 0 && m.index >= 0 {
		l.state.Remove(p.app.index, m.index, nil)
	}
}

// ready reports whether the columns stand for the present machines and apps.
func (l *Ledger) ready() bool { return l.state != nil && !l.stale }

// known is the forecast by the apps of the state, nil when there is none.
func (l *Ledger) known() []float64 {
	if len(l.expected) == 0 {
		return nil
	}
	out := make([]float64, len(l.appAt))
	for i, a := range l.appAt {
		out[i] = -1
		if n, ok := l.expected[a.name]; ok {
			out[i] = n
		}
	}
	return out
}

// firstDimensions are those that there always are, in this order.
var firstDimensions = []string{"cpu", "memory", "pods"}

// dimensions are those that some app needs, and the first ones.
func (l *Ledger) dimensions() []string {
	names := slices.Clone(firstDimensions)
	for _, a := range l.apps {
		for dim, n := range a.spec.Demand {
			if n > 0 && !slices.Contains(names, dim) {
				names = append(names, dim)
			}
		}
	}
	slices.Sort(names[len(firstDimensions):])
	return names[:min(len(names), binpack.MaxDimensions)]
}

// rebuild makes new columns for the machines, apps and rules there are. What they
// hold depends on these alone, not on when it happens.
func (l *Ledger) rebuild() {
	l.byIndex, l.appAt = l.byIndex[:0], l.appAt[:0]
	for _, m := range l.machines {
		m.index = -1
		if !m.spec.Cordoned {
			l.byIndex = append(l.byIndex, m)
		}
	}
	slices.SortFunc(l.byIndex, func(a, b *machine) int { return strings.Compare(a.name, b.name) })
	for _, a := range l.apps {
		l.appAt = append(l.appAt, a)
	}
	slices.SortFunc(l.appAt, func(a, b *app) int { return strings.Compare(a.name, b.name) })

	l.state = binpack.NewState(l.instance())
	l.scorers = nil
	l.stale = false
	if l.state.Instance().Fleet == binpack.Open { // machines came into being in the order of kinds
		byLine := slices.Clone(l.byIndex)
		for line, m := range byLine {
			m.index = l.state.MachineAt(int32(line), 0)
			l.byIndex[m.index] = m
		}
	}
	var standing []*pod
	for _, m := range l.byIndex {
		for _, p := range m.pods {
			standing = append(standing, p)
		}
	}
	slices.SortFunc(standing, func(a, b *pod) int { return int(int64(a.serial - b.serial)) })
	for _, p := range standing {
		l.state.Book(p.app.index, p.machine.index)
	}
	l.state.Restore(l.history())
	l.state.Known.Expected = l.known()
}

func (l *Ledger) history() binpack.History {
	h := binpack.History{Placements: l.placed, Departures: l.departed}
	for _, a := range l.appAt {
		h.Seen = append(h.Seen, a.seen)
		h.Requests = append(h.Requests, a.requests)
		h.SumSquares = append(h.SumSquares, a.sumSquare)
	}
	for _, m := range l.byIndex {
		h.LastUsed = append(h.LastUsed, m.last)
	}
	if l.last != nil {
		h.LastArrival = l.last.index
	}
	return h
}

// instance is the problem that machines, apps and rules make, in the order of
// names, and gives them their indices.
func (l *Ledger) instance() *binpack.Instance {
	inst := &binpack.Instance{Fleet: binpack.Open}
	if l.start.Fleet == binpack.Fixed.String() {
		inst.Fleet = binpack.Fixed
	}
	dims := l.dimensions()
	for _, name := range dims {
		unit := l.start.Units[name]
		one := map[string]int64{"": 1, "m": 1e3, "u": 1e6, "n": 1e9}[unit]
		inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: name, Unit: unit, One: one})
	}
	amounts := func(of map[string]int64) []int64 {
		out := make([]int64, len(dims))
		for d, name := range dims {
			out[d] = of[name]
		}
		return out
	}
	types := map[string]int32{}
	var refuses [][]string // by type: machines are of one type when they refuse the same
	for i, m := range l.byIndex {
		m.index = int32(i)
		name := strings.Join(m.spec.Refuses, "|")
		t, ok := types[name]
		if !ok {
			t = int32(len(inst.Types))
			types[name] = t
			inst.Types = append(inst.Types, name)
			refuses = append(refuses, m.spec.Refuses)
		}
		inst.Machines = append(inst.Machines, binpack.MachineLine{
			Name: m.name, Type: t, Count: 1, Cost: m.spec.Cost, Capacity: amounts(m.spec.Capacity),
		})
	}
	groups := map[string]int32{}
	for i, a := range l.appAt {
		a.index = int32(i)
		g, ok := groups[a.spec.Group]
		if !ok {
			g = int32(len(inst.Groups))
			groups[a.spec.Group] = g
			inst.Groups = append(inst.Groups, binpack.Group{Name: a.spec.Group})
		}
		group := &inst.Groups[g]
		group.Limit, group.SpreadMin = max(group.Limit, a.spec.MaxPerMachine), max(group.SpreadMin, a.spec.SpreadMin)
		item := binpack.App{Name: a.name, Group: g, Demand: amounts(a.spec.Demand), Expected: -1, Lifetime: -1}
		item.Types = allowedTypes(a.spec.Selector, refuses)
		inst.Apps = append(inst.Apps, item)
	}
	for _, r := range l.rules {
		a, okA := groups[r.App]
		b, okB := groups[r.Other]
		if okA && okB && a != b {
			inst.Rules = append(inst.Rules, binpack.Rule{A: a, B: b, Max: r.Max})
		}
	}
	return inst
}

// allowedTypes are the types of machines that do not refuse a selector; nil = all.
func allowedTypes(selector string, refuses [][]string) []int32 {
	types := []int32{}
	for t, refused := range refuses {
		if !slices.Contains(refused, selector) {
			types = append(types, int32(t))
		}
	}
	if len(types) == len(refuses) {
		return nil
	}
	return types
}
