package binpack

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// A Kind is a set of machines that are alike: equal type, capacity and cost.
type Kind struct {
	Type     int32
	Cost     float64
	Capacity []int64 // per dimension, in units
}

// An Entry says how many items of an app stand on a machine.
type Entry struct {
	App, Group, Count int32
}

// State is the situation of a fleet, stored by column: one slice per
// dimension, indexed by machine. A machine's index is given when it comes into
// being and never changes; its position, which orders machines, is the line of
// machines.csv and then the index within the line.
//
// In an open fleet the machines of a line come into being one by one: there is
// always one empty machine of each kind on offer until its lines are used up.
type State struct {
	inst  *Instance
	kinds []Kind

	// Per machine.
	free     [][]int64 // [dimension][machine]
	kind     []int32
	items    []int32 // items that stand on it
	contents [][]Entry
	version  []uint32  // changes with every change of the machine
	lastUsed []uint64  // placements made when it last took an item; 0 = never
	line     []int32   // of machines.csv
	index    []int32   // within the line
	byLine   [][]int32 // the machines of each line, by index
	devices  [][]int64

	// With many dimensions, by block of blockDims of them: the smallest free
	// amount of each machine and the largest demand of each app. A block whose
	// peak is no more than the least has room in all of its dimensions.
	least [][]int64 // [block][machine]; nil = not many
	peak  [][]int64 // [app][block]

	// offered has a bit for every machine that may be a candidate.
	offered []uint64
	// ordered: machine indices ascend with positions.
	ordered bool

	// blocked has for each app a row of words bits over machines: constraint
	// or type forbids one more item there. blockedBy is its transpose.
	blocked    []uint64
	words      int // of a row of blocked
	blockedBy  []uint64
	appWords   int // of a row of blockedBy
	groups     []groupInfo
	typeBlocks [][]uint64 // per machine type: bits of apps that must not use it; nil = none

	// Open fleets: per kind the lines left and the emptied machines.
	pools []pool

	classes classes

	// History.
	seen       []int64 // per app: items that arrived
	requests   []int64 // per app: requests that arrived
	sumSq      []int64 // per app: sum of squared request sizes
	alive      []int64 // per app: items that stand on a machine
	serial     uint64  // placements made
	departures uint64  // items removed
	machines   int     // that hold an item
	held       []int64 // per kind: machines that hold an item
	onGroup    []int32 // per group: machines that hold it

	// Known is what the policy may know beyond the past; the driver fills it.
	Known Known

	journal    []Change
	journalSeq uint64

	deviceDims  []int // dimensions that are devices
	maxDevices  []int // per deviceDims, over kinds
	lastReject  int
	asked       uint64      // calls of feasibleMany
	rejecting   []rejecting // all dimensions, those that reject most machines first
	candidates  []int32
	pending     []int32 // beside candidates: the class to search, -1 = none
	scores      []float64
	deviceOut   []int32
	totalAlive  int64
	requestsAll int64
	lastArrival int32
}

// Known is a policy's knowledge beyond the past. Slices have one value per
// app; nil means not known.
type Known struct {
	Expected []float64 // forecast of items alive at the same time; negative = not given
	Lifetime []float64 // mean seconds; negative = not given
	Total    []int64   // true number of items (with deletes: at the true peak)
	// Elapsed is the elapsed share of the arrival period, 0 … 1; negative
	// when there is no clock.
	Elapsed float64
}

type groupInfo struct {
	apps    []int32
	limit   int32
	spread  int32
	effects []Effect // what one more of this group may block
	into    []Rule   // rules (A, this, k)
	out     []Rule   // rules (this, B, k)
	simple  bool     // all effects happen with the first item
	capped  bool     // a rule (A, this, k > 0) limits the group beside A
}

// An Effect of a group on another: with at least Own items of the group and
// Others items of Other on a machine, Other is closed there.
type Effect struct {
	Other, Own, Others int32
}

// rejecting says how many machines a dimension rejected of late, of those that
// had passed the dimensions before it; 16 bits of fraction.
type rejecting struct {
	dimension int
	rejected  int64
}

// pool holds the machines of one kind that are not in use, for open fleets.
type pool struct {
	lines []int32 // lines of the kind, in file order
	line  int     // index into lines: those before have no machines left to come into being
	empty []int32 // machines that are empty, not on offer
	offer int32   // the machine on offer; -1 = none left
}

const journalSize = 1 << 12

const (
	blockDims = 16
	manyDims  = 3 * blockDims // from here on there are blocks
)

