package pilot

import (
	"math"
	"time"
)

// phases are those of the modes of a rollout.
var phases = map[Mode]Phase{Shadow: Shadowing, Canary: Canarying, Live: GoingLive}

// begin takes the first step of a rollout.
func (p *step) begin() { p.climb(p.rollout[0].Phase) }

// climb takes a step of the rollout. The last step makes the candidate the active policy.
func (p *step) climb(to Rung) {
	p.s.Rung = to
	p.enter(phases[to.Mode])
	if to.Mode == Live {
		p.s.LastGood, p.s.InForce, p.s.Confirmed = p.s.InForce, p.s.Candidate, p.s.InForce
	}
	p.tell("%s goes to %v", short(p.s.Candidate), to)
}

// rollOut promotes the candidate when the step's dwell time is over, counted from the first
// observation of the step in the cluster, and fresh evidence meets the guard.
func (p *step) rollOut() {
	c := p.e.Cluster
	seen := c.Candidate == Applied{p.s.Candidate, p.s.Rung}
	if p.s.Rung.Mode == Live {
		seen = c.decides() == p.s.Candidate
	}
	switch {
	case !seen:
		p.s.Seen, p.s.Since = false, p.now
		p.because("the cluster does not have %s in %v yet", short(p.s.Candidate), p.s.Rung)
		return
	case !p.s.Seen:
		p.s.Seen, p.s.Since = true, p.now
	}
	at := p.rollout.Index(p.s.Rung)
	if at < 0 {
		p.tell("the rollout has no step %v any more", p.s.Rung)
		p.rest()
		return
	}
	dwell := p.rollout[at].Dwell
	if lasted := p.now.Sub(p.s.Since); lasted < dwell {
		p.because("%v for %v of %v", p.s.Rung, lasted, dwell)
		return
	}
	if missing := p.missing(); missing != "" {
		p.because("%v for %v, and does not go on: %s", p.s.Rung, p.now.Sub(p.s.Since), missing)
		return
	}
	next, ok := p.rollout.Forward(p.s.Rung, p.now.Sub(p.s.Since))
	if !ok {
		p.tell("%s is in force", short(p.s.Candidate))
		p.rest()
		return
	}
	p.climb(next)
}

// subject is the policy that the guard checks; "" = none.
func (p *step) subject() string {
	switch p.s.Phase {
	case Shadowing, Canarying, GoingLive:
		return p.s.Candidate
	case Recording, RolledBack:
		return ""
	case Training, Judging, AwaitingApproval, Watching:
	}
	return p.s.InForce
}

// missing names the guard's evidence that is missing or old; "" = all is fresh.
func (p *step) missing() string {
	m := p.e.Measured
	switch {
	case m == nil || m.Digest != p.subject():
		return "nothing is measured of it"
	case p.now.Sub(m.At) > 2*p.settings.Watch:
		return "it was last measured " + p.now.Sub(m.At).Round(time.Second).String() + " ago"
	case m.At.Before(p.s.Since):
		return "it was measured before this step"
	}
	if what := p.settings.Guard.Unknown(m); what != "" {
		return "the " + what + " is not known"
	}
	return ""
}

// Unknown names the first limit without a measured value; "" = every limit has one.
func (g *Guard) Unknown(m *Measured) string {
	for _, l := range g.limits() {
		if l.limit != nil && !known(l.measured(m)) {
			return l.what
		}
	}
	return ""
}

func known(v *float64) bool { return v != nil && !math.IsNaN(*v) && !math.IsInf(*v, 0) }

// guard rolls back to the last good policy if a limit is broken, and reports whether it did.
func (p *step) guard() bool {
	m := p.e.Measured
	subject := p.subject()
	if subject == "" || m == nil || m.Digest != subject || m.At.Before(p.s.Since) && p.s.Phase != Watching {
		return false
	}
	broken := false
	for _, l := range p.settings.Guard.limits() {
		if v := l.measured(m); l.limit != nil && known(v) && *v > *l.limit {
			p.tell("%s: %s is %.4g, want at most %g", short(subject), l.what, *v, *l.limit)
			broken = true
		}
	}
	if !broken {
		return false
	}
	p.s.Refused = with(p.s.Refused, subject)
	if subject == p.s.InForce {
		p.s.InForce, p.s.LastGood = p.s.LastGood, ""
	}
	p.s.Promised = nil
	p.rest()
	p.enter(RolledBack)
	p.tell("%s is rolled back to %s", short(subject), short(p.s.InForce))
	return true
}
