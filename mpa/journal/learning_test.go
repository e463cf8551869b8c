package journal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/phases"
)

// learningSetup has the policy with a digest in its phases, on a world whose promise is kept.
func learningSetup(digest string, window time.Duration) journal.Setup {
	s := setup("learned")
	s.Agent.Digest = digest
	s.Target.SLO = mpa.SLO{Percentile: 95, Latency: .5}
	s.Learning = &phases.Settings{Begin: mpa.OfflineTraining, Window: window}
	return s
}

// promised is a world that measures a latency.
func (w *world) promised(t *testing.T, s *journal.Session, n int) (last mpa.Decision) {
	t.Helper()
	for range n {
		o := w.observe()
		o.Rate.Value = 20
		o.Latency = mpa.Metric{Value: .2, Time: o.Time}
		d, err := s.Decide(o, w.id+1)
		require.NoError(t, err)
		if last = d; d.Action != nil {
			w.id++
			w.do(d.Action)
		}
	}
	return last
}

func progressOf(t *testing.T, s *journal.Session) phases.Progress {
	t.Helper()
	require.IsType(t, &phases.Agent{}, s.Agent())
	return s.Agent().(*phases.Agent).Progress()
}

// A policy is in the same phase after a kill in each of them, and after the clock has jumped;
// every decision is computed again, with its verdicts.
func TestLearning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.jsonl")
	weights := agents.Weights{}
	options := journal.Options{Weights: weights}
	set := learningSetup(weights.Add(learned.GeneralFile()), 10*time.Minute)
	s, w := open(t, path, options, set, mpa.Memory{}), newWorld(5)
	seen := map[mpa.LearningPhase]bool{}
	for i := range 30 {
		w.promised(t, s, 10)
		p := progressOf(t, s)
		seen[p.Phase] = true
		if i%6 != 0 {
			continue
		}
		require.NoError(t, s.Close())
		s = open(t, path, options, set, mpa.Memory{})
		require.True(t, s.Resumed)
		require.Equal(t, asJSON(t, p), asJSON(t, progressOf(t, s)), "%d", i)
		if jump := time.Duration(i-15) * time.Hour; i%12 == 0 {
			w.now = w.now.Add(jump)
			w.promised(t, s, 1)
			next := progressOf(t, s)
			require.Equal(t, p.Phase, next.Phase)
			require.InDelta(t, p.Since.Add(jump).Unix(), next.Since.Unix(), 60)
		}
	}
	require.NoError(t, s.Close())
	for _, phase := range mpa.LearningPhases() {
		assert.True(t, seen[phase], phase)
	}
	v, err := journal.ReplayFile(path, weights)
	require.NoError(t, err)
	require.Nil(t, v.First)
	require.Equal(t, 303, v.Equal)

	// A resumed process takes the verdicts from the journal, a replay simulates again.
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	last := progressOf(t, s).Verdict
	require.NotZero(t, last.Candidate)
	at := strings.LastIndex(string(data), `"candidate":`) + len(`"candidate":`)
	end := at + strings.IndexByte(string(data[at:]), ',')
	require.NoError(t, os.WriteFile(path, []byte(string(data[:at])+"1.05"+string(data[end:])), 0o600))
	s = open(t, path, options, set, mpa.Memory{})
	require.Equal(t, 1.05, progressOf(t, s).Verdict.Candidate)
	require.NoError(t, s.Close())
	v, err = journal.ReplayFile(path, weights)
	require.NoError(t, err)
	require.NotNil(t, v.First)
}

// Another policy begins in the shadow, and the rules keep what they have learned: from a
// setup without a policy, from one policy to the next, and back.
func TestRulesKeepTheirMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.jsonl")
	weights := agents.Weights{}
	first := learningSetup(weights.Add(learned.GeneralFile()), time.Hour)
	second := learningSetup(weights.Add(append(learned.GeneralFile(), '\n')), time.Hour)
	rules := first
	rules.Agent, rules.Learning = mpa.Spec{Name: "hpa+vpa"}, nil
	s, w := open(t, path, journal.Options{Weights: weights}, rules, mpa.Memory{}), newWorld(6)
	w.promised(t, s, 200)
	memory := asJSON(t, s.Agent())
	for _, next := range []journal.Setup{first, second} {
		require.NoError(t, s.Change(next))
		require.Equal(t, memory, asJSON(t, s.Agent().(*phases.Agent).Rules()))
		require.Equal(t, phases.Progress{Phase: mpa.OfflineTraining}, progressOf(t, s))
		d := w.promised(t, s, 50)
		require.Equal(t, "hpa+vpa", d.Recommended.Source)
		require.Equal(t, "learned", d.Recommended.Learning.Shadow.Source)
		memory = asJSON(t, s.Agent().(*phases.Agent).Rules())
	}
	require.NoError(t, s.Place(phases.Progress{Phase: mpa.Serving, Since: w.now, Changes: 2}))
	require.Equal(t, "learned", w.promised(t, s, 50).Recommended.Source)
	require.Error(t, s.Place(phases.Progress{Phase: "Other"}))
	memory = asJSON(t, s.Agent().(*phases.Agent).Rules())
	require.NoError(t, s.Change(rules))
	require.Equal(t, memory, asJSON(t, s.Agent()))
	require.ErrorContains(t, s.Place(phases.Progress{Phase: mpa.Serving}), "hpa+vpa has no phases")
	w.promised(t, s, 50)
	require.NoError(t, s.Close())
	v, err := journal.ReplayFile(path, weights)
	require.NoError(t, err)
	require.Nil(t, v.First)
	require.Equal(t, 400, v.Equal)

	bad := first
	bad.Learning = &phases.Settings{Begin: "Later", Window: time.Hour}
	_, err = bad.NewAgent(weights)
	require.ErrorContains(t, err, `learning.begin "Later"`)
}
