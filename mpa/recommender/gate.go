package recommender

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/sidecar"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

// setGate sets whether the pods have the gate that the spec requests: by the workload's template,
// and by the webhook's annotation on the newest pod.
func (r *reconciler) setGate(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, w *target.Workload, next *v1alpha1.MultidimPodAutoscalerStatus) error {
	c := o.Spec.Concurrency
	if c == nil || c.Pod != v1alpha1.PodSidecar {
		return nil
	}
	if before := condition(&o.Status, v1alpha1.ConditionGate); before.Type != "" {
		next.Conditions = append(next.Conditions, before)
	}
	status, reason, message, err := r.gateOf(ctx, o, w)
	if err == nil {
		set(o, next, v1alpha1.ConditionGate, status, reason, "%s", message)
	}
	return err
}

func (r *reconciler) gateOf(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, w *target.Workload) (status metav1.ConditionStatus, reason, message string, err error) {
	pods, err := w.IndexedPods(ctx, r.collector.Client)
	if err != nil {
		return "", "", "", err
	}
	_, err = sidecar.Find(&w.Template.Spec, o.Spec.Concurrency.Port)
	no := &sidecar.Refused{}
	if o.Spec.Mode == v1alpha1.ModeOff {
		no = sidecar.Refuse("ModeOff", "spec.mode is Off: no pod is changed")
	} else if err != nil && !errors.As(err, &no) {
		return "", "", "", err
	}
	if no.Reason != "" {
		return metav1.ConditionFalse, no.Reason, no.Message, nil
	}
	port := o.Spec.Concurrency.Port
	have, others, all, newest := 0, 0, 0, (*corev1.Pod)(nil)
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil {
			continue
		}
		all++
		switch sidecar.Before(p) {
		case "":
		case port:
			have++
		default:
			others++
		}
		if newest == nil || newest.CreationTimestamp.Before(&p.CreationTimestamp) {
			newest = p
		}
	}
	if newest != nil {
		if why, refused := strings.CutPrefix(newest.Annotations[v1alpha1.AnnotationGate], v1alpha1.GateRefused); refused {
			if reason, message, still := stands(newest, port, why); still {
				return metav1.ConditionFalse, reason, "pod " + newest.Name + ": " + message, nil
			}
		}
	}
	switch {
	case all == 0:
		return metav1.ConditionFalse, "NoPods", "there is no pod yet", nil
	case others > 0:
		return metav1.ConditionFalse, "RolloutNeeded", fmt.Sprintf("%d of %d pods have the gate before port %s, and %d before another port; new pods get it", have, all, port, others), nil
	case have < all:
		return metav1.ConditionFalse, "RolloutNeeded", fmt.Sprintf("%d of %d pods have the gate; new pods get it", have, all), nil
	}
	return metav1.ConditionTrue, "Injected", fmt.Sprintf("all %d pods have the gate before port %s", all, port), nil
}

// stands returns the reason that a pod without a gate would be refused one for that port now. A
// reason of the pod may have been for another port; one of its namespace or of the webhook applies
// until there is a newer pod.
func stands(pod *corev1.Pod, port, why string) (reason, message string, still bool) {
	reason, message, _ = strings.Cut(why, ": ")
	if slices.Contains([]string{"NoGateImage", "LimitRange", "ResourceQuota"}, reason) {
		return reason, message, true
	}
	no := &sidecar.Refused{}
	if _, err := sidecar.Find(&pod.Spec, port); !errors.As(err, &no) {
		return "", "", false
	}
	return no.Reason, no.Message, true
}

// announceGate publishes a new reason for which pods have no gate.
func (r *reconciler) announceGate(o *v1alpha1.MultidimPodAutoscaler, next *v1alpha1.MultidimPodAutoscalerStatus) {
	before, now := condition(&o.Status, v1alpha1.ConditionGate), condition(next, v1alpha1.ConditionGate)
	if now.Reason == before.Reason {
		return
	}
	switch now.Status {
	case metav1.ConditionTrue:
		r.events.Event(o, corev1.EventTypeNormal, "GateInjected", now.Message)
	case metav1.ConditionFalse:
		r.events.Event(o, corev1.EventTypeWarning, "GateMissing", now.Reason+": "+now.Message)
	case metav1.ConditionUnknown:
	}
}
