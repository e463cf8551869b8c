package recommender

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/mpa/retraining"
)

const (
	outcomeTaken     = "Taken"
	outcomeNotBetter = "NotBetter"
	outcomeFailed    = "Failed"
	outcomeTimedOut  = "TimedOut"
	outcomeTakenBack = "TakenBack"
	// jobRetry is the wait before a Job that could not be created, as for a quota, is tried
	// again.
	jobRetry = time.Minute
	// seenWithin is the longest delay of a policy that a Job has written in the cache.
	seenWithin = time.Minute
	// keptPolicies is the number of the newest policies by Jobs of an object that are kept, in addition to those in
	// use.
	keptPolicies = 3
)

// later returns the later of two alarms.
func later(a, b journal.Alarm) journal.Alarm {
	if b.Time.After(a.Time) {
		return b
	}
	return a
}

// policyName returns the policy that is to decide: the candidate in the status while it holds,
// or that of the spec. It ends a candidate that no longer does.
func (r *reconciler) policyName(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, s *object) string {
	spec, t := o.Spec.Recommender.Policy, s.retrain.status
	c := t.Candidate
	if c == nil {
		return spec
	}
	if c.Of == spec && r.digest(ctx, c.Policy) == c.Digest {
		if of := r.digest(ctx, c.Of); of == "" || of == c.OfDigest {
			l := o.Status.Learning
			if l == nil || l.PolicyDigest != c.Digest {
				return c.Policy
			}
			p := progressOf(l)
			if !p.Refused() {
				return c.Policy
			}
			t.Outcome, t.Message = outcomeTakenBack, fmt.Sprintf("ScalingPolicy %s: %v", c.Policy, p.Verdict)
			retrainings.WithLabelValues(o.Namespace, o.Name, t.Outcome).Inc()
		}
	}
	t.Candidate = nil
	return spec
}

// digest returns that of a ScalingPolicy; "" = it does not exist, or is not accepted.
func (r *reconciler) digest(ctx context.Context, name string) string {
	o := &v1alpha1.ScalingPolicy{}
	if r.Get(ctx, client.ObjectKey{Name: name}, o) != nil {
		return ""
	}
	p, _, err := policyOf(o)
	if err != nil {
		return ""
	}
	return p.Digest
}

// noteAlarm takes an alarm into the status that it does not have yet, such as one whose write
// failed, or one that only the journal has.
func (s *retrainState) noteAlarm() {
	t := s.status
	if s.alarm.Time.IsZero() || t.Alarm != nil && !s.alarm.Time.Truncate(time.Microsecond).After(t.Alarm.Time) {
		return
	}
	t.Alarm, t.Change, t.PolicyDigest = new(micro(s.alarm.Time.UTC())), bounded.Text(s.alarm.Drift), s.alarm.Digest
}

// runs reports whether a Job was created whose end is not recorded.
func runs(t *v1alpha1.RetrainingStatus) bool { return t.Job != "" && t.Ended == nil }

// open reports whether no Job was made for an alarm, and the policy of then is still in use.
func (s *object) open() bool {
	t := s.retrain.status
	if t.Alarm == nil || runs(t) || t.Started != nil && t.Alarm.Before(t.Started) || s.learned.policy == nil {
		return false
	}
	// A policy trained before the alarm does not include its cause.
	return t.PolicyDigest == s.learned.policy.digest || t.Candidate != nil && t.Candidate.Digest == s.learned.policy.digest
}

// due returns when the Job for an open alarm begins.
func (r *reconciler) due(t *v1alpha1.RetrainingStatus) time.Time {
	at := t.Alarm.Add(r.options.RetrainingAfter)
	if t.Started != nil {
		if rested := t.Started.Add(r.options.RetrainingCoolDown); rested.After(at) {
			return rested
		}
	}
	return at
}

// retrain makes the Job for an alarm that the status has, and takes over how a Job ended. Its name
// follows from the alarm, so that a process that ends in between makes no second one.
func (r *reconciler) retrain(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, s *object, now time.Time) {
	t := s.retrain.status
	switch {
	case runs(t):
		switch result, err := r.jobEnd(ctx, s, now); {
		case errors.Is(err, errLater):
			log.FromContext(ctx).V(1).Info("The end of a training is not known yet", "why", err.Error())
		case result != nil || err != nil:
			t.Ended = new(micro(now))
			r.judge(ctx, o, s, result, err)
			retrainings.WithLabelValues(o.Namespace, o.Name, t.Outcome).Inc()
			if err := r.tidy(ctx, o, t.Candidate); err != nil {
				log.FromContext(ctx).Error(err, "Old policies of trainings stay")
			}
		}
	case r.options.RetrainingTemplate == "" || !s.open():
		s.retrain.refused = ""
	case !now.Before(r.due(t)) && !now.Before(s.retrain.again):
		if err := r.makeJob(ctx, o, s, now); err != nil {
			s.retrain.refused, s.retrain.again = err.Error(), now.Add(jobRetry)
		} else {
			s.retrain.refused = ""
		}
	}
}

