package stack

import (
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack/plan/defrag"
)

// minReplicas is the least number of pods of a workload of which one is moved, and of which VPA's updater evicts one.
const minReplicas = 2

// afterMidnight is the time of day at which Fit plans, in seconds: sizes may change at midnight.
const afterMidnight = 300.

// A daily counts the moves of a day.
type daily struct {
	c     *cluster
	moves int
	of    map[int32]int // by app
}

func newDaily(c *cluster) *daily { return &daily{c: c, of: map[int32]int{}} }

// eachDay empties a count at midnight.
func (c *cluster) eachDay() *daily {
	d := newDaily(c)
	c.every(day*math.Ceil(c.now/day), day, func() { *d = *newDaily(c) })
	return d
}

// left is the number of moves that remain: of a share of the pods, but at least one.
func (d *daily) left(share float64) int {
	return max(1, int(share*float64(d.c.state.AliveTotal()))) - d.moves
}

// spares reports whether another pod of an app may move: at most a share of them, but at least one.
func (d *daily) spares(app int32, share float64) bool {
	alive := d.c.state.Alive()[app]
	return alive >= minReplicas && d.of[app] < max(1, int(share*float64(alive)))
}

func (d *daily) count(app int32) {
	d.moves++
	d.of[app]++
}

// Fit is a Rebalance with the goal Fit in mode Auto: nodes whose pods request more than they have give pods away.
type Fit struct {
	Moves      float64 // a day, as a share of the pods, but at least one
	PerHour    int
	OfWorkload float64 // the largest share of a workload's pods a day, but at least one
}

// DefaultFit has the defaults of a Rebalance.
func DefaultFit() *Fit { return &Fit{Moves: .01, PerHour: 20, OfWorkload: .25} }

func (f *Fit) start(c *cluster) {
	today := c.eachDay()
	c.every(hour*math.Ceil(c.now/hour)+afterMidnight, hour, func() {
		c.makeFit(Fitting, min(today.left(f.Moves), f.PerHour), f.OfWorkload, today, true)
	})
}

// makeFit evicts pods of nodes that lack room for the requests of their pods: at most so many, and a share of those of a
// workload, and, where placed is set, only pods that another node takes.
func (c *cluster) makeFit(cause Cause, most int, ofWorkload float64, moved *daily, placed bool) {
	stuck := map[*node]bool{}
	for most > 0 {
		n, d, excess := c.overfull(stuck)
		if n == nil {
			return
		}
		sizes := make([]float64, len(n.pods))
		for i, item := range n.pods {
			sizes[i] = float64(c.demand(item)[d])
		}
		item := int32(-1)
		n.aside = true
		for _, i := range defrag.LeaveOrder(sizes, float64(excess)) {
			if app := c.app[n.pods[i]]; sizes[i] > 0 && moved.spares(app, ofWorkload) && (!placed || c.firstTwin(app) >= 0) {
				item = n.pods[i]
				break
			}
		}
		n.aside = false
		if item < 0 {
			stuck[n] = true
			continue
		}
		moved.count(c.app[item])
		most--
		c.evictElsewhere(item, cause)
	}
}

// Relief is a Rebalance with the goal Relief in mode Auto: a node whose pods used more cpu or memory than it has in two
// samples gives one pod away.
type Relief struct {
	Moves      float64 // a day, as a share of the pods, but at least one
	PerHour    int
	OfWorkload float64 // the largest share of a workload's pods a day, but at least one
	Pause      float64 // seconds for which a node that gave or took a pod does neither
	Margin     float64 // the largest use ÷ capacity of a node that takes a pod, in both samples
}

// DefaultRelief has the defaults of a Rebalance.
func DefaultRelief() *Relief {
	return &Relief{Moves: .01, PerHour: 20, OfWorkload: .25, Pause: 600, Margin: .95}
}

type relief struct {
	*Relief
	c     *cluster
	today *daily
	moved []float64 // times of moves of the last hour
	busy  map[*node]float64
}

