package phases

import (
	"fmt"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/internal/learn/phase"
	"github.com/sigma-scheduler/sigma/mpa"
)

// Settings of the phases.
type Settings struct {
	// Begin is the phase of a new candidate.
	Begin mpa.LearningPhase `json:"begin"`
	// Window whose load judges, and the least time before the next phase.
	Window time.Duration `json:"windowNanoseconds"`
	// Withdrawn: the candidate's policy was deleted. It acts only if it is already serving.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// DefaultSettings begin in the shadow of the rules. 3 h are as long as the scenarios of training.
func DefaultSettings() Settings { return Settings{mpa.OfflineTraining, 3 * time.Hour, false} }

// LeastWindow is the shortest window.
const LeastWindow = time.Minute

// Validate reports the first thing that is wrong with settings.
func (s *Settings) Validate() error {
	switch {
	case !slices.Contains(mpa.LearningPhases(), s.Begin):
		return fmt.Errorf("learning.begin %q: want one of %v", s.Begin, mpa.LearningPhases())
	case s.Window < LeastWindow || s.Window > 24*time.Hour:
		return fmt.Errorf("learning.window %v: want %v to 24h", s.Window, LeastWindow)
	}
	return nil
}

const (
	// The candidate's objective ÷ that of the rules (R1 and R2 of AWARE): up to forward it
	// may advance, above back it is moved back.
	forward, back = 1.02, 1.1
	// judgings of a window: it slides by a third.
	judgings = 3
)

// A Progress is the position of a candidate in its phases.
type Progress struct {
	Phase mpa.LearningPhase `json:"phase"`
	// Since is the begin of the phase.
	Since time.Time `json:"since,omitzero"`
	// Changes of the phase so far: of two states of a candidate, that with more is the later.
	Changes int64 `json:"changes,omitempty"`
	// Judged is the time at which the last verdict was due.
	Judged time.Time `json:"judged,omitzero"`
	// Verdict is the last one; nil = no verdict yet.
	Verdict *mpa.Verdict `json:"verdict,omitempty"`
}

// Judge takes a verdict into account: it changes the phase by at most one step. One step
// forward takes a whole window in the phase, one back does not.
func (p *Progress) Judge(v mpa.Verdict, s *Settings) {
	p.Judged, p.Verdict = v.Time, &v
	if v.Missing != "" {
		return
	}
	table := s.table()
	if worse(&v) {
		if before, ok := table.Back(p.Phase); ok {
			p.enter(before, v.Time)
		}
		return
	}
	better := v.Candidate <= forward*v.Rules && v.CandidateBroken <= v.RulesBroken
	if next, ok := table.Forward(p.Phase, v.Time.Sub(p.Since)); ok && better && !s.Withdrawn {
		p.enter(next, v.Time)
	}
}

// table has the phases of a candidate, each at least a window long.
func (s *Settings) table() (t phase.Table[mpa.LearningPhase]) {
	for _, p := range mpa.LearningPhases() {
		t = append(t, phase.Row[mpa.LearningPhase]{Phase: p, Dwell: s.Window})
	}
	return t
}

// worse reports whether a verdict moves a candidate back. NaN counts as worse.
func worse(v *mpa.Verdict) bool {
	return !(v.Candidate <= back*v.Rules) || v.CandidateBroken > v.RulesBroken
}

// Refused reports whether the candidate is in the shadow of the rules, and worse than they are by
// the last verdict.
func (p *Progress) Refused() bool {
	return p.Phase == mpa.OfflineTraining && p.Verdict != nil && p.Verdict.Missing == "" && worse(p.Verdict)
}

func (p *Progress) enter(to mpa.LearningPhase, now time.Time) {
	p.Phase, p.Since = to, now
	p.Changes++
}

// due reports whether the window is to be judged: at first when it is full.
func (p *Progress) due(now time.Time, s *Settings) bool {
	if p.Judged.IsZero() {
		return now.Sub(p.Since) >= s.Window
	}
	return now.Sub(p.Judged) >= s.Window/judgings
}
