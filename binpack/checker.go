package binpack

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Checker is the independent slow checker of placements: a map and plain loops,
// written from the constraints' definitions. It shares no code with [State] and reads
// nothing of it; machines are named by line and index.
//
// It books a placement that breaks a constraint all the same, so that it reports a
// mistake once and not with every later placement.
type Checker struct {
	inst     *Instance
	machines [][]*checkedMachine          // by line and index; nil = none yet
	far      map[position]*checkedMachine // those whose index is far above the number of machines
	made     int                          // machines
	groups   []checkedGroup
	places   []place // with a zone
	zones    []int32 // per line: its zone, from 1 on; 0 = it has none
	active   int
	items    int
}

type position struct{ line, index int32 }

type checkedMachine struct {
	used    []int64          // per dimension
	devices map[Device]int64 // share taken; nil = none yet
	apps    []checkedApp     // with items there
	items   int
}

type checkedApp struct{ app, group, items int32 }

// ofGroup is the number of a group's items on a machine.
func (m *checkedMachine) ofGroup(group int32) int32 {
	n := int32(0)
	for _, a := range m.apps {
		if a.group == group {
			n += a.items
		}
	}
	return n
}

// ofApp is the number of an app's items on a machine.
func (m *checkedMachine) ofApp(app int32) int32 {
	for _, a := range m.apps {
		if a.app == app {
			return a.items
		}
	}
	return 0
}

// add adds items of an app, or removes them.
func (m *checkedMachine) add(app, group, items int32) {
	i := slices.IndexFunc(m.apps, func(a checkedApp) bool { return a.app == app })
	if i < 0 {
		m.apps = append(m.apps, checkedApp{app, group, items})
		return
	}
	if m.apps[i].items += items; m.apps[i].items == 0 {
		m.apps = slices.Delete(m.apps, i, i+1)
	}
}

type checkedGroup struct {
	living   int32   // items on machines
	machines int32   // with items
	zones    []int32 // items per zone
	rules    []Rule  // that name the group, on either side
	byZone   []Rule  // the same, of the rules by zone
}

// NewChecker starts with empty machines.
func NewChecker(inst *Instance) *Checker {
	c := &Checker{inst: inst, machines: make([][]*checkedMachine, len(inst.Machines)), groups: make([]checkedGroup, len(inst.Groups))}
	numbers := map[string]int32{"": 0}
	for _, m := range inst.Machines {
		if _, ok := numbers[m.Zone]; !ok {
			numbers[m.Zone] = int32(len(numbers))
		}
		c.zones = append(c.zones, numbers[m.Zone])
	}
	c.places = placesOf(inst.Machines, c.zones)
	for g := range c.groups {
		c.groups[g].zones = make([]int32, len(numbers))
	}
	for _, r := range inst.Rules {
		c.groups[r.A].rules = append(c.groups[r.A].rules, r)
		c.groups[r.B].rules = append(c.groups[r.B].rules, r)
	}
	for _, r := range inst.ZoneRules {
		c.groups[r.A].byZone = append(c.groups[r.A].byZone, r)
		c.groups[r.B].byZone = append(c.groups[r.B].byZone, r)
	}
	return c
}

// Machines is the number of machines that hold an item.
func (c *Checker) Machines() int { return c.active }

// Items is the number of items on machines.
func (c *Checker) Items() int { return c.items }

// Initial books an item as it was found, also when it breaks constraints. It fails, and
// books nothing, if the machine does not exist.
func (c *Checker) Initial(app, line, index int32, devices []Device) error {
	at, err := c.at(line, index)
	if err != nil {
		return err
	}
	c.book(app, c.machine(at), at, devices, 1)
	return nil
}

// Place books an item and returns every constraint that is then broken on the machine,
// joined (errors.Join), or nil. If the machine does not exist, nothing is booked.
func (c *Checker) Place(app, line, index int32, devices []Device) error {
	at, err := c.at(line, index)
	if err != nil {
		return err
	}
	m := c.machine(at)
	badDevices := c.judgeDevices(app, at, m, devices)
	c.book(app, m, at, devices, 1)
	var bad []error
	bad = append(bad, c.judgeCapacity(m, at)...)
	bad = append(bad, badDevices...)
	bad = append(bad, c.judgeType(app, at)...)
	bad = append(bad, c.judgeLimit(app, m)...)
	bad = append(bad, c.judgeRules(app, m)...)
	bad = append(bad, c.judgeSpread(app, m)...)
	bad = append(bad, c.judgeZone(app, at)...)
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("%s on %s: %w", c.inst.Apps[app].Name, c.name(at), errors.Join(bad...))
}

