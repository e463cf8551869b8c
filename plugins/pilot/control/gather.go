package control

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
	"github.com/sigma-scheduler/sigma/plugins/pilot/record"
)

// gather collects the evidence for a step. hold is the reason why no promotion is allowed; "" = it is.
func (r *reconciler) gather(ctx context.Context, o *v1alpha1.PolicyPilot, l *loop, s *pilot.Settings, state *pilot.State, primary *held, now time.Time) (e *pilot.Evidence, candidate *held, hold string, err error) {
	candidate, err = read(ctx, r.live, candidateOf(&o.Spec))
	switch {
	case apierrors.IsForbidden(err):
		candidate = &held{fault: "sigma-pilot may not read it: its ClusterRole names those that it steers"}
	case err != nil:
		return nil, nil, "", err
	}
	e = &pilot.Evidence{
		Approved: o.Annotations[v1alpha1.ApprovedAnnotation],
		// An unreadable candidate decides nothing.
		Cluster: &pilot.Cluster{Primary: primary.applied(), Candidate: candidate.applied()},
	}
	if primary.policy != nil && e.Cluster.Primary.Mode == pilot.Live {
		if err := l.worker.shelf.keep(primary.policy); err != nil { // the policy to roll back to
			hold = "the policy in force cannot be kept: " + err.Error()
		}
	}
	r.recorded(o, l, s, state, e, now)
	e.Measured = r.measure(ctx, o, l, s, state, primary, candidate, now)
	l.worker.mu.Lock()
	defer l.worker.mu.Unlock()
	e.Trained, e.Verdict, e.Drift = l.worker.trained, l.worker.verdict, withRegret(l.worker.drift, l.worker.regret, state)
	return e, candidate, hold, nil
}

// recorded reads on in the log, and has new days studied.
func (r *reconciler) recorded(o *v1alpha1.PolicyPilot, l *loop, s *pilot.Settings, state *pilot.State, e *pilot.Evidence, now time.Time) {
	if err := l.log.Poll(now); err != nil {
		set(o, v1alpha1.ConditionRecording, false, "Unreadable", err.Error())
		e.Recorded = &pilot.Recorded{Fault: err.Error()}
		return
	}
	if err := l.log.Fault(); err != nil {
		set(o, v1alpha1.ConditionRecording, false, "NotWritten", err.Error())
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
		set(o, v1alpha1.ConditionRecording, true, "Recording", l.kept())
	}
	w := l.worker
	w.mu.Lock()
	through, known, fault := w.through, slices.Clone(w.days), w.failed[studying].why
	w.mu.Unlock()
	if len(days) > 0 && !days[len(days)-1].Start.Equal(through) {
		if do, err := w.study(l.log, l.record, days, now); err != nil {
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
	r.findRegret(o, l, s, state, known, now)
}

// kept describes the contents of the record.
func (l *loop) kept() string {
	list := l.record.List()
	bytes, gaps := int64(0), 0
	for _, g := range list {
		if bytes += g.Bytes; g.Gap != "" {
			gaps++
		}
	}
	text := fmt.Sprintf("%d days are kept, the last %s, in %.1f MiB", len(list), list[len(list)-1].Start.Format(time.DateOnly), float64(bytes)/(1<<20))
	if gaps > 0 {
		text += fmt.Sprintf("; %d of them have gaps", gaps)
	}
	if l.record.TooLarge() {
		text += "; record.size has room for no more"
	}
	return text + "."
}

// subject is the policy that the guard checks in a state; "" = none.
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

// measure measures the values that the guard limits. nil = there is no policy to check, or the scheduler has not
// loaded it. A value that cannot be determined is missing.
func (r *reconciler) measure(ctx context.Context, o *v1alpha1.PolicyPilot, l *loop, s *pilot.Settings, state *pilot.State, primary, candidate *held, now time.Time) *pilot.Measured {
	digest := subject(state)
	if digest == "" {
		meta.RemoveStatusCondition(&o.Status.Conditions, v1alpha1.ConditionMeasured)
		publish(o.Name, paths{})
		return nil
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
		publish(o.Name, paths{})
		return nil
	}
	all := l.log.Seen(state.Since, "")
	p := r.follow(l, s, state, all.At, now)
	publish(o.Name, p)
	m := values(l, &all, p, s, state, digest)
	why := ""
	if s.Guard.RuleConflicts != nil {
		n, err := conflicts(ctx, r.live)
		if err != nil {
			why = ": " + err.Error()
		} else {
			m.RuleConflicts = &n
		}
	}
	switch unknown := s.Guard.Unknown(m); {
	case m.At.IsZero() && stuck(l, s, state, now) != nil:
		m = &pilot.Measured{Digest: digest, At: now, Values: pilot.Values{PendingSeconds: stuck(l, s, state, now)}}
		set(o, v1alpha1.ConditionMeasured, false, "NothingDecided", "Pods wait, and no pod was placed under the policy in this step, or within the last hour.")
	case m.At.IsZero():
		set(o, v1alpha1.ConditionMeasured, false, "NoDecision", "No pod was placed under the policy in this step, or within the last hour.")
		return nil
	case unknown != "":
		set(o, v1alpha1.ConditionMeasured, false, "Unknown", "The "+unknown+" is not known"+why+".")
	default:
		set(o, v1alpha1.ConditionMeasured, true, "Measured", "The last decision was at "+m.At.Format(time.RFC3339)+".")
	}
	return m
}

// leastStuck is how many pods have to wait: a few have their own reasons.
const leastStuck = 3

// stuck is the 99th percentile, in seconds, of the time that pods which arrived in the step have waited, if it breaks
// the limit: this needs no decision. In shadow the policy makes no pod wait, and in a canary another one decides for
// most pods.
func stuck(l *loop, s *pilot.Settings, state *pilot.State, now time.Time) *float64 {
	if s.Guard.PendingSeconds == nil || state.Phase == pilot.Shadowing || state.Phase == pilot.Canarying {
		return nil
	}
	waits := l.log.Waiting(state.Since, now)
	if len(waits.Waited) < leastStuck {
		return nil
	}
	if p99 := waits.P99(); p99 > *s.Guard.PendingSeconds {
		return &p99
	}
	return nil
}

// values are those that the record has of a policy in a step.
func values(l *loop, all *record.Seen, p paths, s *pilot.Settings, state *pilot.State, digest string) *pilot.Measured {
	m := &pilot.Measured{Digest: digest}
	if state.Phase == pilot.Shadowing { // it decides nothing: its decisions are replayed
		m.At, m.PendingSeconds = p.at, number(all.P99())
		if own := p.of[pathCandidate]; own.Pods > 0 {
			m.FallbackShare = new(float64(own.Fallbacks) / float64(own.Pods))
		}
		m.OpenedVsBestFit, m.CostVsBestFit = p.ratios(pathCandidate)
		return m
	}
	seen := l.log.Seen(state.Since, digest)
	m.At, m.PendingSeconds = seen.At, number(seen.P99())
	if seen.Decisions > 0 {
		m.FallbackShare = new(float64(seen.Fallbacks) / float64(seen.Decisions))
	}
	if seen.Compared > 0 {
		m.OpenedVsBestFit = new(ratio(seen.Opened, seen.BestFit))
	}
	path := pathCurrent
	if state.Phase == pilot.Canarying {
		path = pathCandidate
	}
	if _, m.CostVsBestFit = p.ratios(path); s.Guard.CostVsBestFit != nil && !p.at.IsZero() && p.at.Before(m.At) {
		m.At = p.at // the oldest measurement
	}
	return m
}

func number(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}
