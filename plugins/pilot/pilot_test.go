package pilot

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// The stories in testdata are of one pilot. A day begins at midnight. `make golden` writes the
// outputs. The state goes through JSON in every step.
//
//	pilot [approval=Auto] [gate=none]
//	       trains on Sundays at three, chooses on two days, judges on two; shadow and a canary of
//	       10 % for 12 hours each, live for six. It begins on Monday, 2 November 2026, at midnight
//	days n=5            so many days more are recorded
//	gap what=…          the last recorded day is not whole
//	full what=…         nothing is recorded from now on
//	step [after=1h] [times=1] [quiet]
//	       lets time pass and steps; what is asked for is done. quiet prints changes of the phase
//	trained candidate=a | failed=… | none=…
//	       the training that was asked for ends so
//	verdict [saving=5] [low=3] [other=2] [unplaced=0] [wait=0] [pods=1] [missing=…] [of=a] [without=bestfit]
//	       of the candidate on the days that were asked for
//	approve digest=a
//	measured [opened=1] [cost=1] [fallback=0] [pending=5] [conflicts=0] [of=a] [ago=0s] [not=opened]
//	       of the policy that the guard looks at, and so again in each step
//	unmeasured          from now on
//	drift [changed=…] [ago=6h] [regret=4] [low=1]
//	hold why=…          the spec cannot be carried out from now on
//	release             it can
//	gone, back          the API server does not answer from now on, or does
//	refuse, obey        what is asked for is not done from now on, or is
//	somebody [digest=x] puts a policy in force, or takes it out of force
//	clock by=-2h
//	state               all of it
func TestScenarios(t *testing.T) {
	count := 0
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		count++
		var s *story
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "pilot" {
				s = newStory(t, d)
				return ""
			}
			require.NotNil(t, s, "%s: a story begins with its pilot", d.Pos)
			return s.do(t, d)
		})
	})
	require.GreaterOrEqual(t, count, 8)
}

type story struct {
	loop         *Loop
	state        State
	now          time.Time
	days         []Day
	e            Evidence
	cluster      Cluster
	gone, refuse bool
	measured     *Measured
	ago          time.Duration
	hold         string
	of           string
	last         Phase // of the last step
}

func settings() Settings {
	return Settings{
		Schedule: "0 3 * * 0", History: 14, Choose: 2, Test: 2, TrainWithin: 6 * time.Hour, JudgeWithin: 2 * time.Hour,
		Against: []string{"bestfit"},
		Gate:    &Gate{SavingPercent: 2, Confidence: .95, WaitPercent: 10, PodsOfOneApp: 4},
		Rollout: []Stage{{Rung{Mode: Shadow}, 12 * time.Hour}, {Rung{Canary, 10}, 12 * time.Hour}, {Rung{Mode: Live}, 6 * time.Hour}},
		Guard: Guard{
			FallbackShare: new(.01), PendingSeconds: new(60.), RuleConflicts: new(0.), OpenedVsBestFit: new(1.02), CostVsBestFit: new(1.1),
			RegretPercent: new(1.),
		},
		Watch: time.Hour, Rest: day, Approval: Manual,
	}
}

func newStory(t *testing.T, d *datadriven.TestData) *story {
	s := settings()
	if d.HasArg("approval") {
		s.Approval = Approval(arg(t, d, "approval", ""))
	}
	if arg(t, d, "gate", "") == "none" {
		s.Gate = nil
	}
	loop, err := NewLoop(s)
	require.NoError(t, err)
	story := &story{loop: loop, now: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC), e: Evidence{Recorded: &Recorded{}}}
	story.step(t)
	return story
}

func arg(t *testing.T, d *datadriven.TestData, name, standard string) string {
	t.Helper()
	for _, a := range d.CmdArgs {
		if a.Key == name {
			require.NotEmpty(t, a.Vals, "%s: %s has no value", d.Pos, name)
			return strings.Join(a.Vals, ",")
		}
	}
	return standard
}

func (s *story) number(t *testing.T, d *datadriven.TestData, name string, standard float64) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(arg(t, d, name, fmt.Sprint(standard)), 64)
	require.NoError(t, err, d.Pos)
	return v
}

func lasting(t *testing.T, d *datadriven.TestData, name, standard string) time.Duration {
	t.Helper()
	v, err := time.ParseDuration(arg(t, d, name, standard))
	require.NoError(t, err, d.Pos)
	return v
}

// said turns the underscores of an argument into spaces.
func said(t *testing.T, d *datadriven.TestData, name string) string {
	return strings.ReplaceAll(arg(t, d, name, ""), "_", " ")
}

