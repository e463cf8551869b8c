package pilot

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRefusedSettings(t *testing.T) {
	good := settings()
	require.NoError(t, good.Validate())
	for want, change := range map[string]func(*Settings){
		`train.schedule: "0 0 30 2 *" never fires`:                     func(s *Settings) { s.Schedule = "0 0 30 2 *" },
		"train.schedule: expected exactly 5 fields":                    func(s *Settings) { s.Schedule = "weekly" },
		"train.validate: 0 days, want at least 1":                      func(s *Settings) { s.Choose = 0 },
		"train.test: 1 days, want at least 2":                          func(s *Settings) { s.Test = 1 },
		"train.history: 4 days, of which 2 choose and 2 judge":         func(s *Settings) { s.History = 4 },
		"train.within: 0s":                                             func(s *Settings) { s.TrainWithin = 0 },
		"train.judgeWithin: -1s":                                       func(s *Settings) { s.JudgeWithin = -time.Second },
		"guard.every: 59s, want at least 1m":                           func(s *Settings) { s.Watch = 59 * time.Second },
		"guard.rest: -1ns":                                             func(s *Settings) { s.Rest = -1 },
		`approval: "auto", want Manual, Auto or Recommend`:             func(s *Settings) { s.Approval = "auto" },
		"approval: Auto without a gate":                                func(s *Settings) { s.Approval, s.Gate = Auto, nil },
		"gate.savingPercent: 100":                                      func(s *Settings) { s.Gate.SavingPercent = 100 },
		"gate.savingPercent: NaN":                                      func(s *Settings) { s.Gate.SavingPercent = math.NaN() },
		"gate.confidence: 1, want .5 to .999":                          func(s *Settings) { s.Gate.Confidence = 1 },
		"gate.unplaced: -1":                                            func(s *Settings) { s.Gate.Unplaced = -1 },
		"gate.waitPercent: NaN":                                        func(s *Settings) { s.Gate.WaitPercent = math.NaN() },
		"gate.podsOfOneApp: -1":                                        func(s *Settings) { s.Gate.PodsOfOneApp = -1 },
		"rollout: want steps that end with live":                       func(s *Settings) { s.Rollout = s.Rollout[:2] },
		"rollout[1]: shadow does not decide more than the step before": func(s *Settings) { s.Rollout[1] = s.Rollout[0] },
		"rollout[1].percent: 100, want 1 to 99":                        func(s *Settings) { s.Rollout[1].Percent = 100 },
		"rollout[0].percent: only a canary has one":                    func(s *Settings) { s.Rollout[0].Percent = 3 },
		`rollout[0].mode: "dark"`:                                      func(s *Settings) { s.Rollout[0].Mode = "dark" },
		"rollout[1].for: 0s, want a time above 0":                      func(s *Settings) { s.Rollout[1].For = 0 },
		"guard.fallbackShare: 1.1, want 0 to 1":                        func(s *Settings) { s.Guard.FallbackShare = new(1.1) },
		"guard.openedVsBestFit: 0.4, want 0.5 to 10":                   func(s *Settings) { s.Guard.OpenedVsBestFit = new(.4) },
		"guard.costVsBestFit: 11, want 0.5 to 10":                      func(s *Settings) { s.Guard.CostVsBestFit = new(11.) },
		"guard.pendingP99: NaN":                                        func(s *Settings) { s.Guard.PendingSeconds = new(math.NaN()) },
		"guard.ruleConflicts: -1":                                      func(s *Settings) { s.Guard.RuleConflicts = new(-1.) },
		"guard.regretPercent: 101, want 0 to 100":                      func(s *Settings) { s.Guard.RegretPercent = new(101.) },
	} {
		s := settings()
		change(&s)
		err := s.Validate()
		require.ErrorContains(t, err, want)
		_, err = NewLoop(s)
		require.Error(t, err, want)
		var field *FieldError
		require.ErrorAs(t, err, &field)
	}
}

// However long a pilot runs, its state stays small, and what a digest is kept for holds: a day that
// judges is among the newest 456.
func TestKept(t *testing.T) {
	var list []string
	for i := range 3000 {
		list = with(list, fmt.Sprint("day-", i), fmt.Sprint("day-", i))
	}
	require.Len(t, list, kept)
	require.Equal(t, "day-2999", list[kept-1])
	require.GreaterOrEqual(t, kept, 366+90)
	before := with(nil, "a")
	require.Equal(t, []string{"a", "b"}, with(before, "a", "b"))
	require.Equal(t, []string{"a"}, before)
}
