package train

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/swarm"
)

// A Job is all that another process needs to evaluate the tasks of a run.
type Job struct {
	// ID is the digest of the settings: equal where all evaluations are equal.
	ID string
	// Config is the run's [Config] as JSON, without its traces.
	Config []byte
	// Digests are those of Traces, in their order.
	Digests []string
	Traces  []*trace.Trace
}

// A Distributor evaluates the tasks of one run, here or elsewhere. Close ends
// the run for it.
type Distributor interface {
	Evaluate(ctx context.Context, tasks []swarm.Task, done swarm.Done) error
	Close() error
}

// job describes a run for other processes; cfg is complete.
func (e *evaluator) job(s settings) (*Job, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	job := &Job{ID: hex.EncodeToString(sum[:]), Traces: e.cfg.Traces}
	for _, t := range s.Traces {
		job.Digests = append(job.Digests, t.Trace)
	}
	job.Config, err = json.Marshal(e.cfg)
	return job, err
}

// Objective returns the function that evaluates the job's tasks, or the error that ctx
// ended. Any number of goroutines may call it.
func (j *Job) Objective(ctx context.Context) (swarm.Objective, error) {
	var cfg Config
	if err := json.Unmarshal(j.Config, &cfg); err != nil {
		return nil, fmt.Errorf("job %s: %w", j.ID, err)
	}
	if len(j.Traces) == 0 {
		return nil, errors.New("a job without traces")
	}
	cfg.Traces = j.Traces
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("job %s: %w", j.ID, err)
	}
	sp, err := newSpace(&cfg)
	if err != nil {
		return nil, err
	}
	ev, err := newEvaluator(ctx, &cfg, sp)
	if err != nil {
		return nil, err
	}
	return ev.objective, nil
}