func (s *story) do(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "days":
		for range int(s.number(t, d, "n", 1)) {
			start := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC).AddDate(0, 0, len(s.days))
			s.days = append(s.days, Day{Start: start, Digest: "day-" + start.Format("01-02")})
			if s.now.Before(start.Add(day)) {
				s.now = start.Add(day)
			}
		}
	case "gap":
		s.days[len(s.days)-1].Gap = said(t, d, "what")
	case "full":
		s.e.Recorded.Fault = said(t, d, "what")
	case "trained":
		s.e.Trained = &Trained{Job: s.state.Job, Candidate: arg(t, d, "candidate", ""), Failed: said(t, d, "failed"), None: said(t, d, "none")}
	case "verdict":
		s.e.Verdict = s.verdict(t, d)
	case "approve":
		s.e.Approved = arg(t, d, "digest", "")
	case "measured":
		s.measured = &Measured{Values: Values{
			OpenedVsBestFit: new(s.number(t, d, "opened", 1)), FallbackShare: new(s.number(t, d, "fallback", 0)),
			CostVsBestFit: new(s.number(t, d, "cost", 1)), PendingSeconds: new(s.number(t, d, "pending", 5)), RuleConflicts: new(s.number(t, d, "conflicts", 0)),
		}}
		s.of, s.ago = arg(t, d, "of", ""), lasting(t, d, "ago", "0s")
		if arg(t, d, "not", "") == "opened" {
			s.measured.OpenedVsBestFit = nil
		}
	case "unmeasured":
		s.measured = nil
	case "drift":
		s.e.Drift = &Drift{At: s.now, Changed: said(t, d, "changed"), Since: s.now.Add(-lasting(t, d, "ago", "6h"))}
		if d.HasArg("regret") {
			s.e.Drift.Regret = &Saving{Mean: s.number(t, d, "regret", 0), Low: s.number(t, d, "low", 0)}
			s.e.Drift.Days = []string{s.days[len(s.days)-1].Digest}
		}
	case "hold", "release":
		s.hold = said(t, d, "why")
	case "gone", "back":
		s.gone = d.Cmd == "gone"
	case "refuse", "obey":
		s.refuse = d.Cmd == "refuse"
	case "somebody":
		s.cluster.Primary = Applied{arg(t, d, "digest", ""), Rung{Mode: Live}}
	case "clock":
		s.now = s.now.Add(lasting(t, d, "by", "0s"))
	case "state":
		text, err := json.MarshalIndent(s.state, "", "  ")
		require.NoError(t, err)
		return string(text) + "\n"
	case "step":
		var out strings.Builder
		for range int(s.number(t, d, "times", 1)) {
			s.now = s.now.Add(lasting(t, d, "after", "1h"))
			text := s.step(t)
			if s.state.Phase != s.last || !d.HasArg("quiet") {
				fmt.Fprintf(&out, "%s  %s", s.now.Format("Mon 02 15:04"), text)
			}
			s.last = s.state.Phase
		}
		return out.String()
	default:
		require.Fail(t, "unknown command", "%s: %s", d.Pos, d.Cmd)
	}
	return ""
}

func (s *story) verdict(t *testing.T, d *datadriven.TestData) *Verdict {
	v := &Verdict{
		Candidate: arg(t, d, "of", s.state.Candidate), Days: s.state.Days, Missing: said(t, d, "missing"),
		Promised: Saving{s.number(t, d, "saving", 5), s.number(t, d, "low", 3), 2*s.number(t, d, "saving", 5) - s.number(t, d, "low", 3)},
		Unplaced: int(s.number(t, d, "unplaced", 0)), WaitPercent: s.number(t, d, "wait", 0), PodsOfOneApp: int(s.number(t, d, "pods", 1)),
	}
	v.Savings = map[string]Saving{InForce: v.Promised, "bestfit": {Mean: s.number(t, d, "other", 2), Low: s.number(t, d, "other", 2)}}
	delete(v.Savings, arg(t, d, "without", ""))
	return v
}

func (s *story) step(t *testing.T) string {
	e := s.e
	recorded := *s.e.Recorded
	recorded.Days = s.days
	e.Recorded = &recorded
	if !s.gone {
		cluster := s.cluster
		e.Cluster = &cluster
	}
	if s.measured != nil {
		m := *s.measured
		m.At, m.Digest = s.now.Add(-s.ago), s.of
		if m.Digest == "" {
			if m.Digest = s.state.Candidate; m.Digest == "" {
				m.Digest = s.state.InForce
			}
		}
		e.Measured = &m
	}
	before, err := json.Marshal(s.state)
	require.NoError(t, err)
	take := s.loop.Step
	if s.hold != "" {
		take = func(now time.Time, state State, e *Evidence) Outcome { return s.loop.Hold(now, state, e, s.hold) }
	}
	out := take(s.now, s.state, &e)
	require.Equal(t, out, take(s.now, s.state, &e), "the same arguments, another outcome")
	after, err := json.Marshal(s.state)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "the step changed the state that it was given")
	text, err := json.Marshal(out.State)
	require.NoError(t, err)
	s.state = State{}
	require.NoError(t, json.Unmarshal(text, &s.state))
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", s.state.Phase, strings.Join(out.Reasons, "; "))
	for _, a := range out.Actions {
		if a.Kind == Tell {
			continue
		}
		fmt.Fprintf(&b, "            → %s\n", a)
		if !s.refuse && !s.gone {
			s.act(a)
		}
	}
	return b.String()
}

func (s *story) act(a Action) {
	switch a.Kind {
	case SetPrimary:
		s.cluster.Primary = Applied{a.Digest, Rung{Mode: Live}}
		if a.Digest == "" {
			s.cluster.Primary.Mode = Shadow
		}
	case SetCandidate:
		s.cluster.Candidate = Applied{a.Digest, a.Rung}
	case Train, Judge, Tell: // others do that
	}
}
