package recommender

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
	"github.com/sigma-scheduler/sigma/mpa/journal"
)

// object is the recommender's knowledge of a MultidimPodAutoscaler between two decisions. One
// worker at a time uses it.
type object struct {
	uid       types.UID
	slot      nextSlot
	journaled journaledState
	learned   learnedPolicy
	retrain   retrainState
	written   writtenStatus
	knative   knativeService
	withheld  string // reason that the limit is not applied in spite of the spec; empty = it is
}

// A nextSlot is the time of an object's next decision.
type nextSlot struct {
	generation int64 // of the spec at the last decision
	next       time.Time
}

// A journaledState is the state that decisions continue from, and that the journal has.
type journaledState struct {
	session *journal.Session // nil = begins from the status
	id      int64            // the largest seen
	outcome string           // the last in the journal
}

// A learnedPolicy is the policy of an object whose algorithm needs one.
type learnedPolicy struct {
	weights  agents.Weights // shared with the session
	policy   *served        // nil = no policy
	accepted *acceptance    // nil = the algorithm needs no policy
}

// A retrainState is the alarm of a changed workload, and the Job that trains a policy for it.
type retrainState struct {
	alarm   journal.Alarm              // the last
	status  *v1alpha1.RetrainingStatus // as the status has it or will have it; never nil once prepared
	refused string                     // reason that the last Job could not be made; empty = it could
	again   time.Time                  // when that is tried again
}

// A writtenStatus is the last status that was written.
type writtenStatus struct {
	recommendation *v1alpha1.Recommendation
	digest         string
	at             time.Time
	refused        string // the reason; empty = not refused
}

// errForeign means that another recommender wrote a recommendation for the object.
var errForeign = errors.New("another recommender has written a recommendation")

// decide makes one decision for an object and writes it.
func (r *reconciler) decide(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, s *object, now time.Time) error {
	w, no, err := r.target(ctx, o, s)
	if err != nil {
		return err
	}
	if no == nil {
		if err := r.withhold(ctx, o, s, w); err != nil {
			return err
		}
		no = r.prepare(ctx, o, s, now)
	}
	if no != nil {
		unmeasured(client.ObjectKeyFromObject(o))
		return r.write(ctx, o, s, refusedStatus(o, s, w, no, now), now)
	}
	ob, problems, err := r.collector.Observe(ctx, o, w, now)
	if err != nil {
		return err
	}
	if err := r.leaveOutGates(ctx, o, w, ob); err != nil {
		return err
	}
	ofUse, err := r.observeUse(ctx, o, w, ob)
	if err != nil {
		return err
	}
	problems = append(problems, ofUse...)
	var trial *v1alpha1.Trial
	if o.Spec.ScaleTargetRef.Knative() {
		s.knative.setLimit(ob)
		var more []collect.Problem
		if trial, more, err = r.trial(ctx, o, s, ob); err != nil {
			return err
		}
		problems = append(problems, more...)
	}
	memory, before, worse := s.journaled.session.Memory(), s.journaled.progress(), s.journaled.lastWorse()
	begin := r.clock.Now()
	d, err := s.journaled.session.Decide(ob, s.journaled.id+1)
	decisionSeconds.Observe(r.clock.Since(begin).Seconds())
	s.retrain.alarm = later(s.retrain.alarm, s.journaled.session.Alarm)
	if err != nil {
		s.journaled.undo(ctx, &d, memory)
		return r.write(ctx, o, s, refusedStatus(o, s, w, refuse("JournalFailed", "%v", err), now), now)
	}
	next := r.statusOf(o, s, ob, &d, problems)
	if next.Concurrency = s.concurrency(o, ob); trial != nil && next.Concurrency != nil {
		next.Concurrency.Trial = trial
	}
	if err = r.setGate(ctx, o, w, next); err == nil {
		err = r.write(ctx, o, s, next, now)
	}
	if err != nil {
		s.journaled.undo(ctx, &d, memory)
		return err
	}
	r.announceGate(o, next)
	r.announceRetraining(o, next)
	r.report(o, s, ob, &d, problems)
	r.announce(o, before, s.journaled.progress())
	r.announceWorse(o, s, worse)
	return nil
}

