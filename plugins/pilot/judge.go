package pilot

import (
	"fmt"
	"slices"
)

// judging waits for a verdict and holds it against the gate.
func (p *step) judging() {
	v := p.e.Verdict
	if v == nil || v.Candidate != p.s.Candidate || !slices.Equal(v.Days, p.s.Days) {
		if p.now.Sub(p.s.Since) > p.settings.JudgeWithin {
			p.tell("%s was not judged within %v", short(p.s.Candidate), p.settings.JudgeWithin)
			p.rest()
			return
		}
		p.because("%s has not been judged", short(p.s.Candidate))
		return
	}
	if v.Missing != "" {
		p.tell("%s could not be judged: %s", short(p.s.Candidate), v.Missing)
		p.rest()
		return
	}
	if against := p.refusals(v); len(against) > 0 {
		for _, why := range against {
			p.tell("%s is turned down: %s", short(p.s.Candidate), why)
		}
		p.rest()
		return
	}
	promised := v.Promised
	p.s.Promised = &promised
	p.tell("%s is better: it saves %.1f %% (%.1f to %.1f)", short(p.s.Candidate), promised.Mean, promised.Low, promised.High)
	if p.settings.Approval == Auto {
		p.begin()
		return
	}
	p.enter(AwaitingApproval)
}

// refusals lists the gate's conditions that a verdict fails. A NaN fails its
// condition.
func (p *step) refusals(v *Verdict) (list []string) {
	g := p.settings.Gate
	if g == nil {
		return nil
	}
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	for _, name := range append([]string{InForce}, p.settings.Against...) {
		saving, ok := v.Savings[name]
		least, whom := 0., name
		if name == InForce {
			least, whom = g.SavingPercent, "the policy in force"
		}
		switch {
		case !ok:
			refuse(true, "it was not compared with %s", whom)
		default:
			refuse(!(saving.Low >= least), "against %s it saves %.1f %%, with a confidence of %g %% at least %.1f %%, want %g %%", whom, saving.Mean, 100*g.Confidence, saving.Low, least)
		}
	}
	refuse(v.Unplaced > g.Unplaced, "%d more pods find no place, want at most %d", v.Unplaced, g.Unplaced)
	refuse(!(v.WaitPercent <= g.WaitPercent), "pods wait %.0f %% longer, want at most %g %%", v.WaitPercent, g.WaitPercent)
	refuse(g.PodsOfOneApp > 0 && v.PodsOfOneApp > g.PodsOfOneApp, "a node has %d pods of one app, want at most %d", v.PodsOfOneApp, g.PodsOfOneApp)
	return list
}

// awaiting waits for a person, until the next candidate is due.
func (p *step) awaiting() {
	if p.e.Approved == p.s.Candidate && p.settings.Approval == Manual {
		p.tell("%s is approved", short(p.s.Candidate))
		p.begin()
		return
	}
	if why, ok := p.due(); ok {
		p.tell("%s was not approved before the next training (%s)", short(p.s.Candidate), why)
		p.rest()
		p.maybeTrain()
		return
	}
	if p.settings.Approval == Recommend {
		p.because("%s is recommended: this pilot writes no policy", short(p.s.Candidate))
		return
	}
	p.because("%s waits for approval", short(p.s.Candidate))
}
