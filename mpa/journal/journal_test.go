package journal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/journal"
)

var begin = time.Date(2026, 3, 2, 8, 0, 0, 123456789, time.FixedZone("CET", 3600))

func setup(agent string) journal.Setup {
	return journal.Setup{
		Object: "shop/web", Generation: 1, Agent: mpa.Spec{Name: agent}, Guards: mpa.DefaultGuards(),
		Target: mpa.Target{
			Replicas: mpa.Range{Min: 2, Max: 20},
			Containers: []mpa.ContainerSpec{{
				Name: "app", CPU: true, Memory: true, Min: mpa.Resources{CPU: 100, Memory: 64 << 20}, Max: mpa.Resources{CPU: 4000, Memory: 8 << 30},
			}},
		},
	}
}

// A world carries actions out. Its load has a wave of two hours, and some measurements fail.
type world struct {
	now      time.Time
	replicas int
	size     mpa.Resources
	d        *rand.Rand
	id       int64
}

func newWorld(seed uint64) *world {
	return &world{now: begin, replicas: 4, size: mpa.Resources{CPU: 1000, Memory: 1 << 30}, d: rand.New(rand.NewPCG(seed, 9))}
}

func (w *world) observe() *mpa.Observation {
	w.now = w.now.Add(15 * time.Second)
	load := 3000 * (1.2 + math.Sin(2*math.Pi*w.now.Sub(begin).Hours()/2)) * (.8 + .4*w.d.Float64())
	o := &mpa.Observation{Time: w.now, Replicas: int32(w.replicas), Rate: mpa.Metric{Value: load, Time: w.now}}
	fault := w.d.IntN(50)
	if fault == 0 {
		o.Latency = mpa.Metric{Value: math.NaN(), Time: w.now}
	}
	for i := range w.replicas {
		p := mpa.Pod{
			Name: fmt.Sprintf("web-%02d", i), Phase: mpa.Running, Started: begin.Add(-time.Hour), Ready: true, ReadySince: begin.Add(-time.Hour),
			Containers: []mpa.Container{{Name: "app", Request: w.size, Actual: w.size}},
		}
		if fault != 1 {
			p.Containers[0].Usage = mpa.Usage{
				Resources: mpa.Resources{CPU: min(w.size.CPU, int64(load)/int64(w.replicas)), Memory: 300<<20 + int64(w.d.IntN(100<<20))},
				Time:      w.now.Add(-5 * time.Second), Window: 30 * time.Second,
			}
		}
		o.Pods = append(o.Pods, p)
	}
	return o
}

func (w *world) run(t *testing.T, s *journal.Session, n int) (list []mpa.Decision) {
	t.Helper()
	for range n {
		d, err := s.Decide(w.observe(), w.id+1)
		require.NoError(t, err)
		list = append(list, d)
		if d.Action == nil {
			continue
		}
		w.id++
		w.do(d.Action)
		require.NoError(t, s.Outcome(journal.Outcome{Time: w.now.Add(time.Second), ID: w.id, Decided: d.Time, Result: "Applied"}))
	}
	return list
}

func (w *world) do(a *mpa.Action) {
	if a.Replicas != 0 {
		w.replicas = int(a.Replicas)
	} else {
		w.size = a.Containers[0]
	}
}

func open(t *testing.T, path string, o journal.Options, s journal.Setup, m mpa.Memory) *journal.Session {
	t.Helper()
	session, err := journal.Begin(path, o, s, m)
	require.NoError(t, err)
	require.NoError(t, session.Broken)
	return session
}

func actions(list []mpa.Decision) (n int) {
	for _, d := range list {
		if d.Action != nil {
			n++
		}
	}
	return n
}

func replay(t *testing.T, path string) *journal.Verdict {
	t.Helper()
	v, err := journal.ReplayFile(path, nil)
	require.NoError(t, err)
	if v.First != nil {
		t.Fatalf("%s: %v", path, v.First)
	}
	require.Equal(t, v.Decisions, v.Equal)
	return v
}

