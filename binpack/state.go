package binpack

import (
	"fmt"
)

// An Entry is the number of items of an app on a machine.
type Entry struct {
	App, Group, Count int32
}

// State is the situation of a fleet, stored by column: one slice per dimension,
// indexed by machine. A machine receives its index when it is created and keeps it;
// its position, which orders machines, is the line of machines.csv and then the
// index within the line.
//
// In an open fleet the machines of a line are created one by one: there is always
// one empty machine of each kind on offer until its lines are used up.
//
// Its parts are layers, each of which uses those before it: columns, limits, room,
// classIndex, softLimits. Methods of State itself change several of them, or rank by all.
type State struct {
	softLimits
	history
	journal

	// Open fleets: per kind the lines left and the emptied machines.
	pools []pool

	// Known is the policy's knowledge beyond the past; the driver fills it.
	Known Known

	candidates []int32
	pending    []int32 // parallel to candidates: the class to search, -1 = no class
	scores     []float64
	preference preference
}

// columns hold the machines and the items on them.
type columns struct {
	inst   *Instance
	kinds  []Kind
	kindAt []int32 // [line of machines.csv]

	// Per machine.
	free     [][]int64 // [dimension][machine]
	kind     []int32
	items    []int32 // items on it
	contents [][]Entry
	lastUsed []uint64  // placements made when it last took an item; 0 = never
	opened   []uint64  // placements made when it last took an item while empty; 0 = never
	line     []int32   // of machines.csv
	index    []int32   // within the line
	byLine   [][]int32 // the machines of each line, by index
	ordered  bool      // machine indices ascend with positions

	serial     uint64  // placements made
	departures uint64  // items removed
	moves      uint64  // of items: each is a departure without a request
	machines   int     // that hold an item
	held       []int64 // per kind: machines that hold an item
	alive      []int64 // per app: items on a machine
	totalAlive int64

	lowest  []int32 // per kind, of Candidates
	allowed []int32 // of Candidates
}

const (
	blockDims = 16
	manyDims  = 3 * blockDims // from here on there are blocks
)

// NewState prepares the empty state of an instance. The instance must be valid, which
// readers of traces check: indices in range, one amount per dimension, no Unlimited
// line in a fixed fleet.
func NewState(inst *Instance) *State {
	s := &State{}
	s.inst = inst
	nApps, nGroups := len(inst.Apps), len(inst.Groups)
	s.free = make([][]int64, len(inst.Dimensions))
	s.appWords = (nApps + 63) / 64
	s.appStride = s.appWords
	s.groups = make([]groupInfo, nGroups)
	for g, group := range inst.Groups {
		s.groups[g].limit, s.groups[g].spread = group.Limit, group.SpreadMin
	}
	for a, app := range inst.Apps {
		s.groups[app.Group].apps = append(s.groups[app.Group].apps, int32(a))
	}
	s.compileRules()
	for d, dim := range inst.Dimensions {
		s.rejecting = append(s.rejecting, rejecting{dimension: d})
		if dim.Device {
			s.deviceDims = append(s.deviceDims, d)
		}
	}
	s.compileBlocks()
	s.maxDevices = make([]int, len(s.deviceDims))
	s.compileTypes()
	s.compileKinds()
	s.zones.compile(inst)
	s.seen = make([]int64, nApps)
	s.requests = make([]int64, nApps)
	s.sumSq = make([]int64, nApps)
	s.alive = make([]int64, nApps)
	s.sampled = make([]int64, nApps)
	s.spread = make([]int32, nGroups)
	s.held = make([]int64, len(s.kinds))
	s.byLine = make([][]int32, len(inst.Machines))
	s.changes = make([]Change, journalSize)
	s.seq = journalSize + 1 // a reader that starts at 0 learns that all is new; no version is 0
	s.Known.Elapsed = -1
	s.populate()
	return s
}

