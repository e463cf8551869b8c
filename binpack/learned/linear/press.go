package linear

import "github.com/sigma-scheduler/sigma/binpack"

// pressFrom is the share of the machines in use that limits need for slot to count in the feature press. Over five
// kinds of kubernetes clusters, with few and with many limits (16 each, seeds 500000 to 504015), 0 and a third cost
// the same, and one half .3 points more.
const pressFrom = 1. / 3

// A pressed scorer leaves each decision to one of two: with slot while limits need many machines, else without.
type pressed struct {
	s             *binpack.State
	plain, slot   *Policy
	without, with *Scorer // made once they decide
	limits        limits
}

func newPressed(p *Policy, s *binpack.State) *pressed {
	plain := *p
	plain.weights[fSlot] = 0
	return &pressed{s: s, plain: &plain, slot: p, limits: limits{s: s}}
}

// deciding is the scorer that decides in the present state.
func (l *pressed) deciding() *Scorer {
	one, p := &l.without, l.plain
	if l.limits.now() >= pressFrom*float64(l.s.Active()+1) {
		one, p = &l.with, l.slot
	}
	if *one == nil {
		*one = NewScorer(p, l.s)
	}
	return *one
}

// Score implements [binpack.Scorer].
func (l *pressed) Score(item binpack.Item, candidates []int32, out []float64) {
	l.deciding().Score(item, candidates, out)
}

// Contenders implements [binpack.Shortlister].
func (l *pressed) Contenders(item binpack.Item, buf []int32) (contenders []int32, known bool) {
	return l.deciding().Contenders(item, buf)
}

// Explain implements [binpack.Explainer].
func (l *pressed) Explain(item binpack.Item, m int32) []binpack.Term {
	return l.deciding().Explain(item, m)
}

// ExplainFleet implements [binpack.FleetExplainer].
func (l *pressed) ExplainFleet() binpack.FleetTarget { return l.deciding().ExplainFleet() }

// Grows is the mark of [binpack.Grower].
func (l *pressed) Grows() {}

// limits follows the limit bound of a state.
type limits struct {
	limitBound
	s       *binpack.State
	seq     uint64
	changes []binpack.Change
	counted []int64 // [app] items
}

// now is the least number of machines that the limits of the living items need.
func (l *limits) now() float64 {
	var all bool
	l.changes, l.seq, all = l.s.Changes(l.seq, l.changes[:0])
	if all {
		l.counted = l.counted[:0]
		l.clear()
	}
	for _, c := range l.changes {
		if c.App >= 0 && int(c.App) < len(l.counted) {
			l.count(c.App)
		}
	}
	for a := len(l.counted); a < len(l.s.Alive()); a++ {
		l.counted = append(l.counted, 0)
		l.count(int32(a))
	}
	return l.most
}

func (l *limits) count(a int32) {
	n := l.s.Alive()[a]
	l.add(l.s, l.s.Instance().Apps[a].Group, n-l.counted[a])
	l.counted[a] = n
}
