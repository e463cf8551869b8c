package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
)

// describe puts the outcome of a step into the status.
func describe(o *v1alpha1.PolicyPilot, out *pilot.Outcome, w *worker) error {
	s := &out.State
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	st := &o.Status
	st.Phase, st.Candidate, st.InForce, st.LastGood, st.Reasons = string(s.Phase), s.Candidate, s.InForce, s.LastGood, out.Reasons
	st.Since, st.Memory, st.Step = &metav1.Time{Time: s.Since.Truncate(time.Second)}, &runtime.RawExtension{Raw: text}, ""
	if s.Rung != (pilot.Rung{}) {
		st.Step = s.Rung.String()
	}
	st.Promised = saving(s.Promised, 0)
	st.Realised = nil
	if l := w.inForce(); l.Digest == s.InForce {
		st.Realised = saving(l.Realised, l.Days)
	}
	return nil
}

func saving(s *pilot.Saving, days int) *v1alpha1.PilotSaving {
	if s == nil {
		return nil
	}
	text := fmt.Sprintf("%.1f %% (%.1f to %.1f)", s.Mean, s.Low, s.High)
	if days > 0 {
		text += fmt.Sprintf(", %d days", days)
	}
	return &v1alpha1.PilotSaving{Percent: s.Mean, Low: s.Low, High: s.High, Days: int32(days), Text: text}
}

// tell writes the status if it differs by more than reasons and time, or if those were not written
// for a while. On a Conflict error, when the object changed meanwhile, nothing is done.
func (r *reconciler) tell(ctx context.Context, o *v1alpha1.PolicyPilot, was *v1alpha1.PolicyPilotStatus, l *loop) error {
	before, err := essence(was)
	if err != nil {
		return err
	}
	after, err := essence(&o.Status)
	if err != nil {
		return err
	}
	now := r.now()
	if bytes.Equal(before, after) && (l == nil || now.Sub(l.told) < tellEvery && !now.Before(l.told)) {
		return nil
	}
	if err := r.client.Status().Update(ctx, o, client.FieldOwner(owner)); err != nil {
		return err
	}
	if l != nil {
		l.told = now
	}
	return nil
}

// essence is a status without the fields that change with every step.
func essence(s *v1alpha1.PolicyPilotStatus) ([]byte, error) {
	s = s.DeepCopy()
	s.Reasons = nil
	if s.Memory != nil {
		var state pilot.State
		if err := json.Unmarshal(s.Memory.Raw, &state); err == nil {
			state.Stepped = time.Time{}
			text, err := json.Marshal(state)
			if err != nil {
				return nil, err
			}
			s.Memory.Raw = text
		}
	}
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == v1alpha1.ConditionMeasured {
			c.Message = ""
		}
	}
	return json.Marshal(s)
}

func set(o *v1alpha1.PolicyPilot, kind string, is bool, reason, message string) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message[:min(len(message), 1<<14)], ObservedGeneration: o.Generation,
	})
}
