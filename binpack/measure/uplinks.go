package measure

import "github.com/sigma-scheduler/sigma/binpack"

// Uplinks says how busy the uplinks of the machines in use are, of what the capacity in one
// dimension is.
type Uplinks struct {
	Machines int     // in use
	Over     int     // of them those above the limit
	Most     float64 // the highest load
	Local    float64 // share of all traffic that leaves no machine
}

// UplinksOf measures what stands in a state by the demands of inst in a dimension, which may
// be larger than those of the state's own instance. Traffic of a pair ([binpack.Pair]) with
// both ends on a machine leaves its uplink alone. A load above limit, a share of the
// capacity, counts as over. Lines of machines that have another capacity than the state says are in raised.
func UplinksOf(s *binpack.State, inst *binpack.Instance, d int, limit float64, raised map[int32]float64) Uplinks {
	var u Uplinks
	from := make([][]binpack.Pair, len(inst.Apps))
	for _, p := range inst.Pairs {
		from[p.App] = append(from[p.App], p)
	}
	here := make([]float64, len(inst.Apps))
	sent, local := 0.0, 0.0
	for m := range int32(s.Size()) {
		if s.Items(m) == 0 {
			continue
		}
		u.Machines++
		for _, e := range s.Contents(m) {
			here[e.App] = float64(e.Count)
		}
		out, stays := 0.0, 0.0
		for _, e := range s.Contents(m) {
			amount := float64(inst.Apps[e.App].Demand[d]) / float64(inst.Dimensions[d].One)
			own := 0.0
			for _, p := range from[e.App] {
				bits := min(p.Bits, amount)
				switch {
				case p.Paired:
					own += bits * min(here[e.App], here[p.Other])
				case here[p.Other] > 0:
					own += bits * here[e.App] * here[p.Other] / float64(s.Alive()[p.Other])
				}
			}
			out += amount * here[e.App]
			stays += min(own, amount*here[e.App])
		}
		for _, e := range s.Contents(m) {
			here[e.App] = 0
		}
		sent, local = sent+out, local+stays
		capacity := float64(s.Capacity(m)[d]) / float64(inst.Dimensions[d].One)
		line, _ := s.Position(m)
		if c, ok := raised[line]; ok {
			capacity = c
		}
		if capacity == 0 {
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