// NewState prepares the empty state of an instance. The instance must be
// valid: indices in range, one amount per dimension, no limited line in sight
// of Unlimited in a fixed fleet; readers of traces see to it.
func NewState(inst *Instance) *State {
	s := &State{inst: inst, lastReject: 0}
	nApps, nGroups := len(inst.Apps), len(inst.Groups)
	s.free = make([][]int64, len(inst.Dimensions))
	s.appWords = (nApps + 63) / 64
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
	s.seen = make([]int64, nApps)
	s.requests = make([]int64, nApps)
	s.sumSq = make([]int64, nApps)
	s.alive = make([]int64, nApps)
	s.onGroup = make([]int32, nGroups)
	s.held = make([]int64, len(s.kinds))
	s.byLine = make([][]int32, len(inst.Machines))
	s.journal = make([]Change, journalSize)
	s.journalSeq = journalSize + 1 // who asks from 0 is told that all is new; version 0 is never given
	s.Known.Elapsed = -1
	s.populate()
	return s
}

func (s *State) compileBlocks() {
	dims := len(s.inst.Dimensions)
	if dims < manyDims {
		return
	}
	s.least = make([][]int64, (dims+blockDims-1)/blockDims)
	s.peak = make([][]int64, len(s.inst.Apps))
	for a, app := range s.inst.Apps {
		for block := range slices.Chunk(app.Demand, blockDims) {
			s.peak[a] = append(s.peak[a], slices.Max(block))
		}
	}
}

// relieve brings the least free amounts of a machine up to date.
func (s *State) relieve(m int32) {
	for b := range s.least {
		least := int64(math.MaxInt64)
		for _, free := range s.free[b*blockDims : min((b+1)*blockDims, len(s.free))] {
			least = min(least, free[m])
		}
		s.least[b][m] = least
	}
}

func (s *State) compileRules() {
	for _, r := range s.inst.Rules {
		a, b := &s.groups[r.A], &s.groups[r.B]
		a.out = append(a.out, r)
		b.into = append(b.into, r)
		a.effects = addEffect(a.effects, Effect{r.B, 1, r.Max})
		b.effects = addEffect(b.effects, Effect{r.A, r.Max + 1, 0})
		if r.Max > 0 {
			b.capped = true
		}
	}
	for g := range s.groups {
		s.groups[g].simple = true
		for _, e := range s.groups[g].effects {
			if e.Own > 1 || e.Others > 0 {
				s.groups[g].simple = false
			}
		}
	}
}

func addEffect(list []Effect, e Effect) []Effect {
	if slices.Contains(list, e) {
		return list
	}
	return append(list, e)
}

func (s *State) compileTypes() {
	restricted := false
	for _, app := range s.inst.Apps {
		restricted = restricted || app.Types != nil
	}
	if !restricted {
		return
	}
	s.typeBlocks = make([][]uint64, len(s.inst.Types))
	for t := range s.typeBlocks {
		row := make([]uint64, s.appWords)
		for a, app := range s.inst.Apps {
			if app.Types == nil {
				continue
			}
			allowed := false
			for _, ok := range app.Types {
				allowed = allowed || int(ok) == t
			}
			if !allowed {
				row[a/64] |= 1 << (a % 64)
			}
		}
		s.typeBlocks[t] = row
	}
}

func (s *State) compileKinds() {
	for line, ml := range s.inst.Machines {
		k := s.kindOf(ml)
		s.pools[k].lines = append(s.pools[k].lines, int32(line))
		for i, d := range s.deviceDims {
			s.maxDevices[i] = max(s.maxDevices[i], int(ml.Capacity[d]/s.inst.Dimensions[d].One))
		}
	}
}

func (s *State) kindOf(ml MachineLine) int32 {
	for k, have := range slices.Backward(s.kinds) {
		if have.Type != ml.Type || have.Cost != ml.Cost {
			continue
		}
		same := true
		for d, c := range ml.Capacity {
			same = same && have.Capacity[d] == c
		}
		if same {
			return int32(k)
		}
	}
	s.kinds = append(s.kinds, Kind{Type: ml.Type, Cost: ml.Cost, Capacity: ml.Capacity})
	s.pools = append(s.pools, pool{offer: -1})
	return int32(len(s.kinds) - 1)
}

