package pilot

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/robfig/cron/v3"
)

// Approval is who lets a candidate that passed the gate into the cluster.
type Approval string

// The approvals.
const (
	Manual    Approval = "Manual"    // a person
	Auto      Approval = "Auto"      // the gate alone
	Recommend Approval = "Recommend" // a person, who also writes the policy: the pilot writes none
)

// Mode is how much a policy decides in a step of a rollout.
type Mode string

// The modes.
const (
	Shadow Mode = "shadow" // nothing
	Canary Mode = "canary" // for a share of the workloads
	Live   Mode = "live"   // for all
)

// A Rung is a step of a rollout. Percent is of a canary; 0 elsewhere.
type Rung struct {
	Mode    Mode `json:"mode"`
	Percent int  `json:"percent,omitempty"`
}

func (r Rung) String() string {
	if r.Mode == Canary {
		return fmt.Sprintf("canary %d %%", r.Percent)
	}
	return string(r.Mode)
}

// A Stage is a step of a rollout and the least time in it.
type Stage struct {
	Rung
	For time.Duration
}

// A Gate holds the conditions that a candidate must meet on the test days.
type Gate struct {
	// SavingPercent is the least saving against the active policy, reached in a share Confidence of
	// the bootstrap. Against the others the least saving is 0.
	SavingPercent float64
	Confidence    float64
	// Unplaced is the most pods without a place beyond those under the active policy.
	Unplaced int
	// WaitPercent is the most by which pods may wait longer than under the active policy.
	WaitPercent float64
	// PodsOfOneApp is the most pods of one app on a node; 0 = any number.
	PodsOfOneApp int
}

// A Guard holds the limits that a policy must keep while it is in the cluster; nil = no limit.
type Guard struct {
	FallbackShare   *float64 // of the decisions
	PendingSeconds  *float64 // 99th percentile of the time that a pod is pending
	RuleConflicts   *float64 // nodes with pods against a rule
	OpenedVsBestFit *float64 // nodes that its decisions opened ÷ those that Best-Fit would have opened in the same cycles
	CostVsBestFit   *float64 // cost of the nodes in use ÷ that under Best-Fit since the beginning
	// RegretPercent is the saving of a policy retrained on the last week above which a training
	// begins.
	RegretPercent *float64
}

// Settings are the settings of a pilot.
type Settings struct {
	Schedule string // of trainings, as in crontab, in UTC
	// History is how many days are trained on, chosen on and judged on at most; of them the newest
	// Test days judge, and the Choose days before choose.
	History, Choose, Test int
	// TrainWithin and JudgeWithin are how long a training and a judgement may take.
	TrainWithin, JudgeWithin time.Duration
	Against                  []string // policies that the candidate must not be worse than, in addition to the active one
	Gate                     *Gate
	Rollout                  []Stage
	Guard                    Guard
	// Watch is how often the guard is measured. Evidence that is older than twice that is missing.
	Watch time.Duration
	// Rest is how long nothing is trained after a policy was rolled back.
	Rest     time.Duration
	Approval Approval
}

