package stack

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/emirpasic/gods/queues/priorityqueue"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A cluster is the state of a simulation.
type cluster struct {
	cfg      *Config
	trace    *trace.Trace
	now      float64
	queue    *priorityqueue.Queue // of future turns
	turns    int
	launches int

	state            *binpack.State
	scorer, fallback binpack.Scorer
	// plans has the same pods on the same nodes, for simulations of removals, which leave no trace in the state that the
	// policy reads.
	plans        *binpack.State
	nodes        []*node // in the order of launch
	byMachine    []*node // of state
	byTwin       []*node // of plans
	base         []int32 // per request: its first item
	app          []int32 // per item
	on           []*node // per item; nil = it waits, or does not live
	left         []int32 // per request: items that live
	waiting      []waiting
	changes      int  // of pods and nodes
	freed        bool // there may be room for waiting pods since they were tried
	candidates   []int32
	rank         []binpack.Ranked
	booked       []booking // of the plan that is being made
	zones        [][]int32 // node types by zone, in the order of the trace
	zoneOf       []int32   // by node type
	zoneNames    []string
	closed       []float64 // by zone: until then no node is launched there
	use          *use      // nil without usage
	provisioning func()    // of the provisioner: a pod waits
	moved        []float64 // per item: time of its last eviction

	out Result
	err error
}

type waiting struct {
	item  int32
	since float64
}

// A turn is a function that runs at a time; those of one time run in the order in which they were scheduled.
type turn struct {
	at     float64
	number int
	run    func()
}

