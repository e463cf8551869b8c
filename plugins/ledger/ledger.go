package ledger

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// A Ledger is the state of a cluster after a sequence of events. It serves one
// goroutine.
type Ledger struct {
	columns
	policies map[Role]*policyInUse
	clock    float64 // of the query

	// RuleObjects are the objects that the rules were translated from.
	RuleObjects any
	// SelectorObjects index the nodes and selectors by the labels that selectors require.
	SelectorObjects any
	// ServedObjects are the resources by which demands were left out.
	ServedObjects any
	// PlanObjects are the plans that make reservations.
	PlanObjects any
	// ReservationObjects are the holds that were computed for the nodes with reservations.
	ReservationObjects any
}

// A cluster holds the known objects and the counts of the past.
type cluster struct {
	start      Start
	machines   map[string]*Node
	apps       map[string]*AppEntry
	groups     map[string]*Group
	groupOrder []*Group // in order of arrival
	gaps       bool     // groupOrder has some, nil
	selectors  map[string]*Selector
	closed     map[string]bool // selectors
	listed     map[string]bool // selectors that a node lists, or has listed
	rules      []Rule
	expected   map[string]float64
	undeclared map[string]bool   // those of expected that no object declares
	windows    map[string]Window // by group
	pods       map[string]*Pod   // by UID; those with a node, and waiting ones
	placed     uint64            // placements so far
	departed   uint64
	most       int64          // pods on nodes at one time
	standing   int            // pods
	held       map[*Node]bool // that have reservations
	last       *AppEntry      // app of the latest arrival
}

// The columns are a cluster as policies see it. They are rebuilt when machines, apps or rules changed; new apps and
// rules are added (see grow.go).
type columns struct {
	cluster
	state   *binpack.State
	stale   bool
	byIndex []*Node     // [machine of state]
	appAt   []*AppEntry // [app of state]
	scorers map[*policyInUse]binpack.Scorer
	columnsOf
}

type policyInUse struct {
	object *policy.Object
	digest string
	policy binpack.Policy
	// Of a policy that chooses among files: the last choice of the log, nil = no choice yet; and
	// whether the files are not those of this build.
	chosen  *FileChoice
	foreign bool
	// outside replaces it outside of windows; nil = it reads no clock.
	outside *policyInUse
}

// New returns an empty ledger; the first event is a start.
func New() *Ledger {
	l := &Ledger{}
	l.reset(Start{})
	return l
}

func (l *Ledger) reset(start Start) {
	known := cluster{
		start: start, machines: map[string]*Node{}, apps: map[string]*AppEntry{}, expected: map[string]float64{}, undeclared: map[string]bool{},
		groups: map[string]*Group{}, selectors: map[string]*Selector{}, closed: map[string]bool{}, listed: map[string]bool{},
		windows: map[string]Window{}, pods: map[string]*Pod{}, held: map[*Node]bool{},
	}
	*l = Ledger{columns: columns{cluster: known, stale: true}, policies: map[Role]*policyInUse{}}
}

// Apply applies an event. An invalid event is an error and changes nothing. The
// ledger keeps the objects that the event points to, so they must not change afterwards.
func (l *Ledger) Apply(e *Event) error {
	if l.start.Version == 0 && e.Kind != KindStart {
		return errors.New("there was no start yet")
	}
	if apply, ok := appliers[e.Kind]; ok {
		return apply(l, e)
	}
	return fmt.Errorf("kind %q is unknown", e.Kind)
}

var appliers = map[Kind]func(*Ledger, *Event) error{
	KindStart: (*Ledger).begin, KindNode: (*Ledger).setMachine, KindSelector: (*Ledger).setSelector, KindApp: (*Ledger).setApp,
	KindForget: (*Ledger).forget, KindRule: (*Ledger).setRules, KindForecast: (*Ledger).forecast, KindWindow: (*Ledger).setWindows,
	KindPolicy: (*Ledger).setPolicy, KindChoose: (*Ledger).setChosen, KindArrive: (*Ledger).arrival, KindPlace: (*Ledger).place,
	KindDecide: (*Ledger).place, KindFailed: (*Ledger).departure, KindRemove: (*Ledger).departure, KindReserve: (*Ledger).reserve,
	KindRelease: (*Ledger).release, KindPast: (*Ledger).setPast,
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
	if s := e.Start.MaxShareOfApp; !(s >= 0 && s <= 1) {
		return fmt.Errorf("start.maxShareOfApp %v: want a number above 0, up to 1", s)
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
		m = &Node{name: e.Node, index: -1}
		l.machines[e.Node] = m
	} else if reflect.DeepEqual(m.spec, *e.Machine) {
		return nil
	}
	for _, list := range [][]string{e.Machine.Refuses, e.Machine.Admits} {
		for _, id := range list {
			l.listed[id] = true
		}
	}
	m.spec, l.stale = *e.Machine, true
	m.changes++
	return nil
}