// Remove removes an item with its devices from a machine. It fails, and changes
// nothing, if the item is not there.
func (c *Checker) Remove(app, line, index int32, devices []Device) error {
	at, err := c.at(line, index)
	if err != nil {
		return err
	}
	m := c.machine(at)
	if m.ofApp(app) == 0 {
		return fmt.Errorf("%s holds no %s", c.name(at), c.inst.Apps[app].Name)
	}
	for _, dev := range devices {
		if m.devices[dev] < c.share(app, dev) {
			return fmt.Errorf("%s on %s does not hold %s device %d", c.inst.Apps[app].Name, c.name(at), c.dimension(dev), dev.Index)
		}
	}
	c.book(app, m, at, devices, -1)
	return nil
}

// Resize changes the demand of an app and of its items. A machine may then be above its
// capacity: only one that takes an item is judged.
func (c *Checker) Resize(app int32, demand []int64) {
	old := c.inst.Apps[app].Demand
	inst := *c.inst // the caller keeps its own
	inst.Apps = slices.Clone(inst.Apps)
	inst.Apps[app].Demand = demand
	c.inst = &inst
	for _, m := range append(slices.Concat(c.machines...), slices.Collect(maps.Values(c.far))...) {
		for d := range demand {
			if m != nil {
				m.used[d] += int64(m.ofApp(app)) * (demand[d] - old[d])
			}
		}
	}
}

// at checks that the fleet has a machine.
func (c *Checker) at(line, index int32) (position, error) {
	if line < 0 || int(line) >= len(c.inst.Machines) {
		return position{}, fmt.Errorf("there is no machine line %d", line)
	}
	count := c.inst.Machines[line].Count
	if index < 0 || count != Unlimited && int(index) >= count {
		return position{}, fmt.Errorf("there is no machine %d of %s", index, c.inst.Machines[line].Name)
	}
	return position{line, index}, nil
}

// machine is a machine of the fleet.
func (c *Checker) machine(at position) *checkedMachine {
	if m := c.far[at]; m != nil {
		return m
	}
	line, n := c.machines[at.line], int(at.index)+1
	if n <= len(line) && line[at.index] != nil {
		return line[at.index]
	}
	m := &checkedMachine{used: make([]int64, len(c.inst.Dimensions))}
	c.made++
	switch {
	case n <= len(line):
	case n > 2*c.made+1024:
		if c.far == nil {
			c.far = map[position]*checkedMachine{}
		}
		c.far[at] = m
		return m
	default:
		line = slices.Grow(line, n-len(line))[:n]
		c.machines[at.line] = line
	}
	line[at.index] = m
	return m
}

// book adds sign items of an app to a machine.
func (c *Checker) book(app int32, m *checkedMachine, at position, devices []Device, sign int32) {
	wasEmpty := m.items == 0
	for d, need := range c.inst.Apps[app].Demand {
		m.used[d] += int64(sign) * need
	}
	if m.devices == nil && len(devices) > 0 {
		m.devices = map[Device]int64{}
	}
	for _, dev := range devices {
		m.devices[dev] += int64(sign) * c.share(app, dev)
	}
	group := c.inst.Apps[app].Group
	g := &c.groups[group]
	before := m.ofGroup(group)
	m.add(app, group, sign)
	switch after := before + sign; {
	case before == 0:
		g.machines++
	case after == 0:
		g.machines--
	}
	m.items += int(sign)
	c.items += int(sign)
	g.living += sign
	if zone := c.zones[at.line]; zone > 0 {
		g.zones[zone] += sign
	}
	if wasEmpty {
		c.active++
	}
	if m.items == 0 {
		c.active--
	}
}

func (c *Checker) judgeCapacity(m *checkedMachine, at position) []error {
	var bad []error
	for d, used := range m.used {
		if capacity := c.inst.Machines[at.line].Capacity[d]; used > capacity {
			bad = append(bad, fmt.Errorf("%s: %d used of %d", c.inst.Dimensions[d].Name, used, capacity))
		}
	}
	return bad
}