// populate brings the first machines into being: all of a fixed fleet, one of
// each kind of an open one.
func (s *State) populate() {
	s.ordered = true
	if s.inst.Fleet == Fixed {
		for line, ml := range s.inst.Machines {
			k := s.kindOf(ml)
			for i := range ml.Count {
				m := s.addMachine(k, int32(line), int32(i))
				s.offered[m/64] |= 1 << (m % 64)
			}
		}
		return
	}
	for k := range s.pools {
		s.pools[k].line = 0
		s.offerNext(int32(k))
	}
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
	s.kind, s.items, s.version, s.lastUsed = s.kind[:0], s.items[:0], s.version[:0], s.lastUsed[:0]
	s.line, s.index, s.devices = s.line[:0], s.index[:0], s.devices[:0]
	for line := range s.byLine {
		s.byLine[line] = s.byLine[line][:0]
	}
	s.contents = s.contents[:0]
	s.offered = s.offered[:0]
	clear(s.blocked)
	s.blockedBy = s.blockedBy[:0]
	for k := range s.pools {
		s.pools[k].empty, s.pools[k].offer = s.pools[k].empty[:0], -1
	}
	s.classes.forget()
	clear(s.seen)
	clear(s.requests)
	clear(s.sumSq)
	clear(s.alive)
	clear(s.held)
	clear(s.onGroup)
	s.serial, s.machines, s.totalAlive, s.requestsAll = 0, 0, 0, 0
	s.departures = 0
	// Versions stay unique, and those who follow the journal see that all is new.
	s.journalSeq += journalSize + 1
	s.Known = Known{Elapsed: -1}
	s.populate()
}

// upcoming is the first line of a kind with machines still to come into being,
// -1 when there is none.
func (s *State) upcoming(p *pool) int32 {
	for ; p.line < len(p.lines); p.line++ {
		line := p.lines[p.line]
		if count := s.inst.Machines[line].Count; count == Unlimited || len(s.byLine[line]) < count {
			return line
		}
	}
	return -1
}

// offerNext puts the lowest unused machine of a kind on offer.
func (s *State) offerNext(k int32) {
	p := &s.pools[k]
	best := -1
	for i, m := range p.empty {
		if best < 0 || s.before(m, p.empty[best]) {
			best = i
		}
	}
	line := s.upcoming(p)
	switch {
	case best >= 0 && (line < 0 || s.line[p.empty[best]] <= line):
		p.offer = p.empty[best]
		p.empty[best] = p.empty[len(p.empty)-1]
		p.empty = p.empty[:len(p.empty)-1]
	case line >= 0:
		p.offer = s.addMachine(k, line, int32(len(s.byLine[line])))
	default:
		p.offer = -1
		return
	}
	s.offered[p.offer/64] |= 1 << (p.offer % 64)
	s.touchClass(p.offer)
	s.note(p.offer, -1)
}

func (s *State) addMachine(k, line, index int32) int32 {
	m := int32(len(s.kind))
	kind := &s.kinds[k]
	if m > 0 && s.ordered {
		last := m - 1
		s.ordered = s.line[last] < line || s.line[last] == line && s.index[last] < index
	}
	for d := range s.free {
		s.free[d] = append(s.free[d], kind.Capacity[d])
	}
	for b := range s.least {
		s.least[b] = append(s.least[b], 0)
	}
	s.relieve(m)
	s.kind = append(s.kind, k)
	s.items = append(s.items, 0)
	if len(s.contents) < cap(s.contents) { // reuse the list that stood here before a Reset
		s.contents = s.contents[:m+1]
	} else {
		s.contents = append(s.contents, make([]Entry, 0, 8))
	}
	s.version = append(s.version, uint32(s.journalSeq))
	s.lastUsed = append(s.lastUsed, 0)
	s.byLine[line] = append(s.byLine[line], m)
	s.line = append(s.line, line)
	s.index = append(s.index, index)
	if len(s.deviceDims) > 0 {
		s.devices = append(s.devices, s.newDevices(kind))
	}
	if int(m)/64 >= len(s.offered) {
		s.offered = append(s.offered, 0)
		if len(s.offered) > s.words {
			s.growRows(max(4, 2*s.words))
		}
	}
	if s.typeBlocks == nil {
		for range s.appWords {
			s.blockedBy = append(s.blockedBy, 0)
		}
		return m
	}
	row := s.typeBlocks[kind.Type]
	s.blockedBy = append(s.blockedBy, row...)
	for w, word := range row {
		for ; word != 0; word &= word - 1 {
			a := w*64 + bits.TrailingZeros64(word)
			s.blocked[a*s.words+int(m)/64] |= 1 << (m % 64)
		}
	}
	return m
}

