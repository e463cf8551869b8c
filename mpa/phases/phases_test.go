package phases

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

var start = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// Each verdict moves a candidate by at most one phase, forward after a whole window in the
// phase, back at once.
func TestJudge(t *testing.T) {
	const off, on, serving = mpa.OfflineTraining, mpa.OnlineTraining, mpa.Serving
	good := mpa.Verdict{Rules: 1, Candidate: 1.02, RulesBroken: 1, CandidateBroken: 1, Runs: 3}
	with := func(f func(*mpa.Verdict)) mpa.Verdict { v := good; f(&v); return v }
	for _, test := range []struct {
		name           string
		v              mpa.Verdict
		after          time.Duration // in the phase
		withdrawn      bool
		off, on, serve mpa.LearningPhase // the phase after each
	}{
		{"as good", good, time.Hour, false, on, serving, serving},
		{"too early", good, time.Hour - time.Second, false, off, on, serving},
		{"withdrawn", good, time.Hour, true, off, on, serving},
		{"a little worse", with(func(v *mpa.Verdict) { v.Candidate = 1.03 }), time.Hour, false, off, on, serving},
		{"worse", with(func(v *mpa.Verdict) { v.Candidate = 1.11 }), time.Minute, false, off, off, on},
		{"cheaper, but breaks a promise", with(func(v *mpa.Verdict) { v.Candidate, v.CandidateBroken = .2, 2 }), time.Hour, false, off, off, on},
		{"no number", with(func(v *mpa.Verdict) { v.Candidate = math.NaN() }), time.Hour, false, off, off, on},
		{"not compared", mpa.Verdict{Missing: "why"}, time.Hour, false, off, on, serving},
	} {
		for from, want := range map[mpa.LearningPhase]mpa.LearningPhase{off: test.off, on: test.on, serving: test.serve} {
			p := Progress{Phase: from, Since: start, Changes: 4}
			test.v.Time = start.Add(test.after)
			p.Judge(test.v, &Settings{Begin: off, Window: time.Hour, Withdrawn: test.withdrawn})
			assert.Equal(t, want, p.Phase, "%s, from %s", test.name, from)
			assert.Equal(t, test.v.Time, p.Judged)
			if want == from {
				assert.Equal(t, Progress{from, start, 4, p.Judged, p.Verdict}, p)
			} else {
				assert.Equal(t, Progress{want, p.Judged, 5, p.Judged, p.Verdict}, p)
			}
		}
	}
}

func TestSettings(t *testing.T) {
	s := DefaultSettings()
	require.NoError(t, s.Validate())
	require.Equal(t, mpa.OfflineTraining, s.Begin)
	s.Begin = "Training"
	require.ErrorContains(t, s.Validate(), `learning.begin "Training": want one of [OfflineTraining OnlineTraining Serving]`)
	s = Settings{mpa.Serving, time.Second, false}
	require.ErrorContains(t, s.Validate(), "learning.window 1s: want 1m0s to 24h")
	_, err := New(mpa.Target{}, s, mpa.DefaultGuards(), Makers{})
	require.Error(t, err)
}

func pair(t mpa.Target) mpa.Agent { return agents.NewPair(t) }

func candidate(t mpa.Target) mpa.Agent { return learned.New(t, learned.Defaults()) }

// starver wants one pod, whatever comes.
type starver struct{}

func (starver) Recommend(*mpa.Observation) mpa.Recommendation {
	return mpa.Recommendation{Replicas: 1, Source: "starver", Reason: "cheap"}
}
func (starver) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }
func (starver) UnmarshalJSON([]byte) error   { return nil }

// simulated runs an agent on a generated scenario of the train side, and returns its
// observations and decisions.
func simulated(t *testing.T, begin mpa.LearningPhase, seed uint64, c func(mpa.Target) mpa.Agent) (*Agent, []*mpa.Observation, []mpa.Decision) {
	t.Helper()
	g, err := sim.NewGenerator("train", "")
	require.NoError(t, err)
	scenario, err := g.Generate(seed)
	require.NoError(t, err)
	cfg := scenario.Config(seed)
	a, err := New(cfg.App.Target, Settings{begin, time.Hour, false}, cfg.Guards, Makers{pair, c, 3 * time.Minute})
	require.NoError(t, err)
	var seen []*mpa.Observation
	var decisions []mpa.Decision
	cfg.Decided = func(o *mpa.Observation, d mpa.Decision) { seen, decisions = append(seen, o), append(decisions, d) }
	cfg.Agent = a
	_, err = sim.Run(t.Context(), cfg)
	require.NoError(t, err)
	return a, seen, decisions
}

// phasesIn returns the phases of decisions, without repetitions.
func phasesIn(decisions []mpa.Decision) (list []mpa.LearningPhase) {
	for _, d := range decisions {
		if l := d.Recommended.Learning; l != nil && (len(list) == 0 || list[len(list)-1] != l.Phase) {
			list = append(list, l.Phase)
		}
	}
	return list
}

