package cerebro

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/measure"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Options of one replay.
type Options struct {
	Order int    // 0 = the file's, i ≥ 1 = the i-th shuffle of Seed
	Seed  uint64 //
	// Snapshot is the share of the requests that Before places; then the policy
	// takes over what stands.
	Snapshot float64
	Before   binpack.Policy
	// Retry keeps unplaced items in arrival order and tries them again after
	// each delete; without it they are dropped.
	Retry bool
	// Fallback decides where the policy's score is not finite; nil = the lowest
	// position.
	Fallback binpack.Policy
	// Check replays every placement through the independent slow checker.
	Check bool
	// Brief leaves out what training does not look at: mean allocation,
	// fragment, balance and spread.
	Brief bool
	// Samples is the number of points of the time series; 0 = none.
	Samples int
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
	Machine int32            // -1 = none
	Devices []binpack.Device // valid during the call
}

// DecisionKind is what happened to an item.
type DecisionKind uint8

// The kinds of decisions, as in placements.csv.
const (
	Place DecisionKind = iota
	Remove
	Unplaced
)

func (k DecisionKind) String() string { return [...]string{"place", "remove", "unplaced"}[k] }

// A Replayer replays one trace any number of times, keeping its memory. It
// serves one goroutine.
type Replayer struct {
	trace *trace.Trace
	state *binpack.State
	known binpack.Known // everything there is to know
	// Initial requests' items stand on these machines.
	base      []int32 // per request: number of its first item
	total     []float64
	firstTime float64
	lastTime  float64 // of creates
	deletes   bool
	orders    map[orderKey][]trace.Event

	// Of the current run.
	where   []int32
	devices map[int32][]binpack.Device
	left    []int32 // per request: items not yet deleted
	waiting []waiting
	run     run
}

type orderKey struct {
	seed  uint64
	order int
}

type waiting struct{ request, item int32 }

// NewReplayer prepares the replay of a trace.
func NewReplayer(t *trace.Trace) *Replayer {
	r := &Replayer{trace: t, state: binpack.NewState(withoutForecast(t.Instance)), orders: map[orderKey][]trace.Event{}}
	r.base = make([]int32, len(t.Requests)+1)
	for i, q := range t.Requests {
		r.base[i+1] = r.base[i] + q.Count
	}
	r.where = make([]int32, r.base[len(t.Requests)])
	r.left = make([]int32, len(t.Requests))
	r.scan()
	return r
}

// withoutForecast is the instance as policies see it: what a level knows of
// expected numbers and lifetimes it is granted.
func withoutForecast(inst *binpack.Instance) *binpack.Instance {
	seen := *inst
	seen.Apps = slices.Clone(inst.Apps)
	for a := range seen.Apps {
		seen.Apps[a].Expected, seen.Apps[a].Lifetime = -1, -1
	}
	return &seen
}

// scan finds what is fixed for all orders: forecast, totals, the period.
func (r *Replayer) scan() {
	t := r.trace
	apps := t.Instance.Apps
	r.total = make([]float64, len(t.Instance.Dimensions))
	r.firstTime, r.lastTime = math.Inf(1), math.Inf(-1)
	for _, e := range t.Events {
		q := t.Requests[e.Request]
		if e.Kind == trace.Delete {
			r.deletes = true
			continue
		}
		for d, need := range apps[q.App].Demand {
			r.total[d] += float64(need) * float64(q.Count)
		}
		r.firstTime, r.lastTime = min(r.firstTime, e.Time), max(r.lastTime, e.Time)
	}
	r.known.Total = r.peaks(t.Events)
	for _, app := range apps {
		r.known.Expected = append(r.known.Expected, app.Expected)
		r.known.Lifetime = append(r.known.Lifetime, app.Lifetime)
	}
}