// prepare applies the present spec to the session, and the status where it is newer.
func (r *reconciler) prepare(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, s *object, now time.Time) *refusal {
	target, err := targetOf(o)
	if err != nil {
		return refuse("SpecInvalid", "%v", err)
	}
	if s.withheld != "" {
		target.Limit = mpa.Range{}
	}
	setup := setupOf(o, target)
	r.options.set(&setup)
	r.usePolicy(ctx, o, s, &setup)
	foreign, begun := lastID(&o.Status) > s.journaled.id, s.journaled.session == nil
	switch {
	case s.journaled.session == nil:
		if _, err := setup.NewAgent(s.learned.weights); err != nil {
			return refuse("AlgorithmUnknown", "%v", err)
		}
		err = r.begin(ctx, o, s, setup)
	case foreign:
		err = s.journaled.session.Restore(memoryOf(o, &target))
	}
	if err == nil {
		s.journaled.session.Bound(max(leastJournal, r.journalBytes(o.Namespace)) / journalFiles)
	}
	if err == nil && (s.journaled.session.Setup().Generation != o.Generation || s.journaled.session.Setup().Target.Limit != target.Limit || !sameAgents(new(s.journaled.session.Setup()), &setup)) {
		if _, err := setup.NewAgent(s.learned.weights); err != nil {
			return refuse("AlgorithmUnknown", "%v", err)
		}
		err = s.journaled.session.Change(setup)
	}
	if err == nil {
		err = s.journaled.catchUp(o, begun)
	}
	if err == nil && begun {
		err = s.journaled.rememberWorse(o)
	}
	if err == nil && begun {
		err = s.journaled.recallTemplate(o)
	}
	if err == nil {
		err = r.absent(o, s, now)
	}
	if err != nil {
		s.journaled.close(ctx)
		return refuse("JournalFailed", "%v", err)
	}
	s.dropWeights()
	r.retrain(ctx, o, s, now)
	if foreign || s.written.recommendation == nil {
		s.written.recommendation, s.journaled.id = o.Status.Recommendation.DeepCopy(), max(s.journaled.id, lastID(&o.Status))
	}
	r.outcome(ctx, o, s)
	if o.Spec.Mode == v1alpha1.ModeOff {
		s.written.recommendation = nil
	}
	return nil
}

// absent treats a gap between decisions (a restart, a refusal) as missing usage.
func (r *reconciler) absent(o *v1alpha1.MultidimPodAutoscaler, s *object, now time.Time) error {
	memory := s.journaled.session.Memory()
	if memory.Time.IsZero() || now.Sub(memory.Time) <= max(s.journaled.session.Setup().Guards.MaxAge, 2*r.interval(o)) {
		return nil
	}
	memory.Blind = memory.Time
	return s.journaled.session.Restore(memory)
}

// begin continues where the journal or the status ends. An action that is in the journal
// and not in the status was never requested.
func (r *reconciler) begin(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, s *object, setup journal.Setup) error {
	known := memoryOf(o, &setup.Target)
	path, size := "", r.journalBytes(o.Namespace)
	if r.options.JournalDir != "" && size >= leastJournal {
		path = r.journalPath(o)
	}
	options := journal.Options{MaxBytes: size / journalFiles, Keep: journalFiles - 1, Weights: s.learned.weights}
	if r.options.JournalDir != "" && path == "" {
		r.withoutJournal(ctx, o)
	}
	session, err := journal.Begin(path, options, setup, known)
	if err != nil {
		return err
	}
	s.journaled.session, s.retrain.alarm = session, later(s.retrain.alarm, session.Alarm)
	if session.Broken != nil {
		log.FromContext(ctx).Error(session.Broken, "The journal cannot be continued; it is kept with the suffix .broken")
	}
	if session.LastID > lastID(&o.Status) {
		if o.Status.Memory != nil {
			err = session.Restore(known)
		}
		s.journaled.id = max(s.journaled.id, session.LastID)
	}
	if session.Resumed && path != "" && o.Status.Actuation != nil && o.Status.Actuation.Time.Time.Before(session.Memory().Time) {
		s.journaled.outcome = outcomeOf(o.Status.Actuation)
	}
	return err
}