// makeJob makes the Job of the last alarm. One that is there already is the same.
func (r *reconciler) makeJob(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, s *object, now time.Time) error {
	t, template := s.retrain.status, &batchv1.CronJob{}
	key := client.ObjectKey{Namespace: r.options.Namespace, Name: r.options.RetrainingTemplate}
	if err := r.live.Get(ctx, key, template); err != nil {
		return err
	}
	q := retraining.Request{
		Object: client.ObjectKeyFromObject(o), UID: o.UID, Alarm: t.Alarm.Time,
		Policy: o.Spec.Recommender.Policy, Serving: s.learned.weights[s.learned.policy.digest],
	}
	job, err := q.Job(template)
	if err != nil {
		return err
	}
	r.making.Lock()
	defer r.making.Unlock()
	if err := r.room(ctx, o.Namespace, job.Name, now); err != nil {
		return err
	}
	if err := r.Create(ctx, job); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	r.made[job.Name] = now
	if !now.After(t.Alarm.Time) { // of a process whose clock is ahead
		now = t.Alarm.Add(time.Microsecond)
	}
	t.Job, t.Started, t.Ended, t.Outcome, t.Message = job.Name, new(micro(now)), nil, "", ""
	return nil
}

// room reports whether too many Jobs run for another one. The last is for objects of another namespace. The lock of making is held.
func (r *reconciler) room(ctx context.Context, namespace, name string, now time.Time) error {
	all := &v1alpha1.MultidimPodAutoscalerList{}
	if err := r.List(ctx, all); err != nil {
		return err
	}
	maps.DeleteFunc(r.made, func(_ string, at time.Time) bool { return now.Sub(at) >= seenWithin })
	running, others := maps.Clone(r.made), 0
	for i := range all.Items {
		switch t := all.Items[i].Status.Retraining; {
		case t == nil || t.Job == "":
		case runs(t):
			running[t.Job] = now
			if all.Items[i].Namespace != namespace {
				others++
			}
		default:
			delete(running, t.Job)
		}
	}
	delete(running, name)
	switch n, most := len(running), r.options.RetrainingJobs; {
	case n >= most:
		return fmt.Errorf("%d Jobs of other objects run", n)
	case most > 1 && n-others >= most-1:
		return fmt.Errorf("%d Jobs of other objects of the namespace run", n-others)
	}
	return nil
}

// errLater means that the end of a Job cannot be determined yet.
var errLater = errors.New("not known yet")

// jobEnd returns the result of the running Job, or the reason that it has none; neither = it
// runs.
func (r *reconciler) jobEnd(ctx context.Context, s *object, now time.Time) (*retraining.Result, error) {
	if s.learned.policy == nil {
		return nil, fmt.Errorf("%w: no policy is in use that it could be compared with", errLater)
	}
	job, pods := &batchv1.Job{}, &corev1.PodList{}
	switch err := r.live.Get(ctx, client.ObjectKey{Namespace: r.options.Namespace, Name: s.retrain.status.Job}, job); {
	case apierrors.IsNotFound(err):
		return nil, errors.New("the Job is gone")
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errLater, err)
	}
	if err := r.List(ctx, pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
		return nil, fmt.Errorf("%w: %w", errLater, err)
	}
	result, err := retraining.End(job, pods.Items)
	if result == nil || result.Policy == "" {
		return result, err
	}
	p := &v1alpha1.ScalingPolicy{}
	switch err := r.Get(ctx, client.ObjectKey{Name: result.Policy}, p); {
	case apierrors.IsNotFound(err) && job.Status.CompletionTime != nil && now.Sub(job.Status.CompletionTime.Time) < seenWithin:
		return nil, fmt.Errorf("%w: %w", errLater, err)
	case err != nil:
		return nil, fmt.Errorf("it says that it has written ScalingPolicy %s: %w", result.Policy, err)
	}
	found, _, err := policyOf(p)
	switch {
	case err != nil:
		return nil, fmt.Errorf("it has written a policy that is not accepted: ScalingPolicy %s: %w", p.Name, err)
	case found.Digest != result.Digest:
		return nil, fmt.Errorf("ScalingPolicy %s is %s, not %s as it says", p.Name, found.Digest, result.Digest)
	case found.Provenance.Replaces != s.learned.policy.digest:
		return nil, fmt.Errorf("ScalingPolicy %s was compared with %s, and %s is in use", p.Name, found.Provenance.Replaces, s.learned.policy.digest)
	}
	return result, nil
}