// peaks is the largest number of items of each app that are alive at a time.
func (r *Replayer) peaks(events []trace.Event) []int64 {
	t := r.trace
	alive := make([]int64, len(t.Instance.Apps))
	for _, q := range t.Requests[:t.Initial] {
		alive[q.App] += int64(q.Count)
	}
	peak := slices.Clone(alive)
	for _, e := range events {
		a := t.Requests[e.Request].App
		if e.Kind == trace.Delete {
			alive[a] -= int64(e.Count)
			continue
		}
		alive[a] += int64(t.Requests[e.Request].Count)
		peak[a] = max(peak[a], alive[a])
	}
	return peak
}

// Trace is what the replayer replays.
func (r *Replayer) Trace() *trace.Trace { return r.trace }

// State is the state after the last replay.
func (r *Replayer) State() *binpack.State { return r.state }

// Deletes reports whether the trace has departures.
func (r *Replayer) Deletes() bool { return r.deletes }

// Totals is the true number of items per app (with deletes: at the app's
// peak in the file's order).
func (r *Replayer) Totals() []int64 { return r.known.Total }

// events of an order; shuffles are kept, since training asks for the same few
// again and again.
func (r *Replayer) events(seed uint64, order int) []trace.Event {
	if order == 0 {
		return r.trace.Events
	}
	key := orderKey{seed, order}
	if ev, ok := r.orders[key]; ok {
		return ev
	}
	ev := r.trace.Order(seed, order)
	const keep = 1 << 20 // events
	if len(r.orders)*len(ev) < keep {
		r.orders[key] = ev
	}
	return ev
}

// run is the replay in progress.
type run struct {
	opt     Options
	scorer  binpack.Scorer
	chooser binpack.DeviceChooser
	// own is the scorer of the policy that is replayed, when another one places
	// the snapshot first.
	own        binpack.Scorer
	ownChooser binpack.DeviceChooser
	fallback   binpack.Scorer
	follower   Follower // nil = the policy decides
	checker    *binpack.Checker
	know       binpack.Knowledge
	out        Run
	tally      tally
	arrived    float64 // first dimension, demand of items that have come
	rejected   []float64
	refused    bool // an item was unplaced, even if it stands by now
	err        error
}

// A Follower is a policy that repeats what was: it says where the items of creates
// stood. Nothing is chosen, and constraints are not asked.
type Follower interface {
	binpack.Policy
	// Where is the machine of an item, by line of machines.csv and index within it,
	// with its devices; ok is false when it stood nowhere.
	Where(request, number int32) (line, index int32, devices []trace.Device, ok bool)
}