// setSelector sets the nodes that list a selector to those of the event.
func (l *Ledger) setSelector(e *Event) error {
	if e.Select == nil {
		return errors.New("select is missing")
	}
	for i, name := range e.Select.Nodes {
		if l.machines[name] == nil {
			return fmt.Errorf("select.nodes[%d]: node %q is unknown", i, name)
		}
		if i > 0 && e.Select.Nodes[i-1] >= name {
			return fmt.Errorf("select.nodes[%d] %q: want the nodes in order", i, name)
		}
	}
	id := e.Select.ID
	l.stale = l.stale || len(e.Select.Nodes) > 0 || e.Select.Closed != l.closed[id]
	if l.listed[id] { // perhaps a node still lists it
		for _, n := range l.machines {
			if n.spec.RemoveSelectors(func(other string) bool { return other == id }) {
				n.changes++
				l.stale = true
			}
		}
	}
	if delete(l.closed, id); e.Select.Closed {
		l.closed[id] = true
	}
	for _, name := range e.Select.Nodes {
		n := l.machines[name]
		n.spec.AddSelector(id, e.Select.Closed)
		n.changes++
		l.listed[id] = true
	}
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
	} else if s.MaxPerZone < 0 || s.ZoneSpreadMin < 0 || s.ZoneSkew < 0 {
		return fmt.Errorf("spec.maxPerZone %d, spec.zoneSpreadMin %d, spec.zoneSkew %d: want 0 or more", s.MaxPerZone, s.ZoneSpreadMin, s.ZoneSkew)
	}
	for i, text := range e.Spec.Soft {
		if _, group, err := binpack.ParseSoftTerm(text); err != nil {
			return fmt.Errorf("spec.soft[%d] %w", i, err)
		} else if group != "" {
			return fmt.Errorf("spec.soft[%d] %q: want no group", i, text)
		}
	}
	for i, text := range e.Spec.Sends {
		if _, err := binpack.ParseSending(text, nil); err != nil {
			return fmt.Errorf("spec.sends[%d] %w", i, err)
		}
	}
	a, ok := l.apps[e.App]
	if !ok {
		a = &AppEntry{name: e.App, index: -1}
		l.apps[e.App] = a
	} else if reflect.DeepEqual(a.spec, *e.Spec) {
		return nil
	}
	l.describe(a, *e.Spec)
	if ok || !l.addApp(a) {
		l.stale = true
	}
	return nil
}

func (l *Ledger) setRules(e *Event) error {
	for i, r := range e.Rules {
		if r.Max < 0 || r.App == "" || r.Other == "" {
			return fmt.Errorf("rules[%d] %+v: want app, other and a max of 0 or more", i, r)
		}
		if r.Scope != "" && r.Scope != ZoneScope {
			return fmt.Errorf("rules[%d].scope %q: want %s or none", i, r.Scope, ZoneScope)
		}
		l.stale = l.stale || r.Scope == ZoneScope // columns add no rules by zone
	}
	if e.Reset {
		l.rules, l.stale = nil, true
	}
	l.rules = append(l.rules, e.Rules...)
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
	for len(m.pods) > 0 { // the pods remain known until they are removed
		l.takeOff(m.pods[len(m.pods)-1])
	}
	for len(m.reserved) > 0 {
		l.keep(m, 0, -m.reserved[0].Pods)
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
	if a.reserved > 0 {
		return fmt.Errorf("app %q: room is reserved for %d of its pods", name, a.reserved)
	}
	for uid, p := range l.pods {
		if a.known == 0 {
			break
		}
		if p.app == a {
			p.of(nil)
			delete(l.pods, uid)
		}
	}
	if l.last == a {
		l.last = nil
	}
	l.unfile(a, a.spec.Selector)
	delete(l.apps, name)
	delete(l.expected, name)
	delete(l.undeclared, name)
	l.stale = true
	return nil
}

func (l *Ledger) forecast(e *Event) error {
	expected, undeclared := e.Expected, e.Undeclared
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		if n := expected[name]; !(n <= float64(binpack.MaxValue)) {
			return fmt.Errorf("expected.%s %v: want at most 2^50", name, n)
		}
	}
	counted := map[string]bool{}
	for _, name := range undeclared {
		if n, ok := expected[name]; !ok || n < 0 {
			return fmt.Errorf("undeclared %q: nothing is expected of it", name)
		}
		counted[name] = true
	}
	changed := false
	for name, n := range expected {
		old, ok := l.expected[name]
		switch {
		case n >= 0 && (!ok || old != n || counted[name] != l.undeclared[name]):
			l.expected[name] = n
			changed = true
		case n < 0 && ok:
			delete(l.expected, name)
			changed = true
		}
		if counted[name] {
			l.undeclared[name] = true
		} else {
			delete(l.undeclared, name)
		}
	}
	if !changed || !l.ready() {
		return nil
	}
	maps.DeleteFunc(l.scorers, func(p *policyInUse, _ binpack.Scorer) bool { // it reads the forecast when it is made
		return p.policy.Knowledge().Forecast()
	})
	l.tellForecast()
	return nil
}

func (l *Ledger) setPolicy(e *Event) error {
	if e.Role != Primary && e.Role != Canary {
		return fmt.Errorf("role %q: want %s or %s", e.Role, Primary, Canary)
	}
	if e.Policy == nil {
		l.dropPolicy(e.Role)
		return nil
	}
	p, err := inUse(e.Policy)
	if err == nil {
		err = p.useOutside(e.Outside)
	}
	if err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	l.dropPolicy(e.Role)
	l.policies[e.Role] = p
	return nil
}

// dropPolicy forgets the policy of a role, and the scorers made of it.
func (l *Ledger) dropPolicy(role Role) {
	if p, ok := l.policies[role]; ok {
		delete(l.scorers, p)
		delete(l.scorers, p.outside)
		delete(l.policies, role)
	}
}

func usable(object *policy.Object) (binpack.Policy, error) {
	p, err := object.Policy()
	if err != nil {
		return nil, err
	}
	if p.Knowledge() == binpack.K2 {
		return nil, errors.New("spec.knowledge K2: a live cluster has no known totals; K0 and K1 work there, and K0+clock and K1+clock in windows")
	}
	if m := policy.ModelOf(object.Spec.Model); m != nil && m.NotLive != "" {
		return nil, fmt.Errorf("spec.model %s: %s", m.Name, m.NotLive)
	}
	return p, nil
}
