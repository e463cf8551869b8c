package updater

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/mpa/actuate"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/evict"
)

// creationLag is the longest time from a pod's creation until the API server's record of the
// fields that it was created with. Both have whole seconds.
const creationLag = time.Second

// applies reports whether the limit of an object's pods may be written.
func applies(m *v1alpha1.MultidimPodAutoscaler) bool {
	return m.Spec.Concurrency != nil && m.Spec.Concurrency.Mode == v1alpha1.ConcurrencyApply
}

func (u *updater) beginLimit(m *v1alpha1.MultidimPodAutoscaler, a *v1alpha1.Actuation, w *workload) (v1alpha1.Outcome, string) {
	rec := m.Status.Recommendation
	switch {
	case !applies(m):
		return v1alpha1.OutcomeRefused, "spec.concurrency.mode is not Apply"
	case a.Limit != nil && a.Limit.Ended != "":
		return v1alpha1.OutcomeRefused, a.Limit.Ended
	case rec.Limit < m.Spec.Concurrency.Min || rec.Limit > m.Spec.Concurrency.Max:
		return v1alpha1.OutcomeRefused, fmt.Sprintf("a limit of %d: want spec.concurrency.min %d to max %d", rec.Limit, m.Spec.Concurrency.Min, m.Spec.Concurrency.Max)
	}
	next := v1alpha1.LimitInForce{Since: a.Time, Template: w.Template.Annotations[v1alpha1.AnnotationLimit]}
	if a.Limit != nil {
		next = *a.Limit // an edit since then is seen later
	}
	next.ID, next.Time, next.Limit, next.Pods = rec.ID, a.Time, rec.Limit, 0
	a.Limit = &next
	return "", ""
}

// limit gives the pods the active limit, until another writer sets a different one.
func (u *updater) limit(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler, o *object, own *ownStatus, w *workload) error {
	a := &own.actuation
	l := a.Limit
	if l == nil {
		return nil
	}
	if !applies(m) {
		if a.ID == l.ID && a.Outcome == v1alpha1.OutcomePartly {
			u.end(m, a, v1alpha1.OutcomeSuperseded, "spec.concurrency.mode is not Apply any more")
		}
		a.Limit, o.limited = nil, nil
		return nil
	}
	if l.Ended != "" {
		return nil
	}
	pods, err := w.pods(ctx, u.client)
	if err != nil {
		return err
	}
	seen := map[types.UID]string{} // without deleted pods
	for i := range pods {
		if has, ok := o.limited[pods[i].UID]; ok {
			seen[pods[i].UID] = has
		}
	}
	o.limited = seen
	if why := u.edited(o, l, w, pods); why != "" {
		if l.Ended = bounded.Text(why); a.ID == l.ID && a.Outcome == v1alpha1.OutcomePartly {
			u.end(m, a, v1alpha1.OutcomeSuperseded, why)
		}
		u.events.Event(m, corev1.EventTypeWarning, "LimitEnded", why+"; no limit is written until spec.concurrency.mode has been another than Apply")
		return nil
	}
	var failed error
	was, have := "", int32(0)
	for i := range pods {
		p := &pods[i]
		switch has := p.Annotations[v1alpha1.AnnotationLimit]; {
		case p.DeletionTimestamp != nil:
		case has == strconv.Itoa(int(l.Limit)):
			have++
			o.limited[p.UID] = has
		default:
			if err := actuate.Limit(ctx, u.client, p, l.Limit, v1alpha1.OwnerUpdater); err != nil {
				if !apierrors.IsNotFound(err) {
					failed = fmt.Errorf("pod %s: %w", p.Name, err)
				}
				continue
			}
			if was == "" {
				was = cmp.Or(has, "none") + " → "
			}
			have++
		}
	}
	l.Pods = have
	if a.ID != l.ID || a.Outcome != v1alpha1.OutcomePartly {
		return failed // of pods created later
	}
	switch {
	case failed == nil:
		u.end(m, a, v1alpha1.OutcomeApplied, fmt.Sprintf("%s%d requests at once in %d pods", was, l.Limit, have))
	case evict.Passing(failed):
		u.metrics.actions.WithLabelValues(string(v1alpha1.ChangeLimit), "Retried").Inc()
		a.Message = bounded.Text(failed.Error())
		return failed
	default:
		u.end(m, a, v1alpha1.OutcomeRefused, failed.Error())
		if have == 0 {
			a.Limit = nil // the next one begins again
		}
	}
	return nil
}

// edited returns a limit that others set, and by whom; empty = no edit. Initial values and the
// updater's own writes do not count as edits. The template and the time of its creation
// identify a pod's initial values; the program that created it has another name in each
// distribution.
func (u *updater) edited(o *object, l *v1alpha1.LimitInForce, w *workload, pods []corev1.Pod) string {
	if now := w.Template.Annotations[v1alpha1.AnnotationLimit]; now != l.Template {
		return fmt.Sprintf("the template's annotation %s was changed from %q to %q", v1alpha1.AnnotationLimit, l.Template, now)
	}
	for i := range pods {
		p := &pods[i]
		has, seen := p.Annotations[v1alpha1.AnnotationLimit], o.limited[p.UID]
		if p.DeletionTimestamp != nil || has == seen || has == strconv.Itoa(int(l.Limit)) {
			continue
		}
		by, at := actuate.LimitSetBy(p)
		switch {
		case by == v1alpha1.OwnerUpdater:
		case seen == "" && (has == l.Template || !at.After(p.CreationTimestamp.Add(creationLag))):
		case has == "" && seen != "":
			return fmt.Sprintf("pod %s: somebody removed the annotation %s", p.Name, v1alpha1.AnnotationLimit)
		case seen != "" || at.After(l.Since.Time):
			return fmt.Sprintf("pod %s: %s set the annotation %s to %q", p.Name, cmp.Or(by, "somebody"), v1alpha1.AnnotationLimit, has)
		}
	}
	return ""
}
