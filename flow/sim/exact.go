package sim

import (
	"math"
	"math/bits"

	"github.com/sigma-scheduler/sigma/flow"
)

// tolerance is the least change of a port's level that is passed on, as a share of the port.
const tolerance = 1e-6

// Exact shares every port strictly by bands and max-min inside a band. Each port has a level
// for each band, and a flow's rate is the smaller of its two levels; a change is passed on to
// the ports whose flows it changes until levels hold, band after band with the rate left by
// those before.
func (f Fabric) Exact(flows []Flow, thresholds flow.Thresholds, fct []float64) {
	e := &exact{capacity: f.Rate / 8, flows: flows, bands: len(thresholds) + 1, thresholds: thresholds}
	e.ports = make([]portBand, 2*f.Hosts*e.bands)
	e.room = make([]float64, 2*f.Hosts*e.bands)
	for p := range 2 * f.Hosts {
		e.room[p*e.bands] = e.capacity
	}
	for i := range e.ports {
		e.ports[i].level = math.Inf(1)
	}
	e.deep = make([]uint32, 2*f.Hosts)
	e.run(f.Hosts, fct)
}

type exact struct {
	capacity   float64 // bytes per second of a port
	flows      []Flow
	thresholds flow.Thresholds
	bands      int

	ports  []portBand // by port and band
	room   []float64  // rate that the bands before leave of the port, the same
	active []going    // by slot
	free   []int32    // slots
	ends   minima     // when the flow of a slot leaves its band, at its present rate

	now  float64
	work [flow.MostBands][]int32 // ports to level again, by band
	deep []uint32                // by port, bands whose work has it
}

// A portBand has the flows of a band at a port.
type portBand struct {
	level float64
	used  float64
	slots []int32
}

// A going flow has bytes left in its band, as of a time. at are its places in the lists of its
// two ports.
type going struct {
	left, rate, since float64
	ports             [2]int32
	at                [2]int32
	id                int32
	band              int32
}

func (e *exact) run(hosts int, fct []float64) {
	for i := 0; ; {
		next := math.Inf(1)
		if i < len(e.flows) {
			next = e.flows[i].At
		}
		slot, end := e.ends.least()
		if end <= next {
			if math.IsInf(end, 1) {
				return
			}
			e.now = end
			a := &e.active[slot]
			id, b := a.id, int(a.band)
			e.remove(slot)
			if b == e.bands-1 || e.flows[id].Size <= float64(e.thresholds[b]) {
				fct[id] = end - e.flows[id].At
			} else {
				e.add(hosts, id, min(max(b+1, int(e.flows[id].Hint)), e.bands-1), float64(e.thresholds[b]))
			}
		} else {
			e.now = next
			e.add(hosts, int32(i), 0, 0)
			i++
		}
		e.settle()
	}
}

// add puts a flow into a band of its ports.
func (e *exact) add(hosts int, id int32, b int, sent float64) {
	size := e.flows[id].Size
	if b < e.bands-1 {
		size = min(size, float64(e.thresholds[b]))
	}
	slot := int32(len(e.active))
	if n := len(e.free); n > 0 {
		slot, e.free = e.free[n-1], e.free[:n-1]
	} else {
		e.active = append(e.active, going{})
		e.ends.grow()
	}
	a := &e.active[slot]
	*a = going{left: size - sent, since: e.now, id: id, band: int32(b)}
	a.ports = [2]int32{int32(e.flows[id].Src), int32(hosts) + int32(e.flows[id].Dst)}
	for k, p := range a.ports {
		list := &e.ports[int(p)*e.bands+b]
		a.at[k] = int32(len(list.slots))
		list.slots = append(list.slots, slot)
		e.touch(p, b)
	}
	e.ends.set(slot, math.Inf(1))
}

func (e *exact) remove(slot int32) {
	a := &e.active[slot]
	b := int(a.band)
	for k, p := range a.ports {
		list := &e.ports[int(p)*e.bands+b]
		last := list.slots[len(list.slots)-1]
		list.slots[a.at[k]] = last
		list.slots = list.slots[:len(list.slots)-1]
		o := &e.active[last]
		if o.ports[0] == p {
			o.at[0] = a.at[k]
		} else {
			o.at[1] = a.at[k]
		}
		e.touch(p, b)
		list.used -= a.rate
		if len(list.slots) == 0 {
			list.used = 0
		}
		e.leave(p, b)
	}
	e.ends.set(slot, math.Inf(1))
	e.free = append(e.free, slot)
}

// touch requests a new level of a port in a band.
func (e *exact) touch(p int32, b int) {
	if e.deep[p]&(1<<b) == 0 {
		e.deep[p] |= 1 << b
		e.work[b] = append(e.work[b], p)
	}
}

