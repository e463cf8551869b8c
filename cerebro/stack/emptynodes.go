package stack

import (
	"context"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack/plan/defrag"
)

// EmptyNodes is a Rebalance with the goal EmptyNodes in mode Auto: it empties one node after the other by few moves. The
// provisioner removes them.
type EmptyNodes struct {
	Every       float64 // seconds between plans
	Moves       float64 // of a plan, as a share of the pods
	PerHour     float64 // moves, as a share of the pods, but at least 20
	MinReplicas int     // a workload with fewer pods stays
	OfWorkload  float64 // the largest share of a workload's pods that move within an hour, but at least one
	Takes       float64 // seconds from one move to the next: five replacements, which take a minute, start at a time
}

// DefaultEmptyNodes has the defaults of a Rebalance.
func DefaultEmptyNodes() *EmptyNodes {
	return &EmptyNodes{Every: 15 * minute, Moves: .05, PerHour: .05, MinReplicas: minReplicas, OfWorkload: .25, Takes: minute / 5}
}

// mostPerHour is the limit of all evictions by Sigma in a cluster.
const mostPerHour = 240

// An emptier carries out the plans of EmptyNodes.
type emptier struct {
	*EmptyNodes
	c       *cluster
	planned float64           // time of the last plan
	moved   []float64         // times of moves of the last hour
	emptied map[*node]float64 // until when they stay cordoned
}

// A drain empties a node by moves, one after the other.
type drain struct {
	node  *node
	moves []move
}

type move struct {
	item     int32
	from, to *node
	demand   []int64 // for which a place is reserved
}

func (e *EmptyNodes) start(c *cluster) {
	own := &emptier{EmptyNodes: e, c: c, emptied: map[*node]float64{}}
	c.at(c.now+e.Every, own.plan)
}

func (e *emptier) plan() {
	e.planned = e.c.now
	var list []drain
	if most := int(e.Moves * float64(e.c.state.AliveTotal())); most > 0 && len(e.c.waiting) == 0 {
		list = e.search(most)
	}
	e.next(list)
}

// search finds the moves by the short search of a replay with `--rebalance`. Those of the last hour count toward the most
// of a workload. The moves after those that empty the last node are left out.
func (e *emptier) search(most int) (list []drain) {
	c := e.c
	left := c.leftOfHour(e.OfWorkload)
	model := defrag.NewModel(c.state.Instance(), 1)
	for app, most := range left {
		model.Cap(int32(app), max(0, most))
	}
	var items []int32 // by number in the model
	nodes, on := map[defrag.Position]*node{}, map[*node]int{}
	for _, n := range c.nodes {
		if n.machine < 0 || n.cordoned || c.lacks(n) {
			continue
		}
		line, index := c.state.Position(n.machine)
		nodes[defrag.Position{Line: line, Index: index}], on[n] = n, len(n.pods)
		for _, item := range n.pods {
			app := c.app[item]
			slot, err := model.Add(app, line, index, nil)
			if err != nil {
				c.err = err
				return nil
			}
			items = append(items, item)
			model.Hold(slot, left[app] < 1 || c.state.Alive()[app] < int64(e.MinReplicas))
		}
	}
	ends := map[*node]int{} // the moves after which a node is empty
	moves := model.Drain(context.Background(), most)
	for i, m := range moves {
		from, to := nodes[m.From], nodes[m.To]
		on[to]++
		delete(ends, to)
		if on[from]--; on[from] == 0 {
			ends[from] = i + 1
		}
	}
	first := 0
	for i, m := range moves {
		if n := nodes[m.From]; ends[n] == i+1 {
			d := drain{node: n}
			for _, m := range moves[first : i+1] {
				d.moves = append(d.moves, move{item: items[m.Item], from: nodes[m.From], to: nodes[m.To]})
			}
			list, first = append(list, d), i+1
		}
	}
	return list
}

