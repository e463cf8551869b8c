package shipped

import (
	"errors"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A Row is a policy, and the facts that must hold and those that must not for it to decide.
type Row struct {
	With, Without Fact
	Choice        binpack.Choice
	Policy        binpack.Policy
}

// A Policy leaves each decision to the policy of the first row that suits the state.
type Policy struct {
	know binpack.Knowledge
	rows []Row
	of   [allFacts + 1]uint8 // row by facts
}

// New returns the policy of a table, whose last row suits every state. At the knowledge K0 no row of a
// forecast decides.
func New(know binpack.Knowledge, rows []Row) (*Policy, error) {
	p := &Policy{know: know, rows: rows}
	if n := len(rows); n == 0 || rows[n-1].With|rows[n-1].Without != 0 {
		return nil, errors.New("the last row must suit every state")
	}
	for facts := range p.of {
		for rows[p.of[facts]].refuses(Fact(facts)) {
			p.of[facts]++
		}
	}
	return p, nil
}

func (r *Row) refuses(facts Fact) bool { return facts&r.With != r.With || facts&r.Without != 0 }

// Rows lists the table. Read only.
func (p *Policy) Rows() []Row { return p.rows }

// Knowledge implements [binpack.Policy].
func (p *Policy) Knowledge() binpack.Knowledge { return p.know }

// Scorer implements [binpack.Policy].
func (p *Policy) Scorer(s *binpack.State) binpack.Scorer {
	return &scorer{p: p, facts: newFacts(s, p.know), scorers: make([]binpack.Scorer, len(p.rows))}
}

// scorer makes the scorer of a row when the row first decides.
type scorer struct {
	p *Policy
	facts
	scorers []binpack.Scorer
	apps    int // of the instance
	grown   int // groups of State.Regrouped
}

// Grows is the mark of [binpack.Grower].
func (l *scorer) Grows() {}

// Deciding implements [binpack.Switch].
func (l *scorer) Deciding() (binpack.Scorer, binpack.Choice) {
	if apps, grown := len(l.s.Instance().Apps), len(l.s.Regrouped()); apps != l.apps || grown != l.grown {
		l.apps, l.grown = apps, grown
		for i, s := range l.scorers {
			if _, ok := s.(binpack.Grower); !ok {
				l.scorers[i] = nil
			}
		}
	}
	i := l.p.of[l.now()]
	if l.scorers[i] == nil {
		l.scorers[i] = l.p.rows[i].Policy.Scorer(l.s)
	}
	return l.scorers[i], l.p.rows[i].Choice
}

// Score implements [binpack.Scorer].
func (l *scorer) Score(item binpack.Item, candidates []int32, out []float64) {
	s, _ := l.Deciding()
	s.Score(item, candidates, out)
}

// ChooseDevices implements [binpack.DeviceChooser].
func (l *scorer) ChooseDevices(item binpack.Item, m int32, dimension int, free []int64, devices []int32) []int32 {
	if s, ok := first(l.Deciding()).(binpack.DeviceChooser); ok {
		return s.ChooseDevices(item, m, dimension, free, devices)
	}
	inst := l.s.Instance()
	return binpack.SmallestDevices(free, inst.Apps[item.App].Demand[dimension], inst.Dimensions[dimension].One, devices)
}

func first(s binpack.Scorer, _ binpack.Choice) binpack.Scorer { return s }