func newCluster(t *trace.Trace, cfg *Config) (*cluster, error) {
	c := &cluster{
		cfg: cfg, trace: t, now: cfg.Begin, base: make([]int32, len(t.Requests)+1), left: make([]int32, len(t.Requests)),
		queue: priorityqueue.NewWith(func(a, b any) int {
			x, y := a.(*turn), b.(*turn)
			return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.number, y.number))
		}),
		out: Result{Evicted: map[Cause]int{}},
	}
	for i, q := range t.Requests {
		c.base[i+1] = c.base[i] + q.Count
		c.left[i] = q.Count
		for range q.Count {
			c.app = append(c.app, q.App)
		}
	}
	c.on, c.moved = make([]*node, len(c.app)), make([]float64, len(c.app))
	for i := range c.moved {
		c.moved[i] = cfg.Begin - hour
	}
	for _, d := range t.Instance.Dimensions {
		if d.Device {
			return nil, fmt.Errorf("%s: a stack does not simulate devices", d.Name)
		}
	}
	c.state, c.plans = binpack.NewState(forgetful(t.Instance)), binpack.NewState(forgetful(t.Instance))
	c.state.Known, c.state.Care = binpack.Known{Elapsed: -1}, binpack.CareOf(cfg.Policy)
	c.scorer, c.fallback = cfg.Policy.Scorer(c.state), rule.Fallback{}.Scorer(c.state)
	zones := map[string]int32{}
	for k := range c.plans.Kinds() {
		line, _ := c.plans.Position(offered(c.plans, int32(k)))
		zone := t.Instance.Machines[line].Zone
		z, ok := zones[zone]
		if !ok {
			z = int32(len(zones))
			zones[zone] = z
			c.zones, c.zoneNames, c.closed = append(c.zones, nil), append(c.zoneNames, zone), append(c.closed, 0)
		}
		c.zones[z], c.zoneOf = append(c.zones[z], int32(k)), append(c.zoneOf, z)
	}
	if cfg.Usage != nil {
		var err error
		if c.use, err = newUse(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// forgetful is a copy of an instance without forecasts, whose demands may change.
func forgetful(inst *binpack.Instance) *binpack.Instance {
	own := *inst
	own.Apps = slices.Clone(inst.Apps)
	for a := range own.Apps {
		own.Apps[a].Expected, own.Apps[a].Lifetime, own.Apps[a].Declared = -1, -1, 0
	}
	return &own
}

const (
	minute = 60.
	hour   = 3600.
	day    = 86400.
)

// at schedules a turn.
func (c *cluster) at(when float64, run func()) {
	c.turns++
	c.queue.Enqueue(&turn{max(when, c.now), c.turns, run})
}

// every runs a turn now and again after each period.
func (c *cluster) every(first, period float64, run func()) {
	var again func()
	again = func() {
		run()
		c.at(c.now+period, again)
	}
	c.at(first, again)
}

func (c *cluster) run() {
	c.cfg.Provisioner.start(c)
	for _, m := range c.cfg.Movers {
		m.start(c)
	}
	if c.use != nil {
		c.use.start()
	}
	for _, l := range c.cfg.Losses {
		c.at(l.At, func() { c.lose(l) })
	}
	later := c.populate()
	for _, e := range later {
		if e.Time >= c.cfg.Until || c.err != nil {
			break
		}
		c.until(e.Time)
		if e.Kind == trace.Delete {
			c.leave(e)
		} else {
			for i := range c.trace.Requests[e.Request].Count {
				c.arrive(c.base[e.Request] + i)
			}
		}
		c.settle()
	}
	c.until(c.cfg.Until)
	c.finish()
}

// populate lets the pods arrive that live at the beginning, and returns the events after it.
func (c *cluster) populate() (later []trace.Event) {
	living := make([]bool, len(c.trace.Requests))
	for q := range c.trace.Initial {
		living[q] = true
	}
	for i, e := range c.trace.Events {
		if e.Time > c.cfg.Begin {
			later = c.trace.Events[i:]
			break
		}
		if e.Kind == trace.Delete {
			c.left[e.Request] -= e.Count
		} else {
			living[e.Request] = true
		}
	}
	for q, lives := range living {
		for i := range c.left[q] {
			if lives {
				c.arrive(c.base[q] + i)
			}
		}
	}
	return later
}

// until runs all turns before a time.
func (c *cluster) until(before float64) {
	for c.err == nil {
		next, ok := c.queue.Peek()
		if !ok || next.(*turn).at >= before {
			break
		}
		c.queue.Dequeue()
		t := next.(*turn)
		c.now = t.at
		t.run()
		c.settle()
	}
	c.now = before
}

// arrive places a new pod, or lets it wait.
func (c *cluster) arrive(item int32) {
	if c.use != nil {
		c.use.living = append(c.use.living, item)
	}
	if c.state.Takes(c.app[item]) {
		c.state.Arrive(c.app[item], 1)
	}
	if !c.place(item) {
		c.wait(item)
	}
}

func (c *cluster) wait(item int32) {
	c.waiting = append(c.waiting, waiting{item, c.now})
	c.cfg.Provisioner.pending(c)
}

// settle tries the waiting pods again where there may be room.
func (c *cluster) settle() {
	if !c.freed || len(c.waiting) == 0 {
		c.freed = false
		return
	}
	c.freed = false
	failed := map[int32]bool{} // apps
	kept := c.waiting[:0]
	for _, w := range c.waiting {
		if app := c.app[w.item]; failed[app] || !c.place(w.item) {
			failed[app] = true
			kept = append(kept, w)
			continue
		}
		c.waited(w)
	}
	c.waiting = kept
}

func (c *cluster) waited(w waiting) {
	c.out.WaitMinutes += c.judged(w.since, c.now) / minute
}

// judged is the part of a span in the time that is judged.
func (c *cluster) judged(from, until float64) float64 {
	return max(0, min(until, c.cfg.Until)-max(from, c.cfg.From))
}

// place puts a pod on the node that the policy ranks first among those that take it.
func (c *cluster) place(item int32) bool {
	n, m := c.best(item, func(*node) bool { return true })
	if n != nil {
		c.put(item, n, m)
	}
	return n != nil
}

// best is the node that the policy ranks first for a pod among those that take it and that may be used, with its machine of
// the state; nil = there is none.
func (c *cluster) best(item int32, may func(*node) bool) (*node, int32) {
	app := c.app[item]
	c.candidates = slices.DeleteFunc(c.state.Feasible(app, c.candidates[:0]), func(m int32) bool {
		n := c.nodeFor(m)
		return n == nil || !may(n) || !c.sparesRoom(n, app)
	})
	if len(c.candidates) == 0 {
		return nil, -1
	}
	ranked, err := c.state.Rank(c.scorer, binpack.Item{App: app, Serial: uint64(item)}, c.candidates, 1, c.rank[:0])
	if errors.Is(err, binpack.ErrNotFinite) {
		ranked, err = c.state.Rank(c.fallback, binpack.Item{App: app, Serial: uint64(item)}, c.candidates, 1, c.rank[:0])
	}
	if err != nil || len(ranked) == 0 {
		c.err = fmt.Errorf("app %s at %g s: %w", c.trace.Instance.Apps[app].Name, c.now, cmp.Or(err, errors.New("no machine was ranked")))
		return nil, -1
	}
	c.rank = ranked
	return c.nodeFor(ranked[0].Machine), ranked[0].Machine
}

// lookAgain is the time at which a provisioner looks again at pods that wait: after all nodes that boot.
func (c *cluster) lookAgain() float64 {
	for _, n := range c.nodes {
		if !n.ready {
			return c.now + c.cfg.Boot + 1
		}
	}
	return c.now + minute
}

// nodeFor is the node that a machine of the state is or would be: for an empty machine the first node without pods of its
// kind; nil = there is none that takes pods.
func (c *cluster) nodeFor(m int32) *node {
	if c.state.Items(m) > 0 {
		if n := c.byMachine[m]; c.open(n) {
			return n
		}
		return nil
	}
	kind := c.state.KindOf(m)
	for _, n := range c.nodes {
		if n.machine < 0 && n.kind == kind && c.open(n) {
			return n
		}
	}
	return nil
}

// put places a pod on a node that is machine m of the state.
func (c *cluster) put(item int32, n *node, m int32) {
	app := c.app[item]
	c.state.Place(binpack.Item{App: app, Serial: uint64(item)}, m, nil)
	if n.machine < 0 {
		n.machine = m
		c.byMachine = grown(c.byMachine, m)
		c.byMachine[m] = n
		n.twin = offered(c.plans, n.kind)
		c.byTwin = grown(c.byTwin, n.twin)
		c.byTwin[n.twin] = n
	}
	c.plans.Book(app, n.twin)
	c.on[item] = n
	n.pods = append(n.pods, item)
	n.since = c.now
	c.changes++
}

func grown(list []*node, m int32) []*node {
	for int(m) >= len(list) {
		list = append(list, nil)
	}
	return list
}

// offered is the empty machine of a kind that a state offers.
func offered(s *binpack.State, kind int32) int32 {
	for w, word := range s.Offered() {
		for ; word != 0; word &= word - 1 {
			if m := int32(w*64 + bits.TrailingZeros64(word)); s.KindOf(m) == kind && s.Items(m) == 0 {
				return m
			}
		}
	}
	panic("stack: an open fleet offers a machine of each kind")
}

// take takes a pod off its node.
func (c *cluster) take(item int32) {
	n, app := c.on[item], c.app[item]
	c.state.Remove(app, n.machine, nil)
	c.plans.Remove(app, n.twin, nil)
	c.on[item] = nil
	n.pods = slices.Delete(n.pods, slices.Index(n.pods, item), slices.Index(n.pods, item)+1)
	c.freed, n.since = true, c.now
	c.changes++
	if len(n.pods) == 0 {
		c.byMachine[n.machine], c.byTwin[n.twin] = nil, nil
		n.machine, n.twin = -1, -1
	}
}

// leave takes away the pods of a delete, as a replay does: those with the highest numbers.
func (c *cluster) leave(e trace.Event) {
	for range e.Count {
		c.left[e.Request]--
		item := c.base[e.Request] + c.left[e.Request]
		if n := c.on[item]; n != nil {
			c.take(item)
			c.drained(n)
			continue
		}
		at := slices.IndexFunc(c.waiting, func(w waiting) bool { return w.item == item })
		c.waited(c.waiting[at])
		c.waiting = slices.Delete(c.waiting, at, at+1)
	}
	if c.use != nil {
		c.use.gone = true
	}
}

// evict takes a pod off its node; its replacement is placed at once, or waits.
func (c *cluster) evict(item int32, cause Cause) {
	n := c.on[item]
	c.count(item, cause)
	c.take(item)
	c.state.Arrive(c.app[item], 1)
	if !c.place(item) {
		c.wait(item)
	}
	c.drained(n)
}

func (c *cluster) finish() {
	for _, n := range c.nodes {
		c.charge(n)
	}
	for _, w := range c.waiting {
		c.waited(w)
	}
	c.out.Unplaced = len(c.waiting)
	if c.use != nil {
		c.use.finish()
	}
}

// resize changes the demand of an app's pods.
func (c *cluster) resize(app int32, demand []int64) {
	c.state.Resize(app, demand)
	c.plans.Resize(app, demand)
	c.freed = true
	c.changes++
}

func (c *cluster) demand(item int32) []int64 { return c.state.Instance().Apps[c.app[item]].Demand }
