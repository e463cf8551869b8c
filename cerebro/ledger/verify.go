package ledger

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// A Verdict is what came of computing the decisions of a log again.
type Verdict struct {
	Events    int
	Starts    int            // of the scheduler
	Decisions int            //
	Causes    map[string]int // of all decisions
	Agreed    int            // of those with the cause policy
	Refused   int            // pods on a machine that our own model did not allow
	CutOff    int            // lines that a kill cut off
	First     *Difference    // nil = none
}

// A Difference is a decision that was computed otherwise than the log has it.
type Difference struct {
	Line           int
	Pod, App       string
	Logged         string
	Computed       string // "" = no machine
	ComputedScore  float64
	LoggedComputed *float64 // what we compute for the logged machine; nil = not a candidate
	Why            string
}

func (d *Difference) Error() string {
	return fmt.Sprintf("line %d: pod %s: the log has %s, computed is %s: %s", d.Line, d.Pod, d.Logged, orNone(d.Computed), d.Why)
}

func orNone(name string) string {
	if name == "" {
		return "no node"
	}
	return name
}

// Verify rebuilds a cluster's state from its decision log alone, computes every
// decision of a policy anew, and compares. It never reads a score. It stops at the
// first difference, which is part of the verdict; the error is one of the log.
func Verify(name string, in io.Reader) (*Verdict, error) {
	r := NewReader(name, in)
	v := &Verdict{Causes: map[string]int{}}
	l := New()
	for {
		e, err := r.Next()
		v.CutOff = r.CutOff
		if errors.Is(err, io.EOF) {
			return v, nil
		}
		if err != nil {
			return v, err
		}
		v.Events++
		switch e.Kind {
		case KindStart:
			v.Starts++
		case KindDecide:
			if v.First, err = v.check(l, e, r.Line()); err != nil {
				return v, fmt.Errorf("%s:%d: %w", name, r.Line(), err)
			}
			if v.First != nil {
				return v, nil
			}
		}
		if err := l.Apply(e); err != nil {
			return v, fmt.Errorf("%s:%d: %s: %w", name, r.Line(), e.Kind, err)
		}
	}
}

// check computes a decision and says how it differs.
func (v *Verdict) check(l *Ledger, e *Event, line int) (*Difference, error) {
	if e.Decision == nil || e.Cause == "" {
		return nil, errors.New("decide: cause is missing")
	}
	v.Decisions++
	v.Causes[e.Cause]++
	app := l.AppIndex(e.App)
	if app < 0 {
		return nil, fmt.Errorf("decide: app %q is unknown", e.App)
	}
	if m := l.MachineIndex(e.Node); m >= 0 && !l.state.Fits(app, m) {
		v.Refused++
	}
	if e.Cause != CausePolicy {
		return nil, nil //nolint:nilnil // no difference
	}
	role, err := l.roleOf(e)
	if err != nil {
		return nil, err
	}
	logged := e.Node
	if e.Choice != "" {
		logged = e.Choice
	}
	ranked, err := l.Order(role, app, l.allowed(app, e.Decision), 2, nil)
	d := &Difference{Line: line, Pod: e.Pod, App: e.App, Logged: logged}
	switch {
	case err != nil:
		d.Why = err.Error()
		return d, nil
	case len(ranked) == 0:
		d.Why = "no machine is a candidate"
		return d, nil
	}
	if d.Computed = l.NodeName(ranked[0].Machine); d.Computed == logged {
		v.Agreed++
		return nil, nil //nolint:nilnil // no difference
	}
	d.ComputedScore = ranked[0].Score
	d.Why = fmt.Sprintf("its score is %v", ranked[0].Score)
	if m := l.MachineIndex(logged); m >= 0 {
		own, err := l.Order(role, app, []int32{m}, 1, nil)
		if err == nil && len(own) == 1 {
			d.LoggedComputed = &own[0].Score
			d.Why = fmt.Sprintf("scores %v there and %v in the log's", ranked[0].Score, own[0].Score)
			if !l.state.Fits(app, m) && !slices.Contains(e.Extra, logged) {
				d.Why += ", which does not take it"
			}
		}
	}
	return d, nil
}

// roleOf is the role whose policy has the digest of the decision.
func (l *Ledger) roleOf(e *Event) (Role, error) {
	for _, role := range []Role{Primary, Canary} {
		if p, ok := l.policies[role]; ok && p.digest == e.PolicyDigest {
			return role, nil
		}
	}
	return "", fmt.Errorf("decide: policyDigest %q is none of a policy in use", e.PolicyDigest)
}

// allowed are the machines that took the pod: those of our own model without the
// infeasible ones, and the extra ones.
func (l *Ledger) allowed(app int32, d *Decision) []int32 {
	list := l.Fits(app, nil)
	if len(d.Infeasible) == 0 && len(d.Extra) == 0 {
		return list
	}
	without := map[int32]bool{}
	for _, name := range d.Infeasible {
		without[l.MachineIndex(name)] = true
	}
	list = slices.DeleteFunc(list, func(m int32) bool { return without[m] })
	for _, name := range d.Extra {
		if m := l.MachineIndex(name); m >= 0 {
			list = append(list, m)
		}
	}
	slices.Sort(list)
	return list
}

// Differ lists the machines that our own model allows a pod of an app and that
// did not pass a cluster's filters, and those that passed against the model. passed
// are machines, ascending.
func (l *Ledger) Differ(app int32, passed []int32) (infeasible, extra []string) {
	state, i := l.Columns(), 0
	for m := range int32(state.Size()) {
		ours := state.Fits(app, m)
		theirs := i < len(passed) && passed[i] == m
		if theirs {
			i++
		}
		switch {
		case ours && !theirs:
			infeasible = append(infeasible, l.NodeName(m))
		case theirs && !ours:
			extra = append(extra, l.NodeName(m))
		}
	}
	return infeasible, extra
}