// A FieldError is an error in one setting.
type FieldError struct{ Field, Reason string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// mostHistory are the most days of History, as the object allows them.
const mostHistory = 366

// Validate reports all that is wrong with settings, each as a [FieldError].
func (s *Settings) Validate() error {
	var errs []error
	wrong := func(bad bool, field, format string, args ...any) {
		if bad {
			errs = append(errs, &FieldError{field, fmt.Sprintf(format, args...)})
		}
	}
	schedule, err := cron.ParseStandard(s.Schedule)
	if err != nil {
		wrong(true, "train.schedule", "%v", err)
	} else {
		wrong(schedule.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero(), "train.schedule", "%q never fires", s.Schedule)
	}
	wrong(s.History > mostHistory, "train.history", "%d days, want at most %d", s.History, mostHistory)
	wrong(s.Choose < 1, "train.validate", "%d days, want at least 1", s.Choose)
	wrong(s.Test < 2, "train.test", "%d days, want at least 2: the interval is over days", s.Test)
	wrong(s.Choose+s.Test >= s.History, "train.history", "%d days, of which %d choose and %d judge: none is left to train on", s.History, s.Choose, s.Test)
	wrong(s.TrainWithin <= 0, "train.within", "%v, want a time above 0", s.TrainWithin)
	wrong(s.JudgeWithin <= 0, "train.judgeWithin", "%v, want a time above 0", s.JudgeWithin)
	wrong(s.Watch < time.Minute, "guard.every", "%v, want at least 1m", s.Watch)
	wrong(s.Rest < 0, "guard.rest", "%v, want 0 or more", s.Rest)
	switch s.Approval {
	case Manual, Auto, Recommend:
	default:
		wrong(true, "approval", "%q, want Manual, Auto or Recommend", s.Approval)
	}
	wrong(s.Approval == Auto && s.Gate == nil, "approval", "Auto without a gate: nothing would hold a bad policy back")
	if g := s.Gate; g != nil {
		wrong(!(g.SavingPercent >= 0 && g.SavingPercent < 100), "gate.savingPercent", "%v, want 0 to less than 100", g.SavingPercent)
		wrong(!(g.Confidence >= .5 && g.Confidence <= .999), "gate.confidence", "%v, want .5 to .999", g.Confidence)
		wrong(g.Unplaced < 0, "gate.unplaced", "%d, want 0 or more", g.Unplaced)
		wrong(!(g.WaitPercent >= 0 && g.WaitPercent <= 1000), "gate.waitPercent", "%v, want 0 to 1000", g.WaitPercent)
		wrong(g.PodsOfOneApp < 0, "gate.podsOfOneApp", "%d, want 0 or more", g.PodsOfOneApp)
	}
	errs = append(errs, s.checkRollout()...)
	if r := s.Guard.RegretPercent; r != nil {
		wrong(!(*r >= 0 && *r <= 100), "guard.regretPercent", "%v, want 0 to 100", *r)
	}
	for _, l := range s.Guard.limits() {
		if l.limit != nil {
			wrong(!(*l.limit >= l.least && *l.limit <= l.most), "guard."+l.field, "%v, want %v to %v", *l.limit, l.least, l.most)
		}
	}
	return errors.Join(errs...)
}

// checkRollout reports steps that do not rise, or do not end live.
func (s *Settings) checkRollout() (errs []error) {
	if len(s.Rollout) == 0 || s.Rollout[len(s.Rollout)-1].Mode != Live {
		return []error{&FieldError{"rollout", "want steps that end with live"}}
	}
	before := -1
	for i, stage := range s.Rollout {
		field := fmt.Sprintf("rollout[%d]", i)
		rank := 0
		switch stage.Mode {
		case Shadow:
		case Canary:
			if rank = stage.Percent; rank < 1 || rank > 99 {
				errs = append(errs, &FieldError{field + ".percent", fmt.Sprintf("%d, want 1 to 99", rank)})
			}
		case Live:
			rank = 100
		default:
			errs = append(errs, &FieldError{field + ".mode", fmt.Sprintf("%q, want shadow, canary or live", stage.Mode)})
			continue
		}
		if stage.Mode != Canary && stage.Percent != 0 {
			errs = append(errs, &FieldError{field + ".percent", "only a canary has one"})
		}
		if rank <= before {
			errs = append(errs, &FieldError{field, fmt.Sprintf("%v does not decide more than the step before", stage.Rung)})
		}
		if stage.For < 0 || stage.For == 0 && stage.Mode != Live {
			errs = append(errs, &FieldError{field + ".for", fmt.Sprintf("%v, want a time above 0", stage.For)})
		}
		before = rank
	}
	return errs
}

// A limit is one of a guard, with what is measured for it.
type limit struct {
	field, what string
	limit       *float64
	least, most float64
	measured    func(*Measured) *float64
}

func (g *Guard) limits() []limit {
	return []limit{
		{"fallbackShare", "share of decisions that fell back", g.FallbackShare, 0, 1, func(m *Measured) *float64 { return m.FallbackShare }},
		{"pendingP99", "seconds that a pod is pending (p99)", g.PendingSeconds, 0, math.MaxInt32, func(m *Measured) *float64 { return m.PendingSeconds }},
		{"ruleConflicts", "nodes with pods against a rule", g.RuleConflicts, 0, math.MaxInt32, func(m *Measured) *float64 { return m.RuleConflicts }},
		{"openedVsBestFit", "nodes opened ÷ those that Best-Fit would have opened", g.OpenedVsBestFit, .5, 10, func(m *Measured) *float64 { return m.OpenedVsBestFit }},
		{"costVsBestFit", "cost of nodes in use ÷ that under Best-Fit", g.CostVsBestFit, .5, 10, func(m *Measured) *float64 { return m.CostVsBestFit }},
	}
}