// Reset empties the state and forgets its history, keeping memory.
func (s *State) Reset() {
	n := len(s.kind)
	for d := range s.free {
		s.free[d] = s.free[d][:0]
	}
	for b := range s.least {
		s.least[b] = s.least[b][:0]
	}
	for m := range n {
		s.contents[m] = s.contents[m][:0]
	}
	s.kind, s.items, s.version = s.kind[:0], s.items[:0], s.version[:0]
	s.lastUsed, s.opened = s.lastUsed[:0], s.opened[:0]
	s.line, s.index, s.devices = s.line[:0], s.index[:0], s.devices[:0]
	for line := range s.byLine {
		s.byLine[line] = s.byLine[line][:0]
	}
	s.contents = s.contents[:0]
	s.offered = s.offered[:0]
	clear(s.blocked)
	clear(s.holding)
	s.typed = 0
	s.blockedBy = s.blockedBy[:0]
	for k := range s.pools {
		s.pools[k].empty, s.pools[k].offer = s.pools[k].empty[:0], -1
	}
	s.classes.forget()
	clear(s.seen)
	clear(s.requests)
	clear(s.sumSq)
	clear(s.alive)
	clear(s.sampled)
	clear(s.held)
	clear(s.spread)
	s.zones.reset()
	s.serial, s.machines, s.totalAlive, s.most, s.requestsAll = 0, 0, 0, 0, 0
	s.departures, s.moves, s.came, s.seenAll, s.sampledAt = 0, 0, 0, 0, 0
	// Versions stay unique, and readers of the journal learn that all is new.
	s.seq += journalSize + 1
	s.Known, s.Care, s.Declared = Known{Elapsed: -1}, Care{}, nil
	s.populate()
}

// Instance is the problem.
func (s *columns) Instance() *Instance { return s.inst }

// Size is the number of machines created so far.
func (s *columns) Size() int { return len(s.kind) }

// Free is the column of free amounts of a dimension, by machine. Read only.
func (s *columns) Free(dimension int) []int64 { return s.free[dimension] }

// Kinds lists the kinds of machines. Read only.
func (s *columns) Kinds() []Kind { return s.kinds }

// KindOf is the kind of a machine.
func (s *columns) KindOf(m int32) int32 { return s.kind[m] }

// Capacity of a machine per dimension, in units. Read only.
func (s *columns) Capacity(m int32) []int64 { return s.kinds[s.kind[m]].Capacity }

// Items is the number of items on a machine.
func (s *columns) Items(m int32) int32 { return s.items[m] }

// Contents lists the items on a machine, in no order. Read only.
func (s *columns) Contents(m int32) []Entry { return s.contents[m] }

// Version changes with every change of a machine, and no two contents of a
// machine have the same one, not even before and after a Reset; it is never 0.
func (s *journal) Version(m int32) uint32 { return s.version[m] }

// LastUsed is the number of placements up to the last one on the machine, that one
// included; 0 = no placement.
func (s *columns) LastUsed(m int32) uint64 { return s.lastUsed[m] }

// Opened is the number of placements that had been made when the first of a machine's
// items, or of those it last held, arrived; 0 if it never held one.
func (s *columns) Opened(m int32) uint64 { return s.opened[m] }

// Position gives the line of machines.csv and the index within it; machines
// are ordered by the two.
func (s *columns) Position(m int32) (line, index int32) { return s.line[m], s.index[m] }

// Placements is the number of placements made so far.
func (s *columns) Placements() uint64 { return s.serial }

// Departures is the number of items removed so far.
func (s *columns) Departures() uint64 { return s.departures }

// Left is Departures without the items that moved.
func (s *columns) Left() uint64 { return s.departures - s.moves }

// Moved records that the last removed item will be placed on another machine.
func (s *columns) Moved() { s.moves++ }

// Active is the number of machines that hold an item.
func (s *columns) Active() int { return s.machines }

// Held is the number of machines that hold an item, per kind. Read only.
func (s *columns) Held() []int64 { return s.held }

// Alive is the number of items on machines, per app. Read only.
func (s *columns) Alive() []int64 { return s.alive }

// AliveTotal is the number of items on machines.
func (s *columns) AliveTotal() int64 { return s.totalAlive }

// Offered is a bitset of the machines that may be candidates: all of a fixed
// fleet; those that hold an item and one empty machine of each kind of an open
// one. Read only.
func (s *limits) Offered() []uint64 { return s.offered }

// columnsFirst is the number of columns that are checked one by one before blocks.
const columnsFirst = 24

// askAll is the number of calls after which one checks all columns, to measure which
// reject most.
const askAll = 32

// Place puts an item on a machine that takes it. It returns the devices that the item
// uses, valid until the next call. chooser may be nil.
func (s *State) Place(item Item, m int32, chooser DeviceChooser) []Device {
	app := &s.inst.Apps[item.App]
	for d, need := range app.Demand {
		if need > s.free[d][m] {
			panic(fmt.Sprintf("binpack: %s %d does not fit in machine %d with %d free",
				s.inst.Dimensions[d].Name, need, m, s.free[d][m]))
		}
	}
	var used []Device
	if len(s.deviceDims) > 0 {
		used = s.takeDevices(item, app, m, chooser)
	}
	s.put(item.App, m)
	return used
}

