package ledger

import (
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// ready reports whether the columns are those of the present machines and apps.
func (l *columns) ready() bool { return l.state != nil && !l.stale }

// known returns the forecast in the order of the columns, nil when there is none.
func (l *columns) known() []float64 {
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

// firstDimensions always exist, in this order.
var firstDimensions = []string{"cpu", "memory", "pods"}

// dimensions returns the first ones and those that some app needs. Of too many, those that some machine has take precedence: a
// pod may request resources of any name.
func (l *cluster) dimensions() []string {
	needed := map[string]bool{}
	for _, a := range l.apps {
		for dim, n := range a.spec.Demand {
			if n > 0 && !slices.Contains(firstDimensions, dim) {
				needed[dim] = true
			}
		}
	}
	var offered, others []string
	for _, dim := range slices.Sorted(maps.Keys(needed)) {
		if len(needed) > binpack.MaxDimensions-len(firstDimensions) && l.offers(dim) {
			offered = append(offered, dim)
		} else {
			others = append(others, dim)
		}
	}
	names := slices.Concat(firstDimensions, offered, others)
	return names[:min(len(names), binpack.MaxDimensions)]
}

// offers reports whether some machine has a resource.
func (l *cluster) offers(dim string) bool {
	for _, m := range l.machines {
		if m.spec.Capacity[dim] > 0 {
			return true
		}
	}
	return false
}

// rebuild makes new columns of the present machines, apps and rules. The columns
// depend on these alone, not on the time of the rebuild.
func (l *columns) rebuild() {
	l.byIndex, l.appAt = l.byIndex[:0], l.appAt[:0]
	for _, m := range l.machines {
		m.index = -1
		if !m.spec.Cordoned {
			l.byIndex = append(l.byIndex, m)
		}
	}
	slices.SortFunc(l.byIndex, func(a, b *Node) int { return strings.Compare(a.name, b.name) })
	for _, a := range l.apps {
		l.appAt = append(l.appAt, a)
	}
	slices.SortFunc(l.appAt, func(a, b *AppEntry) int { return strings.Compare(a.name, b.name) })

	l.rebuilds++
	l.state = binpack.NewState(l.instance())
	l.scorers = nil
	l.stale = false
	if l.state.Instance().Fleet == binpack.Open { // an open state orders its machines by kind
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
		for _, r := range m.reserved {
			for range r.Pods {
				l.state.Book(r.App.index, m.index)
			}
		}
	}
	l.state.Restore(l.history())
	l.tellForecast()
}

func (l *columns) history() binpack.History {
	h := binpack.History{Placements: l.placed, Departures: l.departed, Most: l.most}
	for _, a := range l.appAt {
		h.Seen = append(h.Seen, a.seen)
		h.Requests = append(h.Requests, a.requests)
		h.SumSquares = append(h.SumSquares, a.sumSquare)
	}
	for _, m := range l.byIndex {
		h.LastUsed = append(h.LastUsed, m.last)
		h.Opened = append(h.Opened, m.opened)
	}
	if l.last != nil {
		h.LastArrival = l.last.index
	}
	return h
}

// instance returns the packing problem of the present machines, apps and rules, in the
// order of their names. It sets their indices.
func (l *columns) instance() *binpack.Instance {
	inst := &binpack.Instance{Fleet: binpack.Open, MaxShareOfApp: l.start.MaxShareOfApp}
	if l.start.Fleet == binpack.Fixed.String() {
		inst.Fleet = binpack.Fixed
	}
	l.dims = l.dimensions()
	for _, name := range l.dims {
		unit := l.start.Units[name]
		inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: name, Unit: unit, One: unitsInOne[unit]})
	}
	types := map[string]int32{}
	l.types = typesOf{refuses: map[string][]int32{}, admits: map[string][]int32{}, allowed: map[string][]int32{}}
	l.zoned = slices.ContainsFunc(l.appAt, func(a *AppEntry) bool { return a.spec.byZone() }) ||
		slices.ContainsFunc(l.rules, func(r Rule) bool { return r.Scope == ZoneScope })
	for i, m := range l.byIndex {
		m.index = int32(i)
		name := "" // [""] refuses pods without tolerations, [] refuses no pod
		if len(m.spec.Refuses) > 0 {
			name = strings.Join(m.spec.Refuses, "\x00") + "\x00"
		}
		if len(m.spec.Admits) > 0 {
			name += "\x01" + strings.Join(m.spec.Admits, "\x00")
		}
		t, ok := types[name]
		if !ok {
			t = int32(len(inst.Types))
			types[name] = t
			inst.Types = append(inst.Types, name)
			l.types.add(&m.spec)
		}
		inst.Machines = append(inst.Machines, binpack.MachineLine{
			Name: m.name, Type: t, Count: 1, Cost: m.spec.Cost, Capacity: l.amounts(m.spec.Capacity), Zone: l.zone(m),
		})
	}
	l.groupAt = map[string]int32{}
	for i, a := range l.appAt {
		a.index = int32(i)
		g, ok := l.groupAt[a.spec.Group]
		if !ok {
			g = int32(len(inst.Groups))
			l.groupAt[a.spec.Group] = g
			inst.Groups = append(inst.Groups, binpack.Group{Name: a.spec.Group})
		}
		group := &inst.Groups[g]
		group.Limit, group.SpreadMin = max(group.Limit, a.spec.MaxPerMachine), max(group.SpreadMin, a.spec.SpreadMin)
		if limits := a.spec.zoneLimits(); limits != (binpack.ZoneLimits{}) { // apps of a group have equal limits
			group.Zone = limits
		}
		inst.Apps = append(inst.Apps, l.appOf(a, g))
	}
	l.compiled, l.dormant = 0, map[string]bool{}
	inst.Rules, inst.ZoneRules = l.newRules()
	inst.Pairs = l.traffic()
	return inst
}

// amounts returns those of the columns' dimensions.
func (l *columns) amounts(of map[string]int64) []int64 {
	out := make([]int64, len(l.dims))
	for d, name := range l.dims {
		out[d] = of[name]
	}
	return out
}

func (l *columns) appOf(a *AppEntry, group int32) binpack.App {
	return binpack.App{
		Name: a.name, Group: group, Demand: l.amounts(a.spec.Demand), Expected: -1, Lifetime: -1,
		Types: l.types.of(a.spec.Selector, l.closed[a.spec.Selector]), Soft: a.spec.terms(group),
	}
}

// typesOf holds the types of machines: machines that list the same selectors are of one type.
type typesOf struct {
	count           int32
	refuses, admits map[string][]int32 // by selector, those that list it
	allowed         map[string][]int32 // by selector, as far as queried
}

// add adds the type of a machine.
func (t *typesOf) add(m *Machine) {
	for _, selector := range m.Refuses {
		t.refuses[selector] = append(t.refuses[selector], t.count)
	}
	for _, selector := range m.Admits {
		t.admits[selector] = append(t.admits[selector], t.count)
	}
	t.count++
}

// of returns the types that a selector may use, in order; nil = all. Apps share the list.
func (t *typesOf) of(selector string, closed bool) []int32 {
	if known, ok := t.allowed[selector]; ok {
		return known
	}
	allowed := []int32{} // not nil
	if closed {
		allowed = append(allowed, t.admits[selector]...)
	} else {
		refuses := t.refuses[selector]
		for i := range t.count {
			if len(refuses) > 0 && refuses[0] == i {
				refuses = refuses[1:]
			} else {
				allowed = append(allowed, i)
			}
		}
	}
	if len(allowed) == int(t.count) {
		allowed = nil
	}
	t.allowed[selector] = allowed
	return allowed
}
