package journal_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/journal"
)

// The agent's state survives a change of bounds, but not of the agent. The memory of the
// guards survives both.
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

	// A memory from elsewhere wins if it is newer than the journal's.
	known := s.Memory()
	known.Time = known.Time.Add(time.Minute)
	known.ReplicaChanges = append(known.ReplicaChanges, known.Time)
	s = open(t, path, journal.Options{}, fallen, known)
	assert.True(t, s.Resumed)
	assert.Len(t, s.Memory().ReplicaChanges, len(known.ReplicaChanges))
	assert.Equal(t, known.Blind, s.Memory().Blind)
	require.NoError(t, s.Close())
	replay(t, path)

	// The agents have not seen the time since the journal, so it counts as blind.
	known.Time = known.Time.Add(time.Hour)
	s = open(t, path, journal.Options{}, fallen, known)
	assert.True(t, s.Resumed)
	assert.Equal(t, known.Time, s.Memory().Blind)
	require.NoError(t, s.Close())
	replay(t, path)
}

// A learned agent needs the weights with the digest in the journal. With others loaded, or
// none, a replay fails.
func TestDigest(t *testing.T) {
	defer agents.Register(agents.Kind{Name: "taught", Model: func(t mpa.Target, weights []byte) (mpa.Agent, error) {
		percent, err := strconv.Atoi(string(weights))
		return agents.NewHPA(t, agents.DefaultHPA().At(int32(percent))), err
	}})()
	loaded := agents.Weights{}
	digest, other := loaded.Add([]byte("70")), loaded.Add([]byte("40"))
	learned := setup("taught")
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
	require.EqualError(t, err, path+`:1: start: agent taught: its weights are not loaded: "`+digest+`" is asked for, none are loaded`)
	_, err = journal.ReplayFile(path, agents.Weights{other: loaded[other]})
	require.EqualError(t, err, path+`:1: start: agent taught: its weights are not loaded: "`+digest+`" is asked for, `+other+` are loaded`)

	// With the same weights the agent's state survives. With others it does not, but the
	// guards' memory does, also if the old weights are gone.
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

// Actions in the journal count, even if this program would not have taken them.
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

// A failed write is an error, and later decisions can still be replayed.
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

// A kill between two files loses nothing: the next begins with the state of the full one.
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
