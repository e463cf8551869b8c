package ledger

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

// ErrNoPolicy says that no policy is loaded for a role.
var ErrNoPolicy = errors.New("no policy is loaded")

// Columns brings the columns up to date with the events and gives the state,
// which is not to be changed and does not outlive the next event.
func (l *Ledger) Columns() *binpack.State {
	if !l.ready() {
		l.rebuild()
	}
	return l.state
}

// MachineIndex is the index of a node in the columns, -1 when it is not among
// them: unknown or cordoned.
func (l *Ledger) MachineIndex(node string) int32 {
	l.Columns()
	if m, ok := l.machines[node]; ok {
		return m.index
	}
	return -1
}

// NodeName is the name of a machine of the columns.
func (l *Ledger) NodeName(machine int32) string { return l.byIndex[machine].name }

// AppIndex is the index of an app in the columns, -1 when it is unknown.
func (l *Ledger) AppIndex(name string) int32 {
	l.Columns()
	if a, ok := l.apps[name]; ok {
		return a.index
	}
	return -1
}

// Policy is what is loaded for a role, with its digest; nil = nothing.
func (l *Ledger) Policy(role Role) (object *policy.Object, digest string) {
	if p, ok := l.policies[role]; ok {
		return p.object, p.digest
	}
	return nil, ""
}

// Order appends to buf the machines that a policy would take for a pod of an app,
// in the order of its preference, the first top of them. allowed are the machines
// that take the pod, ascending.
//
// In an open fleet the machines that hold something and one empty machine of each
// kind, the first by position, are candidates; a further empty machine never is
// while that one takes the pod.
func (l *Ledger) Order(role Role, app int32, allowed []int32, top int, buf []binpack.Ranked) ([]binpack.Ranked, error) {
	state := l.Columns()
	scorer, err := l.scorer(role)
	if err != nil || len(allowed) == 0 {
		return buf[:0], err
	}
	item := binpack.Item{App: app, Serial: l.placed}
	return state.Order(scorer, item, l.narrow(allowed), top, buf)
}

// narrow leaves of the machines that take a pod those that are candidates.
func (l *Ledger) narrow(allowed []int32) []int32 {
	state := l.state
	if state.Instance().Fleet == binpack.Fixed {
		return allowed
	}
	l.firstEmpty = slices.Grow(l.firstEmpty[:0], len(state.Kinds()))[:len(state.Kinds())]
	for k := range l.firstEmpty {
		l.firstEmpty[k] = -1
	}
	for _, m := range allowed {
		if state.Items(m) == 0 {
			if k := state.KindOf(m); l.firstEmpty[k] < 0 || state.Rank(m) < state.Rank(l.firstEmpty[k]) {
				l.firstEmpty[k] = m
			}
		}
	}
	l.candidates = l.candidates[:0]
	for _, m := range allowed {
		if state.Items(m) > 0 || l.firstEmpty[state.KindOf(m)] == m {
			l.candidates = append(l.candidates, m)
		}
	}
	return l.candidates
}

func (l *Ledger) scorer(role Role) (binpack.Scorer, error) {
	if s, ok := l.scorers[role]; ok {
		return s, nil
	}
	var p binpack.Policy = rule.BestFit{}
	if role != BestFit {
		in, ok := l.policies[role]
		if !ok {
			return nil, fmt.Errorf("%s: %w", role, ErrNoPolicy)
		}
		p = in.policy
	}
	if l.scorers == nil {
		l.scorers = map[Role]binpack.Scorer{}
	}
	s := p.Scorer(l.state)
	l.scorers[role] = s
	return s, nil
}

// Explain takes a policy's score for a machine apart; nil where it has no parts.
func (l *Ledger) Explain(role Role, app, machine int32) []binpack.Term {
	l.Columns()
	s, err := l.scorer(role)
	if e, ok := s.(binpack.Explainer); err == nil && ok {
		return e.Explain(binpack.Item{App: app, Serial: l.placed}, machine)
	}
	return nil
}

// Usable reports why a policy cannot decide in a live cluster; nil when it can.
func Usable(object *policy.Object) error {
	_, err := usable(object)
	return err
}

// Invalidate makes the next question be answered from new columns: a scorer
// panicked and may have left its caches half-way.
func (l *Ledger) Invalidate() { l.stale = true }

// Fits appends to buf the machines that our own model allows a pod of an app,
// ascending: amounts, types, limits, rules and spread.
func (l *Ledger) Fits(app int32, buf []int32) []int32 {
	state := l.Columns()
	for m := range int32(state.Size()) {
		if state.Fits(app, m) {
			buf = append(buf, m)
		}
	}
	return buf
}
