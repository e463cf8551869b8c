package ledger

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
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
	pods     map[string]*pod // by UID; those that stand, and those that wait
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
	index int32  // in state, -1 = not there
	pods  []*pod // that stand on it
	last  uint64 // placements made when it last took a pod
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
	at      int      // index in the machine's pods
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
// What an event points to is kept and must not change any more.
func (l *Ledger) Apply(e *Event) error {
	if l.start.Version == 0 && e.Kind != KindStart {
		return errors.New("there was no start yet")
	}
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
		return l.setRules(e)
	case KindForecast:
		return l.forecast(e.Expected)
	case KindPolicy:
		return l.setPolicy(e)
	case KindArrive:
		return l.await(e)
	case KindPlace, KindDecide:
		return l.place(e)
	case KindFailed, KindRemove:
		return l.takeAway(e)
	}
	return fmt.Errorf("kind %q is unknown", e.Kind)
}

// unitsInOne is the number of units in an amount of 1.
var unitsInOne = map[string]int64{"": 1, "m": 1e3, "u": 1e6, "n": 1e9}

func (l *Ledger) begin(e *Event) error {
	if e.Start == nil {
		return errors.New("start is missing")
	}
	if e.Start.Version != Version {
		return fmt.Errorf("start.version %d: this build reads 1 and %d", e.Start.Version, Version)
	}
	if f := e.Start.Fleet; f != binpack.Open.String() && f != binpack.Fixed.String() {
		return fmt.Errorf("start.fleet %q: want open or fixed", f)
	}
	for dim, unit := range e.Start.Units {
		if _, ok := unitsInOne[unit]; !ok {
			return fmt.Errorf("start.units.%s %q: want m, u or n", dim, unit)
		}
	}
	l.reset(*e.Start)
	return nil
}

func (l *Ledger) setMachine(e *Event) error {
	if e.Node == "" || e.Machine == nil {
		return errors.New("node or machine is missing")
	}
	if err := amountsIn("machine.capacity", e.Machine.Capacity); err != nil {
		return err
	}
	if c := e.Machine.Cost; c-c != 0 || c < 0 {
		return fmt.Errorf("machine.cost %v: want 0 or more", c)
	}
	m, ok := l.machines[e.Node]
	if !ok {
		m = &machine{name: e.Node, index: -1}
		l.machines[e.Node] = m
	} else if reflect.DeepEqual(m.spec, *e.Machine) {
		return nil
	}
	m.spec, l.stale = *e.Machine, true
	return nil
}

// amountsIn reports the first amount, by name, that no column can hold.
func amountsIn(field string, amounts map[string]int64) error {
	for _, dim := range slices.Sorted(maps.Keys(amounts)) {
		if n := amounts[dim]; n < 0 || n > binpack.MaxValue {
			return fmt.Errorf("%s.%s %d: want 0 to 2^50", field, dim, n)
		}
	}
	return nil
}

func (l *Ledger) setApp(e *Event) error {
	if e.App == "" || e.Spec == nil || e.Spec.Group == "" {
		return errors.New("app, spec or spec.group is missing")
	}
	if err := amountsIn("spec.demand", e.Spec.Demand); err != nil {
		return err
	}
	if s := e.Spec; s.MaxPerMachine < 0 || s.SpreadMin < 0 {
		return fmt.Errorf("spec.maxPerMachine %d, spec.spreadMin %d: want 0 or more", s.MaxPerMachine, s.SpreadMin)
	}
	a, ok := l.apps[e.App]
	if !ok {
		a = &app{name: e.App, index: -1}
		l.apps[e.App] = a
	} else if reflect.DeepEqual(a.spec, *e.Spec) {
		return nil
	}
	a.spec, l.stale = *e.Spec, true
	return nil
}

func (l *Ledger) setRules(e *Event) error {
	for i, r := range e.Rules {
		if r.Max < 0 || r.App == "" || r.Other == "" {
			return fmt.Errorf("rules[%d] %+v: want app, other and a max of 0 or more", i, r)
		}
	}
	if e.Reset {
		l.rules = nil
	}
	l.rules, l.stale = append(l.rules, e.Rules...), true
	return nil
}

func (l *Ledger) forget(e *Event) error {
	if e.App != "" {
		return l.forgetApp(e.App)
	}
	m, ok := l.machines[e.Node]
	if !ok {
		return fmt.Errorf("node %q is unknown", e.Node)
	}
	l.stale = true
	for len(m.pods) > 0 { // they are gone when they are removed
		l.takeOff(m.pods[len(m.pods)-1])
	}
	delete(l.machines, e.Node)
	return nil
}

func (l *Ledger) forgetApp(name string) error {
	a, ok := l.apps[name]
	if !ok {
		return fmt.Errorf("app %q is unknown", name)
	}
	if a.pods > 0 {
		return fmt.Errorf("app %q: %d of its pods stand", name, a.pods)
	}
	for uid, p := range l.pods {
		if p.app == a {
			delete(l.pods, uid)
		}
	}
	if l.last == a {
		l.last = nil
	}
	delete(l.apps, name)
	delete(l.expected, name)
	l.stale = true
	return nil
}

