package plan

import (
	"context"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// sizeBits is the fixed point of sizes: a whole machine is about 2^sizeBits.
const sizeBits = 20

// planner is a packing under construction: a fleet, the placed items and the
// waiting ones. Items are added to machines one by one and removed all at once, so
// that no constraint has to be lifted item by item.
type planner struct {
	inst       *binpack.Instance
	kinds      []binpack.Kind
	kindOfLine []int32
	stock      []int   // per kind: machines that may still be opened
	price      []int64 // per kind: its cost, in 1/1000 of the least or finer
	rng        *rand.Rand

	// Per app.
	size     []int64 // Σ over dimensions of the share of a machine, by scarcity
	hard     []int64 // how hard it is to place; the hardest are placed first
	left     []int64 // items that wait
	hopeless []int64 // items that fit no machine
	waitAt   []int32 // index in waiting, -1
	waiting  []int32 // apps with items that wait
	takes    [][]bool

	// Per group.
	members [][]int32 // apps
	out     [][]binpack.Rule
	into    [][]binpack.Rule
	onGroup []int32    // machines that hold it
	zones   *planZones // nil = no zone binds

	// Per machine; closed ones have kind -1.
	kind      []int32
	free      [][]int64 // [dimension][machine]
	slack     []int64   // size that is free
	on        [][]binpack.Entry
	standing  [][]binpack.Entry
	blocked   []uint64 // [app*words + w] bits of machines closed to the app
	roomy     []uint64 // bits of machines with room for the least demand
	words     int
	least     []int64 // per dimension: the smallest demand
	capacity  [][]int64
	kindSlack []int64

	deviceDims []int           // dimensions of devices
	shared     []int           // those of them that items take shares of
	taken      [][]takenDevice // per machine: by its standing items
	loads      []deviceLoad    // of packDevices
	rest       []int64

	leftVolume int64 // Σ left·size
	spent      int64 // Σ price of the machines that are open
	best       bool  // this step fills the fullest machine first

	// The step in progress, to be undone.
	stamp   []uint32
	step    uint32
	saved   []savedMachine
	entries []binpack.Entry
	order   []ranked
	late    []bool // per app: had items waiting before the step
	try     []int32
	tried   []uint32 // per app: the step that tries it

	enough float64 // no packing costs less
	budget int     // steps that are left
	halted bool    // no more steps

	gains           [ways]int // steps of each way that left less out than before
	chosen, fullest []int32   // of fillUp
	watch           *watch
}

type ranked struct {
	key int64
	app int32
}

// newPlanner returns a planner with the standing items. Zones may be nil.
func newPlanner(inst *binpack.Instance, items []int64, standing []Machine, zones *planZones) *planner {
	n := len(inst.Apps)
	p := &planner{
		inst: inst, rng: rand.New(rand.NewPCG(0, 0)),
		size: make([]int64, n), hard: make([]int64, n), left: make([]int64, n), hopeless: hopeless(inst, items),
		waitAt: make([]int32, n), late: make([]bool, n), tried: make([]uint32, n), watch: &watch{ctx: context.Background()},
		members: make([][]int32, len(inst.Groups)), onGroup: make([]int32, len(inst.Groups)),
		out: make([][]binpack.Rule, len(inst.Groups)), into: make([][]binpack.Rule, len(inst.Groups)),
		zones: zones, free: make([][]int64, len(inst.Dimensions)), least: make([]int64, len(inst.Dimensions)),
	}
	for a, app := range inst.Apps {
		p.members[app.Group] = append(p.members[app.Group], int32(a))
		p.waitAt[a] = -1
	}
	for _, r := range inst.Rules {
		p.out[r.A] = append(p.out[r.A], r)
		p.into[r.B] = append(p.into[r.B], r)
	}
	p.findKinds()
	p.findDevices(items, standing)
	p.findTakes()
	p.measure(items)
	p.stand(standing)
	return p
}

// findKinds finds the kinds: machines that are alike, also in their zone where zones bind.
func (p *planner) findKinds() {
	var zones, names []string // of the kinds, all
	if p.zones != nil {
		names = p.zones.names()
	}
	for _, ml := range p.inst.Machines {
		k := -1
		for i, kind := range p.kinds {
			if kind.Type == ml.Type && kind.Cost == ml.Cost && slices.Equal(kind.Capacity, ml.Capacity) && (p.zones == nil || zones[i] == ml.Zone) {
				k = i
				break
			}
		}
		if k < 0 {
			k = len(p.kinds)
			p.kinds = append(p.kinds, binpack.Kind{Type: ml.Type, Cost: ml.Cost, Capacity: ml.Capacity})
			p.stock = append(p.stock, 0)
			if zones = append(zones, ml.Zone); p.zones != nil {
				p.zones.of = append(p.zones.of, int32(slices.Index(names, ml.Zone)))
			}
		}
		p.kindOfLine = append(p.kindOfLine, int32(k))
		if ml.Count == binpack.Unlimited || p.stock[k] == math.MaxInt {
			p.stock[k] = math.MaxInt
		} else {
			p.stock[k] += ml.Count
		}
	}
	top := 0.0
	for _, k := range p.kinds {
		top = max(top, k.Cost)
	}
	for _, k := range p.kinds {
		price := int64(1) // of machines that cost nothing: still no more than needed
		if top > 0 {
			price += int64(math.Round(k.Cost / top * (1 << 30)))
		}
		p.price = append(p.price, price)
	}
}

// findTakes finds the kinds that take an app at all.
func (p *planner) findTakes() {
	p.takes = make([][]bool, len(p.kinds))
	for k, kind := range p.kinds {
		p.takes[k] = make([]bool, len(p.size))
		for a := range p.inst.Apps {
			p.takes[k][a] = p.inst.Apps[a].FitsEmpty(kind.Type, kind.Capacity)
		}
	}
}

// hopeless counts the items that no machine takes.
func hopeless(inst *binpack.Instance, items []int64) []int64 {
	out := make([]int64, len(items))
	for a, n := range items {
		if !slices.ContainsFunc(inst.Machines, func(m binpack.MachineLine) bool {
			return inst.Apps[a].FitsEmpty(m.Type, m.Capacity)
		}) {
			out[a] = n
		}
	}
	return out
}

// measure gives apps and kinds their sizes: shares of the largest machine,
// dimensions weighted by the square of the share of them that is requested.
func (p *planner) measure(items []int64) {
	dims := len(p.inst.Dimensions)
	reference, weight := make([]float64, dims), make([]float64, dims)
	top := 0.0
	for d := range dims {
		p.least[d] = math.MaxInt64
		for _, k := range p.kinds {
			reference[d] = max(reference[d], float64(k.Capacity[d]), 1)
		}
		for a, n := range items {
			if n > p.hopeless[a] {
				need := p.inst.Apps[a].Demand[d]
				weight[d] += float64(float64(n) * (float64(need) / reference[d]))
				p.least[d] = min(p.least[d], need)
			}
		}
		top = max(top, weight[d])
	}
	sum := 0.0
	for d := range weight {
		if top > 0 {
			weight[d] = (weight[d] / top) * (weight[d] / top)
		}
		sum += weight[d]
	}
	sizeOf := func(amounts []int64) int64 {
		v := 0.0
		for d, x := range amounts {
			v += float64(weight[d] * (float64(x) / reference[d]))
		}
		if sum == 0 {
			return 1
		}
		return max(1, int64(math.Round(v/sum*(1<<sizeBits))))
	}
	for _, k := range p.kinds {
		p.capacity = append(p.capacity, k.Capacity)
		p.kindSlack = append(p.kindSlack, sizeOf(k.Capacity))
	}
	for a := range p.size {
		p.size[a] = sizeOf(p.inst.Apps[a].Demand)
		g := p.inst.Apps[a].Group
		need := items[a]
		if limit := int64(p.inst.Groups[g].Limit); limit > 0 {
			need = (need + limit - 1) / limit
		} else {
			need = 0
		}
		degree := int64(len(p.out[g]) + len(p.into[g]))
		p.hard[a] = p.size[a]*(1+need) + degree<<(sizeBits-7)
		if n := items[a] - p.hopeless[a]; n > 0 {
			p.wait(int32(a), n)
		}
	}
}

// fill places the waiting items of some apps, the hardest first but for noise. The
// size of the noise is drawn each time: exact packings of many sizes need little of
// it, constraints need much. Items that fit nowhere stay waiting.
func (p *planner) fill(apps []int32) {
	p.order = p.order[:0]
	noise := uint32(511) >> (p.rng.Uint32() & 3) // the key times up to 1 … 3
	for _, a := range apps {
		key := p.hard[a]
		if p.late[a] {
			key += 1 << (sizeBits - 2)
		}
		key = key>>8*int64(256+p.rng.Uint32()&noise) + int64(p.rng.Uint32()&255)
		p.order = append(p.order, ranked{key, a})
	}
	slices.SortFunc(p.order, harderFirst)
	for _, r := range p.order {
		for p.left[r.app] > 0 {
			m := p.pick(r.app)
			if m < 0 {
				break
			}
			p.save(m)
			p.put(r.app, m)
			p.wait(r.app, -1)
		}
	}
}

func harderFirst(a, b ranked) int {
	switch {
	case a.key > b.key:
		return -1
	case a.key < b.key:
		return 1
	}
	return int(a.app - b.app)
}

// pick chooses a machine for one item: the emptiest that takes it, or in some steps
// the fullest; -1 if no machine takes it. Of equal ones it takes the first after a
// random one.
func (p *planner) pick(a int32) int32 {
	app := &p.inst.Apps[a]
	row := p.blocked[int(a)*p.words : (int(a)+1)*p.words]
	group := app.Group
	spread := p.inst.Groups[group].SpreadMin
	narrow := spread > 1 && p.onGroup[group] < spread
	closed := p.zones.closedTo(a)
	used := (len(p.kind) + 63) / 64
	w := int(p.rng.Uint32() % uint32(used))
	best, top := int32(-1), int64(math.MinInt64)
	for range used {
		for word := p.roomy[w] &^ row[w]; word != 0; word &= word - 1 {
			m := int32(w<<6 + bits.TrailingZeros64(word))
			s := p.slack[m]
			if p.best {
				s = -s
			}
			if s <= top || !p.hasRoom(a, m) || narrow && p.count(group, m) > 0 || closed != nil && closed[p.zones.of[p.kind[m]]] {
				continue
			}
			best, top = m, s
		}
		if w++; w == used {
			w = 0
		}
	}
	return best
}

func (p *planner) hasRoom(a, m int32) bool {
	for d, need := range p.inst.Apps[a].Demand {
		if need > p.free[d][m] {
			return false
		}
	}
	return len(p.shared) == 0 || p.devicesFit(a, m)
}

// stands is the number of items of an app that a machine held before.
func (p *planner) stands(a, m int32) int32 {
	for _, e := range p.standing[m] {
		if e.App == a {
			return e.Count
		}
	}
	return 0
}

// repairSpread removes second items of groups that are on fewer machines than their
// spread requires: no order could have placed them.
func (p *planner) repairSpread() {
	for g, group := range p.inst.Groups {
		if group.SpreadMin <= 1 || p.onGroup[g] >= group.SpreadMin {
			continue
		}
		for m := range p.on {
			if p.count(int32(g), int32(m)) > 1 {
				p.dropDoubles(int32(g), int32(m))
			}
		}
	}
}

func (p *planner) dropDoubles(group, m int32) {
	stands := int32(0)
	for _, e := range p.standing[m] {
		if e.Group == group {
			stands += e.Count
		}
	}
	p.begin()
	p.save(m)
	p.empty(m)
	for _, e := range p.entries {
		for range e.Count - p.stands(e.App, m) {
			if e.Group == group && stands > 0 || !p.hasRoom(e.App, m) {
				break
			}
			if e.Group == group {
				stands++
			}
			p.put(e.App, m)
			p.wait(e.App, -1)
		}
	}
}
