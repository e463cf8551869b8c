package plan

import (
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A deviceLoad is a number of items of one app that need devices.
type deviceLoad struct {
	need int64 // of one dimension
	app  int32
	n    int32
}

// findDevices lists the device dimensions, and those of which some item takes a
// share. For the others the amounts are enough.
func (p *planner) findDevices(items []int64, standing []Machine) {
	asked := slices.Clone(items)
	for _, s := range standing {
		for _, e := range s.Items {
			asked[e.App] += int64(e.Count)
		}
	}
	for d, dim := range p.inst.Dimensions {
		if !dim.Device {
			continue
		}
		p.deviceDims = append(p.deviceDims, d)
		for a, n := range asked {
			if n > 0 && p.inst.Apps[a].Demand[d]%dim.One != 0 {
				p.shared = append(p.shared, d)
				break
			}
		}
	}
}

// devicesFit reports whether the devices of a machine hold one more item of an app,
// in addition to its present content.
func (p *planner) devicesFit(a, m int32) bool {
	return !slices.ContainsFunc(p.shared, func(d int) bool { return p.inst.Apps[a].Demand[d] > 0 && !p.packDevices(d, m, a, nil) })
}

// packDevices gives devices of one dimension to the new items of a machine, and to
// one more of the app extra unless that is -1: whole devices first, then shares, the
// largest first, each the smallest rest that is enough (best fit decreasing). The
// answer depends on the machine's content, not on the order of placement. It reports
// whether every item found one. It calls taken, unless that is nil, for each device.
func (p *planner) packDevices(d int, m, extra int32, taken func(app, device int32)) bool {
	p.loads = p.loads[:0]
	for _, e := range p.on[m] {
		n := e.Count - p.stands(e.App, m)
		if e.App == extra {
			n, extra = n+1, -1
		}
		p.addLoad(d, e.App, n)
	}
	if extra >= 0 {
		p.addLoad(d, extra, 1)
	}
	rest := p.freshDevices(d, m)
	one := p.inst.Dimensions[d].One
	for _, l := range p.loads {
		for range int64(l.n) * max(1, l.need/one) {
			best := -1
			for i, free := range rest {
				if free >= min(l.need, one) && (best < 0 || free < rest[best]) {
					best = i
				}
			}
			if best < 0 {
				return false
			}
			rest[best] -= min(l.need, one)
			if taken != nil {
				taken(l.app, int32(best))
			}
		}
	}
	return true
}

// addLoad keeps loads sorted, the largest need first.
func (p *planner) addLoad(d int, a, n int32) {
	l := deviceLoad{p.inst.Apps[a].Demand[d], a, n}
	if l.need == 0 || n <= 0 {
		return
	}
	at := len(p.loads)
	p.loads = append(p.loads, l)
	for ; at > 0 && (p.loads[at-1].need < l.need || p.loads[at-1].need == l.need && p.loads[at-1].app > a); at-- {
		p.loads[at] = p.loads[at-1]
	}
	p.loads[at] = l
}

// freshDevices is the free share of each device of a machine after its earlier
// items.
func (p *planner) freshDevices(d int, m int32) []int64 {
	one := p.inst.Dimensions[d].One
	p.rest = p.rest[:0]
	for range p.capacity[p.kind[m]][d] / one {
		p.rest = append(p.rest, one)
	}
	for _, t := range p.taken[m] {
		if int(t.device.Dimension) == d {
			p.rest[t.device.Index] -= min(p.inst.Apps[t.app].Demand[d], one)
		}
	}
	return p.rest
}

// A takenDevice is held by a standing item of an app.
type takenDevice struct {
	app    int32
	device binpack.Device
}

// standDevices books the devices of a standing machine.
func (p *planner) standDevices(m int32, s Machine) {
	if s.Devices == nil {
		for _, d := range p.deviceDims {
			p.standing[m] = nil // so that all of them count
			taken := p.taken[m]
			p.packDevices(d, m, -1, func(app, device int32) {
				taken = append(taken, takenDevice{app, binpack.Device{Dimension: int32(d), Index: device}})
			})
			p.taken[m], p.standing[m] = taken, s.Items
		}
		return
	}
	at := 0
	for _, e := range s.Items {
		for range e.Count {
			for _, device := range s.Devices[at] {
				p.taken[m] = append(p.taken[m], takenDevice{e.App, device})
			}
			at++
		}
	}
}

// devicesOf are the devices of each of a machine's new items.
func (p *planner) devicesOf(m int32, items []binpack.Entry) [][]binpack.Device {
	if len(p.deviceDims) == 0 {
		return nil
	}
	var out [][]binpack.Device
	first := map[int32]int{} // per app: its first item in out
	for _, e := range items {
		first[e.App] = len(out)
		out = append(out, make([][]binpack.Device, e.Count)...)
	}
	for _, d := range p.deviceDims {
		given := map[int32]int64{}
		p.packDevices(d, m, -1, func(app, device int32) {
			each := max(1, p.inst.Apps[app].Demand[d]/p.inst.Dimensions[d].One)
			at := first[app] + int(given[app]/each)
			given[app]++
			out[at] = append(out[at], binpack.Device{Dimension: int32(d), Index: device})
		})
	}
	return out
}
