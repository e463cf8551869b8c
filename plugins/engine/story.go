package engine

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/revision"
)

// A takenUp is a version of a policy that is, or was, active in a role.
type takenUp struct {
	of     key
	object *unstructured.Unstructured
	role   ledger.Role
	digest string
}

// untold returns the versions of policies that the history may lack, oldest first.
func (w *watcher) untold() (list []takenUp) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range []string{w.engine.opt.PolicyName, w.engine.opt.CanaryName} {
		if k := w.known[key{policies, name}]; k != nil {
			list = append(list, k.untold...)
		}
	}
	return list
}

// leadsEvery is the interval at which a process that does not lead checks whether it does now.
const leadsEvery = 5 * time.Second

// leads reports whether this process writes the history.
func (w *watcher) leads() bool {
	now := w.engine.opt.Now()
	if w.engine.opt.Leads == nil {
		return true
	}
	if since := now.Sub(w.asked); since >= 0 && since < leadsEvery {
		return false
	}
	if w.engine.opt.Leads() {
		return true
	}
	w.asked = now
	return false
}

// tellPolicies writes a revision and an event of each policy that was activated, if this process leads: the
// policy that a standby would activate, perhaps with the numbers of another version, is active nowhere. Once the
// process leads, it writes earlier ones, unless the former leader did. Of several profiles one writes: the revision's
// name is the same for all. It returns only transient errors.
func (w *watcher) tellPolicies(ctx context.Context) error {
	untold := w.untold()
	if len(untold) == 0 || !w.leads() {
		return nil
	}
	for _, t := range untold {
		limited, cancel := context.WithTimeout(ctx, syncPatience)
		written, before, err := revision.Record(limited, w.client, revision.Namespace(), t.object, t.digest)
		switch {
		case apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err): // a retry would fail again
			w.log.Error(err, "The history of a policy lacks a revision", "policy", t.of.name)
		case err != nil && written == nil:
			cancel()
			return err
		case err != nil:
			w.log.Error(err, "The history of a policy is longer than it should be", "policy", t.of.name)
		}
		if written != nil || err != nil {
			w.emitTakenUp(limited, &t, written, before)
		}
		cancel()
		w.mu.Lock()
		if k := w.known[t.of]; k != nil && k.object.GetUID() == t.object.GetUID() {
			k.untold = slices.DeleteFunc(k.untold, func(u takenUp) bool { return u.object.GetGeneration() <= t.object.GetGeneration() })
		}
		w.mu.Unlock()
	}
	return nil
}

var eventsOf = eventsv1.SchemeGroupVersion.WithResource("events")

// emitTakenUp writes the event of a policy that was activated; written is nil if no revision
// could be written. It does not use the scheduler's recorder, which loses events from before the
// scheduler runs, and joins events of one kind.
func (w *watcher) emitTakenUp(ctx context.Context, t *takenUp, written, before *revision.Revision) {
	spec, _ := t.object.Object["spec"].(map[string]any)
	reason, was := "PolicyTakenUp", ""
	if before != nil {
		switch mode := before.Mode(); {
		case before.Digest != t.digest:
			reason, was = "NewDigest", fmt.Sprintf(", before it %s in mode %s", before.Digest, mode)
		case mode != revision.Mode(spec):
			reason, was = "NewMode", ", mode before it "+mode
		default:
			reason = "NewSettings"
		}
	}
	name, now := t.object.GetName(), w.engine.opt.Now()
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	event := eventsv1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: eventsv1.SchemeGroupVersion.String(), Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s.%x-%d", name[:min(len(name), 200)], now.UnixNano(), t.object.GetGeneration())},
		EventTime:  metav1.NewMicroTime(now), Type: v1.EventTypeNormal, Reason: reason, Action: "TakeUp",
		ReportingController: w.engine.opt.Profile, ReportingInstance: host,
		Regarding: v1.ObjectReference{
			APIVersion: t.object.GetAPIVersion(), Kind: t.object.GetKind(), Name: name, UID: t.object.GetUID(), ResourceVersion: t.object.GetResourceVersion(),
		},
		Note: fmt.Sprintf("Profile %s took generation %d up as %s: mode %s, digest %s%s", w.engine.opt.Profile, t.object.GetGeneration(), t.role, revision.Mode(spec), t.digest, was),
	}
	if written != nil {
		event.Note = fmt.Sprintf("Revision %d. %s", written.Number, event.Note)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&event)
	if err == nil {
		_, err = w.client.Resource(eventsOf).Namespace(event.Namespace).Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{FieldManager: "sigma"})
	}
	if err != nil {
		w.log.Error(err, "An event of a policy is lost", "policy", name)
	}
}
