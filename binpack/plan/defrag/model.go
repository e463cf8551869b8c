package defrag

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A Model is a cluster on which items arrive and leave. It follows them one by one, so that the
// search for a few moves begins at once and no model of the whole cluster is built for it. Its
// results depend on the seed and on the items that arrived and left, not on earlier searches. It
// serves one goroutine.
type Model struct {
	search
	source  *rand.PCG
	seed    uint64
	spare   []int32  // slots without an item
	changes uint64   // items that arrived, left or moved
	failed  []uint64 // per app: changes when it was last refused, and 1
}

// NewModel is a cluster without items.
func NewModel(inst *binpack.Instance, seed uint64) *Model {
	m := &Model{seed: seed, source: rand.NewPCG(seed, 0), failed: make([]uint64, len(inst.Apps))}
	if err := m.begin(inst, nil, Options{Budget: math.Inf(1), AppShare: 1, InFlight: 1}); err != nil {
		panic("moves: " + err.Error()) // only an item can be at fault
	}
	m.rng, m.ordered, m.effort = rand.New(m.source), true, quick
	for a := range m.cap {
		m.cap[a] = math.MaxInt32
	}
	m.follow()
	for _, at := range m.machines {
		m.use(at)
	}
	return m
}

// Add books an item on a machine, by line of machines.csv and index within it, and returns its
// number in the model. It fails if the machine has no room.
func (m *Model) Add(app, line, index int32, devices []binpack.Device) (slot int32, err error) {
	i := m.slot(app)
	m.items[i].Line, m.items[i].Index, m.items[i].Devices = line, index, devices
	if err := m.stand(i); err != nil {
		m.spare = append(m.spare, i)
		return -1, err
	}
	m.follow()
	m.arrived(i)
	m.changes++
	return i, nil
}

// Remove takes an item away.
func (m *Model) Remove(slot int32) {
	at := m.at[slot]
	m.state.Remove(m.items[slot].App, at, m.devices[slot])
	k, _ := slices.BinarySearch(m.on[at], slot)
	m.on[at] = slices.Delete(m.on[at], k, k+1)
	m.count(slot, at, -1)
	m.at[slot], m.origin[slot], m.devices[slot] = -1, -1, nil
	m.spare = append(m.spare, slot)
	m.use(at)
	m.changes++
}

// Hold sets whether an item must stay for now.
func (m *Model) Hold(slot int32, hold bool) {
	if m.items[slot].Fixed == hold {
		return
	}
	m.count(slot, m.at[slot], -1)
	m.items[slot].Fixed = hold
	m.count(slot, m.at[slot], 1)
	m.changes++
}

// Cap sets the most items of an app that one search may move.
func (m *Model) Cap(app, most int32) {
	m.cap[app], m.opt.Caps = most, m.cap
}

// slot is a number for a new item.
func (m *Model) slot(app int32) int32 {
	var i int32
	if n := len(m.spare); n > 0 {
		i, m.spare = m.spare[n-1], m.spare[:n-1]
	} else {
		i = int32(len(m.items))
		m.items = append(m.items, Item{})
		m.origin, m.at, m.before = append(m.origin, -1), append(m.at, -1), append(m.before, -1)
		m.devices, m.beforeUsed = append(m.devices, nil), append(m.beforeUsed, nil)
		m.pen, m.stamp = append(m.pen, 0), append(m.stamp, 0)
	}
	m.items[i] = Item{App: app, Line: -1, Index: -1, Price: 1}
	return i
}

// arrived lists an item on its final machine.
func (m *Model) arrived(i int32) {
	at := m.at[i]
	m.on[at] = insertInto(m.on[at], i)
	m.count(i, at, 1)
	m.use(at)
}

// follow adds new machines.
func (m *Model) follow() {
	for at := int32(len(m.machines)); int(at) < m.state.Size(); at++ {
		m.machines, m.usable = append(m.machines, at), append(m.usable, false)
		m.emptied, m.on, m.load = append(m.emptied, false), append(m.on, nil), append(m.load, load{})
	}
}

