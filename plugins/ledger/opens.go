package ledger

import "errors"

// OpensMachine reports for a decision that a policy ranked, before it is applied, whether it takes a machine
// without pods, and whether Best-Fit would do so, given the same machines.
func (l *Ledger) OpensMachine(e *Event) (own, bestFit bool, err error) {
	if e.Decision == nil || !e.ByPolicy() {
		return false, false, errors.New("no policy ranked the machines")
	}
	app := l.AppIndex(e.App)
	if app < 0 {
		return false, false, errors.New("app " + e.App + " is unknown")
	}
	passed, why := l.passed(app, e.Decision)
	if why != "" {
		return false, false, errors.New(why)
	}
	ranked, err := l.Rank(BestFit, app, passed, 1, nil)
	switch m := l.MachineIndex(e.Node); {
	case err != nil:
		return false, false, err
	case m < 0 || len(ranked) == 0:
		return false, false, errors.New("its machine is no candidate")
	default:
		state := l.Columns()
		return state.Items(m) == 0, state.Items(ranked[0].Machine) == 0, nil
	}
}