func (s *State) newDevices(kind *Kind) []int64 {
	total := 0
	for _, n := range s.maxDevices {
		total += n
	}
	shares := make([]int64, total)
	at := 0
	for i, d := range s.deviceDims {
		one := s.inst.Dimensions[d].One
		for j := range int(kind.Capacity[d] / one) {
			shares[at+j] = one
		}
		at += s.maxDevices[i]
	}
	return shares
}

func (s *State) growRows(words int) {
	rows := make([]uint64, len(s.inst.Apps)*words)
	for a := range s.inst.Apps {
		copy(rows[a*words:], s.blocked[a*s.words:(a+1)*s.words])
	}
	s.blocked, s.words = rows, words
}

// before reports whether machine a has a lower position than machine b.
func (s *State) before(a, b int32) bool {
	if s.ordered {
		return a < b
	}
	return s.line[a] < s.line[b] || s.line[a] == s.line[b] && s.index[a] < s.index[b]
}

// A Change says that a machine changed because an item of App came or went;
// App is -1 when the machine only came on offer or left it.
type Change struct {
	Machine, App int32
}

// note records that a machine changed, for those who follow the journal.
func (s *State) note(m, app int32) {
	s.journal[s.journalSeq%journalSize] = Change{m, app}
	s.journalSeq++
	s.version[m] = uint32(s.journalSeq)
}

// Changes appends to buf the changes since the journal number seq and returns
// the number to ask with next time. all is true, and nothing appended, when the
// journal does not reach back that far: everything may have changed.
func (s *State) Changes(seq uint64, buf []Change) (changes []Change, next uint64, all bool) {
	if s.journalSeq-seq > journalSize {
		return buf, s.journalSeq, true
	}
	for ; seq < s.journalSeq; seq++ {
		buf = append(buf, s.journal[seq%journalSize])
	}
	return buf, s.journalSeq, false
}

// Instance is the problem.
func (s *State) Instance() *Instance { return s.inst }

// Size is the number of machines that have come into being.
func (s *State) Size() int { return len(s.kind) }

// Free is the column of free amounts of a dimension, by machine. Read only.
func (s *State) Free(dimension int) []int64 { return s.free[dimension] }

// Kinds lists the kinds of machines. Read only.
func (s *State) Kinds() []Kind { return s.kinds }

// KindOf is the kind of a machine.
func (s *State) KindOf(m int32) int32 { return s.kind[m] }

// Capacity of a machine per dimension, in units. Read only.
func (s *State) Capacity(m int32) []int64 { return s.kinds[s.kind[m]].Capacity }

// Items is the number of items on a machine.
func (s *State) Items(m int32) int32 { return s.items[m] }

// Contents lists what stands on a machine, in no order. Read only.
func (s *State) Contents(m int32) []Entry { return s.contents[m] }

// Version changes with every change of a machine, and no two contents of a
// machine have the same one, not even before and after a Reset; it is never 0.
func (s *State) Version(m int32) uint32 { return s.version[m] }

// LastUsed is the number of placements that had been made when the machine
// last took an item, that one included; 0 = it never did.
func (s *State) LastUsed(m int32) uint64 { return s.lastUsed[m] }

// Position gives the line of machines.csv and the index within it; machines
// are ordered by the two.
func (s *State) Position(m int32) (line, index int32) { return s.line[m], s.index[m] }

// Rank is a number that orders machines as their positions do.
func (s *State) Rank(m int32) float64 {
	return float64(s.line[m])*(1<<31) + float64(s.index[m])
}

// Placements is the number of placements made so far.
func (s *State) Placements() uint64 { return s.serial }

// Departures is the number of items removed so far.
func (s *State) Departures() uint64 { return s.departures }

// Active is the number of machines that hold an item.
func (s *State) Active() int { return s.machines }

// Held is the number of machines that hold an item, per kind. Read only.
func (s *State) Held() []int64 { return s.held }

// Seen is the number of items that arrived, per app. Read only.
func (s *State) Seen() []int64 { return s.seen }

// Requests is the number of requests that arrived, per app. Read only.
func (s *State) Requests() []int64 { return s.requests }

// SumSquares is the sum of squared request sizes, per app. Read only.
func (s *State) SumSquares() []int64 { return s.sumSq }

// LastArrival is the app of the latest request.
func (s *State) LastArrival() int32 { return s.lastArrival }

// RequestCount is the number of requests that arrived.
func (s *State) RequestCount() int64 { return s.requestsAll }

// Alive is the number of items that stand on machines, per app. Read only.
func (s *State) Alive() []int64 { return s.alive }

