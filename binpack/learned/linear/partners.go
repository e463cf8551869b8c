package linear

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A pair is a [binpack.Pair] seen from one of its apps. An app sends to a group: it sends the
// same to several apps of one, as a cluster learns of them one after the other.
type pair struct {
	app      int32   // where incoming: that sends
	group    int32   // of the other end
	bits     float64 // a second
	incoming bool
	paired   bool
}

// pairsOf lists the pairs of each app. They are added up in the order of names, so that a cluster
// and its trace give the same score.
func pairsOf(inst *binpack.Instance) [][]pair {
	out := make([][]pair, len(inst.Apps))
	into := map[int32][]pair{} // by group that gets
	for _, p := range inst.Pairs {
		to := inst.Apps[p.Other].Group
		sent := pair{app: p.App, group: to, bits: p.Bits, paired: p.Paired}
		at := slices.IndexFunc(out[p.App], func(q pair) bool { return q.group == to })
		if at >= 0 { // to another app of the group
			out[p.App][at].bits = max(out[p.App][at].bits, p.Bits)
			continue
		}
		out[p.App] = append(out[p.App], sent)
	}
	for a, list := range out {
		for _, p := range list {
			into[p.group] = append(into[p.group], pair{int32(a), inst.Apps[a].Group, p.bits, true, p.paired})
		}
	}
	for a := range out {
		out[a] = append(out[a], into[inst.Apps[a].Group]...)
		slices.SortFunc(out[a], func(p, q pair) int {
			if p.incoming != q.incoming {
				return cmp.Compare(boolean(p.incoming), boolean(q.incoming))
			}
			return cmp.Or(strings.Compare(inst.Groups[p.group].Name, inst.Groups[q.group].Name), strings.Compare(inst.Apps[p.app].Name, inst.Apps[q.app].Name))
		})
	}
	return out
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// alive counts the items of a group.
func (l *Scorer) alive(group int32) float64 {
	n := int64(0)
	for _, b := range l.s.GroupApps(group) {
		n += l.s.Alive()[b]
	}
	return float64(n)
}

// weight is the traffic of one more item of an app by a pair, in bits a second; 0 where
// nothing lives at the other end.
func (l *Scorer) weight(a int32, p pair) float64 {
	there := l.alive(p.group)
	switch {
	case there == 0:
		return 0
	case !p.incoming:
		return p.bits
	case p.paired: // which of the group's apps sends, by their items
		return p.bits * float64(l.s.Alive()[p.app]) / there
	}
	return p.bits * float64(l.s.Alive()[p.app]) / (l.alive(l.s.Instance().Apps[a].Group) + 1) // the others get a part
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
	stays := 0.0
	for _, p := range l.partners[a] {
		here := l.s.Count(p.group, m)
		switch {
		case here == 0:
		case p.paired:
			if here > l.s.Count(l.s.Instance().Apps[a].Group, m) {
				stays += l.weight(a, p)
			}
		case p.incoming:
			if sends := l.s.Alive()[p.app]; sends > 0 {
				stays += float64(l.weight(a, p)*float64(l.itemsOf(p.app, m))) / float64(sends)
			}
		default:
			stays += float64(l.weight(a, p)*float64(here)) / l.alive(p.group)
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
