package recommender

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// setWebhook sets whether new pods get the recommended size, by the reachability of the
// webhook.
func (r *reconciler) setWebhook(o *v1alpha1.MultidimPodAutoscaler, next *v1alpha1.MultidimPodAutoscalerStatus) {
	if r.webhook == nil || o.Spec.Mode == v1alpha1.ModeOff || o.Spec.ScaleTargetRef.Knative() {
		return
	}
	if before := condition(&o.Status, v1alpha1.ConditionWebhook); before.Type != "" { // the knowledge of another process
		next.Conditions = append(next.Conditions, before)
	}
	switch reached, known, why := r.webhook.Reached(); {
	case !known:
	case reached:
		set(o, next, v1alpha1.ConditionWebhook, metav1.ConditionTrue, "Answered", "The webhook answers the API server.")
	default:
		set(o, next, v1alpha1.ConditionWebhook, metav1.ConditionFalse, "NotReached", "%s.", why)
	}
}