// AliveTotal is the number of items that stand on machines.
func (s *State) AliveTotal() int64 { return s.totalAlive }

// Spread is the number of machines that hold a group.
func (s *State) Spread(group int32) int32 { return s.onGroup[group] }

// Offered is a bitset of the machines that may be candidates: all of a fixed
// fleet; those that hold an item and one empty machine of each kind of an open
// one. Read only.
func (s *State) Offered() []uint64 { return s.offered }

// Blocked is a bitset of the machines that a constraint or their type closes
// to an app. Capacity, devices and spread are not part of it. Read only.
func (s *State) Blocked(app int32) []uint64 {
	row := int(app) * s.words
	return s.blocked[row : row+len(s.offered)]
}

// BlockedApps is a bitset of the apps that a constraint or its type closes a
// machine to: the transpose of Blocked. Read only.
func (s *State) BlockedApps(m int32) []uint64 {
	row := int(m) * s.appWords
	return s.blockedBy[row : row+s.appWords]
}

// Effects lists what items of a group may close machines to. Read only.
func (s *State) Effects(group int32) []Effect { return s.groups[group].effects }

// Count is the number of items of a group on a machine.
func (s *State) Count(group, m int32) int32 {
	n := int32(0)
	for _, e := range s.contents[m] {
		if e.Group == group {
			n += e.Count
		}
	}
	return n
}

// Arrive records that a request for count items of an app has arrived. Drivers
// call it before the request's first item is placed.
func (s *State) Arrive(app, count int32) {
	s.lastArrival = app
	s.seen[app] += int64(count)
	s.requests[app]++
	s.sumSq[app] += int64(count) * int64(count)
	s.requestsAll++
}

// Fits reports whether a machine takes one more item of an app, whether it is
// on offer or not.
func (s *State) Fits(app, m int32) bool {
	if s.blocked[int(app)*s.words+int(m)/64]>>(m%64)&1 != 0 {
		return false
	}
	return s.hasRoom(&s.inst.Apps[app], m) && s.spreadAllows(app, m)
}

func (s *State) spreadAllows(app, m int32) bool {
	g := s.inst.Apps[app].Group
	spread := s.groups[g].spread
	return spread <= 1 || s.onGroup[g] >= spread || s.Count(g, m) == 0
}

func (s *State) hasRoom(app *App, m int32) bool {
	if app.Demand[s.lastReject] > s.free[s.lastReject][m] {
		return false
	}
	for d, need := range app.Demand {
		if need > s.free[d][m] {
			s.lastReject = d
			return false
		}
	}
	return len(s.deviceDims) == 0 || s.devicesFit(app, m)
}

func (s *State) devicesFit(app *App, m int32) bool {
	at := 0
	for i, d := range s.deviceDims {
		shares := s.devices[m][at : at+s.maxDevices[i]]
		at += s.maxDevices[i]
		need, one := app.Demand[d], s.inst.Dimensions[d].One
		if need == 0 {
			continue
		}
		left := need / one
		if need < one {
			left = 1
		}
		for _, share := range shares {
			if share >= min(need, one) {
				left--
			}
		}
		if left > 0 {
			return false
		}
	}
	return true
}

// Feasible appends to buf the machines on offer that take one more item of an
// app, by ascending index.
func (s *State) Feasible(app int32, buf []int32) []int32 {
	a := &s.inst.Apps[app]
	blocked := s.Blocked(app)
	narrow := s.narrow(a.Group)
	plain := len(s.deviceDims) == 0
	if plain && !narrow && len(a.Demand) <= 2 {
		return s.feasibleTwo(a, blocked, buf)
	}
	if plain && !narrow {
		return s.feasibleMany(app, blocked, buf)
	}
	for w, word := range s.offered {
		for word &^= blocked[w]; word != 0; word &= word - 1 {
			m := int32(w*64 + bits.TrailingZeros64(word))
			if s.hasRoom(a, m) && (!narrow || s.Count(a.Group, m) == 0) {
				buf = append(buf, m)
			}
		}
	}
	return buf
}

// feasibleTwo is Feasible for one or two dimensions, the common case.
func (s *State) feasibleTwo(a *App, blocked []uint64, buf []int32) []int32 {
	free0, need0 := s.free[0], a.Demand[0]
	free1, need1 := free0, need0
	if len(a.Demand) == 2 {
		free1, need1 = s.free[1], a.Demand[1]
	}
	for w, word := range s.offered {
		for word &^= blocked[w]; word != 0; word &= word - 1 {
			m := w*64 + bits.TrailingZeros64(word)
			if need0 <= free0[m] && need1 <= free1[m] {
				buf = append(buf, int32(m))
			}
		}
	}
	return buf
}

