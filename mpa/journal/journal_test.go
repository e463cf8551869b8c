package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// A world does what it is told; its load has a wave of two hours and a measurement fails now and then.
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

// Whatever was decided comes out again, for every agent and with restarts, other
// bounds and files that are full in between; and a controller that goes on from its
// journal decides as one that was never stopped.
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

// A kill at any byte of the last record loses that at most.
func TestTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.jsonl")
	s := open(t, path, journal.Options{}, setup("hpa+vpa"), mpa.Memory{})
	w := newWorld(3)
	w.run(t, s, 50)
	require.NoError(t, s.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	for cut := last + 1; cut < len(whole); cut += 97 {
		require.NoError(t, os.WriteFile(path, whole[:cut], 0o600))
		v := replay(t, path)
		assert.Equal(t, 49, v.Decisions)
		assert.True(t, v.CutOff)

		s := open(t, path, journal.Options{}, setup("hpa+vpa"), mpa.Memory{})
		assert.True(t, s.Resumed)
		_, err := s.Decide(w.observe(), 1)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		v = replay(t, path)
		assert.Equal(t, 50, v.Decisions)
		assert.False(t, v.CutOff)
	}
}

func TestReadersThatFail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.jsonl")
	s := open(t, path, journal.Options{}, setup("hpa"), mpa.Memory{})
	newWorld(3).run(t, s, 5)
	require.NoError(t, s.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(whole), "\n")
	for want, change := range map[string]func(lines []string){
		"web.jsonl:3: unexpected EOF":                             func(l []string) { l[2] = l[2][:50] + "\n" },
		`web.jsonl:2: kind "dec": want start, decision or`:        func(l []string) { l[1] = strings.Replace(l[1], `"decision"`, `"dec"`, 1) },
		"web.jsonl:1: a journal begins with a start, not with de": func(l []string) { l[0] = l[1] },
		"web.jsonl:1: start.format 3: this program reads 1 to 2":  func(l []string) { l[0] = strings.Replace(l[0], `"format":2`, `"format":3`, 1) },
		`web.jsonl:2: unknown field "podds"`:                      func(l []string) { l[1] = strings.Replace(l[1], `"pods"`, `"podds"`, 1) },
	} {
		l := append([]string(nil), lines...)
		change(l)
		_, err := journal.Replay("web.jsonl", strings.NewReader(strings.Join(l, "")), nil)
		require.ErrorContains(t, err, want)
	}

	_, err = journal.Replay("zero", zeros{}, nil)
	require.ErrorContains(t, err, "zero:1: a line of more than 64 MiB")

	// A broken journal is put aside: a workload is not left alone for its past's sake.
	broken := append([]string(nil), lines...)
	broken[2] = broken[2][:50] + "\n"
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(broken, "")), 0o600))
	s, err = journal.Begin(path, journal.Options{}, setup("hpa"), mpa.Memory{})
	require.NoError(t, err)
	require.ErrorContains(t, s.Broken, "web.jsonl:3: unexpected EOF")
	assert.False(t, s.Resumed)
	require.NoError(t, s.Close())
	assert.FileExists(t, path+".broken")
	replay(t, path)
}

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// A decision that was not the controller's is found, and said.
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

// Agents that are not known here are taken at their word; the guards are computed.
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

// What the program of format 1 wrote comes out again: another agent, restarts and full
// files; and a controller goes on from it.
func TestFormat1(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"web.jsonl", "web.jsonl.1", "web.jsonl.2"} {
		data, err := os.ReadFile(filepath.Join("testdata", "v1", name))
		require.NoError(t, err)
		require.Contains(t, string(data), `"format":1,`)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
		v := replay(t, filepath.Join(dir, name))
		assert.Positive(t, v.Decisions)
		assert.Zero(t, v.Recorded)
	}
	path := filepath.Join(dir, "web.jsonl")
	same := setup("hpa+vpa")
	same.Target.Replicas = mpa.Range{Min: 1, Max: 3}
	s := open(t, path, journal.Options{}, same, mpa.Memory{})
	assert.True(t, s.Resumed)
	assert.NotEmpty(t, s.Memory().Containers[0].Peaks)
	w := newWorld(12)
	w.now = s.Memory().Time
	w.run(t, s, 10)
	require.NoError(t, s.Close())
	assert.Equal(t, 15, replay(t, path).Decisions)
}

