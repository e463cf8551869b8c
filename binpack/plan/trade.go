package plan

import (
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// shrink closes machines one by one while everything still fits: a fleet that grew by
// several machines at once may be too large.
func (p *planner) shrink(steps int) {
	for {
		before := p.copyFleet()
		m := p.worst()
		if m < 0 {
			return
		}
		p.begin()
		p.empty(m)
		p.setKind(m, -1)
		p.fill(p.waiting)
		p.improve(steps)
		if len(p.waiting) > 0 {
			p.restore(before)
			return
		}
	}
}

// worst is the machine that costs most for its content, -1 when all open ones are
// standing machines.
func (p *planner) worst() int32 {
	best, most := int32(-1), 0.0
	for m, k := range p.kind {
		if k < 0 || len(p.standing[m]) > 0 {
			continue
		}
		held := max(1, p.kindSlack[k]-p.slack[m])
		if waste := float64(p.price[k]) / float64(held); waste > most {
			best, most = int32(m), waste
		}
	}
	return best
}

type fleetCopy struct {
	kind []int32
	on   [][]binpack.Entry
}

func (p *planner) copyFleet() fleetCopy {
	c := fleetCopy{kind: slices.Clone(p.kind)}
	for _, list := range p.on {
		c.on = append(c.on, slices.Clone(list))
	}
	return c
}

// restore restores a fleet; slots added since are closed.
func (p *planner) restore(c fleetCopy) {
	p.begin()
	for m := range c.kind {
		p.stamp[m] = p.step
		start := len(p.entries)
		p.entries = append(p.entries, c.on[m]...)
		p.saved = append(p.saved, savedMachine{int32(m), c.kind[m], start, len(p.entries)})
	}
	for m := len(c.kind); m < len(p.kind); m++ {
		p.saved = append(p.saved, savedMachine{m: int32(m), kind: -1})
	}
	p.undo()
}

// trade exchanges machines for cheaper ones: it closes a few, places their items on
// the others, and opens the kinds that suit the remainder. The step is undone if the
// cost rises. It ends when the cost is enough.
func (p *planner) trade(steps int) {
	load := make([]float64, len(p.free))
	last := int64(0)
	for range steps {
		before := p.spent
		if before != last && p.cost() <= p.enough || !p.goOn() {
			break
		}
		last = before
		p.begin()
		for i := range 1 + int(p.rng.Uint32()%ruinMax) {
			m := p.victim(i%2 == 1)
			if m < 0 || len(p.standing[m]) > 0 {
				continue
			}
			p.save(m)
			p.empty(m)
			p.setKind(m, -1)
		}
		p.best = p.rng.Uint32()&1 == 0
		p.fill(p.waiting)
		for len(p.waiting) > 0 && p.spent < before {
			if !p.openFor(load) {
				break
			}
			p.fill(p.waiting)
		}
		if len(p.waiting) > 0 || p.spent > before {
			p.undo()
		}
	}
	p.best = false
}

// cost of the machines that hold something.
func (p *planner) cost() float64 {
	held := make([]int64, len(p.kinds))
	for m, k := range p.kind {
		if k >= 0 && len(p.on[m]) > 0 {
			held[k]++
		}
	}
	sum := 0.0
	for k, n := range held {
		sum += float64(float64(n) * p.kinds[k].Cost)
	}
	return sum
}

// openFor opens a machine that takes the hardest waiting item: the kind that holds
// all of it at the least cost, or in half of the cases any.
func (p *planner) openFor(load []float64) bool {
	hardest := p.waiting[0]
	for _, a := range p.waiting {
		if p.hard[a] > p.hard[hardest] || p.hard[a] == p.hard[hardest] && a < hardest {
			hardest = a
		}
	}
	k := int32(-1)
	if p.rng.Uint32()&1 == 0 {
		k = int32(p.rng.Uint32() % uint32(len(p.kinds)))
	}
	closed := p.zones.closedTo(hardest)
	if k < 0 || p.stock[k] == 0 || !p.takes[k][hardest] || closed != nil && closed[p.zones.of[k]] {
		p.addLeft(load)
		k = p.cheapest(load, hardest)
	}
	if k < 0 {
		return false
	}
	p.open(k)
	return true
}