func (r *Relief) start(c *cluster) {
	if c.use == nil {
		return
	}
	own := &relief{Relief: r, c: c, today: c.eachDay(), busy: map[*node]float64{}}
	c.every(c.use.step*math.Ceil(c.now/c.use.step)+2*c.use.step, c.use.step, own.turn)
}

// turn relieves the fullest nodes, one a minute until the next sample.
func (r *relief) turn() {
	c := r.c
	r.moved = slices.DeleteFunc(r.moved, func(at float64) bool { return at <= c.now-hour })
	var left []int32
	most := int(c.use.step / minute)
	for _, n := range slices.Clone(c.nodes) {
		since, over := c.use.overfull[n]
		if !over || c.now < since+2*c.use.step || len(n.pods) < 2 || r.isBusy(n) {
			continue
		}
		if most < 1 || r.today.left(r.Moves) < 1 || len(r.moved) >= r.PerHour {
			return
		}
		if left == nil {
			left = c.leftOfHour(r.OfWorkload)
		}
		if r.relieve(n, left) {
			most--
		}
	}
}

func (r *relief) isBusy(n *node) bool {
	at, moved := r.busy[n]
	return moved && r.c.now < at+r.Pause
}

// samples are the use of a pod in the two samples before now: [sample][cpu, memory].
func (u *use) samples(item int32) (of [2][2]float64) {
	for w := range of {
		for d := range of[w] {
			of[w][d] = u.sampleAt(d, item, u.c.now-float64(2-w)*u.step)
		}
	}
	return of
}

// relieve moves one pod of a node to the node that the policy ranks first among those that stay below the margin: the smallest
// by use that is no less than the excess, else the largest.
func (r *relief) relieve(n *node, left []int32) bool {
	c, u := r.c, r.c.use
	used := make([][2][2]float64, len(n.pods))
	load, capacity := u.load(n), u.capacity(n)
	worst, share := -1, 1.
	for d := range capacity {
		if now := load[1][d] / capacity[d]; load[0][d] > capacity[d] && now > share {
			worst, share = d, now
		}
	}
	if worst < 0 {
		return false
	}
	sizes := make([]float64, len(n.pods))
	for i, item := range n.pods {
		used[i] = u.samples(item)
		sizes[i] = used[i][1][worst]
	}
	for _, i := range defrag.LeaveOrder(sizes, load[1][worst]-capacity[worst]) {
		item := n.pods[i]
		if app := c.app[item]; sizes[i] == 0 || left[app] < 1 || !r.today.spares(app, r.OfWorkload) {
			continue
		}
		to, _ := c.best(item, func(to *node) bool {
			return to != n && len(to.pods) > 0 && !r.isBusy(to) && u.below(to, used[i], r.Margin)
		})
		if to == nil {
			continue
		}
		c.moveTo(item, to, Relieving)
		left[c.app[item]]--
		r.today.count(c.app[item])
		r.moved = append(r.moved, c.now)
		r.busy[n], r.busy[to] = c.now, c.now
		return true
	}
	return false
}

// load is the use of a node's pods in the two samples before now.
func (u *use) load(n *node) (sum [2][2]float64) {
	for _, item := range n.pods {
		for w, of := range u.samples(item) {
			for d, v := range of {
				sum[w][d] += v
			}
		}
	}
	return sum
}

func (u *use) capacity(n *node) [2]float64 {
	has := u.c.state.Kinds()[n.kind].Capacity
	return [2]float64{u.amount(u.cpu, has), u.amount(u.memory, has)}
}

// below reports whether a node has at most a share of its capacity in use with a pod, in both samples.
func (u *use) below(n *node, pod [2][2]float64, share float64) bool {
	load, capacity := u.load(n), u.capacity(n)
	for w := range load {
		for d := range capacity {
			if load[w][d]+pod[w][d] > share*capacity[d] {
				return false
			}
		}
	}
	return true
}
