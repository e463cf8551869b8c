package cerebro

import (
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/measure"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Options of one replay.
type Options struct {
	Order int    // 0 = the file's, i ≥ 1 = the i-th shuffle of Seed; with Usage see [AtOnce]
	Seed  uint64 //
	// Snapshot is the share of the requests that Before places; then the policy takes
	// over.
	Snapshot float64
	Before   binpack.Policy
	// Retry keeps unplaced items in arrival order and tries them again after
	// each delete; without it they are dropped.
	Retry bool
	// Repair, when set, places items that fit nowhere by moves of others.
	Repair *Repair
	// Rebalance, when set, empties machines from time to time.
	Rebalance *Rebalance
	// Usage, when set, is the measured use of the items; Run.Use judges the replay by it.
	Usage *trace.Usage
	// UsageUntil ends the time that usage judges, in seconds; 0 = the end of the usage.
	UsageUntil float64
	// Nightly, when set, lets the sizes of items follow their use. It needs Usage.
	Nightly *Nightly
	// Batch, when set, fills the cpu that items leave with tasks. It needs Usage.
	Batch *Batch
	// Fallback decides where the policy's score is not finite; nil = the lowest
	// position.
	Fallback binpack.Policy
	// Check replays every placement through the independent slow checker.
	Check bool
	// Stay, when set, has the machines of items that the policy leaves out: they stay there, and the policy places the
	// others again. The trace must have no departures.
	Stay Follower
	// Care, if set, replaces the policy's handling of preferences.
	Care *binpack.Care
	// GivenUp sums up the share of their preferences that items give up, in Run.Marks and Run.
	GivenUp bool
	// Brief leaves out figures that training does not use: mean allocation, fragment,
	// balance and spread.
	Brief bool
	// Samples is the number of points of the time series; 0 = no series.
	Samples int
	// Marks are times, not decreasing, at which Run.Marks has the sums.
	Marks []float64
	// Record, when set, is called for every decision in order.
	Record func(Decision)
	// watch, when set, is called before an item is decided.
	watch func(request, number int32, item binpack.Item)
}

// A Decision is one line of the history of a replay.
type Decision struct {
	Time    float64
	Request int32
	Item    int32 // number within the request
	Kind    DecisionKind
	Machine int32            // -1 = no machine
	Devices []binpack.Device // valid during the call
}

// DecisionKind is the kind of a decision on an item.
type DecisionKind uint8

// The kinds of decisions, as in placements.csv.
const (
	Place DecisionKind = iota
	Remove
	Unplaced
	Move // to Machine
)

func (k DecisionKind) String() string { return [...]string{"place", "remove", "unplaced", "move"}[k] }

// A Replayer replays one trace any number of times, keeping its memory. It
// serves one goroutine.
type Replayer struct {
	trace    *trace.Trace
	state    *binpack.State
	known    binpack.Known // the facts of all levels
	declared []float64     // per app
	// Initial requests' items are on these machines.
	base      []int32 // per request: number of its first item
	total     []float64
	firstTime float64
	lastTime  float64 // of creates
	deletes   bool
	orders    map[orderKey][]trace.Event

	meter   *meter // of the last Options.Usage
	resized bool   // demands are not those of the trace
	whole   bool   // requests arrive whole, else item by item

	// Of the current run.
	where   []int32
	devices map[int32][]binpack.Device
	left    []int32 // per request: items not yet deleted
	waiting []waiting
	stays   []int32 // per item: number in staying, from 1 on; 0 = it does not stay
	staying []staying
	run     run
}

type orderKey struct {
	seed   uint64
	order  int
	inTime bool
}

// A waiting item and when it arrived.
type waiting struct {
	request, item int32
	since         float64
}

// NewReplayer prepares the replay of a trace.
func NewReplayer(t *trace.Trace) *Replayer {
	r := &Replayer{trace: t, state: binpack.NewState(withoutForecast(t.Instance)), orders: map[orderKey][]trace.Event{}, whole: wholeRequests(t)}
	r.base = make([]int32, len(t.Requests)+1)
	for i, q := range t.Requests {
		r.base[i+1] = r.base[i] + q.Count
	}
	r.where = make([]int32, r.base[len(t.Requests)])
	r.left = make([]int32, len(t.Requests))
	r.scan()
	return r
}

// Trace is the replayed trace.
func (r *Replayer) Trace() *trace.Trace { return r.trace }

// State is the state after the last replay.
func (r *Replayer) State() *binpack.State { return r.state }

// Deletes reports whether the trace has departures.
func (r *Replayer) Deletes() bool { return r.deletes }

// events returns the events of an order. It keeps shuffles, since training needs the same
// few again and again.
func (r *Replayer) events(seed uint64, order int, use bool) []trace.Event {
	if order == 0 {
		return r.trace.Events
	}
	key := orderKey{seed, order, use && !AtOnce(r.trace)}
	if ev, ok := r.orders[key]; ok {
		return ev
	}
	var ev []trace.Event
	if key.inTime {
		ev = inTime(r.trace.Events, rand.New(rand.NewPCG(seed, uint64(order))))
	} else {
		ev = r.trace.Order(seed, order)
	}
	const keep = 1 << 20 // events
	if len(r.orders)*len(ev) < keep {
		r.orders[key] = ev
	}
	return ev
}

// AtOnce reports whether all items arrive at one time, so that their order changes none of their lives. Where they do not,
// a shuffle of a replay with use is of the items of each moment among themselves: a series is of a time.
func AtOnce(t *trace.Trace) bool {
	return !slices.ContainsFunc(t.Events, func(e trace.Event) bool { return e.Kind == trace.Create && e.Time != t.Events[0].Time })
}

// inTime shuffles the arrivals of each moment.
func inTime(events []trace.Event, rng *rand.Rand) []trace.Event {
	events = slices.Clone(events)
	for first := 0; first < len(events); {
		next := first + 1
		for next < len(events) && events[first].Kind == trace.Create && events[next].Kind == trace.Create && events[next].Time == events[first].Time {
			next++
		}
		same := events[first:next]
		rng.Shuffle(len(same), func(i, j int) { same[i], same[j] = same[j], same[i] })
		first = next
	}
	return events
}

// run is the replay in progress.
type run struct {
	opt     Options
	policy  binpack.Policy
	scorer  binpack.Scorer
	chooser binpack.DeviceChooser
	// own is the scorer of the replayed policy, while another one places the snapshot.
	own        binpack.Scorer
	ownChooser binpack.DeviceChooser
	fallback   binpack.Scorer
	follower   Follower // nil = the policy decides
	checker    *binpack.Checker
	mover      *mover // nil = items stay
	know       binpack.Knowledge
	out        Run
	tally      tally
	arrived    float64 // demand of arrived items, first dimension
	rejected   []float64
	refusals   []waiting // with Options.Stay
	refused    bool      // an item was unplaced, even if it was placed later
	waited     float64   // seconds, of all items together
	err        error
}

// Run replays the trace under a policy.
func (r *Replayer) Run(policy binpack.Policy, opt Options) (Run, error) {
	r.staying, r.stays = r.staying[:0], nil
	if opt.Stay == nil {
		return r.once(policy, opt)
	}
	r.stays = make([]int32, len(r.where))
	record := opt.Record
	opt.Record = nil // of the last replay alone
	for again := 1; ; again++ {
		out, err := r.once(policy, opt)
		switch {
		case err != nil:
			return Run{}, err
		case r.keep(opt.Stay, again > wholeApps):
			continue
		case record == nil:
			return out, nil
		}
		opt.Record = record
		return r.once(policy, opt)
	}
}

// once replays the trace with the items that stay.
func (r *Replayer) once(policy binpack.Policy, opt Options) (Run, error) {
	r.begin(policy, opt)
	if err := r.placeInitial(); err != nil {
		return Run{}, err
	}
	events := r.events(opt.Seed, opt.Order, opt.Usage != nil)
	u := &r.run
	u.tally.begin(r, events)
	if err := r.beginUse(events); err != nil {
		return Run{}, err
	}
	if err := r.placeStaying(); err != nil {
		return Run{}, err
	}
	span := r.lastTime - r.firstTime
	creates := r.beginSnapshot()
	for _, e := range events {
		r.rebalance(e.Time)
		r.judge(e.Time)
		u.tally.advance(r, e.Time)
		if u.know.Clock() && span > 0 {
			r.state.Known.Elapsed = min(1, max(0, (e.Time-r.firstTime)/span)) // deletes may lie outside
		}
		if creates == 0 {
			u.scorer, u.chooser = u.own, u.ownChooser
		}
		if e.Kind == trace.Delete {
			r.delete(e)
		} else {
			creates--
			r.create(e)
		}
		if u.err != nil {
			return Run{}, u.err
		}
	}
	return r.finish(), nil
}

// beginSnapshot hands the replay to the policy of the snapshot, if there is
// one, and returns the number of requests after which the replayed policy takes over.
func (r *Replayer) beginSnapshot() int {
	u := &r.run
	u.own, u.ownChooser = u.scorer, u.chooser
	if u.opt.Before == nil || u.opt.Snapshot <= 0 {
		return 0
	}
	u.scorer = u.opt.Before.Scorer(r.state)
	u.chooser, _ = u.scorer.(binpack.DeviceChooser)
	return int(u.opt.Snapshot * float64(len(r.trace.Requests)-r.trace.Initial))
}

func (r *Replayer) begin(policy binpack.Policy, opt Options) {
	r.state.Reset()
	r.unresize()
	r.run = run{opt: opt, policy: policy, know: policy.Knowledge(), rejected: make([]float64, len(r.total))}
	u := &r.run
	r.state.Known, r.state.Declared, r.state.Care = r.grant(u.know), r.declared, binpack.CareOf(policy)
	if opt.Care != nil {
		r.state.Care = *opt.Care
	}
	for i, q := range r.trace.Requests {
		r.left[i] = q.Count
	}
	for i := range r.where {
		r.where[i] = -1
	}
	if r.devices != nil {
		clear(r.devices)
	}
	r.waiting = r.waiting[:0]
	if opt.Check {
		u.checker = binpack.NewChecker(r.trace.Instance)
	}
	u.out = Run{Order: opt.Order, FirstRejection: 1}
	u.scorer = policy.Scorer(r.state)
	u.chooser, _ = u.scorer.(binpack.DeviceChooser)
	u.follower, _ = policy.(Follower)
	r.beginMoves()
	u.fallback = equal{}
	if opt.Fallback != nil {
		u.fallback = opt.Fallback.Scorer(r.state)
	}
}

// CheckPlaced reports an item of placed.csv that its machine has no room for.
func (r *Replayer) CheckPlaced() error {
	r.state.Reset()
	r.run = run{}
	return r.placeInitial()
}

func (r *Replayer) finish() Run {
	u := &r.run
	u.tally.finish(r)
	r.finishUse()
	r.allReturned()
	out := &u.out
	out.Machines = r.state.Active()
	for k, n := range r.state.Held() {
		out.Cost += float64(n) * r.state.Kinds()[k].Cost
	}
	out.Rejected = make([]float64, len(r.total))
	for d, sum := range r.total {
		if sum > 0 {
			out.Rejected[d] = u.rejected[d] / sum
		}
	}
	for _, w := range r.waiting {
		u.wait(w, u.tally.last)
	}
	if came := out.Placed + out.Unplaced; came > 0 {
		out.MeanWaiting = u.waited / float64(came)
	}
	out.ImbalanceTie = measure.MeanSquaredFree(r.state)
	if !u.opt.Brief {
		out.AllocationRate = measure.AllocationRate(r.state)
		out.Fragment = measure.Fragment(r.state, r.mix())
		out.Balance = measure.Balance(r.state)
		out.Spread = measure.Spread(r.state)
	}
	return *out
}
