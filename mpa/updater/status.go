package updater

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// half of the status that is the updater's.
type half struct {
	actuation  v1alpha1.Actuation
	conditions []metav1.Condition
}

func halfOf(m *v1alpha1.MultidimPodAutoscaler) half {
	h := half{}
	if m.Status.Actuation != nil {
		m.Status.Actuation.DeepCopyInto(&h.actuation)
	}
	for _, c := range m.Status.Conditions {
		if c.Type == v1alpha1.ConditionAble || c.Type == v1alpha1.ConditionResize {
			h.conditions = append(h.conditions, c)
		}
	}
	return h
}

func (h *half) clone() half {
	return half{*h.actuation.DeepCopy(), slices.Clone(h.conditions)}
}

func (u *updater) condition(h *half, m *v1alpha1.MultidimPodAutoscaler, kind string, is bool, reason, message string) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&h.conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: v1alpha1.Text(message),
		ObservedGeneration: m.Generation, LastTransitionTime: metav1.NewTime(u.clock.Now()),
	})
}

// write applies the updater's half of the status where it differs from what was
// written last. With a version it fails if the object is not at that.
func (u *updater) write(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler, o *object, h half, version string) error {
	if version == "" && equality.Semantic.DeepEqual(h.actuation, o.half.actuation) && equality.Semantic.DeepEqual(h.conditions, o.half.conditions) {
		return nil
	}
	status := v1alpha1.MultidimPodAutoscalerStatus{Conditions: h.conditions}
	if h.actuation.ID > 0 {
		status.Actuation = &h.actuation
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return err
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	patch.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("MultidimPodAutoscaler"))
	patch.SetNamespace(m.Namespace)
	patch.SetName(m.Name)
	patch.SetUID(m.UID)
	patch.SetResourceVersion(version)
	if err := u.client.Status().Patch(ctx, patch, client.Apply, client.FieldOwner(v1alpha1.OwnerUpdater), client.ForceOwnership); err != nil {
		return err
	}
	o.half = h.clone()
	u.metrics.states(m.Namespace, m.Name, &h.actuation)
	return nil
}
