package phases

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/guard"
)

// Makers make the two agents without memory: for the workload, and for each simulation.
type Makers struct {
	Rules, Candidate func(mpa.Target) mpa.Agent
	// After so long without an opinion of an acting candidate, the rules act.
	After time.Duration
}

// Agent is a candidate in its phases.
type Agent struct {
	target           mpa.Target
	settings         Settings
	guards           mpa.Guards
	make             Makers
	rules, candidate mpa.Agent
	s                state
	silent           bool // the rules act in the place of an acting candidate
	recalled         *mpa.Learning
}

// state is the memory of an agent in addition to that of its two agents.
type state struct {
	Progress
	Begin mpa.LearningPhase `json:"begin"`
	// Answered is the time of the candidate's last opinion.
	Answered time.Time `json:"spoke,omitzero"`
	Window   Window    `json:"window"`
}

// New returns an agent without memory.
func New(t mpa.Target, s Settings, g mpa.Guards, m Makers) (*Agent, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return &Agent{
		target: t, settings: s, guards: g, make: m, rules: m.Rules(t), candidate: m.Candidate(t),
		s: state{Progress: Progress{Phase: s.Begin}, Begin: s.Begin},
	}, nil
}

// Progress returns where the candidate is.
func (a *Agent) Progress() Progress { return a.s.Progress }

// Place puts the candidate where another process left it.
func (a *Agent) Place(p Progress) error {
	if !slices.Contains(mpa.LearningPhases(), p.Phase) {
		return fmt.Errorf("phases: unknown phase %q", p.Phase)
	}
	a.s.Progress = p
	return nil
}

// Rules returns the agent of the rules.
func (a *Agent) Rules() mpa.Agent { return a.rules }

// Active reports whether the rules gave the last answer because an acting candidate had no
// opinion.
func (a *Agent) Active() bool { return a.silent }

// Recall passes the journal's record of the next observation's recommendation, so that its
// verdict is taken from there and not simulated again.
func (a *Agent) Recall(l *mpa.Learning) { a.recalled = l }

// Recommend implements [mpa.Agent]. Source and reason are those of the agent that acts.
func (a *Agent) Recommend(o *mpa.Observation) mpa.Recommendation {
	rules, candidate := a.rules.Recommend(o), a.candidate.Recommend(o)
	s := &a.s
	if s.Since.IsZero() {
		s.Since = o.Time
	}
	s.Window = s.Window.with(o, &a.target, a.settings.Window)
	learning := &mpa.Learning{Verdict: a.verdict(o.Time)}
	if a.settings.Withdrawn && s.Phase == mpa.OnlineTraining {
		s.enter(mpa.OfflineTraining, o.Time)
	}
	if s.Answered.IsZero() || opinion(&candidate) {
		s.Answered = o.Time
	}
	silence := o.Time.Sub(s.Answered)
	acts, shadow := candidate, rules
	a.silent = s.Phase != mpa.OfflineTraining && silence > 0 && silence >= a.make.After
	switch {
	case s.Phase == mpa.OfflineTraining:
		acts, shadow = rules, candidate
	case a.silent:
		acts, shadow = rules, candidate
		acts.Reason = fmt.Sprintf("%s has had no opinion for %v (%s): %s", candidate.Source, silence, candidate.Reason, rules.Reason)
	case s.Phase == mpa.OnlineTraining:
		acts = banded(o, &a.target, candidate, rules, s.Window.work())
	}
	learning.Phase, learning.Shadow = s.Phase, &shadow
	acts.Learning, acts.Drift = learning, candidate.Drift
	return acts
}

// verdict judges the candidate if it is time to.
func (a *Agent) verdict(now time.Time) *mpa.Verdict {
	recalled := a.recalled
	a.recalled = nil
	if !a.s.due(now, &a.settings) {
		return nil
	}
	var v mpa.Verdict
	switch {
	case recalled == nil:
		v = a.s.Window.Judge(now, a.settings.Window, a.target, a.guards, a.make)
	case recalled.Verdict == nil:
		return nil
	default:
		v = *recalled.Verdict
	}
	a.s.Judge(v, &a.settings)
	return &v
}

func opinion(r *mpa.Recommendation) bool { return r.Replicas != 0 || r.Containers != nil }

// Shift implements [mpa.Shifter].
func (a *Agent) Shift(d time.Duration) {
	for _, t := range []*time.Time{&a.s.Since, &a.s.Judged, &a.s.Answered} {
		*t = guard.Moved(*t, d)
	}
	for i := range a.s.Window {
		a.s.Window[i].Time = guard.Moved(a.s.Window[i].Time, d)
	}
	mpa.Shift(a.rules, d)
	mpa.Shift(a.candidate, d)
}

type agentJSON struct {
	Rules     mpa.Agent `json:"rules"`
	Candidate mpa.Agent `json:"candidate"`
	State     *state    `json:"state"`
}

// MarshalJSON implements [mpa.Stateful].
func (a *Agent) MarshalJSON() ([]byte, error) {
	for _, k := range []mpa.Agent{a.rules, a.candidate} {
		if _, ok := k.(mpa.Stateful); !ok {
			return nil, fmt.Errorf("%T cannot write its state", k)
		}
	}
	return json.Marshal(agentJSON{a.rules, a.candidate, &a.s})
}

// UnmarshalJSON implements [mpa.Stateful]. Where the settings begin in another phase now,
// so does the candidate.
func (a *Agent) UnmarshalJSON(data []byte) error {
	var s state
	if err := json.Unmarshal(data, &agentJSON{a.rules, a.candidate, &s}); err != nil {
		return err
	}
	if err := a.Place(s.Progress); err != nil {
		return err
	}
	if a.s = s; s.Begin != a.settings.Begin {
		a.s.Begin = a.settings.Begin
		a.s.enter(a.settings.Begin, time.Time{})
	}
	return nil
}
