package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A Verdict is the result of recomputing the decisions of a log.
type Verdict struct {
	Events    int
	Starts    int // of the scheduler
	Decisions int
	Causes    map[string]int // of all decisions
	Agreed    int            // of those that a policy ranked
	Refused   int            // pods on a machine that the ledger's own model did not allow
	CutOff    int            // lines that a kill cut off
	Gaps      []Gap          // where events are missing
	First     *Difference    // nil = all agree
}

// A Difference is a decision whose computed node is not the logged one.
type Difference struct {
	File           string
	Line           int
	Pod, App       string
	Choice         bool // of a file, not of a node
	Logged         string
	Computed       string // "" = no machine
	ComputedScore  float64
	LoggedComputed *float64 // score computed for the logged machine; nil = no score
	Reason         string
}

func (d *Difference) Error() string {
	if d.Choice {
		return fmt.Sprintf("line %d: the log has %s, computed is %s: the state chooses the policy's file", d.Line, cmp.Or(d.Logged, "no choice"), d.Computed)
	}
	return fmt.Sprintf("line %d: pod %s: the log has %s, computed is %s: %s", d.Line, d.Pod, d.Logged, cmp.Or(d.Computed, "no node"), d.Reason)
}

// Verify rebuilds a cluster's state from its decision log alone, recomputes every
// decision of a policy, and compares. It never reads a score. It stops at the
// first difference, which is part of the verdict; an error means that the log is
// invalid.
func Verify(name string, in io.Reader) (*Verdict, error) {
	return VerifyFiles(&Files{Reader: NewReader(name, in), file: io.NopCloser(in)})
}

// VerifyFiles is [Verify] for a log of several files.
func VerifyFiles(r *Files) (*Verdict, error) {
	v := &Verdict{Causes: map[string]int{}}
	l := New()
	for {
		e, err := r.Next()
		v.CutOff, v.Gaps = r.CutOff, r.Gaps
		if errors.Is(err, io.EOF) {
			return v, v.complete(r.Name())
		}
		if err != nil {
			return v, err
		}
		v.Events++
		if e.Kind == KindStart {
			v.Starts++
		}
		if e.Kind == KindChoose && !v.checkChoice(l, e.Role, e.Chosen, r) {
			return v, nil
		}
		if e.Kind == KindDecide {
			if err := v.check(l, e, r); err != nil {
				return v, fmt.Errorf("%s:%d: decide: %w", r.Name(), r.Line(), err)
			}
			if v.First != nil {
				return v, nil //nolint:nilerr // a difference is part of the verdict
			}
		}
		if err := l.Apply(e); err != nil {
			return v, fmt.Errorf("%s:%d: %s: %w", r.Name(), r.Line(), e.Kind, err)
		}
	}
}

// complete returns an error for a file that is not a decision log.
func (v *Verdict) complete(name string) error {
	if v.Starts == 0 {
		return fmt.Errorf("%s: nothing starts there: not a decision log", name)
	}
	return nil
}

// check computes a decision and compares; it sets v.First where they differ.
func (v *Verdict) check(l *Ledger, e *Event, at *Files) error {
	if e.Decision == nil || e.Cause == "" {
		return errors.New("cause is missing")
	}
	v.Decisions++
	v.Causes[e.Cause]++
	app := l.AppIndex(e.App)
	if app < 0 {
		return fmt.Errorf("app %q is unknown", e.App)
	}
	if m := l.MachineIndex(e.Node); m >= 0 && !l.allows(app, m) {
		v.Refused++
	}
	if !e.ByPolicy() && e.Cause != CausePlanned {
		return nil
	}
	role, err := Role(""), error(nil)
	if e.ByPolicy() {
		if role, err = l.roleOf(e); err != nil {
			return err
		}
		if !v.checkChoice(l, role, l.policies[role].chosen, at) {
			return nil
		}
	}
	d := &Difference{File: at.Name(), Line: at.Line(), Pod: e.Pod, App: e.App, Logged: e.Node}
	if e.Choice != "" {
		d.Logged = e.Choice
	}
	if l.compute(d, role, app, e.Decision) {
		v.Agreed++
	} else {
		v.First = d
	}
	return nil
}

// checkChoice computes the file that a policy chooses and compares; it sets v.First where they
// differ.
func (v *Verdict) checkChoice(l *Ledger, role Role, logged *FileChoice, at *Files) bool {
	computed, ok := l.checkChoice(role, logged)
	if !ok {
		v.First = &Difference{File: at.Name(), Line: at.Line(), Choice: true, Computed: computed, Reason: "the state says so"}
		if logged != nil {
			v.First.Logged = logged.Name
		}
	}
	return ok
}

