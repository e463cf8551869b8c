package updater

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/knative"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

const (
	// knativeSoon is the time to the next reconcile of a Service with a change under way,
	// knativeLater of one without, and knativeSweep of the search for Services whose object is
	// deleted.
	knativeSoon  = 5 * time.Second
	knativeLater = 15 * time.Second
	knativeSweep = time.Minute
	// knativeWindows of a minute have to be learned from before anything is tried.
	knativeWindows = 3
	// changeRevision and changeTarget are dimensions in the metrics, in addition to those of
	// recommendations.
	changeRevision = "Revision"
	changeTarget   = "Target"
)

// knatives applies the learned settings of Knative Services. It decides by [knative.Decide], reads
// Services and Revisions from the API server, and has no state of its own.
type knatives struct{ *updater }

// Reconcile looks at the Service of one object.
func (k *knatives) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if target.Ignores(request.Namespace, k.Namespace) {
		return reconcile.Result{}, nil
	}
	m := &v1alpha1.MultidimPodAutoscaler{}
	err := k.client.Get(ctx, request.NamespacedName, m)
	var again time.Duration
	switch {
	case apierrors.IsNotFound(err), err == nil && m.DeletionTimestamp != nil:
		again, err = k.sweep(ctx, client.InNamespace(request.Namespace), client.MatchingLabels{knative.Annotation: request.Name})
	case err != nil:
	case m.Spec.ScaleTargetRef.Knative():
		again, err = k.step(ctx, m)
	}
	switch {
	case apierrors.IsConflict(err): // another writer was first
		return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
	case apierrors.IsNotFound(err): // it was deleted between reading and writing
		return reconcile.Result{RequeueAfter: knativeSoon}, nil
	case errors.Is(err, errForbidden):
		return reconcile.Result{}, nil // sweeps reports it
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// step does the next step for an object's Service, and reports it.
func (k *knatives) step(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler) (time.Duration, error) {
	u := knative.New(knative.ServiceKind)
	err := k.direct.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ScaleTargetRef.Name}, u)
	if reason, why := unreadable(m, err); reason != "" {
		return knativeLater, k.say(ctx, m, &knative.Action{Refused: reason, Reason: why}, "")
	}
	if err != nil {
		return 0, err
	}
	state, err := knative.StateOf(u)
	if err != nil {
		return knativeLater, k.say(ctx, m, &knative.Action{Refused: "AnnotationInvalid", Reason: fmt.Sprintf("Service %s: %v; nothing is written until it is mended or removed", u.GetName(), err)}, "")
	}
	v, err := knative.Read(u)
	if err != nil {
		return knativeLater, k.say(ctx, m, &knative.Action{State: state, Refused: "TargetInvalid", Reason: fmt.Sprintf("Service %s: %v", u.GetName(), err)}, "")
	}
	seen, err := k.see(ctx, m, u, v, state.Target)
	if err != nil {
		return 0, err
	}
	a := knative.Decide(k.Canary, state, seen)
	if a.Refused == "" && !state.UnderWay() && !state.Trying() && a.Stage != knative.Back && a.Patch == nil {
		if other, err := k.older(ctx, m); err != nil {
			return 0, err
		} else if other != "" {
			a = knative.Action{State: state, Refused: "OtherMPA", Reason: fmt.Sprintf("MultidimPodAutoscaler %s, which is older, has the same target", other)}
		}
	}
	canary := ""
	if a.State.Phase == knative.Canary && seen.Service.Created.Name != a.State.Stable {
		canary = seen.Service.Created.Name
	}
	if err := k.carry(ctx, m, u, seen, &a); err != nil {
		if !refusedByServer(err) {
			return 0, err
		}
		return knativeLater, k.say(ctx, m, &knative.Action{State: state, Refused: "ServiceRefused", Reason: err.Error()}, canary)
	}
	again := knativeLater
	if a.State.UnderWay() || a.Stage != "" || a.State.Trying() {
		again = knativeSoon
	}
	return again, k.say(ctx, m, &a, canary)
}

// unreadable returns the reason that a Service cannot be read, if that is no failure of this
// program.
func unreadable(m *v1alpha1.MultidimPodAutoscaler, err error) (reason, why string) {
	name := m.Spec.ScaleTargetRef.Name
	switch {
	case meta.IsNoMatchError(err) || runtime.IsNotRegisteredError(err):
		return "KnativeMissing", fmt.Sprintf("the cluster does not know %s; is Knative Serving installed?", knative.ServiceKind.GroupVersion())
	case apierrors.IsNotFound(err):
		why := fmt.Sprintf("there is no Service %s of %s, or the cluster does not know the kind", name, v1alpha1.Knative)
		if s := m.Status.Knative; s != nil && s.Phase == string(knative.Canary) {
			why += "; it went while Revision " + cmp.Or(s.Canary, "of ours") + " was under way, and nothing is left to take back"
		}
		return "TargetMissing", why
	case apierrors.IsForbidden(err):
		return "KnativeForbidden", err.Error() + "; is the component knative of the autoscaler installed?"
	}
	return "", ""
}

