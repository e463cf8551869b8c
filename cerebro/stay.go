package cerebro

import (
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// wholeApps is the number of replays after which an app of which an item is left out stays as a whole: it bounds their number.
const wholeApps = 4

// A staying item is on its past machine before the policy places the others.
type staying struct {
	request, number int32
	line, index     int32
	devices         []trace.Device
}

// keep adds the items that the last replay left out to those that stay, and reports whether there are more of these. whole adds all
// items of their apps.
func (r *Replayer) keep(where Follower, whole bool) bool {
	before := len(r.staying)
	add := func(request, number int32) {
		if r.stays[r.base[request]+number] > 0 {
			return
		}
		if line, index, devices, ok := where.Where(request, number); ok {
			r.staying = append(r.staying, staying{request, number, line, index, devices})
			r.stays[r.base[request]+number] = int32(len(r.staying))
		}
	}
	apps := map[int32]bool{}
	for _, w := range r.run.refusals {
		add(w.request, w.item)
		apps[r.trace.Requests[w.request].App] = true
	}
	for i := r.trace.Initial; whole && i < len(r.trace.Requests); i++ {
		for k := range r.trace.Requests[i].Count {
			if apps[r.trace.Requests[i].App] {
				add(int32(i), k)
			}
		}
	}
	return len(r.staying) > before
}

// placeStaying books the items that stay. One for which there is no room is left to the policy.
func (r *Replayer) placeStaying() error {
	u := &r.run
	for _, s := range r.staying {
		item, app := r.base[s.request]+s.number, r.trace.Requests[s.request].App
		m := r.state.MachineAt(s.line, s.index)
		if r.state.PlaceAs(app, m, s.devices) != nil {
			continue
		}
		if u.checker != nil {
			if err := u.checker.Initial(app, s.line, s.index, s.devices); err != nil {
				return err
			}
		}
		r.where[item] = m
		u.mover.came(r, item, app, m)
	}
	return nil
}

// stayed notes an item that arrives, and reports whether it is on its machine already.
func (r *Replayer) stayed(e trace.Event, number int32) bool {
	item := r.base[e.Request] + number
	if r.stays == nil || r.stays[item] == 0 || r.where[item] < 0 {
		return false
	}
	r.notePlaced(e.Time, e.Request, number, r.where[item], r.staying[r.stays[item]-1].devices)
	r.run.out.Stayed++
	return true
}