// Every decision is computed again, for every agent, with restarts, other bounds and full
// files in between. A controller that resumes its journal decides as one that never
// stopped.
func TestReplay(t *testing.T) {
	for _, name := range agents.Names() {
		t.Run(name, func(t *testing.T) {
			const n = 250
			dir := t.TempDir()
			through := filepath.Join(dir, "through.jsonl")
			s := open(t, through, journal.Options{}, setup(name), mpa.Memory{})
			want := newWorld(1).run(t, s, 3*n)
			require.NoError(t, s.Close())
			v := replay(t, through)
			assert.Equal(t, 3*n, v.Decisions)
			assert.Equal(t, "shop/web", v.Object)
			assert.Zero(t, v.Recorded)
			if name != "static" {
				assert.Positive(t, actions(want))
			}

			path := filepath.Join(dir, "web.jsonl")
			w := newWorld(1)
			var got []mpa.Decision
			options := journal.Options{MaxBytes: 150 << 10, Keep: 100}
			for i := range 3 {
				s := open(t, path, options, setup(name), mpa.Memory{})
				assert.Equal(t, i > 0, s.Resumed)
				got = append(got, w.run(t, s, n)...)
				require.NoError(t, s.Close())
			}
			require.Len(t, got, len(want))
			for i := range want {
				require.Equal(t, asJSON(t, want[i]), asJSON(t, got[i]), "decision %d", i)
			}
			files := journal.Files(path)
			require.Greater(t, len(files), 2, "nothing was rotated")
			total := 0
			for _, f := range files {
				total += replay(t, f).Decisions
			}
			assert.Equal(t, 3*n, total)
		})
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

// The files stay within their bound.
func TestBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.jsonl")
	o := journal.Options{MaxBytes: 60 << 10, Keep: 2}
	s := open(t, path, o, setup("hpa+vpa"), mpa.Memory{})
	newWorld(2).run(t, s, 500)
	require.NoError(t, s.Close())
	files := journal.Files(path)
	require.Len(t, files, 3)
	for _, f := range files {
		info, err := os.Stat(f)
		require.NoError(t, err)
		assert.Less(t, info.Size(), o.MaxBytes+(32<<10))
		replay(t, f)
	}
}

// A replay names the first decision that is not the controller's.
func TestDifference(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.jsonl")
	s := open(t, path, journal.Options{}, setup("hpa"), mpa.Memory{})
	newWorld(3).run(t, s, 200)
	require.NoError(t, s.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	i := bytes.Index(whole, []byte(`"action":{"replicas":`))
	require.Positive(t, i)
	changed := bytes.Clone(whole)
	changed[i+len(`"action":{"replicas":`)] = '7'
	v, err := journal.Replay("web.jsonl", bytes.NewReader(changed), nil)
	require.NoError(t, err)
	require.NotNil(t, v.First)
	assert.Equal(t, bytes.Count(whole[:i], []byte("\n"))+1, v.First.Line)
	assert.Equal(t, v.Decisions-1, v.Equal)
	assert.NotEqual(t, v.First.Logged.Action, v.First.Computed.Action)
}

// The recommendations of unknown agents are taken from the journal; the guards are computed.
func TestUnknownAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.jsonl")
	s := open(t, path, journal.Options{}, setup("hpa+vpa"), mpa.Memory{})
	newWorld(4).run(t, s, 300)
	require.NoError(t, s.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	other := bytes.ReplaceAll(whole, []byte(`"agent":{"name":"hpa+vpa"}`), []byte(`"agent":{"name":"someone"}`))
	v, err := journal.Replay("web.jsonl", bytes.NewReader(other), nil)
	require.NoError(t, err)
	require.Nil(t, v.First)
	assert.Equal(t, 300, v.Recorded)
}
