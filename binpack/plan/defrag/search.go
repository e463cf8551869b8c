package defrag

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

const (
	// patience is the share by which an attempt to empty a machine may cost more than the one before.
	patience = .02
	// home is the advantage of the machine that an item was on at the beginning.
	home = .5
)

// An effort limits a search.
type effort struct {
	steps     int // ejections of an attempt, in addition to the items that it begins with
	look      int // machines that an ejection inspects, more if nothing is found
	lookPairs int // the same for ejections of two items
	pairs     int // two items may be ejected where one could, one time in so many; 0 = never
	room      int // attempts to let in an item
	tries     int // attempts to empty a machine
	failures  int // consecutive attempts to empty one without success
}

var (
	// thorough is for a plan that a user waits for.
	thorough = effort{steps: 100, look: 512, lookPairs: 64, room: 4, tries: 150, failures: 500}
	// quick is for a search after each item.
	quick = effort{steps: 40, look: 96, lookPairs: 24, pairs: 3, room: 4, tries: 4, failures: 24}
)

// search is the engine: items on machines, a pool of items without one, and penalties
// that items keep between attempts.
type search struct {
	inst     *binpack.Instance
	state    *binpack.State
	items    []Item
	opt      Options
	rng      *rand.Rand
	machines []int32 // that may be used, by index
	usable   []bool  // items may land there
	emptied  []bool
	tight    []int // dimensions, the tightest first

	origin  []int32 // per item: machine at the beginning; -1 = no machine
	at      []int32 // per item: machine now; -1 = no machine
	devices [][]binpack.Device
	on      [][]int32        // per machine: items
	load    []load           // per machine
	pen     []float64        // per item: how hard it was to place
	size    []float64        // per app: largest share of a machine over dimensions
	into    [][]binpack.Rule // per group: rules (A, group, k)
	out     [][]binpack.Rule // per group: rules (group, B, k)
	cap     []int32          // per app: items that may move
	moved   []int32          // per app: items away from their first machine
	slow    bool             // there are devices
	ordered bool             // on keeps the order of items
	hard    []int32          // items with a penalty
	narrow  bool             // room is short: items that find no room are dear to eject
	hole    int64            // the largest that is free of the tightest dimension, if it is

	inUse    int // machines, at the beginning
	pool     []int32
	spent    float64 // price of the items away from their first machine
	attempts int
	effort   effort
	tries    []int
	extra    []float64 // per machine: extra price of the last attempt
	stuck    bool      // the last settle failed before an ejection: chance has no part in it

	// Since the mark.
	spentAtMark float64
	touched     []int32
	stamp       []int // per item: attempt that touched it
	before      []int32
	beforeUsed  [][]binpack.Device
	sequenceWas []Move
	paidWas     float64

	sequence []Move
	paid     float64
	longest  int // moves of the last attempt that was carried out, before merges

	buf   []int32
	short []shortage

	bars   []bar
	barred int32     // the group that they close a machine to
	counts []int32   // per group; 0 between calls
	need   [][]int64 // [dimension][app]: demands of items
}

// A load sums up the items of a machine.
type load struct {
	price      float64 // of moves of all its items
	firstPrice float64 // of those that were here at the beginning: moves of the others may become one
	fixed      int32   // items that must stay
}

func (s *search) begin(inst *binpack.Instance, items []Item, opt Options) error {
	s.inst, s.items, s.opt = inst, slices.Clone(items), opt
	s.state, s.effort = binpack.NewState(inst), thorough
	s.rng = rand.New(rand.NewPCG(opt.Seed, 0))
	n := len(items)
	s.origin, s.at, s.before = make([]int32, n), make([]int32, n), make([]int32, n)
	s.devices, s.beforeUsed = make([][]binpack.Device, n), make([][]binpack.Device, n)
	s.pen, s.stamp = make([]float64, n), make([]int, n)
	s.cap, s.moved = make([]int32, len(inst.Apps)), make([]int32, len(inst.Apps))
	for i := range s.items {
		it := &s.items[i]
		s.origin[i], s.at[i] = -1, -1
		it.Price = cmp.Or(it.Price, 1)
		if !(it.Price > 0) || math.IsInf(it.Price, 0) {
			return fmt.Errorf("item %d: a price of %g: want more than 0", i, it.Price)
		}
		if it.App < 0 || int(it.App) >= len(inst.Apps) {
			return fmt.Errorf("item %d: there is no app %d", i, it.App)
		}
		s.cap[it.App]++
		if it.Line < 0 {
			continue
		}
		if err := s.stand(int32(i)); err != nil {
			return fmt.Errorf("item %d, of %s: %w", i, inst.Apps[it.App].Name, err)
		}
	}
	for a := range s.cap {
		s.cap[a] = max(1, int32(math.Floor(opt.AppShare*float64(s.cap[a])+1e-9)))
		if opt.Caps != nil {
			s.cap[a] = min(s.cap[a], opt.Caps[a])
		}
	}
	s.compile()
	return nil
}