// columnsFirst is how many columns the machines pass one by one, where the rest
// can go by blocks.
const columnsFirst = 24

// askAll: so often all columns are gone down, to see which reject most.
const askAll = 32

// feasibleMany is Feasible for many dimensions: the machines pass the columns
// one after the other, and those that have rejected most come first, so that few
// machines meet more than the first columns. Going down a column is also what
// the memory is laid out for (3.7x on tianchi-prelim-b with 200 dimensions). Few
// are left then, and most of these have room: the other columns are asked by
// block (another 1.3x).
func (s *State) feasibleMany(app int32, blocked []uint64, buf []int32) []int32 {
	demand, start := s.inst.Apps[app].Demand, len(buf)
	s.asked++
	all := s.least == nil || s.asked%askAll == 0
	n, met := start, 0
	first := s.rejecting[0].dimension
	for w, word := range s.offered { // the first column on the way
		if word &^= blocked[w]; word == 0 {
			continue
		}
		met += bits.OnesCount64(word)
		buf = slices.Grow(buf[:n], 64)[:n+64]
		for free, need := s.free[first], demand[first]; word != 0; word &= word - 1 {
			m := w*64 + bits.TrailingZeros64(word)
			buf[n] = int32(m)
			// Kept when the difference is not negative; no branch to predict.
			n += int(1 - uint64(free[m]-need)>>63)
		}
	}
	buf = buf[:n]
	s.rejected(0, met-(n-start))
	for at := 1; at < len(s.rejecting) && n > start; at++ {
		if at == columnsFirst && !all {
			return s.passBlocks(app, buf, start)
		}
		d := s.rejecting[at].dimension
		free, need := s.free[d], demand[d]
		n = start
		for _, m := range buf[start:] {
			buf[n] = m
			n += int(1 - uint64(free[m]-need)>>63)
		}
		s.rejected(at, len(buf)-n)
		buf = buf[:n]
	}
	return buf
}

// rejected notes how many machines the dimension at an index of the order has
// rejected, and lets it move up.
func (s *State) rejected(at, machines int) {
	order := s.rejecting
	order[at].rejected += (int64(machines)<<16 - order[at].rejected) >> 4
	if at > 0 && order[at].rejected > order[at-1].rejected {
		order[at-1], order[at] = order[at], order[at-1]
	}
}

// passBlocks removes the machines without room from buf[start:].
func (s *State) passBlocks(app int32, buf []int32, start int) []int32 {
	demand := s.inst.Apps[app].Demand
	for b, peak := range s.peak[app] {
		least, n := s.least[b], start
		for _, m := range buf[start:] {
			buf[n] = m
			if peak <= least[m] || s.blockHasRoom(demand, b, m) {
				n++
			}
		}
		buf = buf[:n]
	}
	return buf
}

func (s *State) blockHasRoom(demand []int64, b int, m int32) bool {
	for d := b * blockDims; d < min((b+1)*blockDims, len(demand)); d++ {
		if demand[d] > s.free[d][m] {
			return false
		}
	}
	return true
}

// Place puts an item on a machine that takes it and returns the devices it
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

// A Device is one device of a machine.
type Device struct {
	Dimension, Index int32
}

// PlaceAs puts an item on a machine as it was found there, with its devices,
// whether constraints allow it or not. It reports an error when capacity or a
// device does not hold it.
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

// giveBack returns an app's shares of devices.
func (s *State) giveBack(a *App, m int32, devices []Device) {
	for _, dev := range devices {
		*s.share(m, dev) += min(a.Demand[dev.Dimension], s.inst.Dimensions[dev.Dimension].One)
	}
}

// share is the free share of a device, nil when there is no such device.
func (s *State) share(m int32, dev Device) *int64 {
	at := 0
	for i, d := range s.deviceDims {
		if d == int(dev.Dimension) {
			if dev.Index < 0 || int(dev.Index) >= s.maxDevices[i] {
				return nil
			}
			return &s.devices[m][at+int(dev.Index)]
		}
		at += s.maxDevices[i]
	}
	return nil
}

// Devices gives the free share of each device of a machine in a device
// dimension, in units. Read only.
func (s *State) Devices(m int32, dimension int) []int64 {
	at := 0
	for i, d := range s.deviceDims {
		if d == dimension {
			n := int(s.Capacity(m)[d] / s.inst.Dimensions[d].One)
			return s.devices[m][at : at+n]
		}
		at += s.maxDevices[i]
	}
	return nil
}

