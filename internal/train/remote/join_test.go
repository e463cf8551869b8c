package remote

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/train"
	"github.com/sigma-scheduler/sigma/swarm"
)

// lines collects what is reported.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) say(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, line)
}

// count is how many lines hold a text.
func (l *lines) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.text {
		n += strings.Count(line, text)
	}
	return n
}

// A run that nobody can join, announced for ever, holds up no other.
func TestBadRunStarvesNone(t *testing.T) {
	s := startServer(t, Access{Token: "secret"})
	bad, good := fakeJob(t), fakeJob(t)
	bad.ID = "bad"
	trainer, err := NewTrainer(t.Context(), dial(t, s, s.access), bad, TrainerOptions{})
	require.NoError(t, err)
	begun := make(chan struct{}, 1)
	startWorker(t, s, &Worker{Name: "w", Threads: 1, Objective: func(ctx context.Context, job *train.Job) (swarm.Objective, error) {
		if job.ID == bad.ID {
			begun <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return func(context.Context, swarm.Task) (float64, []float64, error) { return 1, nil, nil }, nil
	}})
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	other, err := NewTrainer(t.Context(), dial(t, s, s.access), good, TrainerOptions{})
	require.NoError(t, err)
	require.NoError(t, other.Evaluate(ctx, tasks(5), func(swarm.Task, float64, ...float64) error { return nil }))
	require.NoError(t, other.Close())
	require.NoError(t, trainer.Close())
}

// Tries become rarer, may take longer, and end, until another trainer announces the run.
func TestTriesToJoin(t *testing.T) {
	var c candidate
	now := time.Unix(0, 0)
	var pauses []time.Duration
	for range joinTries - 1 {
		require.True(t, c.due(now))
		require.Equal(t, "trying again", c.failed(now))
		pauses = append(pauses, c.next.Sub(now))
		require.False(t, c.due(c.next.Add(-1)))
		now = c.next
	}
	s := time.Second
	require.Equal(t, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 64 * s}, pauses)
	require.Equal(t, "given up until another trainer announces it", c.failed(now))
	require.False(t, c.due(now.Add(24*time.Hour)))
	require.Equal(t, joinWait, (&candidate{}).patience())
	require.Equal(t, 8*joinWait, (&candidate{tries: 3}).patience())

	build := Build{Digest: "sha256:11"}
	heard := announcement{Protocol: protocol, Run: "0123", Trainer: "one", Build: build}
	w := Worker{build: build, candidates: map[string]*candidate{"0123": &c}, joining: joinsAtOnce}
	c.trainer = "one"
	w.consider(t.Context(), heard, now)
	require.Equal(t, joinTries, c.tries)
	heard.Trainer = "other"
	w.consider(t.Context(), heard, now)
	require.Zero(t, c.tries)
}

// A trainer of another build does not end a worker, which says so once and goes on to one
// of its own.
func TestOtherBuildIsLeftToOthers(t *testing.T) {
	s := startServer(t, Access{Token: "secret"})
	conn := dial(t, s, s.access)
	var said lines
	conn.say = said.say
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w := &Worker{Name: "new", Threads: 1, Objective: fake(func(context.Context, swarm.Task) (float64, []float64, error) {
		return 1, []float64{1, 1}, nil
	})}
	go func() { ended <- w.Run(ctx, conn) }()
	theirs := announcement{Protocol: protocol, Run: "0123", Trainer: "x", Build: Build{Digest: "sha256:00", Version: "v9.9.9", FeatureVersion: 99}}
	const text = "run 0123 is left to others: the trainer is another build, so its values would not be equal: it is v9.9.9, features 99"
	other := dial(t, s, s.access)
	for said.count(text) == 0 {
		require.NoError(t, other.nats.Publish(runsSubject, encode(theirs)))
		select {
		case err := <-ended:
			require.NoError(t, err, "the worker ended")
		case <-time.After(20 * time.Millisecond):
		}
	}
	require.NoError(t, other.nats.Publish(runsSubject, encode(theirs)))
	trainer, err := NewTrainer(t.Context(), dial(t, s, s.access), fakeJob(t), TrainerOptions{})
	require.NoError(t, err)
	require.NoError(t, trainer.Evaluate(t.Context(), tasks(5), func(swarm.Task, float64, ...float64) error { return nil }))
	require.NoError(t, trainer.Close())
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Equal(t, 1, said.count(text))
}

// The size of an object is known before it is fetched, and what follows is not believed.
func TestObjectSizes(t *testing.T) {
	s := startServer(t, Access{Token: "secret"})
	js := dial(t, s, s.access).js
	bucket, err := js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: "sigma-run"})
	require.NoError(t, err)
	_, err = bucket.PutBytes(t.Context(), jobObject, []byte("1234567890"))
	require.NoError(t, err)
	data, err := fetch(t.Context(), bucket, jobObject, 10)
	require.NoError(t, err)
	require.Equal(t, "1234567890", string(data))
	_, err = fetch(t.Context(), bucket, jobObject, 9)
	require.EqualError(t, err, "object job has 10 bytes: want at most 9")
	for says, want := range map[uint64]string{1 << 40: "object job has 1099511627776 bytes", 9: "not of the 9 bytes that it says", 11: "unexpected EOF"} {
		info, err := bucket.GetInfo(t.Context(), jobObject)
		require.NoError(t, err)
		info.Size = says
		meta, err := json.Marshal(info)
		require.NoError(t, err)
		_, err = js.Publish(t.Context(), "$O.sigma-run.M."+base64.URLEncoding.EncodeToString([]byte(jobObject)), meta)
		require.NoError(t, err)
		_, err = fetch(t.Context(), bucket, jobObject, maxJob)
		require.ErrorContains(t, err, want)
	}
}