// use sets whether items may move to a machine: all of a fixed fleet, those in use of an open one.
func (m *Model) use(at int32) {
	m.usable[at] = m.inst.Fleet == binpack.Fixed || m.state.Items(at) > 0
}

// MakeRoom lets in an item of an app that no machine takes, with at most so many moves of
// others. The moves are in the order of execution; that of the item itself is from Nowhere.
// They and the devices are valid until the next call. The model has carried them out.
// Without moves nothing has changed.
func (m *Model) MakeRoom(app int32, most int) (moves []Move, ok bool) {
	if most < 1 || m.failed[app] == m.changes+1 {
		return nil, false
	}
	if m.roomFor(app) && m.letIn(app, most) {
		return m.settled(), true
	}
	m.failed[app] = m.changes + 1
	return nil, false
}

// A rescue on few machines costs little, so more attempts are made: steadyWork in all, as attempts
// × machines.
const steadyWork, mostAttempts = 3000, 40

// letIn tries a few times to let in an item of an app.
func (m *Model) letIn(app int32, most int) bool {
	m.prepare()
	m.sortDimensions()
	m.narrow = true
	defer func() { m.narrow = false }()
	i := m.slot(app)
	for k := range max(m.effort.room, min(mostAttempts, steadyWork/max(1, len(m.machines)))) {
		limit := min(most, 1<<k) // a short chain first
		m.attempts++
		m.mark()
		m.pool = append(m.pool[:0], i)
		if m.settle(float64(limit)) && m.carryOut() && len(m.sequence) <= limit+1 {
			return true
		}
		stuck := len(m.touched) == 0
		m.undo()
		if stuck {
			break // nothing can make way for it, and chance changes nothing in that
		}
	}
	m.forgive()
	m.spare = append(m.spare, i)
	return false
}

// prepare begins a search that depends on the items alone.
func (m *Model) prepare() {
	m.source.Seed(m.seed, m.changes)
	m.sequence, m.paid, m.spent, m.opt.Budget = m.sequence[:0], 0, 0, math.Inf(1)
}

// forgive forgets which items were hard to place.
func (m *Model) forgive() {
	for _, i := range m.hard {
		m.pen[i] = 0
	}
	m.hard = m.hard[:0]
}

// settled makes the end of the moves a new beginning.
func (m *Model) settled() []Move {
	m.forgive()
	for k := range m.sequence {
		s := &m.sequence[k]
		s.Item, s.From, s.To = int(s.item), m.position(s.from), m.position(s.to)
		if at := m.at[s.item]; m.origin[s.item] != at {
			m.origin[s.item] = at
			m.moved[m.items[s.item].App] = 0
			m.load[at].firstPrice += m.items[s.item].Price
		}
		if s.from >= 0 {
			m.use(s.from)
		}
		m.use(s.to)
		m.changes++
	}
	m.spent = 0
	return m.sequence
}

// Changes is a number that grows with each item that arrives, leaves or moves.
func (m *Model) Changes() uint64 { return m.changes }

// Drain empties machines with at most so many moves, the dearest for each move first, as far as a
// short search gets. The moves are as those of [Model.MakeRoom].
func (m *Model) Drain(ctx context.Context, most int) []Move {
	m.prepare()
	m.opt.Budget, m.opt.ByCost = float64(most), true
	m.drain(ctx, 0)
	for _, at := range m.machines {
		m.emptied[at] = false
		m.use(at)
	}
	return m.settled()
}

// roomFor reports whether the machines that may be used have as much room as an item takes.
func (m *Model) roomFor(app int32) bool {
	for d, need := range m.inst.Apps[app].Demand {
		column := m.state.Free(d)
		for at := 0; need > 0; at++ {
			if at == len(m.machines) {
				return false
			}
			if m.usable[at] {
				need -= column[at]
			}
		}
	}
	return true
}