func (s *State) takeDevices(item Item, app *App, m int32, chooser DeviceChooser) []Device {
	var used []Device
	for _, d := range s.deviceDims {
		need, one := app.Demand[d], s.inst.Dimensions[d].One
		if need == 0 {
			continue
		}
		free := s.Devices(m, d)
		s.deviceOut = s.deviceOut[:0]
		if chooser != nil {
			s.deviceOut = chooser.ChooseDevices(item, m, d, free, s.deviceOut)
		} else {
			s.deviceOut = smallestDevices(free, need, one, s.deviceOut)
		}
		for _, i := range s.deviceOut {
			if free[i] < min(need, one) {
				panic(fmt.Sprintf("binpack: device %d of machine %d has %d free, %d needed", i, m, free[i], min(need, one)))
			}
			free[i] -= min(need, one)
			used = append(used, Device{int32(d), i})
		}
		if want := max(1, need/one); int64(len(s.deviceOut)) != want {
			panic(fmt.Sprintf("binpack: %d devices chosen, %d needed", len(s.deviceOut), want))
		}
	}
	return used
}

// smallestDevices takes the smallest sufficient free shares, lowest index first.
func smallestDevices(free []int64, need, one int64, out []int32) []int32 {
	if need >= one {
		for i, share := range free {
			if share == one && int64(len(out)) < need/one {
				out = append(out, int32(i))
			}
		}
		return out
	}
	best := -1
	for i, share := range free {
		if share >= need && (best < 0 || share < free[best]) {
			best = i
		}
	}
	if best >= 0 {
		out = append(out, int32(best))
	}
	return out
}