// compute fills in the policy's choice, and the reason if the log has another node. It
// reports whether the two agree.
func (l *Ledger) compute(d *Difference, role Role, app int32, logged *Decision) bool {
	l.SetClock(logged.Clock)
	if logged.Cause == CausePlanned {
		return l.computePlanned(d, app, logged)
	}
	if _, asked := l.PolicyFor(role, app); asked.Cause != logged.Cause {
		d.Reason = fmt.Sprintf("the log has the cause %s, but by its windows it is %s at the clock %v", logged.Cause, asked.Cause, logged.Clock)
		return false
	}
	passed, why := l.passed(app, logged)
	if why != "" {
		d.Reason = why
		return false
	}
	if m := l.ReservedMachine(app, passed); m >= 0 {
		d.Computed, d.Reason = l.NodeName(m), "room is reserved there"
		return false
	}
	ranked, err := l.Rank(role, app, passed, 1, nil)
	switch {
	case err != nil:
		d.Reason = err.Error()
		return false
	case len(ranked) == 0:
		d.Reason = "no machine is a candidate"
		return false
	}
	d.Computed, d.ComputedScore = l.NodeName(ranked[0].Machine), ranked[0].Score
	if d.Computed == d.Logged {
		return true
	}
	d.Reason = l.whyNot(role, app, d, passed)
	return false
}

// computePlanned fills in the node with reserved room, and the reason if the log has another node.
func (l *Ledger) computePlanned(d *Difference, app int32, logged *Decision) bool {
	passed, why := l.passed(app, logged)
	if why != "" {
		d.Reason = why
		return false
	}
	d.Reason = "no room is reserved for it there"
	if m := l.ReservedMachine(app, passed); m >= 0 {
		d.Computed, d.Reason = l.NodeName(m), "it is the first by name that room is reserved on"
	}
	return d.Computed == d.Logged
}

// whyNot returns the reason why the logged machine is not the computed one.
func (l *Ledger) whyNot(role Role, app int32, d *Difference, passed []int32) string {
	m := l.MachineIndex(d.Logged)
	if m < 0 {
		return "the log's is not there, or cordoned"
	}
	if own, err := l.Rank(role, app, []int32{m}, 1, nil); err == nil && len(own) == 1 {
		d.LoggedComputed = &own[0].Score
	}
	if _, ok := slices.BinarySearch(passed, m); !ok {
		return "the log's does not take it"
	}
	if d.LoggedComputed != nil && *d.LoggedComputed == d.ComputedScore {
		return "equal scores go to the first by name"
	}
	return "its score is higher"
}

// ByPolicy reports whether a policy ranked the machines, so that the decision can be
// recomputed.
func (d *Decision) ByPolicy() bool { return d.Cause == CausePolicy || d.Cause == CauseNoWindow }

// roleOf returns the role whose policy, or the one that replaces it, has the digest of the decision.
func (l *Ledger) roleOf(e *Event) (Role, error) {
	for _, role := range []Role{Primary, Canary} {
		p := l.policies[role]
		if p != nil && e.Cause == CauseNoWindow {
			p = p.outside
		}
		if p != nil && p.digest == e.PolicyDigest {
			return role, nil
		}
	}
	return "", fmt.Errorf("policyDigest %q is none of a policy in use", e.PolicyDigest)
}

// passed returns the machines that passed the filters: those that the ledger's own model allows,
// minus the infeasible ones, plus the extra ones. why is the contradiction between the model
// and these lists.
func (l *columns) passed(app int32, d *Decision) (list []int32, why string) {
	state := l.Columns()
	flips := make([]bool, state.Size())
	for _, name := range d.Infeasible {
		m := l.MachineIndex(name)
		if m < 0 || !l.allows(app, m) {
			return nil, fmt.Sprintf("by the log only other filters refused %s, but our own model refuses it", name)
		}
		flips[m] = true
	}
	for _, name := range d.Extra {
		m := l.MachineIndex(name)
		if m < 0 || l.allows(app, m) {
			return nil, fmt.Sprintf("by the log our own model refused %s, but it does not", name)
		}
		flips[m] = true
	}
	for m, flip := range flips {
		if l.allows(app, int32(m)) != flip {
			list = append(list, int32(m))
		}
	}
	return list, ""
}

// FilterDifferences lists the machines that the ledger's own model allows a pod of an app but the
// cluster's filters refused, and those that passed although the model refuses them.
// passed are machines, ascending.
func (l *columns) FilterDifferences(app int32, passed []int32) (infeasible, extra []string) {
	state, i := l.Columns(), 0
	for m := range int32(state.Size()) {
		ours := l.allows(app, m)
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
