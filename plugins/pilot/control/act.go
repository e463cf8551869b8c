package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
)

// act does what a step asks for. What fails is asked for again by the next.
func (r *reconciler) act(ctx context.Context, o *v1alpha1.PolicyPilot, l *loop, s *pilot.Settings, out *pilot.Outcome, primary, candidate *held) error {
	log := klog.FromContext(ctx).WithValues("pilot", o.Name)
	wanted := ""
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
			wanted = a.Job
			err = r.train(o, l, a, &out.State, s)
		case pilot.Judge:
			wanted = judging + a.Job
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
	l.worker.stop(wanted) // what the loop no longer waits for
	return nil
}

// put writes a policy of the shelf to a PlacementPolicy, in a mode; "" = it goes to shadow.
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

// train begins a training, unless it runs or has ended.
func (r *reconciler) train(o *v1alpha1.PolicyPilot, l *loop, a pilot.Action, state *pilot.State, s *pilot.Settings) error {
	l.worker.mu.Lock()
	ended := l.worker.trained != nil && l.worker.trained.Job == a.Job
	l.worker.mu.Unlock()
	if ended {
		return nil
	}
	window, err := l.log.Window(a.From, a.Until)
	if err != nil {
		return err
	}
	l.worker.train(r.ctx, lesson{
		job: a.Job, name: candidateOf(&o.Spec), inForce: state.InForce, choose: time.Duration(s.Choose) * day,
		evaluations: int(o.Spec.Train.Evaluations), seeds: int(o.Spec.Train.Seeds), window: window,
	})
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
