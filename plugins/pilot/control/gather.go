package control

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
	recorded "github.com/sigma-scheduler/sigma/plugins/pilot/record"
)

// gather collects the evidence for a step.
func (r *reconciler) gather(ctx context.Context, o *v1alpha1.PolicyPilot, l *loop, s *pilot.Settings, state *pilot.State, primary *held, now time.Time) (*pilot.Evidence, *held, error) {
	candidate, err := read(ctx, r.live, candidateOf(&o.Spec))
	if err != nil {
		return nil, nil, err
	}
	e := &pilot.Evidence{Approved: o.Annotations[v1alpha1.ApprovedAnnotation]}
	if primary.fault == "" && candidate.fault == "" {
		e.Cluster = &pilot.Cluster{Primary: primary.applied(), Candidate: candidate.applied()}
	}
	if primary.policy != nil && e.Cluster != nil && e.Cluster.Primary.Mode == pilot.Live {
		if err := l.worker.shelf.keep(primary.policy); err != nil { // what to go back to
			return nil, nil, err
		}
	}
	r.recorded(o, l, e, now)
	if e.Measured, err = r.measure(ctx, o, l, s, state, primary, candidate, now); err != nil {
		return nil, nil, err
	}
	l.worker.mu.Lock()
	defer l.worker.mu.Unlock()
	e.Trained, e.Verdict, e.Drift = l.worker.trained, l.worker.verdict, l.worker.drift
	return e, candidate, nil
}

// recorded reads on in the log, and has new days studied.
func (r *reconciler) recorded(o *v1alpha1.PolicyPilot, l *loop, e *pilot.Evidence, now time.Time) {
	if err := l.log.Poll(); err != nil {
		set(o, v1alpha1.ConditionRecording, false, "Unreadable", err.Error())
		e.Recorded = &pilot.Recorded{Fault: err.Error()}
		return
	}
	days := l.log.Days()
	days = days[max(0, len(days)-int(o.Spec.Train.History)-int(o.Spec.Train.Test)):]
	switch n := len(days); {
	case l.log.Last().IsZero():
		set(o, v1alpha1.ConditionRecording, false, "Empty", "the decision log has no event yet")
	case n == 0:
		set(o, v1alpha1.ConditionRecording, true, "Begun", "No whole day is recorded yet.")
	case days[n-1].Gap != "":
		set(o, v1alpha1.ConditionRecording, false, "Gap", fmt.Sprintf("%s: %s", days[n-1].Start.Format(time.DateOnly), days[n-1].Gap))
	default:
		set(o, v1alpha1.ConditionRecording, true, "Recording", fmt.Sprintf("%d whole days, the last %s.", n, days[n-1].Start.Format(time.DateOnly)))
	}
	w := l.worker
	w.mu.Lock()
	through, known, fault := w.through, slices.Clone(w.days), w.failed[studying].why
	w.mu.Unlock()
	if len(days) > 0 && !days[len(days)-1].Start.Equal(through) {
		if do, err := w.study(l.log, days, now); err != nil {
			fault = err.Error()
		} else {
			w.side(r.ctx, studying, now, do)
		}
		e.Recorded = nil // the days are not known before they are studied
		if fault != "" {
			e.Recorded = &pilot.Recorded{Fault: fault}
		}
		return
	}
	for i := range known { // a gap may be found later
		for _, d := range days {
			if d.Start.Equal(known[i].Start) && known[i].Gap == "" {
				known[i].Gap = d.Gap
			}
		}
	}
	e.Recorded = &pilot.Recorded{Days: known}
}

// subject is the policy that the guard looks at in a state; "" = none.
func subject(s *pilot.State) string {
	switch s.Phase {
	case pilot.Shadowing, pilot.Canarying, pilot.GoingLive:
		return s.Candidate
	case pilot.Watching, pilot.Training, pilot.Judging, pilot.AwaitingApproval:
		return s.InForce
	case pilot.Recording, pilot.RolledBack:
	}
	return ""
}

// measure looks at what the guard bounds. nil = there is nothing to look at, or the scheduler does
// not have the policy.
func (r *reconciler) measure(ctx context.Context, o *v1alpha1.PolicyPilot, l *loop, s *pilot.Settings, state *pilot.State, primary, candidate *held, now time.Time) (*pilot.Measured, error) {
	digest := subject(state)
	if digest == "" {
		meta.RemoveStatusCondition(&o.Status.Conditions, v1alpha1.ConditionMeasured)
		return nil, nil
	}
	of := primary
	if state.Phase == pilot.Shadowing || state.Phase == pilot.Canarying {
		of = candidate
	}
	missing := of.taken()
	if missing == "" && of.policy.Digest() != digest {
		missing = "the cluster has another policy: " + of.policy.Digest()
	}
	if missing != "" {
		set(o, v1alpha1.ConditionMeasured, false, "NotTakenUp", missing)
		return nil, nil
	}
	m := &pilot.Measured{Digest: digest}
	if state.Phase == pilot.Shadowing { // it decides nothing: what it would have done is replayed
		seen := l.log.Seen(state.Since, "")
		r.replay(l, digest, state.Since, seen.At, now, s.Watch)
		m.At, m.PendingSeconds = seen.At, number(seen.P99())
		l.worker.mu.Lock()
		if w := l.worker.shadow; w.digest == digest && !w.at.Before(state.Since) {
			m.At, m.FallbackShare = w.at, new(w.share)
		}
		l.worker.mu.Unlock()
	} else {
		seen := l.log.Seen(state.Since, digest)
		m.At, m.PendingSeconds = seen.At, number(seen.P99())
		if seen.Decisions > 0 {
			m.FallbackShare = new(float64(seen.Fallbacks) / float64(seen.Decisions))
		}
	}
	if s.Guard.RuleConflicts != nil {
		n, err := conflicts(ctx, r.live)
		if err != nil {
			return nil, err
		}
		m.RuleConflicts = &n
	}
	if m.At.IsZero() {
		set(o, v1alpha1.ConditionMeasured, false, "NoDecision", "No pod was placed under the policy in this step, or within the last hour.")
		return nil, nil
	}
	set(o, v1alpha1.ConditionMeasured, true, "Measured", "The last decision was at "+m.At.Format(time.RFC3339)+".")
	return m, nil
}

// replay has the candidate in shadow replayed, where that is due.
func (r *reconciler) replay(l *loop, digest string, since, newest, now time.Time, every time.Duration) {
	l.worker.mu.Lock()
	last := l.worker.shadow
	l.worker.mu.Unlock()
	if newest.IsZero() || last.digest == digest && (!newest.After(last.at) || newest.Sub(last.at) < every && !last.at.Before(since)) {
		return
	}
	from := newest.Add(-recorded.Back)
	if since.After(from) {
		from = since
	}
	from = from.Truncate(time.Second)
	if window, err := l.log.Window(from, newest.Add(2*time.Second)); err == nil {
		l.worker.side(r.ctx, shadowing, now, l.worker.watch(window, digest, newest))
	}
}

func number(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}