// A good candidate goes through all phases, a bad one never acts, and one that acts before
// it is judged is stopped.
func TestPhasesInSimulation(t *testing.T) {
	_, _, decisions := simulated(t, mpa.OfflineTraining, 304, candidate)
	require.Equal(t, mpa.LearningPhases(), phasesIn(decisions))

	bad := func(mpa.Target) mpa.Agent { return starver{} }
	a, seen, decisions := simulated(t, mpa.OfflineTraining, 304, bad)
	require.Equal(t, []mpa.LearningPhase{mpa.OfflineTraining}, phasesIn(decisions))
	require.Positive(t, a.Progress().Verdict.CandidateBroken)
	// What acts are the rules and nothing else.
	rules := agents.NewPair(a.target)
	for i, o := range seen {
		want := rules.Recommend(o)
		if is := decisions[i].Recommended; is.Learning != nil {
			require.Equal(t, "starver", is.Learning.Shadow.Source)
			is.Learning = nil
			require.Equal(t, want, is)
		}
	}
	_, _, decisions = simulated(t, mpa.Serving, 304, bad)
	require.Equal(t, []mpa.LearningPhase{mpa.Serving, mpa.OnlineTraining, mpa.OfflineTraining}, phasesIn(decisions))
}

// An agent that is written and read in the middle, and one whose clock has jumped, recommend
// what the first does.
func TestStateOfPhases(t *testing.T) {
	first, seen, decisions := simulated(t, mpa.OfflineTraining, 304, candidate)
	fresh := func() *Agent {
		a, err := New(first.target, first.settings, first.guards, first.make)
		require.NoError(t, err)
		return a
	}
	const jump = -37 * time.Hour
	for _, cut := range []int{125, 400} {
		a, moved := fresh(), fresh()
		for i, o := range seen {
			if i == cut {
				data, err := json.Marshal(a)
				require.NoError(t, err)
				require.Less(t, len(data), 200_000)
				a = fresh()
				require.NoError(t, json.Unmarshal(data, a))
				moved.Shift(jump)
			}
			if decisions[i].Recommended.Source == "" {
				continue // a guard held before the agent was asked
			}
			again := a.Recommend(o)
			require.Equal(t, text(decisions[i].Recommended), text(again), "cut at %d, %v", cut, o.Time)
			if i >= cut {
				o = shifted(o, jump)
			}
			// Its time of day is another one, but nothing of the phases depends on that.
			require.Equal(t, again.Learning.Phase, moved.Recommend(o).Learning.Phase, "cut at %d, %v", cut, o.Time)
		}
		require.Equal(t, first.Progress().Changes, a.Progress().Changes)
		require.Equal(t, first.Progress().Changes, moved.Progress().Changes)
	}
	require.Error(t, json.Unmarshal([]byte(`{"state":{"phase":"Other"}}`), fresh()))
	require.Error(t, json.Unmarshal([]byte(`{"state":{"phase":7}}`), fresh()))
	_, err := json.Marshal(&Agent{rules: agents.NewPair(first.target), candidate: blind{}})
	require.Error(t, err)
}

// blind has neither memory nor an opinion.
type blind struct{}

func (blind) Recommend(*mpa.Observation) mpa.Recommendation {
	return mpa.Recommendation{Source: "blind", Reason: "sees nothing"}
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// shifted returns an observation at another time.
func shifted(o *mpa.Observation, d time.Duration) *mpa.Observation {
	moved := func(t *time.Time) {
		if !t.IsZero() {
			*t = t.Add(d)
		}
	}
	var out mpa.Observation
	if err := json.Unmarshal([]byte(text(o)), &out); err != nil {
		panic(err)
	}
	for _, t := range []*time.Time{&out.Time, &out.Rate.Time, &out.Latency.Time, &out.Throughput.Time} {
		moved(t)
	}
	for i := range out.Pods {
		p := &out.Pods[i]
		for _, t := range []*time.Time{&p.Started, &p.ReadySince, &p.ResizeSince} {
			moved(t)
		}
		for k := range p.Containers {
			moved(&p.Containers[k].Killed)
			moved(&p.Containers[k].Usage.Time)
		}
	}
	return &out
}

// Another beginning in the settings counts, and a withdrawn policy acts only where it serves.
func TestSettingsChange(t *testing.T) {
	first, seen, _ := simulated(t, mpa.OnlineTraining, 303, candidate)
	first.s.Progress = Progress{Phase: mpa.OnlineTraining, Since: seen[0].Time, Changes: 3}
	data, err := json.Marshal(first)
	require.NoError(t, err)
	for _, test := range []struct {
		begin     mpa.LearningPhase
		withdrawn bool
		want      mpa.LearningPhase
		changes   int64
	}{
		{mpa.OnlineTraining, false, mpa.OnlineTraining, 3},
		{mpa.Serving, false, mpa.Serving, 4},
		{mpa.OnlineTraining, true, mpa.OfflineTraining, 4},
		{mpa.Serving, true, mpa.Serving, 4},
	} {
		a, err := New(first.target, Settings{test.begin, 24 * time.Hour, test.withdrawn}, first.guards, first.make)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, a))
		got := a.Recommend(seen[len(seen)-1])
		require.Equal(t, test.want, got.Learning.Phase)
		require.Equal(t, test.changes, a.Progress().Changes)
	}
}

