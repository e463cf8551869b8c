package horizontal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/target"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

const (
	// Annotation of a HorizontalPodAutoscaler whose targets were converted: the former ones.
	Annotation = v1alpha1.GroupName + "/utilization"
	// left is its value once somebody has changed a converted target.
	left = "left alone: its targets were changed"
	// Manager is the field manager of conversions.
	Manager = "sigma-mpa-horizontal"
)

// Of returns the HorizontalPodAutoscalers with an object's target, of a cache whose objects are shared.
func Of(ctx context.Context, cache client.Reader, o *v1alpha1.MultidimPodAutoscaler) ([]autoscalingv2.HorizontalPodAutoscaler, error) {
	list := &autoscalingv2.HorizontalPodAutoscalerList{}
	if err := cache.List(ctx, list, client.InNamespace(o.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(list.Items), func(h autoscalingv2.HorizontalPodAutoscaler) bool {
		to := h.Spec.ScaleTargetRef
		return !o.Spec.ScaleTargetRef.Is(to.APIVersion, to.Kind, to.Name)
	}), nil
}

// A converted is a target of utilization in percent, and the amount for a pod that replaced it.
type converted struct {
	Resource  corev1.ResourceName `json:"resource"`
	Container string              `json:"container,omitempty"` // empty = of the whole pod
	Percent   int32               `json:"percent"`
	Value     resource.Quantity   `json:"value"`
}

// targetOf returns the target of a metric, with its resource and container; nil = it is of no resource.
func targetOf(m *autoscalingv2.MetricSpec) (t *autoscalingv2.MetricTarget, of converted) {
	switch {
	case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil:
		return &m.Resource.Target, converted{Resource: m.Resource.Name}
	case m.Type == autoscalingv2.ContainerResourceMetricSourceType && m.ContainerResource != nil:
		return &m.ContainerResource.Target, converted{Resource: m.ContainerResource.Name, Container: m.ContainerResource.Container}
	}
	return nil, of
}

// isShare reports whether a target is a share of requests.
func isShare(t *autoscalingv2.MetricTarget) bool {
	return t != nil && t.Type == autoscalingv2.UtilizationMetricType && t.AverageUtilization != nil
}

// Apart returns the reason that requests of the pods of h's workload must stay as in the template; empty = they may
// change. A target that is a share of requests and that somebody else owns would change with them, as would one that
// somebody changed after it was converted.
func Apart(h *autoscalingv2.HorizontalPodAutoscaler) string {
	if edited(h) {
		return fmt.Sprintf("the targets of HorizontalPodAutoscaler %s were changed after their conversion; remove its annotation %s to convert them again", h.Name, Annotation)
	}
	for i := range h.Spec.Metrics {
		if t, of := targetOf(&h.Spec.Metrics[i]); isShare(t) {
			if owner := Owner(h); owner != "" {
				return fmt.Sprintf("HorizontalPodAutoscaler %s has a target of %d %% of the requests of %s, and %s owns it; with averageValue in its place requests may change", h.Name, *t.AverageUtilization, of.Resource, owner)
			}
		}
	}
	return ""
}

// edited reports whether a converted target of h is no longer as it was written.
func edited(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	list, ok := recorded(h)
	if !ok {
		return h.Annotations[Annotation] != ""
	}
	return slices.ContainsFunc(list, func(c converted) bool { return !c.in(h) })
}

// Converted reports whether targets of h were converted and not restored.
func Converted(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	_, ok := recorded(h)
	return ok
}

// recorded returns the targets that were converted; ok is false if h has none, or an annotation that is not a list.
func recorded(h *autoscalingv2.HorizontalPodAutoscaler) (list []converted, ok bool) {
	err := json.Unmarshal([]byte(h.Annotations[Annotation]), &list)
	return list, err == nil && len(list) > 0
}

// in reports whether h has the amount as its target.
func (c *converted) in(h *autoscalingv2.HorizontalPodAutoscaler) bool { return c.find(h) != nil }

func (c *converted) find(h *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv2.MetricTarget {
	for i := range h.Spec.Metrics {
		t, of := targetOf(&h.Spec.Metrics[i])
		if t != nil && of.Resource == c.Resource && of.Container == c.Container && t.Type == autoscalingv2.AverageValueMetricType && t.AverageValue != nil && t.AverageValue.Cmp(c.Value) == 0 {
			return t
		}
	}
	return nil
}

// gitOps are labels and annotations by which tools mark the objects that they write.
var gitOps = []string{
	"app.kubernetes.io/managed-by", "meta.helm.sh/release-name", "argocd.argoproj.io/tracking-id", "argocd.argoproj.io/instance",
	"kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name", "config.k8s.io/owning-inventory", "configmanagement.gke.io/managed",
}

// Owner returns the name of a program that owns h's targets, and would write them again; empty = there is none but kubectl.
func Owner(h *autoscalingv2.HorizontalPodAutoscaler) string {
	if c := metav1.GetControllerOf(h); c != nil {
		return c.Kind + " " + c.Name
	}
	for _, key := range gitOps {
		for _, of := range []map[string]string{h.Labels, h.Annotations} {
			if of[key] != "" {
				return fmt.Sprintf("%s (%s)", of[key], key)
			}
		}
	}
	for _, m := range h.ManagedFields {
		if m.FieldsV1 == nil || m.Manager == Manager || m.Subresource != "" || strings.HasPrefix(m.Manager, "kubectl") {
			continue
		}
		if fields := m.FieldsV1.GetRawString(); strings.Contains(fields, `"f:metrics"`) || strings.Contains(fields, `"f:targetCPUUtilizationPercentage"`) {
			return m.Manager
		}
	}
	return ""
}

// Renew sets converted amounts anew after the requests of the template have changed, and reports whether h changed.
func Renew(h *autoscalingv2.HorizontalPodAutoscaler, pod *corev1.PodSpec) (bool, error) {
	list, ok := recorded(h)
	if !ok || edited(h) {
		return false, nil
	}
	changed := false
	for i := range list {
		c := &list[i]
		value, err := c.amount(pod)
		if err != nil {
			return false, fmt.Errorf("HorizontalPodAutoscaler %s: %w", h.Name, err)
		}
		if value.Cmp(c.Value) == 0 {
			continue
		}
		c.find(h).AverageValue, c.Value, changed = new(value), value, true
	}
	if !changed {
		return false, nil
	}
	return true, record(h, list)
}

// record notes converted targets.
func record(h *autoscalingv2.HorizontalPodAutoscaler, list []converted) error {
	text, err := json.Marshal(list)
	if err == nil {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, Annotation, string(text))
	}
	return err
}

// amount is the product of the percentage and a pod's request.
func (c *converted) amount(pod *corev1.PodSpec) (resource.Quantity, error) {
	request, err := requested(pod, *c)
	if err != nil {
		return request, err
	}
	n, percent := podspec.Milli(&request), int64(c.Percent)
	return *resource.NewMilliQuantity(n/100*percent+n%100*percent/100, request.Format), nil
}

// Convert replaces the targets of h that are a share of requests by the same amounts for a pod of a template: the product
// of percentage and request. It reports whether h changed. An error names a container whose request is missing: such a
// target scales nothing.
func Convert(h *autoscalingv2.HorizontalPodAutoscaler, pod *corev1.PodSpec) (bool, error) {
	list, _ := recorded(h)
	was := len(list)
	for i := range h.Spec.Metrics {
		t, of := targetOf(&h.Spec.Metrics[i])
		if !isShare(t) {
			continue
		}
		of.Percent = *t.AverageUtilization
		var err error
		if of.Value, err = of.amount(pod); err != nil {
			return false, fmt.Errorf("HorizontalPodAutoscaler %s: %w", h.Name, err)
		}
		list = append(list, of)
		*t = autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(of.Value)}
	}
	if len(list) == was {
		return false, nil
	}
	return true, record(h, list)
}

// requested is the request of a pod, or of one of its containers, for a resource.
func requested(pod *corev1.PodSpec, of converted) (sum resource.Quantity, err error) {
	found := false
	for _, c := range target.Containers(pod) {
		if of.Container != "" && c.Name != of.Container {
			continue
		}
		q := target.Request(c, of.Resource)
		if q.IsZero() {
			return sum, fmt.Errorf("container %s of the template requests no %s, of which the target is a share", c.Name, of.Resource)
		}
		if !found {
			sum.Format = q.Format
		}
		sum.Add(q)
		found = true
	}
	if !found {
		return sum, fmt.Errorf("the template has no container %s", of.Container)
	}
	return sum, nil
}

// Restore undoes [Convert], and reports whether h changed. Targets that somebody changed since stay as they are, and a note
// in their place keeps h from being converted again.
func Restore(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	list, ok := recorded(h)
	if !ok {
		return false
	}
	changed := edited(h)
	for _, c := range list {
		if t := c.find(h); t != nil {
			*t = autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(c.Percent)}
		}
	}
	if delete(h.Annotations, Annotation); changed {
		h.Annotations[Annotation] = left
	}
	return true
}