// judge enters how a Job ended. A policy that is better takes the place of the spec's.
func (r *reconciler) judge(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, s *object, result *retraining.Result, err error) {
	t := s.retrain.status
	switch {
	case errors.Is(err, retraining.ErrTimedOut):
		t.Outcome, t.Message = outcomeTimedOut, err.Error()
	case err != nil:
		t.Outcome, t.Message = outcomeFailed, err.Error()
	case result.Policy == "":
		t.Outcome, t.Message = outcomeNotBetter, result.String()
	default:
		spec := o.Spec.Recommender.Policy
		t.Outcome, t.Message = outcomeTaken, fmt.Sprintf("ScalingPolicy %s: %s", result.Policy, result)
		t.Candidate = &v1alpha1.Candidate{Policy: result.Policy, Digest: result.Digest, Of: spec, OfDigest: r.digest(ctx, spec)}
	}
	t.Message = bounded.Text(t.Message)
}

// tidy deletes the policies that Jobs have written for an object, but for the newest keptPolicies and those that an object
// uses or names.
func (r *reconciler) tidy(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, candidate *v1alpha1.Candidate) error {
	all, objects := &v1alpha1.ScalingPolicyList{}, &v1alpha1.MultidimPodAutoscalerList{}
	if err := r.List(ctx, all, client.MatchingLabels{retraining.Label: "true"}); err != nil {
		return err
	}
	if err := r.List(ctx, objects); err != nil {
		return err
	}
	used := map[string]bool{}
	if candidate != nil {
		used[candidate.Policy] = true
	}
	for i := range objects.Items {
		other := &objects.Items[i]
		used[other.Spec.Recommender.Policy] = true
		if t := other.Status.Retraining; t != nil && t.Candidate != nil {
			used[t.Candidate.Policy] = true
		}
	}
	mine := slices.DeleteFunc(all.Items, func(p v1alpha1.ScalingPolicy) bool {
		return p.Annotations[retraining.ObjectAnnotation] != client.ObjectKeyFromObject(o).String()
	})
	slices.SortFunc(mine, func(a, b v1alpha1.ScalingPolicy) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for i := range mine[min(keptPolicies, len(mine)):] {
		p := &mine[keptPolicies+i]
		if used[p.Name] {
			continue
		}
		err := r.Delete(ctx, p, client.Preconditions{UID: &p.UID, ResourceVersion: &p.ResourceVersion})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete ScalingPolicy %s: %w", p.Name, err)
		}
	}
	return nil
}

// setRetraining sets whether a policy should be trained for a workload that has changed, or is.
func (r *reconciler) setRetraining(o *v1alpha1.MultidimPodAutoscaler, s *object, next *v1alpha1.MultidimPodAutoscalerStatus) {
	if o.Spec.Recommender.Algorithm != algorithmLearned {
		return
	}
	t := s.retrain.status
	is := func(status metav1.ConditionStatus, reason, format string, args ...any) {
		set(o, next, v1alpha1.ConditionRetraining, status, reason, format, args...)
	}
	before := condition(next, v1alpha1.ConditionRetraining).Reason
	switch {
	case t.Alarm != nil && runs(t):
		is(metav1.ConditionTrue, "Running", "Job %s/%s trains a policy since %s: %s", r.options.Namespace, t.Job, t.Started.UTC().Format(time.RFC3339), t.Change)
	case s.learned.policy == nil:
		is(metav1.ConditionFalse, "NoPolicy", "The fallback decides: there is no policy to train again.")
	case t.Alarm == nil:
		if before == "" || before == "NoPolicy" {
			is(metav1.ConditionFalse, "NoChange", "The workload is as it was when the policy began.")
		}
	case s.open() && s.retrain.refused != "":
		is(metav1.ConditionTrue, "NoJob", "%s; no Job can be made yet: %s", t.Change, s.retrain.refused)
	case s.open() && r.options.RetrainingTemplate != "":
		is(metav1.ConditionTrue, "WorkloadChanged", "%s; a Job trains a policy from %s on", t.Change, r.due(t).UTC().Format(time.RFC3339))
	case s.open():
		is(metav1.ConditionTrue, "WorkloadChanged", "%s; sigma mpa train --journal trains a policy", t.Change)
	case t.Outcome == outcomeTaken && t.Candidate != nil || t.Outcome != "" && t.Outcome != outcomeTaken && t.PolicyDigest == s.learned.policy.digest:
		is(metav1.ConditionFalse, t.Outcome, "%s", t.Message)
	default:
		is(metav1.ConditionFalse, "PolicyChanged", "Another policy serves, and nothing has changed since.")
	}
}

// announceRetraining publishes that a Job was made, and how it ended.
func (r *reconciler) announceRetraining(o *v1alpha1.MultidimPodAutoscaler, next *v1alpha1.MultidimPodAutoscalerStatus) {
	c := condition(next, v1alpha1.ConditionRetraining)
	before := o.Status.Retraining
	if next.Retraining == nil || before == nil && next.Retraining.Job == "" ||
		before != nil && before.Job == next.Retraining.Job && before.Outcome == next.Retraining.Outcome {
		return
	}
	r.events.Eventf(o, corev1.EventTypeNormal, "Retraining", "%s: %s", c.Reason, c.Message)
}
