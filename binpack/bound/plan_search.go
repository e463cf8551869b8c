package bound

import (
	"math"
	"slices"
)

const (
	ruinMin, ruinMax = 2, 6 // machines that a step empties
	tournament       = 4    // machines of which the emptiest is taken
)

// openFleet opens the machines to begin with: as many as the bounds ask for,
// kind by kind at the least cost for what is still to be held.
func (p *planner) openFleet(atLeast int) {
	load := p.leftLoad()
	for m, k := range p.kind {
		if k >= 0 {
			for d := range load {
				load[d] -= float64(p.free[d][m])
			}
		}
	}
	for {
		more := false
		for _, v := range load {
			more = more || v > 0
		}
		if !more {
			break
		}
		k := p.cheapest(load, -1)
		if k < 0 {
			break
		}
		p.open(k)
		for d := range load {
			load[d] -= float64(p.capacity[k][d])
		}
	}
	need := atLeast
	perGroup := make([]int64, len(p.inst.Groups))
	for _, a := range p.waiting {
		perGroup[p.inst.Apps[a].Group] += p.left[a]
	}
	for g, n := range perGroup {
		if limit := int64(p.inst.Groups[g].Limit); limit > 0 {
			need = max(need, int((n+limit-1)/limit))
		}
	}
	all := p.leftLoad()
	for len(p.kind) < need {
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

// leftLoad sums up what waits.
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
	for k := range p.kinds {
		if p.stock[k] == 0 || must >= 0 && !p.takes[k][must] {
			continue
		}
		n := 1.0
		for d, v := range load {
			if v > 0 {
				n = max(n, v/float64(p.capacity[k][d])) // by 0: +Inf
			}
		}
		if cost := n * float64(p.price[k]); cost < least || best < 0 {
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

// grow opens machines for what waits: half of what its volume asks for, at
// least one. It returns how many; 0 when no machine that is left takes any of
// it.
func (p *planner) grow() int {
	for _, a := range p.byHardness() {
		load := p.leftLoad()
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
		}
		return opened
	}
	return 0
}

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
		if len(p.waiting) == 0 || len(p.kind) == 0 {
			return
		}
		p.ruinStep()
	}
}

// ruinStep empties a few machines and places what waits. It is taken back when
// more is left out than before.
func (p *planner) ruinStep() {
	p.begin()
	p.best = p.rng.Uint32()&1 == 0
	before := p.leftVolume
	for _, a := range p.waiting {
		p.late[a] = true
	}
	n := ruinMin + int(p.rng.Uint32()%(ruinMax-ruinMin+1))
	for i := range n {
		m := p.victim(i%2 == 1)
		if m < 0 {
			break
		}
		p.save(m)
		p.empty(m)
	}
	p.fill()
	if p.leftVolume > before {
		p.undo()
	}
	clear(p.late)
	p.best = false
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

// anyMachine is a random open machine, -1 when there seems to be none.
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
