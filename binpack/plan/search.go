package plan

import (
	"math"
	"slices"
)

const (
	constructions    = 4    // greedy ones; the best is improved
	planFleets       = 10   // the effort of a search, in that of a fleet
	ruinMin, ruinMax = 2, 6 // machines that a step empties
	tournament       = 4    // machines; the emptiest is taken
	fillTries        = 4    // of a machine to be filled up
	evenGains        = 4    // that each way to recreate starts with
	maxGains         = 32   // of a way, then all are halved
	maxTried         = 256  // apps that waited before and that a step tries again
	watchEvery       = 64   // steps between looks at the watch
)

// openFleet opens the machines to begin with: as many as the bounds require, kind
// by kind at the least cost for the remaining load.
func (p *planner) openFleet(atLeast int) {
	load := p.leftLoad()
	for m, k := range p.kind {
		if k >= 0 {
			for d := range load {
				load[d] -= float64(max(0, p.free[d][m]))
			}
		}
	}
	for p.someServed(load) {
		k := p.cheapest(load, -1)
		if !p.servesAll(k, load) { // no kind does: one dimension after the other
			d := slices.IndexFunc(load, func(v float64) bool { return v > 0 })
			one := make([]float64, len(load))
			one[d] = load[d]
			k = p.cheapest(one, -1)
		}
		p.open(k)
		for d := range load {
			load[d] -= float64(p.capacity[k][d])
		}
	}
	all := p.leftLoad()
	for len(p.kind) < atLeast {
		k := p.cheapest(all, -1)
		if k < 0 {
			break
		}
		p.open(k)
	}
	if len(p.kind) == 0 && len(p.waiting) > 0 {
		p.grow()
	}
}

// someServed clears the dimensions of a load that no kind left offers, and reports
// whether some load remains.
func (p *planner) someServed(load []float64) bool {
	some := false
	for d, v := range load {
		if v <= 0 {
			continue
		}
		load[d] = 0
		for k, stock := range p.stock {
			if stock > 0 && p.capacity[k][d] > 0 {
				load[d], some = v, true
			}
		}
	}
	return some
}

func (p *planner) servesAll(k int32, load []float64) bool {
	for d, v := range load {
		if v > 0 && p.capacity[k][d] == 0 {
			return false
		}
	}
	return true
}

// leftLoad sums up the waiting items.
func (p *planner) leftLoad() []float64 {
	load := make([]float64, len(p.free))
	p.addLeft(load)
	return load
}

func (p *planner) addLeft(load []float64) {
	clear(load)
	for _, a := range p.waiting {
		for d, need := range p.inst.Apps[a].Demand {
			load[d] += float64(float64(need) * float64(p.left[a]))
		}
	}
}

// cheapest is the kind that holds a load at the least cost if the whole fleet
// were of it, at least one machine; it must take the app must unless that is
// -1. It is -1 when no kind is left.
func (p *planner) cheapest(load []float64, must int32) int32 {
	best, least := int32(-1), math.Inf(1)
	var closed []bool
	if must >= 0 {
		closed = p.zones.closedTo(must)
	}
	for k := range p.kinds {
		if p.stock[k] == 0 || must >= 0 && !p.takes[k][must] || closed != nil && closed[p.zones.of[k]] {
			continue
		}
		n := 1.0
		for d, v := range load {
			if v > 0 {
				n = max(n, v/float64(p.capacity[k][d])) // by 0: +Inf
			}
		}
		if cost := n * float64(p.price[k]); cost < least || best < 0 || cost == least && p.zones.emptier(int32(k), best) {
			best, least = int32(k), cost
		}
	}
	return best
}

// open opens a machine of a kind.
func (p *planner) open(k int32) {
	m := int32(slices.Index(p.kind, -1))
	if m < 0 {
		m = p.addSlot()
	}
	p.save(m)
	p.setKind(m, k)
}

