package linear

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A pair is a [binpack.Pair] seen from one of its apps.
type pair struct {
	other    int32
	bits     float64 // a second
	incoming bool    // from the other
	paired   bool
}

// pairsOf lists the pairs of each app. They are added up in the order of names, so that a cluster
// and its trace give the same score.
func pairsOf(inst *binpack.Instance) [][]pair {
	out := make([][]pair, len(inst.Apps))
	for _, p := range inst.Pairs {
		out[p.App] = append(out[p.App], pair{p.Other, p.Bits, false, p.Paired})
		out[p.Other] = append(out[p.Other], pair{p.App, p.Bits, true, p.Paired})
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b pair) int {
			return cmp.Or(strings.Compare(inst.Apps[a.other].Name, inst.Apps[b.other].Name), cmp.Compare(a.bits, b.bits), compareBool(a.incoming, b.incoming))
		})
	}
	return out
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// weight is the traffic of one more item of an app by a pair, in bits a second.
func (l *Scorer) weight(a int32, p pair) float64 {
	if p.incoming && !p.paired { // what all items of the other send is shared
		return p.bits * float64(l.s.Alive()[p.other]) / float64(l.s.Alive()[a]+1)
	}
	return p.bits
}

// traffic of one more item of an app, in bits a second.
func (l *Scorer) traffic(a int32) float64 {
	sum := 0.0
	for _, p := range l.partners[a] {
		sum += l.weight(a, p)
	}
	return sum
}

// local is the feature partners: the share of the traffic that would stay on a machine.
func (l *Scorer) local(a, m int32, traffic float64) float64 {
	if traffic == 0 || l.s.Items(m) == 0 {
		return 0
	}
	own, stays := int32(-1), 0.0
	for _, p := range l.partners[a] {
		here := l.itemsOf(p.other, m)
		switch {
		case here == 0:
		case p.paired:
			if own < 0 {
				own = l.itemsOf(a, m)
			}
			if here > own {
				stays += l.weight(a, p)
			}
		default:
			stays += float64(l.weight(a, p)*float64(here)) / float64(l.s.Alive()[p.other])
		}
	}
	return stays / traffic
}

// itemsOf counts the items of an app on a machine.
func (l *Scorer) itemsOf(app, m int32) int32 {
	for _, e := range l.s.Contents(m) {
		if e.App == app {
			return e.Count
		}
	}
	return 0
}
