package engine

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/revision"
)

// A takenUp is a version of a policy that a role has in force.
type takenUp struct {
	of     key
	object *unstructured.Unstructured
	role   ledger.Role
	digest string
}

// untold are the policies in force that no history has yet.
func (w *watcher) untold() (list []takenUp) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range []string{w.engine.opt.PolicyName, w.engine.opt.CanaryName} {
		of := key{policies, name}
		if k := w.known[of]; k != nil && k.err == nil && k.told != k.object.GetGeneration() {
			list = append(list, takenUp{of, k.object, w.roleOf(name), k.policy.Digest()})
		}
	}
	return list
}

// tellPolicies writes a revision and an event of each policy that was taken up. Of several
// replicas and profiles one writes them: the revision's name is the same for all. It returns
// only errors that may pass.
func (w *watcher) tellPolicies(ctx context.Context) error {
	for _, t := range w.untold() {
		limited, cancel := context.WithTimeout(ctx, syncPatience)
		written, before, err := revision.Record(limited, w.client, revision.Namespace(), t.object, t.digest)
		cancel()
		switch {
		case apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err): // again would fail again
			w.log.Error(err, "The history of a policy lacks a revision", "policy", t.of.name)
		case err != nil && written == nil:
			return err
		case err != nil:
			w.log.Error(err, "The history of a policy is longer than it should be", "policy", t.of.name)
		}
		if written != nil || err != nil {
			w.emitTakenUp(&t, written, before)
		}
		w.mu.Lock()
		if k := w.known[t.of]; k != nil && k.object.GetUID() == t.object.GetUID() {
			k.told = t.object.GetGeneration()
		}
		w.mu.Unlock()
	}
	return nil
}

// emitTakenUp emits the event of a policy that was taken up; written is nil where no revision
// could be written.
func (w *watcher) emitTakenUp(t *takenUp, written, before *revision.Revision) {
	recorder := w.engine.opt.Recorder
	if recorder == nil {
		return
	}
	spec, _ := t.object.Object["spec"].(map[string]any)
	mode, digest := revision.Mode(spec), t.digest
	reason := "PolicyTakenUp"
	if before != nil {
		switch was := before.Mode(); {
		case before.Digest != t.digest:
			reason = "NewDigest"
			digest += fmt.Sprintf(", before it %s in mode %s", before.Digest, was)
		case was != mode:
			reason = "NewMode"
			digest += ", mode before it " + was
		default:
			reason = "NewSettings"
		}
	}
	var related runtime.Object
	text := fmt.Sprintf("Profile %s took generation %d up as %s: mode %s, digest %s", w.engine.opt.Profile, t.object.GetGeneration(), t.role, mode, digest)
	if written != nil {
		related = written.Object()
		text = fmt.Sprintf("Revision %d. %s", written.Number, text)
	}
	recorder.Eventf(t.object, related, v1.EventTypeNormal, reason, "TakeUp", "%s", text)
}