// grow opens machines for the waiting items: half as many as their volume requires,
// at least one. It returns their number; 0 when no remaining machine takes any
// item.
func (p *planner) grow() int {
	if !slices.ContainsFunc(p.stock, func(n int) bool { return n > 0 }) {
		return 0
	}
	load := p.leftLoad()
	for _, a := range p.byHardness() {
		k := p.cheapest(load, a)
		if k < 0 {
			continue
		}
		n := 1.0
		for d, v := range load {
			if c := p.capacity[k][d]; c > 0 {
				n = max(n, math.Ceil(v/float64(c)/2))
			}
		}
		opened := 0
		for range int(min(n, float64(p.stock[k]))) {
			p.open(k)
			opened++
			if p.zones != nil { // the next in another zone
				if k = p.cheapest(load, a); k < 0 {
					break
				}
			}
		}
		return opened
	}
	return 0
}

// relieve opens machines that take no waiting item, so that others can move there
// and free capacity: of each kind as many as are open in all, or its stock if less, and of many kinds its
// share of mostRelief. It reports whether that helped; if not, it undoes it.
func (p *planner) relieve(steps int) bool {
	if len(p.waiting) == 0 {
		return false
	}
	before, left := p.copyFleet(), p.leftVolume
	p.begin()
	n, opened := len(p.kind), 0
	for k := range p.kinds {
		for range min(n, p.stock[k], max(1, mostRelief/len(p.kinds))) {
			p.open(int32(k))
			opened++
		}
	}
	if opened == 0 {
		return false
	}
	p.improve(steps)
	if p.leftVolume < left {
		return true
	}
	p.restore(before)
	return false
}

// mostRelief is about the most machines that relief opens: price lists have hundreds of kinds without limit.
const mostRelief = 1 << 16

func (p *planner) byHardness() []int32 {
	apps := slices.Clone(p.waiting)
	slices.SortFunc(apps, func(a, b int32) int {
		return harderFirst(ranked{p.hard[a], a}, ranked{p.hard[b], b})
	})
	return apps
}

// improve ruins and recreates until nothing waits or the steps are used up.
func (p *planner) improve(steps int) {
	for range steps {
		if len(p.waiting) == 0 || len(p.kind) == 0 || !p.goOn() {
			return
		}
		p.ruinStep()
	}
}

// goOn counts a step and reports whether it may be taken.
func (p *planner) goOn() bool {
	if p.budget <= 0 || p.halted {
		return false
	}
	p.budget--
	if p.budget%watchEvery != 0 {
		return true
	}
	now := Progress{}
	for _, k := range p.kind {
		if k >= 0 {
			now.Machines++
		}
	}
	for _, a := range p.waiting {
		now.Waiting += p.left[a]
	}
	p.halted = !p.watch.goOn(watchEvery, now)
	return !p.halted
}

// ruinStep empties a few machines and places the waiting items. It is undone when
// it leaves out more than before.
func (p *planner) ruinStep() {
	p.begin()
	p.best = p.rng.Uint32()&1 == 0
	before := p.leftVolume
	for _, a := range p.waiting {
		p.late[a] = true
	}
	late := len(p.waiting)
	n := ruinMin + int(p.rng.Uint32()%(ruinMax-ruinMin+1))
	for i := range n {
		m := p.victim(i%2 == 1)
		if m < 0 {
			break
		}
		p.save(m)
		p.empty(m)
	}
	apps := p.toTry(late)
	way := p.chooseWay()
	if way == machineByMachine {
		p.fillUp(apps)
	}
	p.fill(apps)
	switch {
	case p.leftVolume > before:
		p.undo()
	case p.leftVolume < before:
		p.gained(way)
	}
	clear(p.late)
	p.best = false
}

// Ways to recreate.
const (
	itemByItem       = iota // the hardest first, see fill
	machineByMachine        // see fillUp, then item by item
	ways
)

