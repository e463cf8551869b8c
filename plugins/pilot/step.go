package pilot

import (
	"fmt"
	"slices"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/sigma-scheduler/sigma/internal/learn/phase"
)

// A Loop steps by its settings.
type Loop struct {
	settings Settings
	schedule cron.Schedule
	rollout  phase.Table[Rung]
}

// NewLoop returns the loop of settings that pass [Settings.Validate].
func NewLoop(s Settings) (*Loop, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	schedule, err := cron.ParseStandard(s.Schedule)
	if err != nil {
		return nil, err
	}
	l := &Loop{settings: s, schedule: schedule}
	for _, stage := range s.Rollout {
		l.rollout = append(l.rollout, phase.Row[Rung]{Phase: stage.Rung, Dwell: stage.For})
	}
	return l, nil
}

// step is one in progress.
type step struct {
	*Loop
	now time.Time
	e   *Evidence
	Outcome
	s *State
}

// Step advances the loop to the given time by the evidence and returns the new state, the actions and
// the reasons. The same arguments give the same outcome; s is not changed. The caller saves the state
// before it acts.
func (l *Loop) Step(now time.Time, s State, e *Evidence) Outcome { return l.step(now, s, e, "") }

// Hold is Step for settings that the user has replaced by invalid ones: a broken limit still rolls back
// to the last good policy, and nothing is promoted.
func (l *Loop) Hold(now time.Time, s State, e *Evidence, why string) Outcome {
	return l.step(now, s, e, why)
}

func (l *Loop) step(now time.Time, s State, e *Evidence, hold string) Outcome {
	p := &step{Loop: l, now: now.UTC(), e: e, Outcome: Outcome{State: s}}
	p.s = &p.State
	p.s.Burnt, p.s.Refused, p.s.Days = slices.Clone(s.Burnt), slices.Clone(s.Refused), slices.Clone(s.Days)
	switch {
	case p.s.Phase == "":
		p.s.Begun, p.s.Stepped = p.now, p.now
		p.enter(Recording)
	case p.now.Before(p.s.Stepped):
		p.clockBack()
		return p.Outcome
	}
	p.s.Stepped = p.now
	if e.Recorded != nil && e.Recorded.Fault != "" {
		p.because("nothing is recorded: %s", e.Recorded.Fault)
	}
	if e.Cluster == nil {
		p.because("what policies the cluster has is not known")
		return p.Outcome
	}
	p.foreign()
	if hold != "" {
		p.because("only the limits are watched: %s", hold)
		p.guard()
	} else {
		p.listen()
		if !p.guard() {
			p.move()
		}
		p.wantWork()
	}
	p.wantPolicies()
	return p.Outcome
}

func (p *step) because(format string, args ...any) {
	p.Reasons = append(p.Reasons, fmt.Sprintf(format, args...))
}

// tell reports something to the user, once.
func (p *step) tell(format string, args ...any) {
	p.because(format, args...)
	p.Actions = append(p.Actions, Action{Kind: Tell, Text: fmt.Sprintf(format, args...)})
}

func (p *step) enter(to Phase) { p.s.Phase, p.s.Since, p.s.Seen = to, p.now, false }

// rest ends the training, judgement or rollout in progress.
func (p *step) rest() {
	p.s.Candidate, p.s.Rung, p.s.Job, p.s.Days = "", Rung{}, "", nil
	if p.s.InForce == "" {
		p.enter(Recording)
	} else {
		p.enter(Watching)
	}
}

// clockBack pauses everything for a step. Times in the future are set to now, so running periods
// begin again.
func (p *step) clockBack() {
	p.tell("the clock went back by %v: the phase begins again", p.s.Stepped.Sub(p.now).Round(time.Second))
	p.s.Stepped = p.now
	for _, t := range []*time.Time{&p.s.Since, &p.s.Begun, &p.s.Trained} {
		if t.After(p.now) {
			*t = p.now
		}
	}
}

// foreign adopts a policy that somebody else made or unmade the active one.
func (p *step) foreign() {
	seen := p.e.Cluster.decides()
	switch {
	case seen == p.s.InForce:
		p.s.Confirmed = seen
		return
	case seen == p.s.Confirmed && p.s.Confirmed != p.s.InForce && p.settings.Approval != Recommend:
		return // the requested change is in progress
	case seen == "":
		p.tell("somebody took %s out of force", short(p.s.InForce))
	case p.s.Candidate != "" && seen == p.s.Candidate:
		p.tell("somebody put the candidate %s in force", short(seen))
	default:
		p.tell("somebody put %s in force", short(seen))
	}
	p.s.LastGood, p.s.InForce, p.s.Confirmed, p.s.Promised = "", seen, seen, nil
	p.rest()
}

// move advances the loop from its phase as far as evidence and time allow.
func (p *step) move() {
	switch p.s.Phase {
	case Recording, Watching:
		p.maybeTrain()
	case RolledBack:
		if lasted := p.now.Sub(p.s.Since); lasted < p.settings.Rest {
			p.because("rolled back %v ago, rests for %v", lasted, p.settings.Rest)
			return
		}
		p.rest()
		p.maybeTrain()
	case Training:
		p.training()
	case Judging:
		p.judging()
	case AwaitingApproval:
		p.awaiting()
	case Shadowing, Canarying, GoingLive:
		p.rollOut()
	}
}

// wantWork requests the job that the phase waits for.
func (p *step) wantWork() {
	switch s := p.s; s.Phase {
	case Training:
		p.Actions = append(p.Actions, Action{Kind: Train, Job: s.Job, From: s.From, Until: s.Until})
	case Judging:
		p.Actions = append(p.Actions, Action{Kind: Judge, Job: s.Job, Digest: s.Candidate, Days: s.Days})
	case Recording, AwaitingApproval, Shadowing, Canarying, GoingLive, Watching, RolledBack: // no job
	}
}

// wantPolicies requests the policies that the cluster should have in the phase.
func (p *step) wantPolicies() {
	s, c := p.s, p.e.Cluster
	if p.settings.Approval == Recommend {
		return
	}
	if c.decides() != s.InForce {
		p.Actions = append(p.Actions, Action{Kind: SetPrimary, Digest: s.InForce})
	}
	switch s.Phase {
	case Shadowing, Canarying:
		if want := (Applied{s.Candidate, s.Rung}); c.Candidate != want {
			p.Actions = append(p.Actions, Action{Kind: SetCandidate, Digest: s.Candidate, Rung: s.Rung})
		}
	default:
		if c.Candidate.Digest != "" && c.Candidate.Mode != Shadow {
			p.Actions = append(p.Actions, Action{Kind: SetCandidate, Rung: Rung{Mode: Shadow}})
		}
	}
}

// short is a digest as people read it.
func short(digest string) string {
	if digest == "" {
		return "no policy"
	}
	if n := len("sha256:") + 8; len(digest) > n {
		return digest[:n]
	}
	return digest
}
