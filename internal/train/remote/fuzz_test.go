package remote

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/train"
	"github.com/sigma-scheduler/sigma/swarm"
)

// Whatever is published on a server ends neither a worker nor a trainer.
func FuzzMessages(f *testing.F) {
	job := fakeJob(f)
	objective, err := job.Objective(f.Context())
	require.NoError(f, err)
	build := Build{Digest: "sha256:11"}
	f.Add(encode(announcement{Protocol: protocol, Run: "0123", Trainer: "x", Build: build}))
	f.Add(encode(announcement{Run: "0123", Over: true}))
	f.Add(encode(taskMessage{1, 2, []number{.5, 1}}))
	f.Add(encode(resultMessage{Generation: 3, Value: 1, Objectives: []number{1}, Worker: "w"}))
	f.Add(encode(jobMessage{job.ID, job.Config, job.Digests}))
	f.Add(job.Config)
	f.Fuzz(func(t *testing.T, data []byte) {
		w := Worker{conn: &Conn{say: quiet}, build: build, candidates: map[string]*candidate{}, joining: joinsAtOnce}
		var a announcement
		if json.Unmarshal(data, &a) == nil {
			w.follow(t.Context(), a)
			w.pass(a.Run)
			require.Empty(t, w.candidates)
		}
		var m taskMessage
		if json.Unmarshal(data, &m) == nil {
			q := &queue{conn: w.conn, objective: objective}
			_, _, _ = q.evaluate(t.Context(), m.task())
		}
		var r answer
		if json.Unmarshal(data, &r.resultMessage) == nil {
			_ = r.take(swarm.Task{}, func(swarm.Task, float64, ...float64) error { return nil })
		}
		if _, err := parseJob(data); err != nil {
			return
		}
		_, _ = (&train.Job{Config: data, Traces: job.Traces}).Objective(t.Context())
	})
}