// chooseWay draws a way, more often one that left less out: items that fill machines
// exactly need one, constraints the other.
func (p *planner) chooseWay() int {
	sum := 0
	for _, n := range p.gains {
		sum += n + evenGains
	}
	at, way := int(p.rng.Uint32()%uint32(sum)), 0
	for at -= p.gains[way] + evenGains; at >= 0; at -= p.gains[way] + evenGains {
		way++
	}
	return way
}

// gained counts a step of a way that left less out.
func (p *planner) gained(way int) {
	p.gains[way]++
	if p.gains[way] == maxGains {
		for w := range p.gains {
			p.gains[w] /= 2
		}
	}
}

// fillUp fills the machines that the step emptied one by one, each as full as a few
// tries make it: the largest items first, and each try skips some.
func (p *planner) fillUp(apps []int32) {
	p.order = p.order[:0]
	for _, a := range apps {
		p.order = append(p.order, ranked{p.size[a]<<8 + int64(p.rng.Uint32()&255), a})
	}
	slices.SortFunc(p.order, harderFirst)
	for _, s := range p.saved {
		least := int64(math.MaxInt64)
		for try := range fillTries {
			p.chosen = p.chosen[:0]
			for _, r := range p.order {
				if try > 0 && p.rng.Uint32()&3 == 0 {
					continue
				}
				for p.left[r.app] > 0 && p.takesNow(r.app, s.m) {
					p.put(r.app, s.m)
					p.wait(r.app, -1)
					p.chosen = append(p.chosen, r.app)
				}
			}
			if p.slack[s.m] < least {
				least = p.slack[s.m]
				p.fullest = append(p.fullest[:0], p.chosen...)
			}
			p.empty(s.m)
		}
		for _, a := range p.fullest {
			p.put(a, s.m)
			p.wait(a, -1)
		}
	}
}

// takesNow reports whether a machine takes an item as it is.
func (p *planner) takesNow(a, m int32) bool {
	if p.blocked[int(a)*p.words+int(m>>6)]>>(m&63)&1 != 0 || !p.hasRoom(a, m) {
		return false
	}
	if closed := p.zones.closedTo(a); closed != nil && closed[p.zones.of[p.kind[m]]] {
		return false
	}
	g := p.inst.Apps[a].Group
	spread := p.inst.Groups[g].SpreadMin
	return spread <= 1 || p.onGroup[g] >= spread || p.count(g, m) == 0
}

// toTry lists the apps of the items that a step places: all that it took off
// machines, and of the apps that waited before, which are the first ones in
// waiting, no more than maxTried from a random one on.
func (p *planner) toTry(late int) []int32 {
	if late <= maxTried {
		p.try = append(p.try[:0], p.waiting...)
		return p.try
	}
	p.try = append(p.try[:0], p.waiting[late:]...)
	from := int(p.rng.Uint32() % uint32(late))
	for i := range maxTried {
		p.addTry(p.waiting[(from+i)%late])
	}
	for _, e := range p.entries {
		if p.waitAt[e.App] < int32(late) {
			p.addTry(e.App)
		}
	}
	return p.try
}

// addTry adds an app that waited before, once in a step.
func (p *planner) addTry(a int32) {
	if p.waitAt[a] >= 0 && p.tried[a] != p.step {
		p.tried[a] = p.step
		p.try = append(p.try, a)
	}
}

// victim is a machine to be emptied: any, or the emptiest of a few.
func (p *planner) victim(emptiest bool) int32 {
	best := p.anyMachine()
	if !emptiest || best < 0 {
		return best
	}
	for range tournament - 1 {
		if m := p.anyMachine(); p.slack[m] > p.slack[best] {
			best = m
		}
	}
	return best
}

// anyMachine is a random open machine, -1 if it finds none in 64 draws.
func (p *planner) anyMachine() int32 {
	if len(p.kind) == 0 {
		return -1
	}
	for range 64 {
		if m := int32(p.rng.Uint32() % uint32(len(p.kind))); p.kind[m] >= 0 {
			return m
		}
	}
	return int32(slices.IndexFunc(p.kind, func(k int32) bool { return k >= 0 }))
}
