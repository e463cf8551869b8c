package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
)

// act carries out the actions of a step. The next step repeats a failed one.
func (r *reconciler) act(ctx context.Context, o *v1alpha1.PolicyPilot, l *loop, s *pilot.Settings, out *pilot.Outcome, primary, candidate *held) error {
	log := klog.FromContext(ctx).WithValues("pilot", o.Name)
	// The job that the phase waits for also stays if this step does not request it: during a hold, or after the clock
	// was set back.
	wanted, training := "", ""
	switch out.State.Phase {
	case pilot.Training:
		wanted, training = out.State.Job, out.State.Job
	case pilot.Judging:
		wanted = judging + out.State.Job
	default:
	}
	for _, a := range out.Actions {
		var err error
		switch a.Kind {
		case pilot.Tell:
			kind := corev1.EventTypeNormal
			if out.State.Phase == pilot.RolledBack {
				kind = corev1.EventTypeWarning
			}
			r.events.Event(o, kind, string(out.State.Phase), a.Text)
			log.Info("A step of the loop", "phase", out.State.Phase, "what", a.Text)
		case pilot.Train:
			err = r.train(ctx, o, l, a, &out.State, s)
		case pilot.Judge:
			err = r.judge(o, l, a, &out.State, s)
		case pilot.SetPrimary:
			err = r.put(ctx, o, l, o.Spec.Policy, primary, a.Digest, pilot.Rung{Mode: pilot.Live})
		case pilot.SetCandidate:
			err = r.put(ctx, o, l, candidateOf(&o.Spec), candidate, a.Digest, a.Rung)
		}
		if err != nil {
			return fmt.Errorf("%v: %w", a, err)
		}
	}
	l.worker.stop(wanted) // jobs that the loop no longer waits for
	if err := errors.Join(r.endJobs(ctx, l, training), l.worker.sweep(training)); err != nil {
		log.Error(err, "Cannot remove what a training has left")
	}
	return nil
}

// put writes a policy of the store to a PlacementPolicy, in a mode; without a digest it sets the mode to shadow.
func (r *reconciler) put(ctx context.Context, o *v1alpha1.PolicyPilot, l *loop, name string, h *held, digest string, rung pilot.Rung) error {
	if digest == "" {
		return write(ctx, r.client, name, h, nil, pilot.Rung{Mode: pilot.Shadow}, o.Name)
	}
	p, err := l.worker.shelf.policy(digest)
	if err != nil {
		return err
	}
	return write(ctx, r.client, name, h, p, rung, o.Name)
}

// train begins a training, unless it runs or has ended. Where it runs is kept: a spec that changes meanwhile
// is for the next one.
func (r *reconciler) train(ctx context.Context, o *v1alpha1.PolicyPilot, l *loop, a pilot.Action, state *pilot.State, s *pilot.Settings) error {
	w := l.worker
	w.mu.Lock()
	ended, here := w.trained != nil && w.trained.Job == a.Job, w.job == a.Job
	w.waits = ""
	w.mu.Unlock()
	if ended || here {
		return nil
	}
	if w.shelf.over(a.Job) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waits = "the Job of a training of before, of the same name, is being deleted"
		return nil
	}
	d, err := w.shelf.order(a.Job)
	if err == nil && d == nil {
		window, wrong := l.log.Window(a.From, a.Until)
		if wrong != nil {
			return wrong
		}
		lesson := &lesson{
			Job: a.Job, Name: candidateOf(&o.Spec), InForce: state.InForce, Baseline: w.baseline, Choose: time.Duration(s.Choose) * day,
			Evaluations: int(o.Spec.Train.Evaluations), Seeds: int(o.Spec.Train.Seeds), Workers: 1, Window: window,
		}
		if o.Spec.Train.Job == nil {
			w.train(r.ctx, lesson)
			return nil
		}
		d, err = w.shelf.write(lesson, &o.Spec.Train)
	}
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.taught(&pilot.Trained{Job: a.Job, Failed: err.Error()})
		return nil
	}
	r.follows(ctx, o, w, d)
	return nil
}

// judge begins a judgement, unless it runs or has ended.
func (r *reconciler) judge(o *v1alpha1.PolicyPilot, l *loop, a pilot.Action, state *pilot.State, s *pilot.Settings) error {
	w := l.worker
	w.mu.Lock()
	ended := w.verdict != nil && w.verdict.Candidate == a.Digest && slices.Equal(w.verdict.Days, a.Days)
	at := slices.IndexFunc(w.days, func(d pilot.Day) bool { return len(a.Days) > 0 && d.Digest == a.Days[0] })
	var from, begin time.Time
	if at >= 0 {
		from = w.days[at].Start
		begin = w.days[max(0, at-int(before/day))].Start
	}
	w.mu.Unlock()
	switch {
	case ended:
		return nil
	case at < 0:
		return nil // the days are not studied yet, or no longer there: the judgement runs out of time
	}
	window, err := l.log.Window(begin, from.Add(time.Duration(len(a.Days))*day))
	if err != nil {
		return err
	}
	if window.From.After(from) {
		return fmt.Errorf("%s is to judge, and its file is gone", from.Format(time.DateOnly))
	}
	confidence := .95
	if s.Gate != nil {
		confidence = s.Gate.Confidence
	}
	w.judge(r.ctx, hearing{
		job: a.Job, candidate: a.Digest, inForce: state.InForce, digests: a.Days, days: len(a.Days), begin: window.From, from: from,
		window: window, against: o.Spec.Against, confidence: confidence,
	})
	return nil
}