// next begins the first of some drains that is possible, or waits until the moves of the last hour allow it. A plan is
// made after all.
func (e *emptier) next(list []drain) {
	c := e.c
	for ; len(list) > 0; list = list[1:] {
		if e.stopped() {
			return
		}
		d := list[0]
		perHour := min(mostPerHour, max(20, int(e.PerHour*float64(c.state.AliveTotal()))))
		if len(d.moves) > perHour || !e.possible(d) {
			continue
		}
		e.moved = slices.DeleteFunc(e.moved, func(at float64) bool { return at <= c.now-hour })
		if len(e.moved)+len(d.moves) > perHour {
			c.at(c.now+minute, func() { e.next(list) })
			return
		}
		d.node.cordoned = true
		for i := range d.moves {
			m := &d.moves[i]
			m.demand = slices.Clone(c.demand(m.item))
			m.to.reserve(m.demand, 1)
		}
		e.carryOut(list, 0)
		return
	}
	c.at(e.planned+e.Every, e.plan)
}

// carryOut makes the moves of the first of some drains from a number on.
func (e *emptier) carryOut(list []drain, number int) {
	c, d := e.c, list[0]
	switch {
	case e.stopped():
		c.giveUp(d, number)
	case number == len(d.moves):
		until := c.now + hour
		e.emptied[d.node] = until
		c.at(until, func() {
			if e.emptied[d.node] == until {
				e.open(d.node)
			}
		})
		e.next(list[1:])
	case !c.move(d.moves[number]):
		c.giveUp(d, number)
		e.next(list[1:])
	default:
		e.moved = append(e.moved, c.now)
		c.at(c.now+e.Takes, func() { e.carryOut(list, number+1) })
	}
}

// giveUp ends a drain whose moves from a number on are not made.
func (c *cluster) giveUp(d drain, number int) {
	for _, m := range d.moves[number:] {
		m.to.reserve(m.demand, -1)
	}
	c.uncordon(d.node)
	c.freed = true
}

// stopped ends a plan if pods wait: empty nodes take pods again, and the next plan is made at its time.
func (e *emptier) stopped() bool {
	if len(e.c.waiting) == 0 {
		return false
	}
	for n := range e.emptied {
		e.open(n)
	}
	e.c.at(e.planned+e.Every, e.plan)
	return true
}

func (e *emptier) open(n *node) {
	delete(e.emptied, n)
	e.c.uncordon(n)
}

// possible reports whether the moves of a drain that has not begun are still those that empty its node: no pod has arrived
// or left, and all have their places.
func (e *emptier) possible(d drain) bool {
	c := e.c
	defer c.undo()
	on := len(d.node.pods)
	moved := map[int32]bool{}
	for _, m := range d.moves {
		app := c.app[m.item]
		if moved[m.item] || c.on[m.item] != m.from || c.state.Alive()[app] < int64(e.MinReplicas) || m.to.machine < 0 || !c.open(m.to) {
			return false
		}
		if moved[m.item] = true; m.from == d.node {
			on--
		}
		c.unbook(m.item, m.from.twin)
		if !c.plans.Fits(app, m.to.twin) {
			return false
		}
		c.book(m.item, m.to.twin)
	}
	return on == 0 && c.open(d.node)
}

// move moves a pod to a node. It reports false if the pod has left or the node no longer takes it.
func (c *cluster) move(m move) bool {
	if c.on[m.item] != m.from || m.to.machine < 0 || !c.open(m.to) || !c.state.Fits(c.app[m.item], m.to.machine) {
		return false
	}
	m.to.reserve(m.demand, -1)
	c.moveTo(m.item, m.to, Rebalancing)
	return true
}

// leftOfHour are the pods, by app, that may still move within an hour: of a share of them, but at least one.
func (c *cluster) leftOfHour(share float64) []int32 {
	left := make([]int32, len(c.state.Alive()))
	for app, alive := range c.state.Alive() {
		left[app] = max(1, int32(share*float64(alive)))
	}
	for item, at := range c.moved {
		if c.now < at+hour {
			left[c.app[item]]--
		}
	}
	return left
}

// lacks reports whether the pods of a node request more than it has.
func (c *cluster) lacks(n *node) bool {
	for d := range c.trace.Instance.Dimensions {
		if c.state.Free(d)[n.machine] < 0 {
			return true
		}
	}
	return false
}
