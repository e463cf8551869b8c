package updater

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/mpa/actuate"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/horizontal"
	"github.com/sigma-scheduler/sigma/mpa/target"
	"github.com/sigma-scheduler/sigma/plugins/evict"
)

type updater struct {
	Options
	client     client.Client
	direct     client.Reader // reads from the API server, not from a cache
	clock      clock.PassiveClock
	evictor    *evict.Evictor
	events     record.EventRecorder
	metrics    *meters
	webhookLag time.Duration // time without evictions after a new size

	mu      sync.Mutex
	objects map[types.NamespacedName]*object
	shared  sharedRoom
}

// An object is the updater's knowledge of a MultidimPodAutoscaler in addition to the cached
// copy. One worker at a time uses it.
type object struct {
	uid types.UID
	// own is the updater's part of the status as last read or written: no other program
	// writes it, and the cache may be behind.
	own ownStatus
	// asked holds the pods whose resize was requested.
	asked map[types.UID]attempt
	// limited has the limits that pods were seen with after the updater had written them.
	limited map[types.UID]string
	// room is the remainder of the quotas after the last refusal, looked the time when they
	// were last read, and warned that of the last event about a refusal.
	room           room
	looked, warned time.Time
	evicted        time.Time // of the last eviction
	// full has the nodes whose pods found no room elsewhere, until all victims had their turn.
	full map[string]bool
}

