package ledger

import (
	"errors"
	"fmt"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

// ErrNoPolicy is returned if no policy is loaded for a role.
var ErrNoPolicy = errors.New("no policy is loaded")

// Columns brings the columns up to date and returns them. They must not be changed
// and are valid until the next event.
func (l *columns) Columns() *binpack.State {
	if !l.ready() {
		l.rebuild()
	} else if l.compiled < len(l.rules) {
		l.addRules()
	}
	return l.state
}

// MachineIndex returns the index of a node in the columns, -1 when it is not among
// them: unknown or cordoned.
func (l *columns) MachineIndex(node string) int32 {
	l.Columns()
	if m, ok := l.machines[node]; ok {
		return m.index
	}
	return -1
}

// NodeName returns the name of a machine of the columns.
func (l *columns) NodeName(machine int32) string { return l.byIndex[machine].name }

// AppIndex returns the index of an app in the columns, -1 when it is unknown.
func (l *columns) AppIndex(name string) int32 {
	l.Columns()
	if a, ok := l.apps[name]; ok {
		return a.index
	}
	return -1
}

// Policy returns the policy of a role, with its digest; nil if no policy is loaded.
func (l *Ledger) Policy(role Role) (object *policy.Object, digest string) {
	if p, ok := l.policies[role]; ok {
		return p.object, p.digest
	}
	return nil, ""
}

// Rank replaces buf by the machines that a policy would take for a pod of an app,
// in the order of its preference, the first top of them. allowed are the machines
// that take the pod. A policy that reads a clock reads that of [Ledger.SetClock].
func (l *Ledger) Rank(role Role, app int32, allowed []int32, top int, buf []binpack.Ranked) ([]binpack.Ranked, error) {
	state := l.Columns()
	p := bestFit
	if role != BestFit {
		if p, _ = l.asked(role, app); p == nil {
			return buf[:0], fmt.Errorf("%s: %w", role, ErrNoPolicy)
		}
	}
	if len(allowed) == 0 {
		return buf[:0], nil
	}
	l.tellTime(p.policy, app)
	state.Care = l.care(role)
	return state.Rank(l.scorer(p), l.item(app), state.Candidates(allowed), top, buf)
}

// Explain analyses how a policy, which need not be loaded, would rank the
// machines that take a pod of an app.
func (l *Ledger) Explain(p binpack.Policy, app int32, allowed []int32) (binpack.Explanation, error) {
	state := l.Columns()
	l.tellTime(p, app)
	state.Care = binpack.CareOf(p)
	return state.Explain(p.Scorer(state), rule.Fallback{}.Scorer(state), l.item(app), state.Candidates(allowed))
}

// item returns the next pod of an app.
func (l *columns) item(app int32) binpack.Item { return binpack.Item{App: app, Serial: l.placed} }

// tellTime sets the elapsed share in the state, if the policy reads a clock.
func (l *Ledger) tellTime(p binpack.Policy, app int32) {
	l.state.Known.Elapsed = -1
	if p.Knowledge().Clock() {
		l.state.Known.Elapsed = l.Elapsed(app)
	}
}

// bestFit decides when no other policy can.
var bestFit = &policyInUse{policy: rule.Fallback{}}

func (l *columns) scorer(p *policyInUse) binpack.Scorer {
	s, ok := l.scorers[p]
	if !ok {
		if l.scorers == nil {
			l.scorers = map[*policyInUse]binpack.Scorer{}
		}
		s = p.policy.Scorer(l.state)
		l.scorers[p] = s
	}
	return s
}

// CheckPolicy reports why a policy cannot decide in a live cluster; nil when it can.
func CheckPolicy(object *policy.Object) error {
	_, err := usable(object)
	return err
}

// Invalidate makes the next query rebuild the columns: a scorer panicked and may
// have left its caches inconsistent.
func (l *columns) Invalidate() { l.stale = true }

// Fits appends to buf the machines that the ledger's own model allows a pod of an app,
// ascending: amounts, types, limits, rules and spread.
func (l *columns) Fits(app int32, buf []int32) []int32 {
	state := l.Columns()
	for m := range int32(state.Size()) {
		if l.allows(app, m) {
			buf = append(buf, m)
		}
	}
	return buf
}
