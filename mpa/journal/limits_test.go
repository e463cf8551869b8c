package journal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/journal"
)

func limitSetup() journal.Setup {
	s := setup("hpa+vpa")
	s.Target.SLO, s.Target.Limit = mpa.SLO{Percentile: 95, Latency: 1}, mpa.Range{Min: 1, Max: 310}
	s.Concurrency = &agents.LimitSpec{Learner: "law+walk", Min: 1, Max: 310, Initial: 10}
	return s
}

// gated decides n times beside gates whose limit follows the decisions: 5 ms of cpu and 40 ms
// of waiting.
func gated(t *testing.T, w *world, s *journal.Session, limit *int32, n int) (list []mpa.Decision) {
	t.Helper()
	for range n {
		o := w.observe()
		at := func(v float64) mpa.Metric { return mpa.Metric{Value: v, Time: o.Time} }
		cpu := 0.
		for i := range o.Pods {
			cpu += float64(o.Pods[i].Containers[0].Usage.CPU) / 1000
		}
		rate := cpu / .005
		o.Rate, o.Throughput = at(rate), at(rate)
		o.Gates = mpa.Gates{Limit: *limit, Inside: at(min(.045*rate, float64(*limit)*float64(len(o.Pods)))), Waiting: at(0), Rate: at(rate), Failed: at(0)}
		w.id++
		d, err := s.Decide(o, w.id)
		require.NoError(t, err)
		if d.Action != nil && d.Action.Limit != 0 {
			*limit = d.Action.Limit
		}
		list = append(list, d)
	}
	return list
}

// What was learned of a pod is in the journal: a controller that resumes it decides as one that
// never stopped, and a replay computes every decision again.
func TestLimits(t *testing.T) {
	const n = 150
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "through.jsonl"), journal.Options{}, limitSetup(), mpa.Memory{})
	limit := int32(40)
	want := gated(t, newWorld(1), s, &limit, 3*n)
	require.NoError(t, s.Close())
	replay(t, filepath.Join(dir, "through.jsonl"))
	limits := 0
	for _, d := range want {
		if d.Action != nil && d.Action.Limit != 0 {
			limits++
		}
	}
	require.Positive(t, limits)

	path := filepath.Join(dir, "web.jsonl")
	w := newWorld(1)
	limit = 40
	var got []mpa.Decision
	for i := range 3 {
		s := open(t, path, journal.Options{MaxBytes: 150 << 10, Keep: 100}, limitSetup(), mpa.Memory{})
		require.Equal(t, i > 0, s.Resumed)
		got = append(got, gated(t, w, s, &limit, n)...)
		require.NoError(t, s.Close())
	}
	for i := range want {
		require.Equal(t, asJSON(t, want[i]), asJSON(t, got[i]), "decision %d", i)
	}
	files := journal.Files(path)
	require.Greater(t, len(files), 2)
	for _, f := range files {
		replay(t, f)
	}

	// Another agent and another mode keep what was learned, another learner does not.
	s = open(t, path, journal.Options{}, limitSetup(), mpa.Memory{})
	known := func() int {
		k, _ := s.Limited().Limits.Known()
		return k.Windows
	}
	was := known()
	require.Positive(t, was)
	next := limitSetup()
	next.Agent.Name, next.Target.Limit = "hpa", mpa.Range{}
	require.NoError(t, s.Change(next))
	assert.Equal(t, was, known())
	gated(t, w, s, &limit, 20)
	next.Concurrency = &agents.LimitSpec{Learner: "law", Min: 1, Max: 310, Initial: 10}
	require.NoError(t, s.Change(next))
	assert.Zero(t, known())
	require.NoError(t, s.RememberWorse([]agents.WorseLimit{{Time: w.now, From: 8, Limit: 4, Reason: "it was"}}))
	gated(t, w, s, &limit, 20)
	require.Len(t, s.Limited().Limits.Worse(), 1)
	next.Concurrency = nil
	require.NoError(t, s.Change(next))
	assert.Nil(t, s.Limited())
	require.NoError(t, s.Close())
	replay(t, path)

	// A state that cannot be is refused with its place.
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	bad := strings.Replace(string(text), `"limits":{"capacity"`, `"limits":{"capacity":3,"x"`, 1)
	require.NotEqual(t, string(text), bad)
	_, err = journal.Replay("bad", strings.NewReader(bad), nil)
	require.ErrorContains(t, err, "start.limits: ")
}
