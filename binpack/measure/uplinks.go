package measure

import (
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Uplinks is the load of the uplinks of the machines in use; the capacity in one dimension
// is a part of the uplink.
type Uplinks struct {
	Machines int     // in use
	Over     int     // of them those above the limit
	Most     float64 // the highest load
	Local    float64 // share of all traffic that leaves no machine
}

// UplinksOf measures the placed items of a state by the demands of inst in a dimension, which may be larger
// than those of the state's own instance. Traffic of a pair ([binpack.Pair]) with both ends on a machine
// does not load its uplink. A load above limit, a share of the capacity, counts as over. Lines of machines
// that have another capacity than in the state are in raised.
func UplinksOf(s *binpack.State, inst *binpack.Instance, d int, limit float64, raised map[int32]float64) Uplinks {
	var u Uplinks
	from := sendings(inst)
	living, here := make([]float64, len(inst.Groups)), make([]float64, len(inst.Groups))
	for a, n := range s.Alive() {
		living[inst.Apps[a].Group] += float64(n)
	}
	sent, local := 0.0, 0.0
	for m := range int32(s.Size()) {
		if s.Items(m) == 0 {
			continue
		}
		u.Machines++
		for _, e := range s.Contents(m) {
			here[e.Group] += float64(e.Count)
		}
		out, stays := 0.0, 0.0
		for _, e := range s.Contents(m) {
			amount, n := float64(inst.Apps[e.App].Demand[d])/float64(inst.Dimensions[d].One), float64(e.Count)
			own := 0.0
			for _, p := range from[e.App] {
				switch bits := min(p.bits, amount); {
				case p.paired: // the items of a group have the partners together
					own += float64(bits * n * min(1, here[p.group]/here[e.Group]))
				case here[p.group] > 0:
					own += float64(bits*n*here[p.group]) / living[p.group]
				}
			}
			out += float64(amount * n)
			stays += min(own, amount*n)
		}
		for _, e := range s.Contents(m) {
			here[e.Group] = 0
		}
		sent, local = sent+out, local+stays
		capacity := float64(s.Capacity(m)[d]) / float64(inst.Dimensions[d].One)
		line, _ := s.Position(m)
		if c, ok := raised[line]; ok {
			capacity = c
		}
		if capacity == 0 { // nothing may be sent: the excess has no share
			if out > stays {
				u.Over++
			}
			continue
		}
		load := (out - stays) / capacity
		u.Most = max(u.Most, load)
		if load > limit {
			u.Over++
		}
	}
	if sent > 0 {
		u.Local = local / sent
	}
	return u
}

// A sending is the traffic of each item of an app to those of a group.
type sending struct {
	group  int32
	bits   float64
	paired bool
}

// sendings are those of each app: pairs with several apps of a group are one.
func sendings(inst *binpack.Instance) [][]sending {
	out := make([][]sending, len(inst.Apps))
	for _, p := range inst.Pairs {
		group := inst.Apps[p.Other].Group
		at := slices.IndexFunc(out[p.App], func(o sending) bool { return o.group == group })
		if at < 0 {
			out[p.App] = append(out[p.App], sending{group, p.Bits, p.Paired})
		} else {
			out[p.App][at].bits = max(out[p.App][at].bits, p.Bits)
		}
	}
	return out
}