// refusedByServer reports whether another attempt with the same content would fail too.
func refusedByServer(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

// see reads the input of a decision.
func (k *knatives) see(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler, u *unstructured.Unstructured, v knative.Service, of *knative.Target) (*knative.Seen, error) {
	var err error
	for _, r := range []*knative.Revision{&v.Created, &v.Ready} {
		if *r, err = k.revision(ctx, u.GetNamespace(), r.Name); err != nil {
			return nil, err
		}
	}
	seen := &knative.Seen{Now: k.clock.Now().UTC().Truncate(time.Microsecond), Service: v}
	if of != nil {
		r, err := k.revision(ctx, u.GetNamespace(), of.Revision)
		if err != nil {
			return nil, err
		}
		if r.Version != "" && r.Service == u.GetName() { // a copied Service has the state of another
			seen.Target = &r
		}
	}
	if m == nil {
		return seen, nil
	}
	seen.Object, seen.UID, seen.MaxAge = m.Name, string(m.UID), maxAge(m)
	s, c := &m.Status, m.Spec.Concurrency
	switch {
	case u.GetDeletionTimestamp() != nil:
		seen.Off = "the Service is being deleted"
	case m.Spec.Mode == v1alpha1.ModeOff:
		seen.Off = "mode Off writes nothing"
	case c == nil || c.Mode != v1alpha1.ConcurrencyApply:
		seen.Off = "only concurrency.mode Apply writes to the Service"
	case s.Phase == v1alpha1.PhaseRefused:
		seen.Off, seen.Passing = "the recommender refuses the object", true
		if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionActive); c != nil && c.Message != "" {
			seen.Off += ": " + c.Message
		}
	}
	if c != nil {
		seen.Least = int64(c.Min)
	}
	if seen.Learned = learned(m); s.Concurrency != nil {
		seen.Trial = s.Concurrency.Trial
	}
	return seen, nil
}

// learned returns the knowledge of a pod by the status; nil = nothing yet for the present
// spec.
func learned(m *v1alpha1.MultidimPodAutoscaler) *knative.Learned {
	l := m.Status.Concurrency
	if l == nil || m.Spec.Concurrency == nil || m.Status.ObservedGeneration != m.Generation || l.Windows < knativeWindows || l.Limit <= 0 || l.RatePerPod == nil || l.Demand == nil {
		return nil
	}
	return &knative.Learned{
		Setting: knative.SettingOf(int(l.Limit), l.RatePerPod.AsApproximateFloat64()),
		Demand:  l.Demand.Value.Seconds(),
	}
}

// revision reads a Revision; one that does not exist has no fields.
func (k *knatives) revision(ctx context.Context, namespace, name string) (knative.Revision, error) {
	if name == "" {
		return knative.Revision{}, nil
	}
	u := knative.New(knative.RevisionKind)
	if err := k.direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, u); err != nil {
		return knative.Revision{Name: name, Failed: "it is not there"}, client.IgnoreNotFound(err)
	}
	return knative.ReadRevision(u)
}