// Reconcile carries out the recommendation for one object.
func (u *updater) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if target.Ignores(request.Namespace, u.Namespace) {
		return reconcile.Result{}, nil
	}
	m := &v1alpha1.MultidimPodAutoscaler{}
	if err := u.client.Get(ctx, request.NamespacedName, m); err != nil || m.DeletionTimestamp != nil {
		if err == nil || apierrors.IsNotFound(err) {
			u.forget(request.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var after time.Duration
	var err error
	switch {
	case m.Spec.ScaleTargetRef.Knative(): // the controller of those has it
	case m.Spec.Mode == v1alpha1.ModeOff:
		err = errors.Join(u.disable(ctx, m), u.restore(ctx, m))
	case m.Status.Recommendation != nil:
		var o *object
		if o, err = u.object(ctx, m); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		after, err = u.update(ctx, m, o)
	}
	if apierrors.IsConflict(err) { // another writer changed the object first
		u.forget(request.NamespacedName)
		return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	return reconcile.Result{RequeueAfter: after}, client.IgnoreNotFound(err)
}

// disable stops acting on an object: it ends the wait for its pods, removes the updater's
// conditions, and drops the active sizes, which may be too small by the time that the mode
// acts again.
func (u *updater) disable(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler) error {
	defer u.forget(client.ObjectKeyFromObject(m))
	if own := ownStatusOf(m); own.actuation.Sizes == nil && own.actuation.Limit == nil && len(own.conditions) == 0 {
		return nil
	}
	o, err := u.object(ctx, m)
	if err != nil || m.Spec.Mode != v1alpha1.ModeOff {
		return err // the cache will follow
	}
	own := o.own.clone()
	a := &own.actuation
	if a.Outcome == v1alpha1.OutcomePartly && (a.Sizes != nil && a.Sizes.ID == a.ID || a.Limit != nil && a.Limit.ID == a.ID) {
		u.end(m, a, v1alpha1.OutcomeSuperseded, "by mode Off")
	}
	a.Limit, a.Sizes, a.Resized, a.InProgress, a.Deferred, a.Infeasible, own.conditions = nil, nil, 0, 0, 0, 0, nil
	return u.write(ctx, m, o, own, m.ResourceVersion)
}

func (u *updater) object(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler) (*object, error) {
	key := client.ObjectKeyFromObject(m)
	u.mu.Lock()
	o := u.objects[key]
	u.mu.Unlock()
	if o != nil && o.uid == m.UID {
		return o, nil
	}
	if err := u.direct.Get(ctx, key, m); err != nil {
		return nil, err
	}
	o = &object{uid: m.UID, own: ownStatusOf(m), asked: map[types.UID]attempt{}}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.objects[key] = o
	return o, nil
}

func (u *updater) forget(key types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.objects, key)
	u.metrics.forget(key.Namespace, key.Name)
}

// update does the next step and writes the result. It returns the time to the next reconcile;
// 0 = at the next event.
func (u *updater) update(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler, o *object) (time.Duration, error) {
	w, block, err := u.target(ctx, m)
	if err != nil {
		return 0, err
	}
	own := o.own.clone()
	a := &own.actuation
	if m.Status.Recommendation.ID > a.ID {
		if err := u.direct.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return 0, err
		}
		if m.UID != o.uid || m.DeletionTimestamp != nil || m.Spec.Mode == v1alpha1.ModeOff || m.Status.Recommendation == nil {
			return 0, nil // the cache will follow
		}
		if err := u.begin(ctx, m, o, &own, w, block); err != nil {
			return 0, err
		}
	}
	var after time.Duration
	var failed error
	switch {
	case block.why != "":
		if a.Outcome == v1alpha1.OutcomePartly {
			u.end(m, a, v1alpha1.OutcomeRefused, block.why)
		}
		u.noPods(m, &own)
	default:
		if a.Outcome == v1alpha1.OutcomePartly && a.From > 0 {
			failed = u.scale(ctx, m, a, w)
		}
		if failed == nil {
			after, failed = u.follow(ctx, m, o, &own, w)
		}
		if failed == nil {
			failed = u.limit(ctx, m, o, &own, w)
		}
		if failed == nil && asTemplate(m.Status.Recommendation.Containers, &w.Template.Spec) {
			failed = u.restore(ctx, m)
		}
	}
	if w != nil && w.short && after == 0 {
		after = evictionWait // events are not watched
	}
	u.able(m, &own, w, block, failed)
	return after, errors.Join(failed, u.write(ctx, m, o, own, ""))
}

// A block is a reason not to act on an object.
type block struct{ reason, why string }

// target returns the workload of an object, and the reason not to change it.
func (u *updater) target(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler) (*workload, block, error) {
	ref := m.Spec.ScaleTargetRef
	w, err := u.workloadOf(ctx, m)
	switch {
	case apierrors.IsNotFound(err):
		return nil, block{"TargetNotFound", fmt.Sprintf("there is no %s %s", ref.Kind, ref.Name)}, nil
	case err != nil:
		return nil, block{}, err
	case w.Object.GetDeletionTimestamp() != nil:
		return nil, block{"TargetNotFound", fmt.Sprintf("%s %s is being deleted", ref.Kind, ref.Name)}, nil
	case w.Replicas == 0:
		return w, block{"SwitchedOff", "0 replicas: the workload is switched off"}, nil
	}
	hpas, err := horizontal.Of(ctx, u.client, m)
	if err != nil {
		return nil, block{}, err
	}
	if len(hpas) > 0 && !m.ByUse() {
		return w, block{"OtherAutoscaler", fmt.Sprintf("HorizontalPodAutoscaler %s has the same target", hpas[0].Name)}, nil
	}
	var others v1alpha1.MultidimPodAutoscalerList
	if err := u.client.List(ctx, &others, client.InNamespace(m.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, block{}, err
	}
	for i := range others.Items {
		other := &others.Items[i]
		if other.Name != m.Name && other.Spec.ScaleTargetRef == ref && other.Spec.Mode != v1alpha1.ModeOff && other.DeletionTimestamp == nil && v1alpha1.Older(other, m) {
			return w, block{"OtherAutoscaler", fmt.Sprintf("MultidimPodAutoscaler %s, which is older, has the same target", other.Name)}, nil
		}
	}
	if m.Status.Phase == v1alpha1.PhaseRefused {
		why := "the recommender refuses the object"
		if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionActive); c != nil && c.Message != "" {
			why += ": " + c.Message
		}
		return w, block{"RecommenderRefused", why}, nil
	}
	b, err := u.convert(ctx, m, w)
	return w, b, err
}

// begin starts to carry out a new recommendation: it records the start, or the reason for
// none. m is the API server's version of the object.
func (u *updater) begin(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler, o *object, own *ownStatus, w *workload, b block) error {
	rec, now, a := m.Status.Recommendation, u.clock.Now(), &own.actuation
	if m.Status.Actuation != nil && m.Status.Actuation.ID > a.ID {
		return apierrors.NewConflict(v1alpha1.Resource("multidimpodautoscalers"), m.Name, errors.New("another updater works on it"))
	}
	if a.Outcome == v1alpha1.OutcomePartly {
		u.end(m, a, v1alpha1.OutcomeSuperseded, fmt.Sprintf("by recommendation %d", rec.ID))
	}
	a.ID, a.Outcome, a.Message, a.From, a.Time = rec.ID, v1alpha1.OutcomePartly, "", 0, metav1.NewMicroTime(now)
	at := counted(rec, now)
	a.Scalings, a.Resizes = lastHour(a.Scalings, at.Time, now), lastHour(a.Resizes, at.Time, now)
	age, most := now.Sub(rec.Time.Time), maxAge(m)
	var outcome v1alpha1.Outcome
	var why string
	switch {
	case age > most:
		outcome, why = v1alpha1.OutcomeExpired, fmt.Sprintf("decided %v ago, more than %v", age.Round(time.Second), most)
	case age < -most:
		outcome, why = v1alpha1.OutcomeRefused, fmt.Sprintf("decided %v from now: the clocks differ", -age.Round(time.Second))
	case b.why != "":
		outcome, why = v1alpha1.OutcomeRefused, b.why
	case rec.Change == v1alpha1.ChangeReplicas:
		var err error
		if outcome, why, err = u.beginScaling(ctx, m, a, w); err != nil {
			return err
		}
	case rec.Change == v1alpha1.ChangeLimit:
		outcome, why = u.beginLimit(m, a, w)
	default:
		outcome, why = u.beginResizing(m, a, w)
	}
	if outcome != "" {
		u.end(m, a, outcome, why)
	}
	if err := u.write(ctx, m, o, *own, m.ResourceVersion); err != nil {
		return err
	}
	if a.Outcome == v1alpha1.OutcomePartly {
		u.metrics.delay.WithLabelValues(string(rec.Change)).Observe(max(0, age.Seconds()))
	}
	return nil
}

func (u *updater) beginScaling(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler, a *v1alpha1.Actuation, w *workload) (v1alpha1.Outcome, string, error) {
	rec := m.Status.Recommendation
	from, err := actuate.Replicas(ctx, u.client, w.Object)
	if err != nil {
		return "", "", err
	}
	to := within(m)
	switch {
	case rec.Replicas < 1:
		return v1alpha1.OutcomeRefused, fmt.Sprintf("%d replicas: want at least 1", rec.Replicas), nil
	case from == 0:
		return v1alpha1.OutcomeRefused, "0 replicas: the workload is switched off", nil
	case from == to:
		return v1alpha1.OutcomeApplied, fmt.Sprintf("there are %d replicas already", to), nil
	case rec.From > 0 && from != rec.From:
		return v1alpha1.OutcomeSuperseded, actuate.ChangedError{From: rec.From, To: from}.Error(), nil
	case to < from && len(a.Scalings) >= u.Scalings:
		return v1alpha1.OutcomeRefused, fmt.Sprintf("%d changes of replicas within an hour", len(a.Scalings)), nil
	}
	a.From, a.Scalings = from, append(a.Scalings, counted(rec, a.Time.Time))
	return "", "", nil
}

func (u *updater) beginResizing(m *v1alpha1.MultidimPodAutoscaler, a *v1alpha1.Actuation, w *workload) (v1alpha1.Outcome, string) {
	rec := m.Status.Recommendation
	want, err := actuate.Wanted(rec.Containers, actuate.Constraints(m))
	switch {
	case err != nil:
		return v1alpha1.OutcomeRefused, err.Error()
	case len(want) == 0:
		return v1alpha1.OutcomeRefused, "no container of the constraints is recommended anything"
	case m.Spec.Mode == v1alpha1.ModeInitial:
		a.Sizes = nil
		return v1alpha1.OutcomeApplied, "for new pods only"
	case len(a.Resizes) >= u.Resizes && !grows(m, a.Sizes, want):
		return v1alpha1.OutcomeRefused, fmt.Sprintf("%d changes of requests within an hour", len(a.Resizes))
	}
	a.Sizes = &v1alpha1.Sizes{ID: rec.ID, Time: a.Time, Template: actuate.Digest(&w.Template.Spec, rec.Containers), Containers: rec.Containers}
	a.Resizes, a.Evicted = append(a.Resizes, counted(rec, a.Time.Time)), 0
	return "", ""
}

// counted is the time at which a recommendation counts against the hourly limits: the time
// of the decision, as in the recommender, so that both allow the same; at most now.
func counted(rec *v1alpha1.Recommendation, now time.Time) metav1.MicroTime {
	if rec.Time.After(now) {
		return metav1.NewMicroTime(now)
	}
	return rec.Time
}

// lastHour returns the times within the hour before a decision. A time in the future, after
// the clock was set back, counts as now: otherwise it would count for more than an hour.
func lastHour(times []metav1.MicroTime, at, now time.Time) []metav1.MicroTime {
	var list []metav1.MicroTime
	for _, t := range times {
		if t.After(now) {
			t = metav1.NewMicroTime(now)
		}
		if t.After(at.Add(-time.Hour)) {
			list = append(list, t)
		}
	}
	return list
}

func maxAge(m *v1alpha1.MultidimPodAutoscaler) time.Duration {
	if m.Spec.Metrics.MaxAge == nil {
		return 2 * time.Minute // the API server's default
	}
	return m.Spec.Metrics.MaxAge.Duration
}

// within returns the recommended replicas within the present bounds.
func within(m *v1alpha1.MultidimPodAutoscaler) int32 {
	r := m.Spec.Constraints.Replicas
	return max(1, min(r.Max, max(r.Min, m.Status.Recommendation.Replicas)))
}

// scale finishes a change of replicas that was begun.
func (u *updater) scale(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler, a *v1alpha1.Actuation, w *workload) error {
	rec, to := m.Status.Recommendation, within(m)
	if rec.ID != a.ID {
		u.end(m, a, v1alpha1.OutcomeSuperseded, fmt.Sprintf("by recommendation %d", rec.ID))
		return nil
	}
	if age := u.clock.Now().Sub(rec.Time.Time); age > maxAge(m) {
		now, err := actuate.Replicas(ctx, u.client, w.Object)
		switch {
		case err != nil:
			return err
		case now != to:
			u.end(m, a, v1alpha1.OutcomeExpired, fmt.Sprintf("begun, and decided %v ago", age.Round(time.Second)))
			return nil
		}
	}
	err := actuate.Scale(ctx, u.client, w.Object, a.From, to)
	var changed actuate.ChangedError
	switch {
	case err == nil:
		message := fmt.Sprintf("%d → %d replicas", a.From, to)
		if to != rec.Replicas {
			message += fmt.Sprintf(", within the bounds, not %d", rec.Replicas)
		}
		u.end(m, a, v1alpha1.OutcomeApplied, message)
	case errors.As(err, &changed):
		u.end(m, a, v1alpha1.OutcomeSuperseded, err.Error())
	case evict.Passing(err):
		u.metrics.actions.WithLabelValues(string(v1alpha1.ChangeReplicas), "Retried").Inc()
		a.Message = bounded.Text(err.Error())
		return err
	default:
		u.end(m, a, v1alpha1.OutcomeRefused, err.Error())
	}
	return nil
}

// end records the outcome of a recommendation, and counts and reports it once.
func (u *updater) end(m *v1alpha1.MultidimPodAutoscaler, a *v1alpha1.Actuation, outcome v1alpha1.Outcome, message string) {
	change, news := u.conclude(m, a, outcome, message)
	if !news {
		return
	}
	kind := corev1.EventTypeNormal
	if outcome == v1alpha1.OutcomeRefused || outcome == v1alpha1.OutcomeExpired {
		kind = corev1.EventTypeWarning
	}
	u.events.Eventf(m, kind, string(change)+string(outcome), "recommendation %d: %s", a.ID, a.Message)
}

// conclude is end without an event. It returns the dimension of the change, and whether the
// outcome is new.
func (u *updater) conclude(m *v1alpha1.MultidimPodAutoscaler, a *v1alpha1.Actuation, outcome v1alpha1.Outcome, message string) (change v1alpha1.Change, news bool) {
	change = v1alpha1.ChangeReplicas
	if a.Limit != nil && a.Limit.ID == a.ID || m.Status.Recommendation.ID == a.ID && m.Status.Recommendation.Change == v1alpha1.ChangeLimit {
		change = v1alpha1.ChangeLimit
	} else if a.Sizes != nil && a.Sizes.ID == a.ID || m.Status.Recommendation.ID == a.ID && m.Status.Recommendation.Change == v1alpha1.ChangeRequests {
		change = v1alpha1.ChangeRequests
	}
	if news = a.Outcome != outcome; news {
		a.Outcome, a.Time = outcome, metav1.NewMicroTime(u.clock.Now())
		u.metrics.actions.WithLabelValues(string(change), string(outcome)).Inc()
	}
	a.Message = bounded.Text(message)
	return change, news
}

// able sets the condition whether the last recommendation could be carried out.
func (u *updater) able(m *v1alpha1.MultidimPodAutoscaler, own *ownStatus, w *workload, b block, failed error) {
	a, rec := &own.actuation, m.Status.Recommendation
	set := func(is bool, reason, message string) {
		u.condition(own, m, v1alpha1.ConditionAble, is, reason, message)
	}
	switch {
	case b.why != "":
		set(false, b.reason, b.why)
	case failed != nil:
		set(false, "Retrying", failed.Error())
	case a.ID == 0:
		set(false, "InvalidRecommendation", fmt.Sprintf("recommendation %d: ids start at 1", rec.ID))
	case rec.ID < a.ID:
		set(false, "OldRecommendation", fmt.Sprintf("recommendation %d came after %d, which was the last; ids rise", rec.ID, a.ID))
	case a.Outcome == v1alpha1.OutcomeRefused, a.Outcome == v1alpha1.OutcomeExpired:
		set(false, string(a.Outcome), a.Message)
	case w.failing != "":
		set(false, "FailedCreate", w.failing)
	default:
		set(true, string(a.Outcome), a.Message)
	}
}