// put books an item on a machine.
func (s *State) put(app, m int32) {
	a := &s.inst.Apps[app]
	for d, need := range a.Demand {
		s.free[d][m] -= need
	}
	s.relieve(m)
	count := s.addEntry(app, a.Group, m)
	if count == 1 {
		s.onGroup[a.Group]++
	}
	s.close(a.Group, m, count)
	s.items[m]++
	s.serial++
	s.lastUsed[m] = s.serial
	s.alive[app]++
	s.totalAlive++
	if s.items[m] == 1 {
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

// employ takes an empty machine of an open fleet into use.
func (s *State) employ(m int32) {
	s.offered[m/64] |= 1 << (m % 64)
	p := &s.pools[s.kind[m]]
	if p.offer == m {
		s.offerNext(s.kind[m])
		return
	}
	for i, e := range p.empty {
		if e == m {
			p.empty[i] = p.empty[len(p.empty)-1]
			p.empty = p.empty[:len(p.empty)-1]
			return
		}
	}
}

// MachineAt gives the machine with an index within a line of machines.csv,
// bringing it into being if it is not there yet; -1 when the line has no such
// machine.
func (s *State) MachineAt(line, index int32) int32 {
	if count := s.inst.Machines[line].Count; index < 0 || count != Unlimited && int(index) >= count {
		return -1
	}
	for int(index) >= len(s.byLine[line]) {
		k := s.kindOf(s.inst.Machines[line])
		m := s.addMachine(k, line, int32(len(s.byLine[line])))
		s.pools[k].empty = append(s.pools[k].empty, m)
	}
	return s.byLine[line][index]
}

// addEntry counts one more item of the app and returns the count of its group.
func (s *State) addEntry(app, group, m int32) int32 {
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

// close updates what machine m is blocked for after the count-th item of a
// group has come.
func (s *State) close(group, m, count int32) {
	gi := &s.groups[group]
	if gi.limit > 0 && count >= gi.limit || gi.capped && s.groupBlocked(group, m) {
		s.setBlocked(gi, m)
	}
	if gi.simple && count > 1 {
		return
	}
	for _, e := range gi.effects {
		if count >= e.Own && (e.Others == 0 || s.Count(e.Other, m) >= e.Others) {
			s.setBlocked(&s.groups[e.Other], m)
		}
	}
}

func (s *State) setBlocked(gi *groupInfo, m int32) {
	for _, a := range gi.apps {
		s.blocked[int(a)*s.words+int(m)/64] |= 1 << (m % 64)
		s.blockedBy[int(m)*s.appWords+int(a)/64] |= 1 << (a % 64)
	}
}

// refreshBlocked computes anew whether a group is blocked on a machine.
func (s *State) refreshBlocked(group, m int32) {
	gi := &s.groups[group]
	if s.groupBlocked(group, m) {
		s.setBlocked(gi, m)
		return
	}
	for _, a := range gi.apps {
		if s.typeBlocks != nil && s.typeBlocks[s.kinds[s.kind[m]].Type][a/64]>>(a%64)&1 != 0 {
			continue
		}
		s.blocked[int(a)*s.words+int(m)/64] &^= 1 << (m % 64)
		s.blockedBy[int(m)*s.appWords+int(a)/64] &^= 1 << (a % 64)
	}
}

// groupBlocked reports whether limit or rules forbid one more of a group.
func (s *State) groupBlocked(group, m int32) bool {
	gi := &s.groups[group]
	count := s.Count(group, m)
	if gi.limit > 0 && count >= gi.limit {
		return true
	}
	for _, r := range gi.into {
		if count >= r.Max && s.Count(r.A, m) > 0 {
			return true
		}
	}
	for _, r := range gi.out {
		if s.Count(r.B, m) > r.Max {
			return true
		}
	}
	return false
}

// Remove takes an item with its devices off a machine that holds it.
func (s *State) Remove(app, m int32, devices []Device) {
	a := &s.inst.Apps[app]
	s.dropEntry(app, m)
	for d, need := range a.Demand {
		s.free[d][m] += need
	}
	s.relieve(m)
	s.giveBack(a, m, devices)
	if s.Count(a.Group, m) == 0 {
		s.onGroup[a.Group]--
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

func (s *State) dropEntry(app, m int32) {
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

// retire gives an emptied machine of an open fleet back: the lowest position
// of the kind is on offer, the others wait.
func (s *State) retire(m int32) {
	p := &s.pools[s.kind[m]]
	if p.offer < 0 {
		p.offer = m
		return
	}
	back := m
	if s.before(m, p.offer) {
		back, p.offer = p.offer, m
	}
	p.empty = append(p.empty, back)
	s.offered[back/64] &^= 1 << (back % 64)
	if back != m {
		s.touchClass(back)
		s.note(back, -1)
	}
}

// Choose returns the machine that the scorer ranks first for an item among all
// that take it; equal scores go to the lowest position. The error is ErrNoFit
// or ErrNotFinite.
func (s *State) Choose(scorer Scorer, item Item) (int32, error) {
	s.candidates, s.pending = s.contenders(scorer, item, s.candidates[:0], s.pending[:0])
	n := len(s.candidates)
	if n == 0 {
		return -1, ErrNoFit
	}
	if cap(s.scores) < n {
		s.scores = make([]float64, n+n/2+64)
	}
	out := s.scores[:n]
	scorer.Score(item, s.candidates, out)
	best, most := -1, math.Inf(-1)
	for i, score := range out {
		if score-score != 0 { // NaN or an infinity
			return -1, ErrNotFinite
		}
		if score < most || len(s.pending) > 0 && s.pending[i] >= 0 {
			continue
		}
		if score > most || s.before(s.candidates[i], s.candidates[best]) {
			best, most = i, score
		}
	}
	// A class that was scored by a machine that does not take the item: no score
	// rises with the position, so that was the most the class can reach.
	for i, class := range s.pending {
		if class >= 0 && s.ranks(i, best, out) && s.settle(scorer, item, i, out) && s.ranks(i, best, out) {
			best = i
		}
	}
	if best < 0 {
		return -1, ErrNoFit
	}
	return s.candidates[best], nil
}

// ranks reports whether candidate i comes before the best so far, -1 = none.
func (s *State) ranks(i, best int, out []float64) bool {
	return best < 0 || out[i] > out[best] || out[i] == out[best] && s.before(s.candidates[i], s.candidates[best])
}

// contenders appends to buf machines that take the item, among them the one that
// the scorer ranks first. Those that stand for a class are noted in pending, see
// representatives; it is empty when there are none.
func (s *State) contenders(scorer Scorer, item Item, buf, pending []int32) (machines, classes []int32) {
	switch scorer := scorer.(type) {
	case ClassScorer:
		if s.useClasses() {
			return s.representatives(item.App, buf, pending)
		}
	case Shortlister:
		if buf, known := scorer.Contenders(item, buf); known {
			return buf, pending
		}
	}
	return s.Feasible(item.App, buf), pending
}

// narrow reports whether the spread rule leaves a group only machines without it.
func (s *State) narrow(group int32) bool {
	spread := s.groups[group].spread
	return spread > 1 && s.onGroup[group] < spread
}