// A learned agent goes by the weights with the digest that the journal names; with
// others loaded, or none, the journal is not replayed as if they were the same.
func TestDigest(t *testing.T) {
	defer agents.Register(agents.Kind{Name: "learned", Model: func(t mpa.Target, weights []byte) (mpa.Agent, error) {
		percent, err := strconv.Atoi(string(weights))
		return agents.NewHPA(t, agents.DefaultHPA().At(int32(percent))), err
	}})()
	loaded := agents.Weights{}
	digest, other := loaded.Add([]byte("70")), loaded.Add([]byte("40"))
	learned := setup("learned")
	learned.Agent.Digest = digest
	path := filepath.Join(t.TempDir(), "web.jsonl")
	options := journal.Options{Weights: loaded}
	s := open(t, path, options, learned, mpa.Memory{})
	w := newWorld(13)
	w.run(t, s, 200)
	require.NoError(t, s.Close())

	v, err := journal.ReplayFile(path, loaded)
	require.NoError(t, err)
	require.Nil(t, v.First)
	assert.Equal(t, 200, v.Equal)
	assert.Zero(t, v.Recorded)
	_, err = journal.ReplayFile(path, nil)
	require.EqualError(t, err, path+`:1: start: agent learned: its weights are not loaded: "`+digest+`" is asked for, none are loaded`)
	_, err = journal.ReplayFile(path, agents.Weights{other: loaded[other]})
	require.EqualError(t, err, path+`:1: start: agent learned: its weights are not loaded: "`+digest+`" is asked for, `+other+` are loaded`)

	// The same weights go on with what they have learned; others begin, within the limits
	// that the guards remember, also where the old ones are gone.
	s = open(t, path, options, learned, mpa.Memory{})
	assert.True(t, s.Resumed)
	memory := s.Memory()
	require.NoError(t, s.Close())
	retrained := learned
	retrained.Agent.Digest = other
	for _, weights := range []agents.Weights{loaded, {other: loaded[other]}} {
		again := filepath.Join(t.TempDir(), "web.jsonl")
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(again, data, 0o600))
		s = open(t, again, journal.Options{Weights: weights}, retrained, mpa.Memory{})
		assert.False(t, s.Resumed)
		assert.Equal(t, asJSON(t, memory), asJSON(t, s.Memory()))
		require.NoError(t, s.Close())
	}
	_, err = journal.Begin(path, journal.Options{}, learned, mpa.Memory{})
	require.ErrorIs(t, err, agents.ErrWeights)
}

// One writer at a time.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.jsonl")
	s := open(t, path, journal.Options{}, setup("hpa"), mpa.Memory{})
	_, err := journal.Begin(path, journal.Options{}, setup("hpa"), mpa.Memory{})
	require.ErrorContains(t, err, "another writer has it open")
	require.NoError(t, s.Close())
}

