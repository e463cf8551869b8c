package control

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sigma-scheduler/sigma/internal/evidence"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
	"github.com/sigma-scheduler/sigma/plugins/pilot/record"
)

// A lesson is the task of a training. It is stored as JSON.
type lesson struct {
	Job         string        `json:"job"`
	Name        string        `json:"name"` // of the object
	InForce     string        `json:"inForce,omitempty"`
	Baseline    string        `json:"baseline"` // used as the active policy if there is none
	Choose      time.Duration `json:"choose"`
	Evaluations int           `json:"evaluations"`
	Seeds       int           `json:"seeds"`
	Workers     int           `json:"workers"`
	Window      record.Window `json:"window"` // files are below the shelf's folder
}

// checkpointsDir has a folder for each training.
const checkpointsDir = "checkpoints"

// checkpoints is the folder of those of a training.
func (s shelf) checkpoints(job string) string { return filepath.Join(s.dir, checkpointsDir, job) }

// sweep removes the checkpoints of trainings other than one, except of those whose Job or process still exists.
func (w *worker) sweep(training string) error {
	entries, err := os.ReadDir(filepath.Join(w.shelf.dir, checkpointsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range entries {
		if e.Name() == training || e.Name() == w.job {
			continue
		}
		if _, err := os.Stat(w.shelf.jobDir(e.Name())); err == nil {
			continue
		}
		if err := os.RemoveAll(w.shelf.checkpoints(e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// learn carries out a lesson and keeps the policy that results. After a kill it resumes from its
// checkpoint.
func (s shelf) learn(ctx context.Context, l *lesson) (*pilot.Trained, error) {
	checkpoints := s.checkpoints(l.Job)
	if err := os.MkdirAll(checkpoints, 0o755); err != nil {
		return nil, err
	}
	t, err := l.Window.Trace(l.Job)
	if err != nil {
		return nil, err
	}
	inForce := l.Baseline
	if l.InForce != "" {
		if _, err := s.policy(l.InForce); err != nil {
			return nil, err
		}
		inForce = s.file(l.InForce)
	}
	o, none, err := evidence.Learn(ctx, evidence.Lesson{
		History: t, Choose: l.Choose, InForce: inForce, Evaluations: l.Evaluations, Seeds: l.Seeds, Seed: 1, Workers: l.Workers,
		Name: l.Name, Checkpoint: checkpoints,
	})
	switch {
	case err != nil:
		return nil, err
	case o == nil:
		return &pilot.Trained{Job: l.Job, None: none}, nil
	}
	return &pilot.Trained{Job: l.Job, Candidate: o.Digest()}, s.keep(o)
}

// train runs a training and keeps its outcome.
func (w *worker) train(ctx context.Context, l *lesson) {
	var out *pilot.Trained
	w.start(ctx, l.Job, func(ctx context.Context) (err error) {
		out, err = w.shelf.learn(ctx, l)
		return err
	}, func(err error) {
		if err != nil {
			out = &pilot.Trained{Job: l.Job, Failed: err.Error()}
		}
		w.taught(out)
	})
}

// taught keeps the outcome of a training. The lock is held.
func (w *worker) taught(out *pilot.Trained) {
	w.trained = out
	if err := w.shelf.save(trainedFile, out); err != nil && out.Failed == "" {
		w.trained = &pilot.Trained{Job: out.Job, Failed: err.Error()}
	}
}

// A hearing is the task of a judgement.
type hearing struct {
	job, candidate, inForce string
	digests                 []string // of the days
	days                    int
	begin, from             time.Time
	window                  record.Window
	against                 []string
	confidence              float64
}

// judge replays the days under the candidate, the active policy and the others, and keeps the verdict.
func (w *worker) judge(ctx context.Context, h hearing) {
	var v *pilot.Verdict
	w.start(ctx, judging+h.job, func(context.Context) error {
		t, err := h.window.Trace("judgement")
		if err != nil {
			return err
		}
		from := h.from.Sub(h.begin).Seconds()
		trial, accounts, err := w.accounts(t, h.inForce, 0, from, h.days, h.candidate, h.inForce)
		if err != nil {
			return err
		}
		own, present := accounts[0], accounts[1]
		v = &pilot.Verdict{
			Candidate: h.candidate, Days: h.digests, Savings: map[string]pilot.Saving{},
			Unplaced: own.Unplaced - present.Unplaced, PodsOfOneApp: own.PodsOfOneApp, WaitPercent: longer(own.Waiting, present.Waiting),
		}
		promised := finite(evidence.Promise(own, present, ahead, share, 1))
		if promised == nil {
			return errors.New("the days give no interval")
		}
		v.Promised = *promised
		add := func(name string, other evidence.Account) {
			if s := finite(evidence.Saving(own, other, h.confidence, 1)); s != nil {
				v.Savings[name] = *s
			}
		}
		add(pilot.InForce, present)
		for _, name := range h.against {
			p, err := builtIn(name)
			if err != nil {
				return err
			}
			other, err := trial.Run(p)
			if err != nil {
				return err
			}
			add(name, other)
		}
		return nil
	}, func(err error) {
		if err != nil {
			v = &pilot.Verdict{Candidate: h.candidate, Days: h.digests, Missing: err.Error()}
		}
		w.verdict = v
		if err := w.shelf.save(verdictFile, v); err != nil && v.Missing == "" {
			w.verdict = &pilot.Verdict{Candidate: h.candidate, Days: h.digests, Missing: err.Error()}
		}
	})
}

// longer is the percentage by which one wait is longer than another; a wait against no wait is a million
// percent.
func longer(own, other float64) float64 {
	switch {
	case own <= other:
		return 0
	case other == 0:
		return 1e6
	}
	return 100 * (own/other - 1)
}