// PlaceAs books an item with its devices on the machine where it was found, whether
// constraints allow it or not. It fails if capacity or a device is not sufficient.
func (s *State) PlaceAs(app, m int32, devices []Device) error {
	a := &s.inst.Apps[app]
	for d, need := range a.Demand {
		if need > s.free[d][m] {
			return fmt.Errorf("%s: %d needed, %d free", s.inst.Dimensions[d].Name, need, s.free[d][m])
		}
	}
	for i, dev := range devices {
		share := s.share(m, dev)
		need := min(a.Demand[dev.Dimension], s.inst.Dimensions[dev.Dimension].One)
		if share == nil || *share < need {
			s.giveBack(a, m, devices[:i])
			return fmt.Errorf("%s: device %d does not hold it", s.inst.Dimensions[dev.Dimension].Name, dev.Index)
		}
		*share -= need
	}
	s.put(app, m)
	return nil
}

// Book books an item on the machine where it was found, whether capacity and constraints
// allow it or not. Free amounts may become negative; then nothing fits. Book does not
// book devices.
func (s *State) Book(app, m int32) { s.put(app, m) }

// put books an item on a machine.
func (s *State) put(app, m int32) {
	a := &s.inst.Apps[app]
	for d, need := range a.Demand {
		s.free[d][m] -= need
	}
	s.relieve(m)
	count := s.addEntry(app, a.Group, m)
	if count == 1 {
		s.spread[a.Group]++
		s.holding[int(a.Group)*s.words+int(m)/64] |= 1 << (m % 64)
	}
	s.zones.add(s.line[m], a.Group, 1)
	s.close(a.Group, m, count)
	s.items[m]++
	s.serial++
	s.lastUsed[m] = s.serial
	s.alive[app]++
	s.totalAlive++
	s.most = max(s.most, s.totalAlive)
	if s.items[m] == 1 {
		s.opened[m] = s.serial
		s.machines++
		k := s.kind[m]
		s.held[k]++
		if s.inst.Fleet == Open {
			s.employ(m)
		}
	}
	s.touchClass(m)
	s.note(m, app)
}

// addEntry counts one more item of the app and returns the count of its group.
func (s *columns) addEntry(app, group, m int32) int32 {
	list := s.contents[m]
	count, at := int32(1), -1
	for i := range list {
		if list[i].Group == group {
			count += list[i].Count
			if list[i].App == app {
				at = i
			}
		}
	}
	if at >= 0 {
		list[at].Count++
	} else {
		s.contents[m] = append(list, Entry{App: app, Group: group, Count: 1})
	}
	return count
}

// Remove removes an item with its devices from a machine that holds it.
func (s *State) Remove(app, m int32, devices []Device) {
	a := &s.inst.Apps[app]
	s.dropEntry(app, m)
	s.zones.add(s.line[m], a.Group, -1)
	for d, need := range a.Demand {
		s.free[d][m] += need
	}
	s.relieve(m)
	s.giveBack(a, m, devices)
	if s.Count(a.Group, m) == 0 {
		s.spread[a.Group]--
		s.holding[int(a.Group)*s.words+int(m)/64] &^= 1 << (m % 64)
	}
	s.refreshBlocked(a.Group, m)
	for _, e := range s.groups[a.Group].effects {
		s.refreshBlocked(e.Other, m)
	}
	s.items[m]--
	s.departures++
	s.alive[app]--
	s.totalAlive--
	if s.items[m] == 0 {
		s.machines--
		s.held[s.kind[m]]--
		if s.inst.Fleet == Open {
			s.retire(m)
		}
	}
	s.touchClass(m)
	s.note(m, app)
}

func (s *columns) dropEntry(app, m int32) {
	list := s.contents[m]
	for i := range list {
		if list[i].App != app {
			continue
		}
		list[i].Count--
		if list[i].Count == 0 {
			list[i] = list[len(list)-1]
			s.contents[m] = list[:len(list)-1]
		}
		return
	}
	panic(fmt.Sprintf("binpack: machine %d holds no %s", m, s.inst.Apps[app].Name))
}