// Other bounds keep what was learned; another agent does not; in all cases the
// guards remember.
func TestChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.jsonl")
	s := open(t, path, journal.Options{}, setup("hpa+vpa"), mpa.Memory{})
	w := newWorld(5)
	w.run(t, s, 400)
	memory := s.Memory()
	require.NotEmpty(t, memory.ReplicaChanges)

	wider := setup("hpa+vpa")
	wider.Generation, wider.Target.Replicas.Max = 2, 40
	require.NoError(t, s.Change(wider))
	assert.True(t, s.Resumed)
	assert.Equal(t, memory, s.Memory())
	w.run(t, s, 100)

	memory = s.Memory()
	fallen := setup("predictive")
	fallen.Fallback = &journal.Fallback{Agent: mpa.Spec{Name: "hpa"}, After: time.Minute}
	require.NoError(t, s.Change(fallen))
	assert.False(t, s.Resumed)
	assert.Equal(t, memory, s.Memory())
	w.run(t, s, 100)

	require.NoError(t, s.Restore(memory))
	assert.True(t, s.Resumed)
	assert.Equal(t, memory, s.Memory())

	bad := setup("hap")
	require.ErrorContains(t, s.Change(bad), `unknown agent "hap"`)
	bad = setup("hpa")
	bad.Fallback = &journal.Fallback{Agent: mpa.Spec{Name: "hap"}}
	require.ErrorContains(t, s.Change(bad), `fallback: unknown agent "hap"`)
	w.run(t, s, 100)
	require.NoError(t, s.Close())
	v := replay(t, path)
	assert.Equal(t, 4, v.Starts)
	assert.Equal(t, 700, v.Decisions)

	// A memory from elsewhere that is newer than the journal's wins.
	known := s.Memory()
	known.Time = known.Time.Add(time.Minute)
	known.ReplicaChanges = append(known.ReplicaChanges, known.Time)
	s = open(t, path, journal.Options{}, fallen, known)
	assert.True(t, s.Resumed)
	assert.Len(t, s.Memory().ReplicaChanges, len(known.ReplicaChanges))
	assert.Equal(t, known.Blind, s.Memory().Blind)
	require.NoError(t, s.Close())
	replay(t, path)

	// Agents that have not seen what came since the journal know no window of it.
	known.Time = known.Time.Add(time.Hour)
	s = open(t, path, journal.Options{}, fallen, known)
	assert.True(t, s.Resumed)
	assert.Equal(t, known.Time, s.Memory().Blind)
	require.NoError(t, s.Close())
	replay(t, path)
}

// What the journal says was done counts, also when this program would not have done it.
func TestResumeAfterAnotherProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.jsonl")
	w, err := journal.Open(path, journal.Options{})
	require.NoError(t, err)
	require.NoError(t, w.Start(journal.Start{Setup: setup("static")}))
	world := newWorld(6)
	for i := range 4 {
		o := world.observe()
		require.NoError(t, w.Decision(o, &mpa.Decision{Time: o.Time, Action: &mpa.Action{Replicas: int32(5 + i)}}, int64(i+1)))
	}
	require.NoError(t, w.Close())
	s := open(t, path, journal.Options{}, setup("static"), mpa.Memory{})
	assert.Len(t, s.Memory().ReplicaChanges, 4)
	require.NoError(t, s.Close())
}

func TestTransitions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.jsonl")
	s := open(t, path, journal.Options{}, setup("hpa+vpa"), mpa.Memory{})
	w := newWorld(7)
	decisions := w.run(t, s, 200)
	other := setup("vpa")
	require.NoError(t, s.Change(other))
	decisions = append(decisions, w.run(t, s, 100)...)
	require.NoError(t, s.Close())
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	i := 0
	for x, err := range journal.NewReader(path, file).Transitions() {
		require.NoError(t, err)
		assert.Equal(t, asJSON(t, decisions[i]), asJSON(t, x.Decision))
		assert.Equal(t, decisions[i].Action != nil, len(x.Outcomes) == 1, "an outcome for each action")
		if i == 199 || i == 299 {
			assert.Nil(t, x.Next)
		} else {
			assert.Equal(t, 15*time.Second, x.Next.Time.Sub(x.Observation.Time))
		}
		want := "hpa+vpa"
		if i >= 200 {
			want = "vpa"
		}
		assert.Equal(t, want, x.Setup.Agent.Name)
		i++
	}
	assert.Equal(t, 300, i)
}