// stand books an item on its first machine.
func (s *search) stand(i int32) error {
	it := &s.items[i]
	m := int32(-1)
	if int(it.Line) < len(s.inst.Machines) {
		m = s.state.MachineAt(it.Line, it.Index)
	}
	if m < 0 {
		return fmt.Errorf("there is no machine %d of line %d", it.Index, it.Line)
	}
	if err := s.state.PlaceAs(it.App, m, it.Devices); err != nil {
		return fmt.Errorf("machine %d of %s has no room: %w", it.Index, s.inst.Machines[it.Line].Name, err)
	}
	s.origin[i], s.at[i] = m, m
	s.devices[i] = slices.Clone(it.Devices)
	return nil
}

func (s *search) compile() {
	n := s.state.Size()
	s.usable, s.emptied, s.on, s.load = make([]bool, n), make([]bool, n), make([][]int32, n), make([]load, n)
	for m := range int32(n) {
		s.machines = append(s.machines, m)
	}
	for i, m := range s.at {
		if m >= 0 {
			s.on[m] = append(s.on[m], int32(i))
			s.count(int32(i), m, 1)
		}
	}
	most := make([]float64, len(s.inst.Dimensions))
	for _, k := range s.state.Kinds() {
		for d, c := range k.Capacity {
			most[d] = max(most[d], float64(c))
		}
	}
	for d, dim := range s.inst.Dimensions {
		s.slow = s.slow || dim.Device
		s.tight = append(s.tight, d)
		column := make([]int64, len(s.inst.Apps))
		for a := range s.inst.Apps {
			column[a] = s.inst.Apps[a].Demand[d]
		}
		s.need = append(s.need, column)
	}
	for _, app := range s.inst.Apps {
		size := 1e-9
		for d, need := range app.Demand {
			if most[d] > 0 {
				size = max(size, float64(need)/most[d])
			}
		}
		s.size = append(s.size, size)
	}
	s.counts = make([]int32, len(s.inst.Groups))
	s.into, s.out = make([][]binpack.Rule, len(s.inst.Groups)), make([][]binpack.Rule, len(s.inst.Groups))
	for _, r := range s.inst.Rules {
		s.into[r.B], s.out[r.A] = append(s.into[r.B], r), append(s.out[r.A], r)
	}
	s.sortDimensions()
}

// sortDimensions puts the dimensions first of which the machines in use have the least
// left: they refuse most.
func (s *search) sortDimensions() {
	free := make([]float64, len(s.tight))
	for d := range free {
		have, left := 1e-9, 0.0
		for _, m := range s.machines {
			if s.state.Items(m) > 0 {
				have += float64(s.state.Capacity(m)[d])
				left += float64(s.state.Free(d)[m])
			}
		}
		free[d] = left / have
	}
	slices.SortFunc(s.tight, func(a, b int) int { return cmp.Or(cmp.Compare(free[a], free[b]), cmp.Compare(a, b)) })
}

func (s *search) app(i int32) *binpack.App { return &s.inst.Apps[s.items[i].App] }

// mark begins an attempt that undo can take back.
func (s *search) mark() {
	s.touched = s.touched[:0]
	s.spentAtMark, s.paidWas = s.spent, s.paid
	s.sequenceWas = append(s.sequenceWas[:0], s.sequence...)
}

// touch remembers an item's machine at the mark.
func (s *search) touch(i int32) {
	if s.stamp[i] != s.attempts {
		s.stamp[i] = s.attempts
		s.touched = append(s.touched, i)
		s.before[i], s.beforeUsed[i] = s.at[i], s.devices[i]
	}
}

