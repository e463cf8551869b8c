package admission

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/quotas"
	"github.com/sigma-scheduler/sigma/mpa/sidecar"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

// gate adds a gate to the JSON of a pod if its object requests one. A pod without one gets only
// an annotation with the reason; after another error it is unchanged.
func (h *handler) gate(ctx context.Context, raw []byte, namespace string, o *v1alpha1.MultidimPodAutoscaler) ([]byte, error) {
	c := o.Spec.Concurrency
	if c == nil || c.Pod != v1alpha1.PodSidecar {
		return raw, nil
	}
	var pod v1.Pod
	if err := json.Unmarshal(raw, &pod); err != nil {
		return raw, err
	}
	if sidecar.Has(&pod) { // asked again, after another webhook
		return raw, nil
	}
	gated, err := h.gated(ctx, raw, &pod, namespace, c)
	var no *sidecar.Refused
	switch {
	case err == nil:
		gates.WithLabelValues("injected").Inc()
		return gated, nil
	case !errors.As(err, &no):
		gates.WithLabelValues(resultFailed).Inc()
		return raw, err
	}
	gates.WithLabelValues(no.Reason).Inc()
	var object map[string]any
	if err := utiljson.Unmarshal(raw, &object); err != nil {
		return raw, err
	}
	if err := unstructured.SetNestedField(object, v1alpha1.GateRefused+no.Error(), "metadata", "annotations", v1alpha1.AnnotationGate); err != nil {
		return raw, err
	}
	told, err := json.Marshal(object)
	if err != nil {
		return raw, err
	}
	return told, no
}

func (h *handler) gated(ctx context.Context, raw []byte, pod *v1.Pod, namespace string, c *v1alpha1.Concurrency) ([]byte, error) {
	if h.image == "" {
		return nil, sidecar.Refuse("NoGateImage", "spec.concurrency.pod: the webhook was started without --gate-image")
	}
	place, err := sidecar.Find(&pod.Spec, c.Port)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := utiljson.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	if err := place.Add(object, &pod.Spec, h.image, h.token()); err != nil {
		return nil, err
	}
	gated, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var after v1.Pod
	if err := json.Unmarshal(gated, &after); err != nil {
		return nil, err
	}
	ranges, limits, err := h.bounds(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return gated, room(pod, &after, ranges, limits)
}

// room returns the reason that the namespace would refuse a pod for its gate. The API server
// gives the gate the defaults of a LimitRange, so they count.
func room(before, after *v1.Pod, ranges []v1.LimitRange, limits []v1.ResourceQuota) error {
	all := target.Containers(&after.Spec)
	gate := all[slices.IndexFunc(all, func(c *v1.Container) bool { return c.Name == sidecar.Name })]
	for _, r := range ranges {
		for _, item := range r.Spec.Limits {
			if item.Type != v1.LimitTypeContainer {
				continue
			}
			for _, name := range bothAmounts {
				if _, has := gate.Resources.Limits[name]; has {
					continue
				}
				q, has := item.Default[name]
				if !has {
					continue
				}
				if request := gate.Resources.Requests[name]; q.Cmp(request) < 0 {
					return sidecar.Refuse("LimitRange", "LimitRange %s gives the gate a limit of %s of %s, less than the %s that it requests", r.Name, q.String(), name, request.String())
				}
				gate.Resources.Limits[name] = q
			}
		}
	}
	if inRanges(before, ranges) && !inRanges(after, ranges) {
		return sidecar.Refuse("LimitRange", "a LimitRange of the namespace leaves no room for the gate")
	}
	for i := range limits {
		q := &limits[i]
		if !quotas.Selects(q, after) {
			continue
		}
		if quotas.Exceeded(before, after, q) {
			return sidecar.Refuse("ResourceQuota", "ResourceQuota %s leaves no room for the gate", q.Name)
		}
		for _, name := range bothAmounts {
			_, wanted := q.Status.Hard["limits."+name]
			if _, has := gate.Resources.Limits[name]; wanted && !has {
				return sidecar.Refuse("ResourceQuota", "ResourceQuota %s wants a limit of %s, which the gate has not; a LimitRange can give one", q.Name, name)
			}
		}
	}
	return nil
}