// Run replays the trace under a policy.
func (r *Replayer) Run(policy binpack.Policy, opt Options) (Run, error) {
	r.begin(policy, opt)
	if err := r.placeInitial(); err != nil {
		return Run{}, err
	}
	events := r.events(opt.Seed, opt.Order)
	u := &r.run
	u.tally.begin(r, events)
	span := r.lastTime - r.firstTime
	creates := r.beginSnapshot()
	for _, e := range events {
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
// one, and returns the number of requests after which the own policy takes over.
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
	r.run = run{opt: opt, know: policy.Knowledge(), rejected: make([]float64, len(r.total))}
	u := &r.run
	r.state.Known = r.grant(u.know)
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
	u.fallback = equal{}
	if opt.Fallback != nil {
		u.fallback = opt.Fallback.Scorer(r.state)
	}
}

// grant gives a level its facts and hides the others.
func (r *Replayer) grant(k binpack.Knowledge) binpack.Known {
	known := binpack.Known{Elapsed: -1}
	if k.Clock() {
		known.Elapsed = 0
	}
	if k.Forecast() {
		known.Expected, known.Lifetime = r.known.Expected, r.known.Lifetime
	}
	if k == binpack.K2 {
		known.Total = r.known.Total
		if opt := r.run.opt; r.deletes && opt.Order > 0 { // the peaks depend on the order
			known.Total = r.peaks(r.events(opt.Seed, opt.Order))
		}
	}
	return known
}

// CheckPlaced reports what of placed.csv its machine has no room for.
func (r *Replayer) CheckPlaced() error {
	r.state.Reset()
	r.run = run{}
	return r.placeInitial()
}

// placeInitial books the items of placed.csv as they were found.
func (r *Replayer) placeInitial() error {
	next := make([]int32, r.trace.Initial)
	for i, p := range r.trace.Placed {
		q := r.trace.Requests[p.Request]
		m := r.state.MachineAt(p.Line, p.Index)
		var devices []binpack.Device // each of the line's items uses these
		for _, d := range p.Devices {
			devices = append(devices, binpack.Device(d))
		}
		for range p.Count {
			if err := r.state.PlaceAs(q.App, m, devices); err != nil {
				return fmt.Errorf("placed.csv:%d: request %q on machine %s: %w",
					i+2, q.Name, r.trace.MachineName(p.Line, p.Index), err)
			}
			item := r.base[p.Request] + next[p.Request]
			next[p.Request]++
			r.where[item] = m
			r.keepDevices(item, devices)
			if r.run.checker != nil {
				if err := r.run.checker.Initial(q.App, p.Line, p.Index, devices); err != nil {
					return fmt.Errorf("placed.csv:%d: %w", i+2, err)
				}
			}
		}
	}
	return nil
}

func (r *Replayer) keepDevices(item int32, devices []binpack.Device) {
	if len(devices) == 0 {
		return
	}
	if r.devices == nil {
		r.devices = map[int32][]binpack.Device{}
	}
	r.devices[item] = slices.Clone(devices)
}

func (r *Replayer) create(e trace.Event) {
	q := r.trace.Requests[e.Request]
	r.state.Arrive(q.App, q.Count)
	for i := range q.Count {
		if !r.place(e.Time, e.Request, i) {
			r.reject(e, i)
			if r.run.err != nil {
				return
			}
		}
		r.run.arrived += float64(r.trace.Instance.Apps[q.App].Demand[0])
	}
}

func (r *Replayer) reject(e trace.Event, item int32) {
	u := &r.run
	if !u.refused && r.total[0] > 0 {
		u.out.FirstRejection = u.arrived / r.total[0]
	}
	u.refused = true
	u.out.Unplaced++
	app := r.trace.Requests[e.Request].App
	for d, need := range r.trace.Instance.Apps[app].Demand {
		u.rejected[d] += float64(need)
	}
	if u.opt.Retry {
		r.waiting = append(r.waiting, waiting{e.Request, item})
	}
	if u.opt.Record != nil {
		u.opt.Record(Decision{Time: e.Time, Request: e.Request, Item: item, Kind: Unplaced, Machine: -1})
	}
}

// place tries to place one item and reports whether it stands.
func (r *Replayer) place(now float64, request, number int32) bool {
	u := &r.run
	if u.follower != nil {
		return r.follow(now, request, number)
	}
	item := binpack.Item{App: r.trace.Requests[request].App, Serial: uint64(r.base[request] + number)}
	if u.opt.watch != nil {
		u.opt.watch(request, number, item)
	}
	m, err := r.state.Choose(u.scorer, item)
	chooser := u.chooser
	if errors.Is(err, binpack.ErrNotFinite) {
		m, err = r.fallBack(item)
		chooser, _ = u.fallback.(binpack.DeviceChooser)
	}
	if err != nil {
		if !errors.Is(err, binpack.ErrNoFit) {
			u.err = fmt.Errorf("request %q: %w", r.trace.Requests[request].Name, err)
		}
		return false
	}
	devices := r.state.Place(item, m, chooser)
	if u.checker != nil {
		line, index := r.state.Position(m)
		u.out.Violations += violations(u.checker.Place(item.App, line, index, devices))
	}
	r.stands(now, request, number, m, devices)
	return true
}

// stands notes that an item was put on a machine.
func (r *Replayer) stands(now float64, request, number, m int32, devices []binpack.Device) {
	u := &r.run
	item := r.base[request] + number
	r.where[item] = m
	r.keepDevices(item, devices)
	u.out.Placed++
	u.tally.moved(r, r.trace.Requests[request].App, 1)
	if u.opt.Record != nil {
		u.opt.Record(Decision{Time: now, Request: request, Item: number, Machine: m, Devices: devices})
	}
}

// follow puts an item where it stood and reports whether it stood anywhere.
func (r *Replayer) follow(now float64, request, number int32) bool {
	u := &r.run
	line, index, used, ok := u.follower.Where(request, number)
	if !ok {
		return false
	}
	q := r.trace.Requests[request]
	m := r.state.MachineAt(line, index)
	var devices []binpack.Device
	for _, d := range used {
		devices = append(devices, binpack.Device(d))
	}
	if len(devices) == 0 {
		r.state.Book(q.App, m) // in another order of arrival more may stand there at a time than ever did
	} else if err := r.state.PlaceAs(q.App, m, devices); err != nil {
		u.err = fmt.Errorf("request %q on machine %s: %w", q.Name, r.trace.MachineName(line, index), err)
		return false
	}
	if u.checker != nil {
		u.err = u.checker.Initial(q.App, line, index, devices)
	}
	r.stands(now, request, number, m, devices)
	return true
}

// violations counts what the checker found wrong.
func violations(err error) int {
	if err == nil {
		return 0
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return len(many.Unwrap())
	}
	return 1
}

func (r *Replayer) fallBack(item binpack.Item) (int32, error) {
	u := &r.run
	if u.out.Fallbacks == nil {
		u.out.Fallbacks = map[string]int{}
	}
	u.out.Fallbacks["score is not finite"]++
	return r.state.Choose(u.fallback, item)
}

// equal gives all machines the same score, so that the lowest position is chosen.
type equal struct{}

func (equal) Score(_ binpack.Item, _ []int32, out []float64) { clear(out) }

// delete removes the highest-numbered items of a request that are left, then
// tries those that wait.
func (r *Replayer) delete(e trace.Event) {
	q := r.trace.Requests[e.Request]
	for range e.Count {
		r.left[e.Request]--
		number := r.left[e.Request]
		item := r.base[e.Request] + number
		m := r.where[item]
		if r.run.opt.Record != nil {
			r.run.opt.Record(Decision{
				Time: e.Time, Request: e.Request, Item: number, Kind: Remove,
				Machine: m, Devices: r.devices[item],
			})
		}
		if m < 0 {
			r.waiting = slices.DeleteFunc(r.waiting, func(w waiting) bool { return w == waiting{e.Request, number} })
			continue
		}
		r.state.Remove(q.App, m, r.devices[item])
		if r.run.checker != nil {
			line, index := r.state.Position(m)
			r.run.out.Violations += violations(r.run.checker.Remove(q.App, line, index, r.devices[item]))
		}
		delete(r.devices, item)
		r.where[item] = -1
		r.run.tally.moved(r, q.App, -1)
	}
	if len(r.waiting) > 0 {
		r.waiting = slices.DeleteFunc(r.waiting, func(w waiting) bool {
			if !r.place(e.Time, w.request, w.item) {
				return false
			}
			r.run.out.Unplaced--
			for d, need := range r.trace.Instance.Apps[r.trace.Requests[w.request].App].Demand {
				r.run.rejected[d] -= float64(need)
			}
			return true
		})
	}
}

func (r *Replayer) finish() Run {
	u := &r.run
	u.tally.finish(r)
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
	out.ImbalanceTie = measure.MeanSquaredFree(r.state)
	if !u.opt.Brief {
		out.AllocationRate = measure.AllocationRate(r.state)
		out.Fragment = measure.Fragment(r.state, r.mix())
		out.Balance = measure.Balance(r.state)
		out.Spread = measure.Spread(r.state)
	}
	return *out
}

// mix is the number of items per app in the whole trace.
func (r *Replayer) mix() []int64 {
	mix := make([]int64, len(r.trace.Instance.Apps))
	for _, q := range r.trace.Requests {
		mix[q.App] += int64(q.Count)
	}
	return mix
}