// journalBytes returns the largest size of the journal of an object of a namespace: by the options, and at most its
// part of the namespace's share of all.
func (r *reconciler) journalBytes(namespace string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.options.JournalTotal == 0 {
		return r.options.JournalBytes
	}
	share := r.options.JournalTotal / int64(max(1, len(r.of)))
	return min(r.options.JournalBytes, share/int64(max(1, r.of[namespace])))
}

// withoutJournal logs, once an hour for a namespace, that an object has no journal.
func (r *reconciler) withoutJournal(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	withoutJournals.Inc()
	if now := r.clock.Now(); now.Sub(r.full[o.Namespace]) >= time.Hour {
		r.full[o.Namespace] = now
		log.FromContext(ctx).Info("An object has no journal: its namespace has so many objects that its share of --journal-total-bytes is used", "objects", r.of[o.Namespace])
	}
}

// undo forgets an action whose write failed: only a written action is decided. If the
// write succeeded all the same, the next decision finds its id.
func (s *journaledState) undo(ctx context.Context, d *mpa.Decision, memory mpa.Memory) {
	if d.Action == nil {
		return
	}
	if err := s.session.Restore(memory); err != nil {
		s.close(ctx)
	}
}

// close ends the session; the next one begins from the status.
func (s *journaledState) close(ctx context.Context) {
	if s.session != nil {
		if err := s.session.Close(); err != nil {
			log.FromContext(ctx).Error(err, "Cannot close the journal")
		}
	}
	s.session = nil
}

// outcome writes a new outcome of the recommendation to the journal and acts on it.
func (r *reconciler) outcome(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, s *object) {
	a := o.Status.Actuation
	if a == nil || s.written.recommendation == nil || a.ID != s.written.recommendation.ID || outcomeOf(a) == s.journaled.outcome {
		return
	}
	err := s.journaled.session.Outcome(journal.Outcome{
		Time: a.Time.UTC(), ID: a.ID, Decided: s.written.recommendation.Time.UTC(), Result: string(a.Outcome), Reason: a.Message,
	})
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot write an outcome to the journal; the next decision tries again")
		return
	}
	s.journaled.outcome = outcomeOf(a)
	if s.written.recommendation.Change != v1alpha1.ChangeRequests {
		return
	}
	if err := s.recount(a, r.clock.Now()); err != nil {
		log.FromContext(ctx).Error(err, "Cannot correct what counts against the hour")
	}
}

// recount takes over from the updater whether a change of requests counts against the hour:
// one that no pod took does not, unless a pod takes it later.
func (s *object) recount(a *v1alpha1.Actuation, now time.Time) error {
	decided := s.written.recommendation.Time.Truncate(time.Microsecond)
	since := func(t time.Time) bool { return !t.Truncate(time.Microsecond).Before(decided) }
	memory := s.journaled.session.Memory()
	counts := slices.ContainsFunc(memory.RequestChanges, since)
	n := len(a.Resizes)
	switch taken := n > 0 && since(a.Resizes[n-1].Time); {
	case a.Outcome == v1alpha1.OutcomeRefused && counts && !taken:
		memory.RequestChanges = slices.DeleteFunc(memory.RequestChanges, since)
		memory.CPUChanges = slices.DeleteFunc(memory.CPUChanges, since)
	case a.Outcome != v1alpha1.OutcomeRefused && !counts && taken:
		last := a.Resizes[n-1].UTC()
		if last.After(now) { // the clocks differ
			last = now
		}
		memory.RequestChanges = append(memory.RequestChanges, last)
	default:
		return nil
	}
	return s.journaled.session.Restore(memory)
}

func outcomeOf(a *v1alpha1.Actuation) string { return fmt.Sprint(a.ID, a.Outcome) }

