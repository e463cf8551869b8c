package cerebro

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/plan/defrag"
)

// Nightly counts items at sizes that follow their use: at each midnight of the trace's
// clock all demands change, machines that the new ones overfill give items away, and by
// day a machine above capacity gives one away at once. The policy chooses where to.
type Nightly struct {
	// Moves is the most moves from one midnight to the next, as a share of the living items.
	Moves float64
	// OfWorkload is the most of these moves that are of one app, as a share of its living items
	// rounded down, but at least one: the pods that a disruption budget lets go at a time.
	OfWorkload float64
	// Relief is the seconds above capacity after which a machine gives away one item; 0 = never.
	Relief float64
	// Demands are the demands of all apps from a midnight on.
	Demands func(at float64) [][]int64
}

// ParseNightly reads a [Nightly] such as "moves=1%,relief=10m"; settings that are left out
// have these values.
func ParseNightly(text string) (*Nightly, error) {
	n := &Nightly{Moves: .01, OfWorkload: .25, Relief: 600}
	return n, settings(text, map[string]func(string) error{
		"moves":    shareOf(&n.Moves),
		"workload": shareOf(&n.OfWorkload),
		"relief": func(text string) error {
			d, err := time.ParseDuration(text)
			if err != nil || d < 0 {
				return errors.New("want a time with its unit, such as 10m; 0s is never")
			}
			n.Relief = d.Seconds()
			return nil
		},
	})
}

// String returns the form that [ParseNightly] reads.
func (n *Nightly) String() string {
	return "moves=" + percent(n.Moves) + ",workload=" + percent(n.OfWorkload) + ",relief=" + duration(n.Relief).String()
}

// beginNights gives the apps the sizes of the beginning.
func (r *Replayer) beginNights(first float64) error {
	u := &r.run
	if u.opt.Nightly == nil {
		return nil
	}
	switch {
	case u.follower != nil:
		return errors.New("moves by use want a policy that places items, not a past placement")
	case u.opt.Repair != nil || u.opt.Rebalance != nil:
		return errors.New("moves by use do not go together with repair and rebalance")
	}
	fixed, err := r.trace.Fixed()
	if err != nil {
		return err
	}
	r.meter.fixed = make([]bool, len(r.trace.Requests))
	for i, q := range r.trace.Requests {
		r.meter.fixed[i] = fixed[q.Name] != nil
	}
	r.meter.movedOf = make([]int, len(r.trace.Instance.Apps))
	r.resize(first)
	return nil
}

// resize changes the demands, and builds the scorer anew.
func (r *Replayer) resize(at float64) {
	u := &r.run
	for app, demand := range u.opt.Nightly.Demands(at) {
		if !slices.Equal(demand, r.state.Instance().Apps[app].Demand) {
			r.state.Resize(int32(app), demand)
			if u.checker != nil {
				u.checker.Resize(int32(app), demand)
			}
		}
	}
	u.scorer = u.policy.Scorer(r.state)
	u.chooser, _ = u.scorer.(binpack.DeviceChooser)
	u.own, u.ownChooser, r.resized = u.scorer, u.chooser, true
	r.meter.setDemands(r.state.Instance())
}

// unresize gives the apps their own demands again.
func (r *Replayer) unresize() {
	for app := range r.trace.Instance.Apps {
		if r.resized {
			r.state.Resize(int32(app), r.trace.Instance.Apps[app].Demand)
		}
	}
	r.resized = false
}

// night changes the demands and empties overfull machines down to their capacity, the
// fullest first.
func (r *Replayer) night(now float64) {
	m := r.meter
	m.tonight = 0
	clear(m.movedOf)
	r.resize(now)
	most := r.allowed()
	stuck := map[int32]bool{}
	for m.tonight < most {
		on, d := r.overfull(stuck)
		if on < 0 {
			return
		}
		excess := float64(-r.state.Free(d)[on])
		size := func(item int32) float64 { return float64(r.state.Instance().Apps[r.appOf(item)].Demand[d]) }
		if r.giveAway(now, on, excess, size, nil) {
			m.out.Resized++
		} else {
			stuck[on] = true
		}
	}
}

// allowed is the most moves from one midnight to the next, by the items that live now.
func (r *Replayer) allowed() int {
	most := int(r.run.opt.Nightly.Moves * float64(r.state.AliveTotal()))
	r.meter.out.Allowed = max(r.meter.out.Allowed, most)
	return most
}

// mayMove reports whether fewer items of an app have moved since midnight than may.
func (r *Replayer) mayMove(app int32) bool {
	most := int(r.run.opt.Nightly.OfWorkload * float64(r.state.Alive()[app]))
	return r.meter.movedOf[app] < max(1, most)
}

// overfull is the machine whose demand exceeds its capacity by the largest share, with
// the dimension; -1 = none but those in except.
func (r *Replayer) overfull(except map[int32]bool) (on int32, dimension int) {
	on, worst := -1, 0.
	for d := range r.trace.Instance.Dimensions {
		for at, free := range r.state.Free(d) {
			if free >= 0 || except[int32(at)] {
				continue
			}
			if share := float64(-free) / math.Max(1, float64(r.state.Capacity(int32(at))[d])); share > worst {
				on, dimension, worst = int32(at), d, share
			}
		}
	}
	return on, dimension
}