// Where an acting candidate has no opinion for a while, the rules act.
func TestSilentCandidate(t *testing.T) {
	_, seen, _ := simulated(t, mpa.OfflineTraining, 303, candidate)
	for _, begin := range []mpa.LearningPhase{mpa.OnlineTraining, mpa.Serving} {
		a, err := New(observedTarget(t), Settings{begin, 24 * time.Hour, false}, mpa.DefaultGuards(),
			Makers{pair, func(mpa.Target) mpa.Agent { return blind{} }, 3 * time.Minute})
		require.NoError(t, err)
		for i, o := range seen[:30] {
			r := a.Recommend(o)
			if o.Time.Sub(seen[0].Time) < 3*time.Minute {
				require.Equal(t, "blind", r.Source, "%d", i)
				require.False(t, a.Active())
				continue
			}
			require.Equal(t, "hpa+vpa", r.Source)
			require.Contains(t, r.Reason, "blind has had no opinion for")
			require.True(t, a.Active())
			require.Equal(t, begin, r.Learning.Phase)
		}
	}
}

func observedTarget(t *testing.T) mpa.Target {
	t.Helper()
	g, err := sim.NewGenerator("train", "")
	require.NoError(t, err)
	s, err := g.Generate(303)
	require.NoError(t, err)
	return s.App.Target
}

func TestBand(t *testing.T) {
	target := mpa.Target{Replicas: mpa.Range{Min: 1, Max: 40}, Containers: []mpa.ContainerSpec{{Name: "a", CPU: true, Memory: true}}}
	o := &mpa.Observation{Time: start, Replicas: 4}
	o.Pods = []mpa.Pod{{Name: "x", Phase: mpa.Running, Ready: true, Containers: []mpa.Container{{Name: "a", Request: mpa.Resources{CPU: 1000, Memory: 100}}}}}
	want := func(n int32, size ...mpa.Resources) mpa.Recommendation {
		return mpa.Recommendation{Replicas: n, Containers: size, Source: "some", Reason: "why"}
	}
	size := func(cpu, memory int64) mpa.Resources { return mpa.Resources{CPU: cpu, Memory: memory} }
	for _, test := range []struct {
		name             string
		candidate, rules mpa.Recommendation
		work             float64
		replicas         int32
		size             []mpa.Resources
	}{
		{"within", want(5), want(4), 0, 5, nil},
		{"no opinion", want(0), want(4), 0, 0, nil},
		{"too few", want(1), want(8), 0, 4, []mpa.Resources{size(1000, 100)}},
		{"too many", want(20), want(4), 0, 6, []mpa.Resources{size(1000, 100)}},
		{"too small", want(0, size(100, 100)), want(4), 0, 4, []mpa.Resources{size(500, 100)}},
		{"too large a pod", want(1, size(9000, 800)), want(4), 0, 1, []mpa.Resources{size(6000, 800)}},
		{"too little memory", want(4, size(1000, 10)), want(4, size(1000, 100)), 0, 4, []mpa.Resources{size(1000, 50)}},
		{"much memory", want(4, size(1000, 1000)), want(4), 0, 4, []mpa.Resources{size(1000, 1000)}},
		{"the rules are silent: nothing shrinks", want(1), want(0), 0, 4, []mpa.Resources{size(1000, 100)}},
		{"the rules are silent: it may grow", want(6), want(0), 0, 6, nil},
		{"so much too small that there are more of them", want(0, size(1, 100)), want(40), 0, 20, []mpa.Resources{size(1000, 100)}},
		{"not beyond the bounds", want(0, size(1, 100)), want(40, size(4000, 100)), 0, 40, []mpa.Resources{size(2000, 100)}},
		{"rules that ask for far more than the load needs", want(1), want(40), 2, 3, []mpa.Resources{size(1000, 100)}},
		{"work above what the rules want", want(1), want(8), 100, 4, []mpa.Resources{size(1000, 100)}},
	} {
		got := banded(o, &target, test.candidate, test.rules, test.work)
		assert.Equal(t, test.replicas, got.Replicas, test.name)
		assert.Equal(t, test.size, got.Containers, test.name)
		if test.size != nil && test.name != "much memory" {
			assert.Contains(t, got.Reason, "cores that some wants", test.name)
		}
	}
	o.Pods = nil
	assert.Equal(t, want(1), banded(o, &target, want(1), want(9), 0), "no pod to tell the present size from")
}