// setupOf returns the agents, target and guards of an object's spec.
func setupOf(o *v1alpha1.MultidimPodAutoscaler, target mpa.Target) journal.Setup {
	s := journal.Setup{
		Object: o.Namespace + "/" + o.Name, Generation: o.Generation, Target: target,
		Agent: mpa.Spec{Name: o.Spec.Recommender.Algorithm}, Guards: mpa.DefaultGuards(),
		Concurrency: limitSpecOf(o),
	}
	if o.Spec.ScaleTargetRef.Knative() {
		s.Agent.Name = "static" // Knative's autoscaler decides
	}
	s.Guards.MaxAge = collect.MaxAge(o)
	guardByUse(o, &s)
	if o.Spec.Mode == v1alpha1.ModeRecreate {
		s.Guards.CPUChanges = 0 // every change of requests evicts
	}
	if f := o.Spec.Fallback; f != nil {
		s.Fallback = &journal.Fallback{Agent: mpa.Spec{Name: f.Algorithm}, After: 3 * time.Minute}
		if f.After != nil {
			s.Fallback.After = f.After.Duration
		}
	}
	return s
}

// lastID returns the largest id in a status.
func lastID(s *v1alpha1.MultidimPodAutoscalerStatus) int64 {
	id := int64(0)
	if s.Recommendation != nil {
		id = s.Recommendation.ID
	}
	if s.Actuation != nil {
		id = max(id, s.Actuation.ID)
	}
	return id
}

// write applies the recommender's part of the status if it changed in more than numbers, or
// was not written for a while.
func (r *reconciler) write(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, s *object, next *v1alpha1.MultidimPodAutoscalerStatus, now time.Time) error {
	digest := digestOf(next)
	if age := now.Sub(s.written.at); digest == s.written.digest && age >= 0 && age < refreshEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeFor)
	defer cancel()
	err := r.apply(ctx, o, o.ResourceVersion, next)
	for attempt := 0; apierrors.IsConflict(err) && attempt < 3; attempt++ {
		live := &v1alpha1.MultidimPodAutoscaler{}
		if err := r.live.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
			return err
		}
		switch {
		case live.UID != o.UID || live.Generation != o.Generation:
			return err
		case lastID(&live.Status) > s.journaled.id:
			return errForeign
		}
		err = r.apply(ctx, o, live.ResourceVersion, next)
	}
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	s.written.digest, s.written.at = digest, now
	if s.written.recommendation = next.Recommendation; s.written.recommendation != nil {
		s.journaled.id = max(s.journaled.id, s.written.recommendation.ID)
	}
	refused := ""
	if next.Phase == v1alpha1.PhaseRefused {
		c := condition(next, v1alpha1.ConditionActive)
		if refused = c.Reason; refused != s.written.refused {
			r.events.Event(o, corev1.EventTypeWarning, c.Reason, c.Message)
		}
	} else if s.written.refused != "" {
		r.events.Event(o, corev1.EventTypeNormal, "Resumed", "The workload is sized again.")
	}
	s.written.refused = refused
	return nil
}

// apply writes the recommender's fields if the object still has that version.
func (r *reconciler) apply(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, version string, next *v1alpha1.MultidimPodAutoscalerStatus) error {
	patch, err := v1alpha1.StatusPatch(o, next, version)
	if err != nil {
		return err
	}
	return r.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(v1alpha1.OwnerRecommender), client.ForceOwnership)
}

// report publishes a decision as an event and in metrics.
func (r *reconciler) report(o *v1alpha1.MultidimPodAutoscaler, s *object, ob *mpa.Observation, d *mpa.Decision, problems []collect.Problem) {
	key := client.ObjectKeyFromObject(o)
	measured(key, o, ob, d, problems)
	if d.Recommended.Drift != "" {
		r.events.Event(o, corev1.EventTypeNormal, "WorkloadChanged", bounded.Text(d.Recommended.Drift))
	}
	if d.Action != nil {
		r.events.Eventf(o, corev1.EventTypeNormal, "Recommended", "%s instead of what there is: %s", d.Action, d.Reason)
		recommended(key, s.written.recommendation)
	}
}

// micro is a time as a status stores it.
func micro(t time.Time) metav1.MicroTime { return metav1.NewMicroTime(t) }