// judgeDevices checks the devices against the machine before the item.
func (c *Checker) judgeDevices(app int32, at position, m *checkedMachine, devices []Device) []error {
	var bad []error
	if len(devices) == 0 && !slices.ContainsFunc(c.inst.Dimensions, func(d Dimension) bool { return d.Device }) {
		return nil
	}
	chosen := map[Device]bool{}
	number := make([]int64, len(c.inst.Dimensions))
	for _, dev := range devices {
		if dev.Dimension < 0 || int(dev.Dimension) >= len(c.inst.Dimensions) || !c.inst.Dimensions[dev.Dimension].Device {
			bad = append(bad, fmt.Errorf("dimension %d has no devices", dev.Dimension))
			continue
		}
		number[dev.Dimension]++
		one := c.inst.Dimensions[dev.Dimension].One
		switch {
		case dev.Index < 0 || int64(dev.Index) >= c.inst.Machines[at.line].Capacity[dev.Dimension]/one:
			bad = append(bad, fmt.Errorf("there is no %s device %d", c.dimension(dev), dev.Index))
		case chosen[dev]:
			bad = append(bad, fmt.Errorf("%s device %d is given twice", c.dimension(dev), dev.Index))
		case m.devices[dev]+c.share(app, dev) > one:
			bad = append(bad, fmt.Errorf("%s device %d: %d needed, %d of %d taken", c.dimension(dev), dev.Index, c.share(app, dev), m.devices[dev], one))
		}
		chosen[dev] = true
	}
	for d, dim := range c.inst.Dimensions {
		if !dim.Device {
			continue
		}
		want, need := int64(0), c.inst.Apps[app].Demand[d]
		if need > 0 {
			want = max(1, need/dim.One)
		}
		if number[d] != want {
			bad = append(bad, fmt.Errorf("%s: %d devices given, %d needed", dim.Name, number[d], want))
		}
	}
	return bad
}

func (c *Checker) judgeType(app int32, at position) []error {
	types, typ := c.inst.Apps[app].Types, c.inst.Machines[at.line].Type
	if types == nil || slices.Contains(types, typ) {
		return nil
	}
	return []error{fmt.Errorf("type %s is not allowed", c.inst.Types[typ])}
}

func (c *Checker) judgeLimit(app int32, m *checkedMachine) []error {
	group := c.inst.Apps[app].Group
	count, limit := m.ofGroup(group), c.inst.Groups[group].Limit
	if limit > 0 && count > limit {
		return []error{fmt.Errorf("%d of group %s, limit %d", count, c.inst.Groups[group].Name, limit)}
	}
	return nil
}

// judgeRules: after a placement no machine may hold one of A and more than Max of B,
// whichever of the two was placed last.
func (c *Checker) judgeRules(app int32, m *checkedMachine) []error {
	var bad []error
	for _, r := range c.groups[c.inst.Apps[app].Group].rules {
		if n := m.ofGroup(r.B); n > r.Max && m.ofGroup(r.A) > 0 {
			bad = append(bad, fmt.Errorf("rule %s, %s, %d: %d there", c.inst.Groups[r.A].Name, c.inst.Groups[r.B].Name, r.Max, n))
		}
	}
	return bad
}

// judgeSpread: a second item on a machine only when the group, this item included,
// is on at least min(spread, its living items) machines.
func (c *Checker) judgeSpread(app int32, m *checkedMachine) []error {
	group := c.inst.Apps[app].Group
	g, spread := &c.groups[group], c.inst.Groups[group].SpreadMin
	if g.machines < min(spread, g.living) && m.ofGroup(group) > 1 {
		return []error{fmt.Errorf("group %s on %d machines, spread %d", c.inst.Groups[group].Name, g.machines, spread)}
	}
	return nil
}

// share is the amount of one device that an item of an app takes; 0 when the
// dimension has no devices.
func (c *Checker) share(app int32, dev Device) int64 {
	if dev.Dimension < 0 || int(dev.Dimension) >= len(c.inst.Dimensions) || !c.inst.Dimensions[dev.Dimension].Device {
		return 0
	}
	return min(c.inst.Apps[app].Demand[dev.Dimension], c.inst.Dimensions[dev.Dimension].One)
}

func (c *Checker) dimension(dev Device) string { return c.inst.Dimensions[dev.Dimension].Name }

func (c *Checker) name(at position) string {
	line := c.inst.Machines[at.line]
	if line.Count == 1 {
		return line.Name
	}
	return fmt.Sprintf("%s-%05d", line.Name, at.index)
}