// lift takes an item off its machine.
func (s *search) lift(i int32) {
	m := s.at[i]
	s.touch(i)
	s.state.Remove(s.items[i].App, m, s.devices[i])
	list := s.on[m]
	at := slices.Index(list, i)
	s.on[m] = slices.Delete(list, at, at+1)
	if m == s.origin[i] {
		s.spent += s.items[i].Price
		s.moved[s.items[i].App]++
	}
	s.count(i, m, -1)
	s.at[i], s.devices[i] = -1, nil
}

// put places an item on a machine that takes it.
func (s *search) put(i, m int32) {
	s.touch(i)
	used := s.state.Place(binpack.Item{App: s.items[i].App, Serial: uint64(i)}, m, nil)
	s.landed(i, m, slices.Clone(used))
}

func (s *search) landed(i, m int32, used []binpack.Device) {
	if s.ordered {
		s.on[m] = insertInto(s.on[m], i)
	} else {
		s.on[m] = append(s.on[m], i)
	}
	s.at[i], s.devices[i] = m, used
	s.count(i, m, 1)
	if m == s.origin[i] {
		s.spent -= s.items[i].Price
		s.moved[s.items[i].App]--
	}
}

// insertInto adds an item to an ascending list.
func insertInto(list []int32, i int32) []int32 {
	at, _ := slices.BinarySearch(list, i)
	return slices.Insert(list, at, i)
}

// rewind puts all items that the attempt touched back on their machines at the mark.
func (s *search) rewind() {
	for _, i := range s.touched {
		if s.at[i] >= 0 {
			s.lift(i)
		}
	}
	for _, i := range s.touched {
		m := s.before[i]
		if m < 0 {
			continue
		}
		if err := s.state.PlaceAs(s.items[i].App, m, s.beforeUsed[i]); err != nil {
			panic(fmt.Sprintf("moves: an item does not go back: %v", err))
		}
		s.landed(i, m, s.beforeUsed[i])
	}
}

// undo takes back all since the mark.
func (s *search) undo() {
	s.rewind()
	s.sequence = append(s.sequence[:0], s.sequenceWas...)
	s.paid = s.paidWas
}

// settle finds places for the items of the pool, the largest first, and reports whether
// it did, for at most limit more than the price at the mark.
func (s *search) settle(limit float64) bool {
	ejected := false
	s.stuck = false
	for steps := s.effort.steps + len(s.pool); len(s.pool) > 0; steps-- {
		if steps == 0 || s.spent-s.spentAtMark > limit+1e-9 {
			return false
		}
		at := 0
		for k, i := range s.pool {
			if s.size[s.items[i].App] > s.size[s.items[s.pool[at]].App] {
				at = k
			}
		}
		i := s.pool[at]
		s.pool = slices.Delete(s.pool, at, at+1)
		if s.insert(i) {
			continue
		}
		if s.pen[i]++; s.pen[i] == 1 {
			s.hard = append(s.hard, i)
		}
		if !s.eject(i) {
			s.pool, s.stuck = append(s.pool, i), !ejected
			return false
		}
		ejected = true
	}
	return s.spent-s.spentAtMark <= limit+1e-9
}

// insert puts an item on the machine that it leaves fullest and evenly full, if one has
// room: the least of mean free share − ½ · least free share.
func (s *search) insert(i int32) bool {
	app := s.app(i)
	s.buf = s.state.Feasible(s.items[i].App, s.buf[:0])
	best, least := int32(-1), math.Inf(1)
	for _, m := range s.buf {
		if !s.takes(m) {
			continue
		}
		mean, low, n := 0.0, 1.0, 0.0
		for d, c := range s.state.Capacity(m) {
			if c > 0 {
				share := float64(s.state.Free(d)[m]-app.Demand[d]) / float64(c)
				mean, low, n = mean+share, min(low, share), n+1
			}
		}
		score := mean/max(n, 1) - low/2
		if m == s.origin[i] {
			score -= home
		}
		if score < least {
			best, least = m, score
		}
	}
	if best < 0 {
		return false
	}
	s.put(i, best)
	return true
}

// takes reports whether items may land on a machine. An open fleet creates machines that the
// search does not include.
func (s *search) takes(m int32) bool { return int(m) < len(s.usable) && s.usable[m] }