func (l *Ledger) forecast(expected map[string]float64) error {
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		if n := expected[name]; !(n <= float64(binpack.MaxValue)) {
			return fmt.Errorf("expected.%s %v: want at most 2^50", name, n)
		}
	}
	changed := false
	for name, n := range expected {
		old, ok := l.expected[name]
		switch {
		case n >= 0 && (!ok || old != n):
			l.expected[name] = n
			changed = true
		case n < 0 && ok:
			delete(l.expected, name)
			changed = true
		}
	}
	if !changed || !l.ready() {
		return nil
	}
	for role, p := range l.policies { // who knows a forecast reads it when it begins
		if p.policy.Knowledge().Forecast() {
			delete(l.scorers, role)
		}
	}
	l.state.Known.Expected = l.known()
	return nil
}

func (l *Ledger) setPolicy(e *Event) error {
	if e.Role != Primary && e.Role != Canary {
		return fmt.Errorf("role %q: want %s or %s", e.Role, Primary, Canary)
	}
	if e.Policy == nil {
		delete(l.policies, e.Role)
		delete(l.scorers, e.Role)
		return nil
	}
	p, err := usable(e.Policy)
	if err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	l.policies[e.Role] = &policyInUse{e.Policy, e.Policy.Digest(), p}
	delete(l.scorers, e.Role)
	return nil
}

func usable(object *policy.Object) (binpack.Policy, error) {
	p, err := object.Policy()
	if err != nil {
		return nil, err
	}
	if k := p.Knowledge(); k.Clock() || k == binpack.K2 {
		return nil, fmt.Errorf("spec.knowledge %s: a live cluster has no end and no known totals; K0 and K1 work there", k)
	}
	switch object.Spec.Model {
	case "population":
		return nil, errors.New("spec.model population: it packs one dimension; a live cluster has cpu, memory and pods")
	case "rollout":
		return nil, errors.New("spec.model rollout: it places whole apps; in a live cluster pods come one by one")
	}
	return p, nil
}

// await books that a pod asks for a machine. A policy that counts what is still to
// come has to know of it before it is asked, as in Cerebro; where nothing was asked,
// the decision counts it.
func (l *Ledger) await(e *Event) error {
	a, ok := l.apps[e.App]
	if !ok {
		return fmt.Errorf("app %q is unknown", e.App)
	}
	if e.UID == "" {
		return errors.New("uid is missing")
	}
	p := l.pod(e.UID)
	if !p.arrived && p.machine == nil {
		p.app = a
		l.arrive(p)
	}
	return nil
}

// pod is the one with an UID, made known if it is new.
func (l *Ledger) pod(uid string) *pod {
	p, ok := l.pods[uid]
	if !ok {
		p = &pod{uid: uid}
		l.pods[uid] = p
	}
	return p
}

// place books a pod on a machine. One that stands elsewhere moves; one that is
// found where it stands is no news.
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
	p := l.pod(e.UID)
	if e.Kind == KindPlace && p.machine == m && p.app == a {
		return nil
	}
	l.takeOff(p)
	p.app = a
	if e.Kind == KindDecide && !p.arrived {
		l.arrive(p)
	}
	p.machine, p.at = m, len(m.pods)
	m.pods = append(m.pods, p)
	a.pods++
	if !m.spec.Cordoned {
		l.placed++
		if l.ready() {
			l.state.Book(a.index, m.index)
		}
	}
	m.last = l.placed
	return nil
}

// arrive counts a pod once, however often it is placed.
func (l *Ledger) arrive(p *pod) {
	a := p.app
	p.arrived = true
	a.seen++
	a.requests++
	a.sumSquare++
	l.last = a
	if l.ready() {
		l.state.Arrive(a.index, 1)
	}
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

// takeOff takes a pod off its machine. What stands on cordoned machines is not in
// the columns, so it does not count as placed or departed either.
func (l *Ledger) takeOff(p *pod) {
	m := p.machine
	if m == nil {
		return
	}
	last := m.pods[len(m.pods)-1]
	m.pods[p.at], last.at = last, p.at
	m.pods[len(m.pods)-1] = nil
	m.pods = m.pods[:len(m.pods)-1]
	p.machine = nil
	p.app.pods--
	if m.spec.Cordoned {
		return
	}
	l.departed++
	if l.ready() {
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
	others := map[string]bool{}
	for _, a := range l.apps {
		for dim, n := range a.spec.Demand {
			if n > 0 && !slices.Contains(firstDimensions, dim) {
				others[dim] = true
			}
		}
	}
	names := append(slices.Clone(firstDimensions), slices.Sorted(maps.Keys(others))...)
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
	for _, m := range l.byIndex {
		for _, p := range m.pods {
			l.state.Book(p.app.index, m.index)
		}
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
		inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: name, Unit: unit, One: unitsInOne[unit]})
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
		name := "" // who refuses the empty selector alone is not who refuses none
		if len(m.spec.Refuses) > 0 {
			name = strings.Join(m.spec.Refuses, "\x00") + "\x00"
		}
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
