package binpack

// Resize changes the demand of an app and of its items on machines. Amounts free may
// become negative, as by [State.Book]. Scorers must be built anew, since they may keep
// demands. Devices keep their demand.
func (s *State) Resize(app int32, demand []int64) {
	a := &s.inst.Apps[app]
	for _, d := range s.deviceDims {
		if demand[d] != a.Demand[d] {
			panic("binpack: devices are not resized")
		}
	}
	old := a.Demand
	a.Demand = demand
	if s.least != nil {
		s.peak[app] = peaks(demand)
	}
	for m := range s.holders(a.Group) {
		for _, e := range s.contents[m] {
			if e.App != app {
				continue
			}
			for d := range s.free {
				s.free[d][m] -= int64(e.Count) * (demand[d] - old[d])
			}
			s.relieve(m)
			s.touchClass(m)
			s.note(m, -1)
		}
	}
}