// older returns the name of an older object with the same target.
func (k *knatives) older(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler) (string, error) {
	list := &v1alpha1.MultidimPodAutoscalerList{}
	if err := k.client.List(ctx, list, client.InNamespace(m.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return "", err
	}
	for i := range list.Items {
		o := &list.Items[i]
		if o.Name != m.Name && o.DeletionTimestamp == nil && o.Spec.Mode != v1alpha1.ModeOff && o.Spec.ScaleTargetRef == m.Spec.ScaleTargetRef && v1alpha1.Older(o, m) {
			return o.Name, nil
		}
	}
	return "", nil
}

// carry writes an action to the Service or the Revision that it was decided for.
func (k *knatives) carry(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler, u *unstructured.Unstructured, seen *knative.Seen, a *knative.Action) error {
	if a.Patch != nil {
		return k.patch(ctx, u.GetNamespace(), seen.Target, a)
	}
	if !a.Write {
		return nil
	}
	next, err := knative.Write(u, a)
	if err != nil {
		return err
	}
	if err := k.client.Update(ctx, next, client.FieldOwner(v1alpha1.OwnerUpdater)); err != nil {
		if before, _ := knative.StateOf(u); refusedByServer(err) && before.Phase == knative.Canary && a.Fields != nil {
			// The way back of the requests does not wait for that of the template.
			log.FromContext(ctx).Error(err, "The template of a Knative Service is left as it is, the traffic goes back", "service", u.GetName())
			a.Fields = nil
			return k.carry(ctx, m, u, seen, a)
		}
		return fmt.Errorf("write Service %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	log.FromContext(ctx).Info("Wrote a Knative Service", "service", u.GetName(), "phase", a.State.Phase, "target", a.Stage, "why", a.Reason)
	if m == nil || a.Drop || a.Quiet {
		return nil
	}
	change, now := changeRevision, string(a.State.Phase)
	if a.Stage != "" {
		change, now = changeTarget, string(a.Stage)
	}
	k.metrics.actions.WithLabelValues(change, now).Inc()
	kind := corev1.EventTypeNormal
	if a.Stage == knative.Back && !a.State.Target.Few || a.Stage == "" && (a.State.Phase == knative.Restoring || a.State.Phase == knative.RolledBack) {
		kind = corev1.EventTypeWarning
	}
	reason := "Knative" + now
	if a.Stage != "" {
		reason = "KnativeTarget" + now
	}
	k.events.Eventf(m, kind, reason, "Service %s: %s", u.GetName(), a.Reason)
	return nil
}

// patch writes metric and target of a Revision, if it is as it was read.
func (k *knatives) patch(ctx context.Context, namespace string, r *knative.Revision, a *knative.Action) error {
	text, err := knative.Patch(r, a.Patch)
	if err != nil {
		return err
	}
	u := knative.New(knative.RevisionKind)
	u.SetNamespace(namespace)
	u.SetName(r.Name)
	if err := k.client.Patch(ctx, u, client.RawPatch(types.MergePatchType, text), client.FieldOwner(v1alpha1.OwnerUpdater)); err != nil {
		return fmt.Errorf("write Revision %s/%s: %w", namespace, r.Name, err)
	}
	log.FromContext(ctx).Info("Wrote a Knative Revision", "revision", r.Name, "target", a.Stage, "why", a.Reason)
	return nil
}

// say writes the updater's part of the status if it has changed.
func (k *knatives) say(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler, a *knative.Action, canary string) error {
	s := &a.State
	phase := string(cmp.Or(s.Phase, knative.Observing))
	next := &v1alpha1.KnativeStatus{Phase: phase, Stable: s.Stable, Canary: canary, Limit: int32(s.Ours.Limit), Reason: bounded.Text(a.Reason)}
	if !s.Since.IsZero() {
		next.Since = new(metav1.NewMicroTime(s.Since))
		next.Target = new(resource.MustParse(s.Ours.Target()))
	}
	switch s.Phase {
	case knative.Canary:
		next.Summary = fmt.Sprintf("canary of %s at %d %%", cmp.Or(canary, s.Stable), s.Percent())
	case knative.Restoring:
		next.Summary = "taken back: " + s.Reason
	case knative.Promoted:
		next.Summary = "promoted: " + s.Reason
	case knative.RolledBack:
		next.Summary = "rolled back: " + s.Reason
	default:
		next.Summary = "observing"
		if l := learned(m); l != nil && m.Spec.Concurrency.Mode != v1alpha1.ConcurrencyObserve {
			next.Limit, next.Target = int32(l.Limit), new(resource.MustParse(l.Target()))
			next.Summary = fmt.Sprintf("recommends %d at once, %s requests/s a pod", l.Limit, l.Target())
		}
	}
	if g := s.Target; g != nil && !s.UnderWay() && g.Stage != knative.Back {
		next.Limit, next.Target = int32(g.Limit), new(resource.MustParse(knative.Setting{Rate: g.Tried}.Target()))
		next.Summary = fmt.Sprintf("target of %s: %s", g.Revision, g.Reason)
		if g.Stage == knative.Kept {
			next.Target = new(resource.MustParse(knative.Setting{Rate: g.Rate}.Target()))
		}
	}
	if a.Refused != "" && !s.UnderWay() {
		next.Phase, next.Summary = "Refused", "refused: "+a.Refused
	}
	next.Summary = bounded.Text(next.Summary)
	status := &v1alpha1.MultidimPodAutoscalerStatus{Knative: next}
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionAble); c != nil {
		status.Conditions = append(status.Conditions, *c)
	}
	able := metav1.Condition{Type: v1alpha1.ConditionAble, Status: metav1.ConditionTrue, Reason: phase, Message: next.Reason, ObservedGeneration: m.Generation}
	if a.Refused != "" {
		able.Status, able.Reason = metav1.ConditionFalse, a.Refused
	}
	changed := meta.SetStatusCondition(&status.Conditions, able)
	if before := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionAble); a.Refused != "" && (before == nil || before.Reason != a.Refused) {
		k.events.Event(m, corev1.EventTypeWarning, a.Refused, bounded.Text(a.Reason))
	}
	if !changed && equality.Semantic.DeepEqual(m.Status.Knative, next) {
		return nil
	}
	patch, err := v1alpha1.StatusPatch(m, status, "")
	if err != nil {
		return err
	}
	return k.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(v1alpha1.OwnerUpdater), client.ForceOwnership)
}

