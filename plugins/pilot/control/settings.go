package control

import (
	"cmp"
	"time"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
	"github.com/sigma-scheduler/sigma/plugins/pilot/record"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// settingsOf are the settings of a spec that the API server has defaulted; the error is about fields
// of it.
func settingsOf(spec *v1alpha1.PolicyPilotSpec) (*pilot.Settings, error) {
	var wrong error
	duration := func(field, text string) time.Duration {
		if text == "" {
			return 0
		}
		d, err := time.ParseDuration(text)
		if err != nil && wrong == nil {
			wrong = &pilot.FieldError{Field: field, Reason: err.Error()}
		}
		return d
	}
	t, g := &spec.Train, &spec.Guard
	s := &pilot.Settings{
		Schedule: t.Schedule, History: int(t.History), Choose: int(t.Validate), Test: int(t.Test),
		TrainWithin: duration("train.within", t.Within), JudgeWithin: duration("train.judgeWithin", t.JudgeWithin),
		Against: spec.Against, Watch: duration("guard.every", g.Every), Rest: duration("guard.rest", g.Rest),
		Approval: pilot.Approval(cmp.Or(spec.Approval, v1alpha1.PilotManual)),
		Guard: pilot.Guard{
			FallbackShare: g.FallbackShare, OpenedVsBestFit: g.OpenedVsBestFit, CostVsBestFit: g.CostVsBestFit, RegretPercent: g.RegretPercent,
		},
	}
	if g.PendingP99 != "" {
		s.Guard.PendingSeconds = new(duration("guard.pendingP99", g.PendingP99).Seconds())
	}
	if g.RuleConflicts != nil {
		s.Guard.RuleConflicts = new(float64(*g.RuleConflicts))
	}
	if g := spec.Gate; g != nil {
		s.Gate = &pilot.Gate{
			SavingPercent: g.SavingPercent, Confidence: g.Confidence, Unplaced: int(g.Unplaced), WaitPercent: g.WaitPercent, PodsOfOneApp: int(g.PodsOfOneApp),
		}
	}
	for _, step := range spec.Rollout {
		s.Rollout = append(s.Rollout, pilot.Stage{
			Rung: pilot.Rung{Mode: pilot.Mode(step.Mode), Percent: int(step.Percent)}, For: duration("rollout", step.For),
		})
	}
	if wrong != nil {
		return nil, wrong
	}
	for _, name := range append([]string{spec.Baseline}, spec.Against...) {
		if _, err := builtIn(name); err != nil {
			return nil, &pilot.FieldError{Field: "against, baseline", Reason: err.Error()}
		}
	}
	return s, s.Validate()
}

// defaultDays is the number of days kept if a spec does not set it.
const defaultDays = 60

// limitsOf bound the record. The API server has checked them.
func limitsOf(s *v1alpha1.PolicyPilotSpec) record.Limits {
	r := &s.Record
	l := record.Limits{Days: int(r.Days)}
	if l.Days == 0 {
		l.Days = max(defaultDays, int(s.Train.History)+int(s.Train.Test))
	}
	if r.Size != nil {
		l.Bytes = podspec.Value(r.Size)
	}
	return l
}

// builtIn is a rule by name, with ties by position: the same in every replay.
func builtIn(name string) (binpack.Policy, error) {
	return rule.ByName(name, rule.Options{Seed: 1, TiesByPosition: true})
}

// candidateOf names the PlacementPolicy of a pilot's candidate.
func candidateOf(spec *v1alpha1.PolicyPilotSpec) string {
	return cmp.Or(spec.Candidate, spec.Policy+"-candidate")
}
