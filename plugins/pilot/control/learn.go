package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/sigma-scheduler/sigma/internal/evidence"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
	"github.com/sigma-scheduler/sigma/plugins/pilot/record"
)

// A lesson says what a training is to do.
type lesson struct {
	job, name, inForce string
	choose             time.Duration
	evaluations, seeds int
	window             record.Window
}

// train runs a training and keeps its outcome. What a kill interrupts goes on from its checkpoint.
func (w *worker) train(ctx context.Context, l lesson) {
	out := &pilot.Trained{Job: l.job}
	w.start(ctx, l.job, func(ctx context.Context) error {
		checkpoints := filepath.Join(w.shelf.dir, "checkpoints", l.job)
		if err := os.MkdirAll(checkpoints, 0o755); err != nil {
			return err
		}
		t, err := l.window.Trace(l.job)
		if err != nil {
			return err
		}
		inForce := w.baseline
		if l.inForce != "" {
			if _, err := w.shelf.policy(l.inForce); err != nil {
				return err
			}
			inForce = w.shelf.file(l.inForce)
		}
		o, none, err := evidence.Learn(ctx, evidence.Lesson{
			History: t, Choose: l.choose, InForce: inForce, Evaluations: l.evaluations, Seeds: l.seeds, Seed: 1, Workers: 1,
			Name: l.name, Checkpoint: checkpoints,
		})
		if out.None = none; err != nil || o == nil {
			return err
		}
		out.Candidate = o.Digest()
		return errors.Join(w.shelf.keep(o), os.RemoveAll(checkpoints))
	}, func(err error) {
		if err != nil {
			*out = pilot.Trained{Job: l.job, Failed: err.Error()}
		}
		w.trained = out
		if err := w.shelf.save(trainedFile, out); err != nil && out.Failed == "" {
			w.trained = &pilot.Trained{Job: l.job, Failed: err.Error()}
		}
	})
}

// A hearing says what a judgement is to do.
type hearing struct {
	job, candidate, inForce string
	digests                 []string // of the days
	days                    int
	begin, from             time.Time
	window                  record.Window
	against                 []string
	confidence              float64
}

// judge replays the days under the candidate, the policy in force and the others, and keeps the
// verdict.
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

// longer is by how many percent one wait is longer than another; a wait where there was none is a
// million percent.
func longer(own, other float64) float64 {
	switch {
	case own <= other:
		return 0
	case other == 0:
		return 1e6
	}
	return 100 * (own/other - 1)
}