// sweep takes back changes under way in Services whose object is deleted. It returns the time to the
// next sweep; 0 = nothing remains.
func (k *knatives) sweep(ctx context.Context, of ...client.ListOption) (again time.Duration, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: v1alpha1.Knative, Version: "v1", Kind: "ServiceList"})
	err = k.direct.List(ctx, list, of...)
	switch {
	case meta.IsNoMatchError(err) || runtime.IsNotRegisteredError(err) || apierrors.IsNotFound(err):
		return 0, nil // without Knative there are no changes
	case apierrors.IsForbidden(err):
		return 0, fmt.Errorf("%w: %w", errForbidden, err)
	case err != nil:
		return 0, err
	}
	for i := range list.Items {
		u := &list.Items[i]
		left, failed := k.forget(ctx, u)
		if client.IgnoreNotFound(failed) != nil {
			err = errors.Join(err, fmt.Errorf("service %s/%s: %w", u.GetNamespace(), u.GetName(), failed))
			left = true
		}
		if left {
			again = knativeSoon
		}
	}
	return again, err
}

// forget does the next step for a Service whose object is deleted, and reports whether steps remain.
func (k *knatives) forget(ctx context.Context, u *unstructured.Unstructured) (left bool, err error) {
	state, err := knative.StateOf(u)
	if err == nil && state.Phase == "" {
		return false, k.carry(ctx, nil, u, nil, &knative.Action{Write: true, Drop: true, Reason: "the label is without an annotation"})
	}
	var v knative.Service
	if err == nil {
		v, err = knative.Read(u)
	}
	if err != nil { // its owner is unknown; its object reports it
		log.FromContext(ctx).Error(err, "A Service is left alone", "namespace", u.GetNamespace(), "service", u.GetName())
		return false, nil
	}
	if gone, err := k.orphan(ctx, u, &state); err != nil || !gone {
		return false, err
	}
	seen, err := k.see(ctx, nil, u, v, state.Target)
	if err != nil {
		return true, err
	}
	a := knative.Forget(k.Canary, state, seen)
	err = k.carry(ctx, nil, u, seen, &a)
	return !a.Drop, err
}

// errForbidden is returned if Services may not be listed.
var errForbidden = errors.New("listing Knative Services is forbidden")

// orphan reports whether the object that wrote to a Service does not exist, by the API server, or
// has another target: the Service may be a copy.
func (k *knatives) orphan(ctx context.Context, u *unstructured.Unstructured, state *knative.State) (bool, error) {
	m := &v1alpha1.MultidimPodAutoscaler{}
	err := k.direct.Get(ctx, types.NamespacedName{Namespace: u.GetNamespace(), Name: state.Object}, m)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && (string(m.UID) != state.UID || m.DeletionTimestamp != nil || !m.Spec.ScaleTargetRef.Knative() || m.Spec.ScaleTargetRef.Name != u.GetName()), err
}

// sweeps searches such Services, now and every minute: their object may have been deleted while no
// updater ran.
func (k *knatives) sweeps(ctx context.Context) error {
	forbidden := false
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		_, err := k.sweep(ctx, client.HasLabels{knative.Annotation})
		before := forbidden
		forbidden = errors.Is(err, errForbidden)
		switch {
		case forbidden && !before: // logged once: most clusters have no Knative
			log.FromContext(ctx).Info("What is under way in Knative Services whose object is gone stays; is the component knative of the autoscaler installed?", "why", err.Error())
		case err != nil && !forbidden && ctx.Err() == nil:
			log.FromContext(ctx).Error(err, "Cannot look for Knative Services whose object is gone; the next attempt follows")
		}
	}, knativeSweep)
	return nil
}