// relieve lets machines that have been above capacity for long give an item away.
func (r *Replayer) relieve(now float64) {
	m, n := r.meter, r.run.opt.Nightly
	most := r.allowed()
	for on := range int32(len(m.streak)) {
		if n.Relief == 0 || m.streak[on] < n.Relief || m.tonight >= most || r.state.Items(on) < 2 {
			continue
		}
		worst, excess := 0, 0.
		for d := range m.dims {
			if over := m.used[d][on]/m.capacity(r, d, on) - 1; over > excess {
				worst, excess = d, over
			}
		}
		uses := func(item int32) float64 { return m.use(worst, item, now) }
		takes := func(item, to int32) bool {
			for d := range m.dims {
				if m.used[d][to]+m.use(d, item, now) > m.capacity(r, d, to) {
					return false
				}
			}
			return true
		}
		if r.giveAway(now, on, excess*m.capacity(r, worst, on), uses, takes) {
			m.out.Relieved++
			m.streak[on] = 0
		}
	}
}

// giveAway moves one item from a machine to another that takes it: the smallest that is
// no less than the excess, else the largest that finds a place. It reports whether it did.
func (r *Replayer) giveAway(now float64, from int32, excess float64, size func(item int32) float64, takes func(item, to int32) bool) bool {
	var items []int32
	var sizes []float64
	for _, item := range r.meter.living {
		if r.where[item] == from && len(r.devices[item]) == 0 && !r.meter.fixed[r.requestOf(item)] && r.mayMove(r.appOf(item)) && size(item) > 0 {
			items, sizes = append(items, item), append(sizes, size(item))
		}
	}
	for _, i := range defrag.LeaveOrder(sizes, excess) {
		if r.shift(now, items[i], takes) {
			return true
		}
	}
	return false
}

// shift moves an item to another machine that takes it.
func (r *Replayer) shift(now float64, item int32, takes func(item, to int32) bool) bool {
	u, m := &r.run, r.meter
	app, from := r.appOf(item), r.where[item]
	if !m.ended {
		u.tally.mark(r, now)
		u.tally.reach(r, now)
	}
	r.state.Remove(app, from, nil) // limits, spread and zones count it nowhere while a place is sought
	r.state.Moved()
	candidates := slices.DeleteFunc(r.state.Feasible(app, nil), func(to int32) bool {
		return to == from || takes != nil && int(to) < len(m.streak) && !takes(item, to)
	})
	var to int32
	ok := len(candidates) > 0
	switch {
	case !ok:
	case takes != nil:
		to = r.leastUsed(candidates, item, now)
	default:
		to, ok = r.rankedFirst(binpack.Item{App: app, Serial: uint64(item)}, candidates)
	}
	if !ok {
		r.state.Book(app, from)
		return false
	}
	r.state.Book(app, to)
	if u.checker != nil {
		line, index := r.state.Position(from)
		u.out.Violations += violations(u.checker.Remove(app, line, index, nil))
		line, index = r.state.Position(to)
		u.out.Violations += violations(u.checker.Place(app, line, index, nil))
	}
	r.where[item] = to
	u.out.Moves++
	m.tonight++
	m.movedOf[app]++
	m.out.MostMoved = max(m.out.MostMoved, float64(m.tonight)/float64(r.state.AliveTotal()))
	for d := range m.dims { // for the next one that leaves at this moment
		use := m.use(d, item, now)
		if m.used[d] != nil {
			m.used[d] = append(m.used[d], make([]float64, max(0, r.state.Size()-len(m.used[d])))...)
			m.used[d][from] -= use
			m.used[d][to] += use
		}
	}
	if u.opt.Record != nil {
		request := r.requestOf(item)
		u.opt.Record(Decision{Time: now, Request: request, Item: item - r.base[request], Kind: Move, Machine: to})
	}
	return true
}

// rankedFirst is the machine that the policy, or else the fallback, ranks first.
func (r *Replayer) rankedFirst(item binpack.Item, candidates []int32) (int32, bool) {
	for _, scorer := range []binpack.Scorer{r.run.scorer, r.run.fallback} {
		if ranked, err := r.state.Rank(scorer, item, candidates, 1, nil); err == nil && len(ranked) > 0 {
			return ranked[0].Machine, true
		}
	}
	return -1, false
}

// leastUsed is the machine with the lowest use ÷ capacity after it took an item: one in
// use, if there is one, so that relief opens a machine as a last resort.
func (r *Replayer) leastUsed(candidates []int32, item int32, now float64) int32 {
	m := r.meter
	share := func(on int32) (most float64) {
		for d := range m.dims {
			most = max(most, (m.used[d][on]+m.use(d, item, now))/m.capacity(r, d, on))
		}
		return most
	}
	return slices.MinFunc(candidates, func(a, b int32) int {
		if emptyA, emptyB := r.state.Items(a) == 0, r.state.Items(b) == 0; emptyA != emptyB {
			return cmp.Compare(r.state.Items(b), r.state.Items(a))
		}
		return cmp.Compare(share(a), share(b))
	})
}

func (r *Replayer) requestOf(item int32) int32 {
	at, _ := slices.BinarySearch(r.base, item+1)
	return int32(at - 1)
}

func (r *Replayer) appOf(item int32) int32 { return r.trace.Requests[r.requestOf(item)].App }
