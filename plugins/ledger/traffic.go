package ledger

import "github.com/sigma-scheduler/sigma/binpack"

// traffic returns the pairs of the apps in the columns: each app with each app of a group that it sends to.
func (l *columns) traffic() (pairs []binpack.Pair) {
	l.sentTo = map[string]bool{}
	in := map[string][]int32{}
	for i, a := range l.appAt {
		in[a.spec.Group] = append(in[a.spec.Group], int32(i))
	}
	for i, a := range l.appAt {
		for _, text := range a.spec.Sends {
			s, _ := binpack.ParseSending(text, nil) // setApp has refused others
			l.sentTo[s.Group] = true
			for _, b := range in[s.Group] {
				if s.Paired && s.Group == a.spec.Group {
					continue // a pod is not paired with one of its own
				}
				pairs = append(pairs, binpack.Pair{App: int32(i), Other: b, Bits: float64(s.Bits), Paired: s.Paired})
			}
		}
	}
	return pairs
}
