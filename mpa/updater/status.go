package updater

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// ownStatus is the part of the status that the updater writes.
type ownStatus struct {
	actuation  v1alpha1.Actuation
	conditions []metav1.Condition
}

func ownStatusOf(m *v1alpha1.MultidimPodAutoscaler) ownStatus {
	own := ownStatus{}
	if m.Status.Actuation != nil {
		m.Status.Actuation.DeepCopyInto(&own.actuation)
	}
	for _, c := range m.Status.Conditions {
		if c.Type == v1alpha1.ConditionAble || c.Type == v1alpha1.ConditionResize {
			own.conditions = append(own.conditions, c)
		}
	}
	return own
}

func (own *ownStatus) clone() ownStatus {
	return ownStatus{*own.actuation.DeepCopy(), slices.Clone(own.conditions)}
}

func (u *updater) condition(own *ownStatus, m *v1alpha1.MultidimPodAutoscaler, kind string, is bool, reason, message string) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&own.conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: bounded.Text(message),
		ObservedGeneration: m.Generation, LastTransitionTime: metav1.NewTime(u.clock.Now()),
	})
}

// write applies the updater's part of the status if it differs from the last written one.
// With a version it fails if the object has another one.
func (u *updater) write(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler, o *object, own ownStatus, version string) error {
	if version == "" && equality.Semantic.DeepEqual(own.actuation, o.own.actuation) && equality.Semantic.DeepEqual(own.conditions, o.own.conditions) {
		return nil
	}
	status := v1alpha1.MultidimPodAutoscalerStatus{Conditions: own.conditions}
	if own.actuation.ID > 0 {
		status.Actuation = &own.actuation
	}
	patch, err := v1alpha1.StatusPatch(m, &status, version)
	if err != nil {
		return err
	}
	if err := u.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(v1alpha1.OwnerUpdater), client.ForceOwnership); err != nil {
		return err
	}
	o.own = own.clone()
	u.metrics.states(m.Namespace, m.Name, &own.actuation)
	return nil
}