// What cannot be written is an error, and what comes after can still be replayed.
func TestWritesThatFail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.jsonl")
	s := open(t, path, journal.Options{}, setup("hpa+vpa"), mpa.Memory{})
	w := newWorld(9)
	w.run(t, s, 100)
	repair := s.Break(t)
	for range 30 {
		_, err := s.Decide(w.observe(), w.id+1)
		require.Error(t, err)
	}
	repair()
	w.run(t, s, 100)
	require.NoError(t, s.Close())
	v := replay(t, path)
	assert.Equal(t, 2, v.Starts)
	assert.Equal(t, 200, v.Decisions)
}

// A kill between two files loses nothing: the next begins with what the full one taught.
func TestKilledBetweenFiles(t *testing.T) {
	for _, left := range []string{"no file", "an empty one"} {
		path := filepath.Join(t.TempDir(), "web.jsonl")
		s := open(t, path, journal.Options{}, setup("hpa+vpa"), mpa.Memory{})
		w := newWorld(10)
		w.run(t, s, 200)
		memory := s.Memory()
		require.NoError(t, s.Close())
		require.NoError(t, os.Rename(path, path+".1"))
		if left == "an empty one" {
			require.NoError(t, os.WriteFile(path, nil, 0o600))
		}
		s = open(t, path, journal.Options{}, setup("hpa+vpa"), mpa.Memory{})
		assert.True(t, s.Resumed)
		assert.Equal(t, asJSON(t, memory), asJSON(t, s.Memory()))
		w.run(t, s, 100)
		require.NoError(t, s.Close())
		assert.Equal(t, 100, replay(t, path).Decisions)
	}
}

func FuzzReader(f *testing.F) {
	path := filepath.Join(f.TempDir(), "web.jsonl")
	s, err := journal.Begin(path, journal.Options{}, setup("hpa+vpa"), mpa.Memory{})
	require.NoError(f, err)
	w := newWorld(8)
	for range 3 {
		_, err := s.Decide(w.observe(), 1)
		require.NoError(f, err)
	}
	require.NoError(f, s.Close())
	whole, err := os.ReadFile(path)
	require.NoError(f, err)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte(`{"kind":"start","start":{"format":2,"agent":{"name":"vpa"},"continues":true,"state":{"containers":[{}]}}}` + "\n"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if _, err := journal.Replay("fuzz", bytes.NewReader(data), nil); err != nil {
			return
		}
		r := journal.NewReader("fuzz", bytes.NewReader(data))
		for {
			if _, err := r.Next(); errors.Is(err, io.EOF) {
				return
			}
		}
	})
}

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, journal.Prune(filepath.Join(dir, "none"), begin))
	now := time.Now()
	file := func(name string, age time.Duration) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		require.NoError(t, os.Chtimes(path, now.Add(-age), now.Add(-age)))
		return path
	}
	const day = 24 * time.Hour
	for _, name := range []string{"gone/a.jsonl", "gone/a.jsonl.1", "gone/b.jsonl.broken", "shop/old.jsonl.3"} {
		file(name, 40*day)
	}
	kept := []string{
		file("shop/web.jsonl", time.Hour), file("shop/web.jsonl.1", 40*day), file("shop/notes.txt", 40*day),
		filepath.Join(dir, "shop/open.jsonl"),
	}
	session := open(t, kept[3], journal.Options{}, setup("static"), mpa.Memory{})
	require.NoError(t, os.Chtimes(kept[3], now.Add(-40*day), now.Add(-40*day)))
	// A volume's own folder, which only root may read, is not looked into.
	kept = append(kept, file("lost+found/a.jsonl", 40*day))

	require.NoError(t, journal.Prune(dir, now.Add(-30*day)))
	var left []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if !d.IsDir() {
			left = append(left, path)
		}
		return err
	}))
	assert.ElementsMatch(t, kept, left)
	assert.NoDirExists(t, filepath.Join(dir, "gone"))
	require.NoError(t, session.Close())
}
