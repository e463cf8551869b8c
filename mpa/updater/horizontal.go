package updater

import (
	"context"
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/horizontal"
	"github.com/sigma-scheduler/sigma/mpa/target"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// convert prepares an object's HorizontalPodAutoscalers for other requests than the template's, or returns the reason not
// to change requests.
func (u *updater) convert(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler, w *workload) (block, error) {
	list, err := horizontal.Of(ctx, u.client, m)
	if err != nil {
		return block{}, err
	}
	if len(list) == 0 || !m.ByUse() || m.Status.Recommendation == nil {
		return block{}, nil
	}
	pods, err := w.pods(ctx, u.client)
	if err != nil {
		return block{}, err
	}
	pod, back := target.WithInjected(&w.Template.Spec, pods), asTemplate(m.Status.Recommendation.Containers, &w.Template.Spec)
	for i := range list {
		h := list[i].DeepCopy()
		changed, err := horizontal.Renew(h, pod)
		if err == nil && !back {
			if why := horizontal.Apart(h); why != "" {
				return block{"HorizontalPodAutoscaler", why}, nil
			}
			more := false
			more, err = horizontal.Convert(h, pod)
			changed = changed || more
		}
		if err != nil && !back {
			return block{"HorizontalPodAutoscaler", err.Error()}, nil
		}
		if !changed || err != nil {
			continue
		}
		switch err := u.client.Update(ctx, h, client.FieldOwner(horizontal.Manager)); {
		case apierrors.IsForbidden(err):
			return block{"HorizontalPodAutoscaler", fmt.Sprintf("HorizontalPodAutoscaler %s has targets that are shares of requests, and this program may not convert them: add the component manifests/mpa/usage", h.Name)}, nil
		case err != nil:
			return block{}, err
		}
		u.events.Eventf(m, corev1.EventTypeNormal, "Converted", "HorizontalPodAutoscaler %s: its targets are amounts now, no shares of requests", h.Name)
	}
	return block{}, nil
}

// restore gives an object's HorizontalPodAutoscalers their former targets once all pods have the template's requests and no
// recommendation gives them others.
func (u *updater) restore(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler) error {
	list, err := horizontal.Of(ctx, u.client, m)
	if err != nil || !slices.ContainsFunc(list, func(h autoscalingv2.HorizontalPodAutoscaler) bool { return horizontal.Converted(&h) }) {
		return err
	}
	w, err := target.Find(ctx, u.client, m.Namespace, m.Spec.ScaleTargetRef)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	pods, err := (&workload{Workload: w}).pods(ctx, u.client)
	if err != nil {
		return err
	}
	for i := range pods {
		if !target.SameRequests(&pods[i].Spec, &w.Template.Spec) {
			return nil
		}
	}
	for i := range list {
		h := list[i].DeepCopy()
		if !horizontal.Restore(h) {
			continue
		}
		if err := u.client.Update(ctx, h, client.FieldOwner(horizontal.Manager)); err != nil {
			return client.IgnoreNotFound(err)
		}
		u.events.Eventf(m, corev1.EventTypeNormal, "Restored", "HorizontalPodAutoscaler %s: its targets are shares of requests again", h.Name)
	}
	return nil
}

// asTemplate reports whether recommended requests are those of the template.
func asTemplate(recommended []v1alpha1.ContainerRequests, template *corev1.PodSpec) bool {
	all := target.Containers(template)
	return !slices.ContainsFunc(recommended, func(r v1alpha1.ContainerRequests) bool {
		i := slices.IndexFunc(all, func(c *corev1.Container) bool { return c.Name == r.Name })
		same := func(q *resource.Quantity, name corev1.ResourceName) bool {
			return q == nil || podspec.Milli(q) == podspec.Milli(new(target.Request(all[i], name)))
		}
		return i < 0 || !same(r.CPU, corev1.ResourceCPU) || !same(r.Memory, corev1.ResourceMemory)
	})
}
