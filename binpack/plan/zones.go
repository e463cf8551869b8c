package plan

import (
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A Spot is the place of an item.
type Spot struct {
	App, Line, Index int32
	Devices          []binpack.Device
}

// sequence places items one by one where each constraint holds, as far as it can, and returns
// those in their order.
func sequence(s *binpack.State, spots []Spot) (order []Spot) {
	for placed := -1; placed < len(order); {
		placed = len(order)
		spots = slices.DeleteFunc(spots, func(at Spot) bool {
			m := s.MachineAt(at.Line, at.Index)
			if m < 0 || !s.Fits(at.App, m) || s.PlaceAs(at.App, m, at.Devices) != nil {
				return false
			}
			order = append(order, at)
			return true
		})
	}
	return order
}

// stand books the standing items. Devices are those given, or the lowest that are free.
func stand(s *binpack.State, standing []Machine) {
	for _, at := range standing {
		m, k := s.MachineAt(at.Line, at.Index), 0
		for _, e := range at.Items {
			for range e.Count {
				switch {
				case at.Devices != nil && s.PlaceAs(e.App, m, at.Devices[k]) == nil:
				case at.Devices == nil && s.Fits(e.App, m):
					s.Place(binpack.Item{App: e.App}, m, nil)
				default:
					s.Book(e.App, m)
				}
				k++
			}
		}
	}
}

// ByZone reports whether limits or rules by zone bind some group.
func ByZone(inst *binpack.Instance) bool {
	return len(inst.ZoneRules) > 0 || slices.ContainsFunc(inst.Groups, func(g binpack.Group) bool { return g.Zone.Binds() })
}

// keepZones makes a packing keep the limits and rules by zone in some order, which the search does not
// try: an item that breaks them is placed by Best Fit elsewhere. Where packing everything in that way,
// the largest first, is better, it does that.
func keepZones(inst *binpack.Instance, items []int64, standing []Machine, found Packing) Packing {
	settled := settle(inst, items, standing, found.Machines)
	if greedy := settle(inst, items, standing, nil); greedy.left() < settled.left() || greedy.left() == settled.left() && greedy.Cost < settled.Cost {
		return greedy
	}
	return settled
}

func (p *Packing) left() (n int64) {
	for _, left := range p.LeftOut {
		n += left
	}
	return n
}

// settle places items in addition to the standing ones: where wanted has them if that is
// allowed, the others by Best Fit.
func settle(inst *binpack.Instance, items []int64, standing, wanted []Machine) Packing {
	s := binpack.NewState(inst)
	stand(s, standing)
	var spots []Spot
	left := slices.Clone(items)
	for _, m := range wanted {
		at := 0
		for _, e := range m.Items {
			for range e.Count {
				spot := Spot{App: e.App, Line: m.Line, Index: m.Index}
				if m.Devices != nil {
					spot.Devices = m.Devices[at]
				}
				spots, at = append(spots, spot), at+1
			}
		}
	}
	done := sequence(s, spots)
	for _, spot := range done {
		left[spot.App]--
	}
	apps := largestFirst(inst, left)
	for again := true; again; {
		again = false
		for _, a := range apps {
			for left[a] > 0 {
				spot, ok := placeBest(s, a)
				if !ok {
					break
				}
				done, again = append(done, spot), true
				left[a]--
			}
		}
	}
	return packed(s, standing, done, left)
}

// largestFirst are the apps with items left, by their largest share of a machine.
func largestFirst(inst *binpack.Instance, left []int64) (apps []int32) {
	least := make([]int64, len(inst.Dimensions)) // above 0; 0 = no machine has any
	for _, m := range inst.Machines {
		for d, c := range m.Capacity {
			if c > 0 && (least[d] == 0 || c < least[d]) {
				least[d] = c
			}
		}
	}
	size := make([]float64, len(left))
	for a, n := range left {
		if n > 0 {
			apps = append(apps, int32(a))
		}
		for d, need := range inst.Apps[a].Demand {
			if least[d] > 0 {
				size[a] = max(size[a], float64(need)/float64(least[d]))
			}
		}
	}
	slices.SortStableFunc(apps, func(a, b int32) int {
		switch {
		case size[a] > size[b]:
			return -1
		case size[a] < size[b]:
			return 1
		}
		return 0
	})
	return apps
}

// placeBest places an item on the machine in use with the least room, or on the cheapest empty one.
func placeBest(s *binpack.State, app int32) (Spot, bool) {
	best, least := int32(-1), math.Inf(1)
	for _, m := range s.Feasible(app, nil) {
		kind := &s.Kinds()[s.KindOf(m)]
		room := 0.0
		for d, c := range kind.Capacity {
			if c > 0 {
				room += float64(s.Free(d)[m]) / float64(c)
			}
		}
		if s.Items(m) == 0 {
			room = 1e6 * (1 + kind.Cost)
		}
		if room < least {
			best, least = m, room
		}
	}
	if best < 0 {
		return Spot{}, false
	}
	line, index := s.Position(best)
	return Spot{app, line, index, slices.Clone(s.Place(binpack.Item{App: app}, best, nil))}, true
}

// packed is the packing of a state in which done was placed in addition to the standing items.
func packed(s *binpack.State, standing []Machine, done []Spot, left []int64) Packing {
	out := Packing{LeftOut: left, Order: slices.Clone(done)}
	at := map[[2]int32]int{}
	machine := func(line, index int32) *Machine {
		k, ok := at[[2]int32{line, index}]
		if !ok {
			k = len(out.Machines)
			at[[2]int32{line, index}] = k
			out.Machines = append(out.Machines, Machine{Kind: s.KindOf(s.MachineAt(line, index)), Line: line, Index: index})
		}
		return &out.Machines[k]
	}
	for _, m := range standing {
		machine(m.Line, m.Index)
	}
	slices.SortStableFunc(done, func(a, b Spot) int { // entries are by app
		return int(a.App - b.App)
	})
	for _, spot := range done {
		m := machine(spot.Line, spot.Index)
		if n := len(m.Items); n == 0 || m.Items[n-1].App != spot.App {
			m.Items = append(m.Items, binpack.Entry{App: spot.App, Group: s.Instance().Apps[spot.App].Group})
		}
		m.Items[len(m.Items)-1].Count++
		m.Devices = append(m.Devices, spot.Devices)
	}
	for m := range int32(s.Size()) {
		if s.Items(m) > 0 {
			out.Cost += s.Kinds()[s.KindOf(m)].Cost
		}
	}
	return out
}

// numberKinds numbers the kinds as a state does: where no zone binds, the search has one kind
// for machines that differ only in their zone.
func numberKinds(inst *binpack.Instance, p *Packing) {
	if !slices.ContainsFunc(inst.Machines, func(m binpack.MachineLine) bool { return m.Zone != "" }) {
		return
	}
	s := binpack.NewState(inst)
	for i := range p.Machines {
		m := &p.Machines[i]
		m.Kind = s.KindOf(s.MachineAt(m.Line, m.Index))
	}
}
