package rollout

import (
	"math"
	"math/bits"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

const (
	futureMachines = 64 // the most in a future: a word of bits
	futureApps     = 256
	sizeShareBits  = 20
	unlimitedCount = math.MaxUint8
)

// A future packs what may still come around what stands, as well as a few steps of
// search can. It respects amounts, limits and rules that exclude (max 0). A scorer
// reuses one future. Most of its work is to try and undo, so a packing is a few rows
// that are quick to copy.
type future struct {
	apps, dims int
	dimensions []int     // of the instance, those that can bind
	need       []int64   // [app*dims + d]
	size       []int64   // [app] largest share of a machine, 2⁻²⁰
	limit      []int32   // [app]
	excludes   [][]int32 // [app] apps
	row        []int32   // [app] of packing.count, -1 = at most one on a machine
	rows       int
	capacity   []int64 // [d] of a machine

	draws
	now, was packing
	machines int
	usable   uint64  // bits of the machines
	loose    []int32 // apps that may be moved
	late     []bool  // [app] had items waiting before the step
	queue    []waitingApp
	keys     []int64
}

type waitingApp struct {
	key int64
	app int32
}

// A packing is what stands where.
type packing struct {
	free  []int64  // [machine*dims + d]
	slack []int64  // [machine] size that is free
	on    []uint64 // [app] machines that hold it
	count []uint8  // [row*futureMachines + machine]
	left  []int32  // [app] items without a place
	out   int64    // Σ left·size
}

func (p *packing) copyFrom(q *packing) {
	copy(p.free, q.free)
	copy(p.slack, q.slack)
	copy(p.on, q.on)
	copy(p.count, q.count)
	copy(p.left, q.left)
	p.out = q.out
}

// newFuture compiles an instance of one kind of machine whose groups hold one
// app each.
func newFuture(s *binpack.State) *future {
	inst := s.Instance()
	n := len(inst.Apps)
	f := &future{
		apps: n, dimensions: bindingDimensions(s), excludes: make([][]int32, n),
		late: make([]bool, n), keys: make([]int64, 0, futureMachines),
	}
	f.dims = len(f.dimensions)
	for _, d := range f.dimensions {
		f.capacity = append(f.capacity, s.Kinds()[0].Capacity[d])
	}
	appOf := make([]int32, len(inst.Groups))
	for a, app := range inst.Apps {
		appOf[app.Group] = int32(a)
		top := 0.0
		for i, d := range f.dimensions {
			f.need = append(f.need, app.Demand[d])
			top = max(top, float64(app.Demand[d])/max(1, float64(f.capacity[i])))
		}
		f.size = append(f.size, max(1, int64(math.Round(top*(1<<sizeShareBits)))))
		limit := inst.Groups[app.Group].Limit
		if limit == 0 || limit > unlimitedCount {
			limit = unlimitedCount
		}
		f.limit = append(f.limit, limit)
		f.row = append(f.row, -1)
		if limit > 1 {
			f.row[a] = int32(f.rows)
			f.rows++
		}
	}
	for _, r := range inst.Rules {
		if a, b := appOf[r.A], appOf[r.B]; r.Max == 0 && !slices.Contains(f.excludes[a], b) {
			f.excludes[a] = append(f.excludes[a], b)
			f.excludes[b] = append(f.excludes[b], a)
		}
	}
	f.now, f.was = f.newPacking(), f.newPacking()
	return f
}

func (f *future) newPacking() packing {
	return packing{
		free: make([]int64, futureMachines*f.dims), slack: make([]int64, futureMachines),
		on: make([]uint64, f.apps), count: make([]uint8, f.rows*futureMachines), left: make([]int32, f.apps),
	}
}

// clear empties a packing.
func (f *future) clear(p *packing) {
	clear(p.on)
	clear(p.count)
	clear(p.left)
	p.out = 0
	for m := range futureMachines {
		p.slack[m] = 1 << sizeShareBits
		copy(p.free[m*f.dims:], f.capacity)
	}
}

// bindingDimensions leaves out a dimension if every app needs at least as large a
// share of the machine in some other one.
func bindingDimensions(s *binpack.State) (dims []int) {
	apps, capacity := s.Instance().Apps, s.Kinds()[0].Capacity
	implied := func(d, by int) bool {
		for _, app := range apps {
			x := float64(app.Demand[d]) * float64(capacity[by])
			y := float64(app.Demand[by]) * float64(capacity[d])
			if x > y || x == y && by > d { // of equal ones the first stays
				return false
			}
		}
		return true
	}
	for d := range capacity {
		binds := true
		for by := range capacity {
			binds = binds && (by == d || !implied(d, by))
		}
		if binds {
			dims = append(dims, d)
		}
	}
	return dims
}

// want adds n items of an app that wait for a place.
func (f *future) want(p *packing, a int32, n int32) {
	p.left[a] += n
	p.out += int64(n) * f.size[a]
}

func (f *future) fits(p *packing, a, m int) bool {
	for i := range f.dims {
		if f.need[a*f.dims+i] > p.free[m*f.dims+i] {
			return false
		}
	}
	return true
}

// put books n items of an app on a machine.
func (f *future) put(p *packing, a, m, n int) {
	for i := range f.dims {
		p.free[m*f.dims+i] -= int64(n) * f.need[a*f.dims+i]
	}
	p.slack[m] -= int64(n) * f.size[a]
	p.on[a] |= 1 << m
	if row := f.row[a]; row >= 0 {
		p.count[int(row)*futureMachines+m] += uint8(n)
	}
}

// holds is the number of items of an app on a machine.
func (f *future) holds(p *packing, a, m int) int {
	if row := f.row[a]; row >= 0 {
		return int(p.count[int(row)*futureMachines+m])
	}
	return int(p.on[a] >> m & 1)
}

// ruin takes the loose items off a machine; they wait for a place.
func (f *future) ruin(p *packing, m int) {
	for _, b := range f.loose {
		a := int(b)
		if p.on[a]>>m&1 == 0 {
			continue
		}
		n := f.holds(p, a, m)
		for i := range f.dims {
			p.free[m*f.dims+i] += int64(n) * f.need[a*f.dims+i]
		}
		p.slack[m] += int64(n) * f.size[a]
		p.on[a] &^= 1 << m
		if row := f.row[a]; row >= 0 {
			p.count[int(row)*futureMachines+m] = 0
		}
		f.want(p, b, int32(n))
	}
}

// The last bits of a key are the machine; before them stands what breaks ties.
const (
	keyMachine = 1<<6 - 1
	keyTie     = 10
	keyShift   = 16
)

// place finds places for the waiting items of an app: on the machines with most
// room, or with least.
func (f *future) place(p *packing, a int, tie uint64, least bool) {
	usable := f.usable
	for _, b := range f.excludes[a] {
		usable &^= p.on[b]
	}
	one := f.row[a] < 0
	if one {
		usable &^= p.on[a]
	}
	keys := f.keys[:0]
	for ; usable != 0; usable &= usable - 1 {
		m := bits.TrailingZeros64(usable)
		if !f.fits(p, a, m) || !one && int32(f.holds(p, a, m)) >= f.limit[a] {
			continue
		}
		room := p.slack[m]
		if least {
			room = 1<<(sizeShareBits+1) - room
		}
		draw := (uint64(m)*0x9e5 + tie) & (1<<keyTie - 1)
		keys = append(keys, room<<keyShift|int64(draw<<(keyShift-keyTie))|int64(m))
	}
	if one {
		n := min(int(p.left[a]), len(keys))
		largestFirst(keys, n)
		for _, k := range keys[:n] {
			f.put(p, a, int(k&keyMachine), 1)
		}
		f.want(p, int32(a), -int32(n))
		return
	}
	step := f.size[a] << keyShift
	if least {
		step = -step
	}
	for p.left[a] > 0 && len(keys) > 0 {
		at := 0
		for i, k := range keys {
			if k > keys[at] {
				at = i
			}
		}
		m := int(keys[at] & keyMachine)
		f.put(p, a, m, 1)
		f.want(p, int32(a), -1)
		keys[at] -= step
		if int32(f.holds(p, a, m)) >= f.limit[a] || !f.fits(p, a, m) {
			keys[at] = keys[len(keys)-1]
			keys = keys[:len(keys)-1]
		}
	}
}

// largestFirst moves the n largest keys to the front.
func largestFirst(keys []int64, n int) {
	if n == len(keys) || n == 0 {
		return
	}
	for i := 1; i < len(keys); i++ {
		k, j := keys[i], i
		if i >= n {
			if k <= keys[n-1] {
				continue
			}
			keys[i], j = keys[n-1], n-1
		}
		for ; j > 0 && keys[j-1] < k; j-- {
			keys[j] = keys[j-1]
		}
		keys[j] = k
	}
}

// fill places what waits, the hardest first but for noise. Apps are ordered by size ·
// (1 + machines that the limit asks for), more for each app that they exclude and
// for those left out before. What finds no place stays out.
func (f *future) fill(p *packing, late, least bool) {
	f.queue = f.queue[:0]
	r := f.draw()
	for _, a := range f.loose {
		n := p.left[a]
		if n == 0 {
			continue
		}
		need := int64(0)
		if f.limit[a] < unlimitedCount {
			need = int64((n + f.limit[a] - 1) / f.limit[a])
		}
		key := f.size[a]*(1+need) + 3*int64(len(f.excludes[a]))<<(sizeShareBits-4)
		if late && f.late[a] {
			key += 3 << (sizeShareBits - 4)
		}
		r = r*0x5851f42d4c957f2d + 0x14057b7ef767814f // Knuth's multiplier
		key = key >> 8 * int64(256+r>>40%103)         // times 1 … 1.4
		f.queue = append(f.queue, waitingApp{key, a})
	}
	for i := 1; i < len(f.queue); i++ {
		w, j := f.queue[i], i
		for ; j > 0 && f.queue[j-1].key < w.key; j-- {
			f.queue[j] = f.queue[j-1]
		}
		f.queue[j] = w
	}
	tie := f.draw()
	for _, w := range f.queue {
		f.place(p, int(w.app), tie, least)
	}
}

// search improves now by ruin and recreate (Schrimpf et al. 2000) until nothing is
// left out or the steps are used up. It mostly ruins machines that do not hold an
// app that is left out: those that hold it cannot take more of it.
func (f *future) search(steps int) {
	for range steps {
		if f.now.out == 0 {
			return
		}
		f.was.copyFrom(&f.now)
		out, seen := int32(-1), 0
		for _, a := range f.loose {
			f.late[a] = f.now.left[a] > 0
			if f.late[a] {
				if seen++; f.below(seen) == 0 {
					out = a
				}
			}
		}
		for range 3 + f.below(5) {
			m := f.below(f.machines)
			for try := 0; try < 12 && f.now.on[out]>>m&1 != 0; try++ {
				m = f.below(f.machines)
			}
			f.ruin(&f.now, m)
		}
		f.fill(&f.now, true, f.below(2) == 0)
		if f.now.out > f.was.out {
			f.now.copyFrom(&f.was)
		}
	}
}

// draws is a stream of random numbers (splitmix64: Steele, Lea and Flood 2014).
type draws struct{ state uint64 }

func (r *draws) draw() uint64 {
	r.state += 0x9e3779b97f4a7c15
	return rule.Mix(r.state)
}

func (r *draws) below(n int) int { return int(r.draw() >> 32 * uint64(n) >> 32) }

func (r *draws) uniform() float64 { return float64(r.draw()>>11) / (1 << 53) }
