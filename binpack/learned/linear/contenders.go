package linear

import "github.com/sigma-scheduler/sigma/binpack"

// boundsHold reports whether the bounds of a grid hold: slot must not add to a score, and
// devices are left to Feasible.
func (l *Scorer) boundsHold() bool {
	for _, dim := range l.s.Instance().Dimensions {
		if dim.Device {
			return false
		}
	}
	return !l.slots || l.weights[fSlot] <= 0
}

// Contenders implements [binpack.Shortlister].
func (l *Scorer) Contenders(item binpack.Item, buf []int32) (contenders []int32, known bool) {
	a := item.App
	group := l.s.Instance().Apps[a].Group
	if l.s.Spread(group) < l.s.Instance().Groups[group].SpreadMin {
		return buf, false
	}
	l.sync()
	if l.guided() {
		if found, ok := l.searched(a, buf); ok {
			return found, true
		}
	}
	if l.grid != nil {
		return l.shortlist(a, buf), true
	}
	return buf, false
}
