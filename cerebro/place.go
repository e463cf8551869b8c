package cerebro

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A Follower is a policy that repeats past placements. The replay chooses nothing and
// checks no constraints.
type Follower interface {
	binpack.Policy
	// Where is the past machine of an item, by line of machines.csv and index within
	// it, with its devices; ok is false if it had no machine.
	Where(request, number int32) (line, index int32, devices []trace.Device, ok bool)
}

// placeInitial books the items of placed.csv as they were found.
func (r *Replayer) placeInitial() error {
	next := make([]int32, r.trace.Initial)
	fixed, err := r.trace.Fixed()
	if err != nil && r.run.mover != nil {
		return err
	}
	for i, p := range r.trace.Placed {
		q := r.trace.Requests[p.Request]
		m := r.state.MachineAt(p.Line, p.Index)
		for range p.Count { // each of the line's items uses the line's devices
			if err := r.state.PlaceAs(q.App, m, p.Devices); err != nil {
				return fmt.Errorf("placed.csv:%d: request %q on machine %s: %w",
					i+2, q.Name, r.trace.MachineName(p.Line, p.Index), err)
			}
			item := r.base[p.Request] + next[p.Request]
			next[p.Request]++
			r.where[item] = m
			r.keepDevices(item, p.Devices)
			r.run.mover.came(r, item, q.App, m)
			if fixed[q.Name] != nil {
				r.run.mover.fix(item)
			}
			if r.run.checker != nil {
				if err := r.run.checker.Initial(q.App, p.Line, p.Index, p.Devices); err != nil {
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
	if r.whole {
		r.state.Arrive(q.App, q.Count)
	}
	for i := range q.Count {
		if !r.stayed(e, i) && !r.place(e.Time, e.Request, i) {
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
	if u.tally.from <= e.Time {
		u.tally.refused++
	}
	u.out.Unplaced++
	if u.opt.Stay != nil {
		u.refusals = append(u.refusals, waiting{e.Request, item, e.Time})
	}
	app := r.trace.Requests[e.Request].App
	if u.out.LeftOut == nil {
		u.out.LeftOut = map[int32]int{}
	}
	u.out.LeftOut[app]++
	for d, need := range r.trace.Instance.Apps[app].Demand {
		u.rejected[d] += float64(need)
	}
	if u.opt.Retry {
		r.waiting = append(r.waiting, waiting{e.Request, item, e.Time})
	}
	if u.opt.Record != nil {
		u.opt.Record(Decision{Time: e.Time, Request: e.Request, Item: item, Kind: Unplaced, Machine: -1})
	}
}

// wait accounts for an item that waits no longer.
func (u *run) wait(w waiting, until float64) {
	u.waited += until - w.since
	u.out.LongestWaiting = max(u.out.LongestWaiting, until-w.since)
}

// place tries to place one item and reports whether it succeeded.
func (r *Replayer) place(now float64, request, number int32) bool {
	u := &r.run
	if u.follower != nil {
		return r.follow(now, request, number)
	}
	item := binpack.Item{App: r.trace.Requests[request].App, Serial: uint64(r.base[request] + number)}
	counted := r.whole || r.arrive(item.App)
	if u.opt.watch != nil {
		u.opt.watch(request, number, item)
	}
	if choice, ok := binpack.ChoiceOf(u.scorer); ok {
		u.noteChoice(now, choice)
	}
	m, err := r.state.Choose(u.scorer, item)
	chooser := u.chooser
	if errors.Is(err, binpack.ErrNotFinite) {
		m, err = r.fallBack(item)
		chooser, _ = u.fallback.(binpack.DeviceChooser)
	}
	if r.opens(item.App, m, err) && r.rescue(now, request, number) {
		if !counted {
			r.state.Arrive(item.App, 1)
		}
		return true
	}
	if err != nil {
		if !errors.Is(err, binpack.ErrNoFit) {
			u.err = fmt.Errorf("request %q: %w", r.trace.Requests[request].Name, err)
		}
		return false
	}
	if u.opt.GivenUp && u.tally.from <= now {
		if share, ok := r.state.GivenUp(item.App, m); ok {
			u.out.Preferring++
			u.out.GivenUp += share
		}
	}
	devices := r.state.Place(item, m, chooser)
	if u.checker != nil {
		line, index := r.state.Position(m)
		u.out.Violations += violations(u.checker.Place(item.App, line, index, devices))
	}
	r.notePlaced(now, request, number, m, devices)
	u.mover.came(r, r.base[request]+number, item.App, m)
	return true
}

// arrive counts an item as the ledger of a scheduler counts a pod: once there are machines to rank for it. It reports
// whether there are; else the item is counted when it gets a machine.
func (r *Replayer) arrive(app int32) bool {
	takes := r.state.Takes(app)
	if takes {
		r.state.Arrive(app, 1)
	}
	return takes
}

// noteChoice counts an item for the choice that decides on it.
func (u *run) noteChoice(now float64, c binpack.Choice) {
	list := u.out.Choices
	if n := len(list); n == 0 || list[n-1].Choice != c {
		list = append(list, Choice{Since: now, Choice: c})
	}
	list[len(list)-1].Items++
	u.out.Choices = list
}

// notePlaced notes the placement of an item.
func (r *Replayer) notePlaced(now float64, request, number, m int32, devices []binpack.Device) {
	u := &r.run
	item := r.base[request] + number
	r.where[item] = m
	r.keepDevices(item, devices)
	u.out.Placed++
	if u.opt.Usage != nil {
		r.meter.living = append(r.meter.living, item)
	}
	u.tally.moved(r, r.trace.Requests[request].App, 1)
	if u.opt.Record != nil {
		u.opt.Record(Decision{Time: now, Request: request, Item: number, Machine: m, Devices: devices})
	}
}

// follow places an item on its past machine and reports whether it had one.
func (r *Replayer) follow(now float64, request, number int32) bool {
	u := &r.run
	line, index, used, ok := u.follower.Where(request, number)
	if !ok {
		return false
	}
	q := r.trace.Requests[request]
	m := r.state.MachineAt(line, index)
	if len(used) == 0 {
		r.state.Book(q.App, m) // another order of arrival may put more items there at a time than there ever were
	} else if err := r.state.PlaceAs(q.App, m, used); err != nil {
		u.err = fmt.Errorf("request %q on machine %s: %w", q.Name, r.trace.MachineName(line, index), err)
		return false
	}
	if u.checker != nil {
		u.err = u.checker.Initial(q.App, line, index, used)
	}
	r.notePlaced(now, request, number, m, used)
	return true
}

// violations counts the faults that the checker found.
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

// delete removes the highest-numbered remaining items of a request, then tries the
// waiting items.
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
			r.waiting = slices.DeleteFunc(r.waiting, func(w waiting) bool {
				gone := w.request == e.Request && w.item == number
				if gone {
					r.run.wait(w, e.Time)
				}
				return gone
			})
			continue
		}
		r.clear(q.App, item)
		r.returned(e.Time, item)
		r.run.mover.left(item)
		r.run.tally.moved(r, q.App, -1)
	}
	if len(r.waiting) > 0 {
		r.waiting = slices.DeleteFunc(r.waiting, func(w waiting) bool {
			if !r.place(e.Time, w.request, w.item) {
				return false
			}
			r.run.wait(w, e.Time)
			r.run.out.Unplaced--
			app := r.trace.Requests[w.request].App
			r.run.out.LeftOut[app]--
			for d, need := range r.trace.Instance.Apps[app].Demand {
				r.run.rejected[d] -= float64(need)
			}
			return true
		})
	}
}