// leave sets the rate that a band leaves to the deeper ones that have flows.
func (e *exact) leave(p int32, b int) {
	at := int(p) * e.bands
	for ; b+1 < e.bands; b++ {
		room := max(0, e.room[at+b]-e.ports[at+b].used)
		if room < 1e-9*e.capacity {
			room = 0
		}
		if e.room[at+b+1] == room {
			return
		}
		e.room[at+b+1] = room
		if len(e.ports[at+b+1].slots) > 0 {
			e.touch(p, b+1)
			return // the deeper ones follow when this one is levelled
		}
	}
}

// settle levels the requested ports, band after band.
func (e *exact) settle() {
	for b := range e.bands {
		for k := 0; k < len(e.work[b]); k++ { //nolint:intrange // level makes it longer
			p := e.work[b][k]
			e.deep[p] &^= 1 << b
			e.level(p, b)
		}
		e.work[b] = e.work[b][:0]
	}
}

// level finds the level of a port at which its flows fill it, given the levels of their other
// ports, and passes changes of rates on.
func (e *exact) level(p int32, b int) {
	at := int(p)*e.bands + b
	list := &e.ports[at]
	if len(list.slots) == 0 {
		list.level = math.Inf(1)
		e.leave(p, b)
		return
	}
	old, level := list.level, e.fill(p, b)
	list.level = level
	changes := math.Abs(level-old) > tolerance*e.capacity || math.IsInf(old, 1) != math.IsInf(level, 1)
	used := 0.
	for _, slot := range list.slots {
		a := &e.active[slot]
		o := a.ports[0] ^ a.ports[1] ^ p
		other := e.ports[int(o)*e.bands+b].level
		rate := min(level, other)
		if math.IsInf(rate, 1) {
			rate = 0 // its other port has not been levelled yet
		}
		if rate != a.rate {
			e.set(slot, rate)
			e.ports[int(o)*e.bands+b].used += rate - a.rate
			a.rate = rate
			e.leave(o, b)
		}
		used += rate
		// The other port's own flows change where this one is, or was, held back here.
		if changes && min(level, old) <= other {
			e.touch(o, b)
		}
	}
	list.used = used
	e.leave(p, b)
}

// fill is the level of a port in a band: shares are even but for flows that their other ports hold
// back below.
func (e *exact) fill(p int32, b int) float64 {
	list := &e.ports[int(p)*e.bands+b]
	room := e.room[int(p)*e.bands+b]
	n := len(list.slots)
	level := room / float64(n)
	for {
		rest, count := room, n
		for _, slot := range list.slots {
			a := &e.active[slot]
			if other := e.ports[int(a.ports[0]^a.ports[1]^p)*e.bands+b].level; other < level {
				rest -= other
				count--
			}
		}
		if count == 0 {
			return math.Inf(1)
		}
		better := rest / float64(count)
		if better <= level*(1+1e-12) {
			return level
		}
		level = better
	}
}

// set gives a flow a rate from now on.
func (e *exact) set(slot int32, rate float64) {
	a := &e.active[slot]
	a.left = max(0, a.left-a.rate*(e.now-a.since))
	a.since = e.now
	end := math.Inf(1)
	if rate > 0 {
		end = e.now + a.left/rate
	}
	e.ends.set(slot, end)
}

// minima keeps the least of many numbers that change often: by blocks of 64, of which those
// that changed are read again.
type minima struct {
	values []float64
	blocks []float64
	stale  []uint64 // a bit for a block
}

func (m *minima) grow() {
	m.values = append(m.values, math.Inf(1))
	if n := len(m.values); (n-1)%64 == 0 {
		m.blocks = append(m.blocks, math.Inf(1))
		if (len(m.blocks)-1)%64 == 0 {
			m.stale = append(m.stale, 0)
		}
	}
}

func (m *minima) set(i int32, v float64) {
	m.values[i] = v
	m.stale[i>>12] |= 1 << (i >> 6 & 63)
}

// least returns the first of the least; -1 and +Inf if there is none.
func (m *minima) least() (at int32, value float64) {
	for w, word := range m.stale {
		for ; word != 0; word &= word - 1 {
			b := w*64 + bits.TrailingZeros64(word)
			least := math.Inf(1)
			for _, v := range m.values[b*64 : min(len(m.values), b*64+64)] {
				least = min(least, v)
			}
			m.blocks[b] = least
		}
		m.stale[w] = 0
	}
	block, value := -1, math.Inf(1)
	for b, v := range m.blocks {
		if v < value {
			block, value = b, v
		}
	}
	if block < 0 {
		return -1, value
	}
	for i := block * 64; ; i++ {
		if m.values[i] == value {
			return int32(i), value
		}
	}
}
