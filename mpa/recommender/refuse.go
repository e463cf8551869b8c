package recommender

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
	"github.com/sigma-scheduler/sigma/mpa/horizontal"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

// A refusal is the reason that no decision is made for an object. It ends with the reason.
type refusal struct{ reason, message string }

func refuse(reason, format string, args ...any) *refusal {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// target returns the workload, or the reason that the object is refused.
func (r *reconciler) target(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, s *object) (*target.Workload, *refusal, error) {
	ref := o.Spec.ScaleTargetRef
	if ref.Knative() {
		return r.knativeTarget(ctx, o, s)
	}
	w, err := target.Find(ctx, r.Client, o.Namespace, ref)
	switch {
	case apierrors.IsNotFound(err):
		return nil, refuse("TargetMissing", "there is no %s %s", ref.Kind, ref.Name), nil
	case err != nil:
		return nil, nil, err
	case w.Object.GetDeletionTimestamp() != nil:
		return w, refuse("TargetDeleted", "%s %s is being deleted", ref.Kind, ref.Name), nil
	case w.Replicas == 0:
		return w, refuse("SwitchedOff", "%s %s has 0 replicas; it is sized again when it has some", ref.Kind, ref.Name), nil
	}
	for _, c := range o.Spec.Constraints.Containers {
		if !hasContainer(w, c.Name) {
			return w, refuse("ContainerMissing", "constraints.containers: %s %s has no container %q", ref.Kind, ref.Name, c.Name), nil
		}
	}
	if o.Spec.Mode == v1alpha1.ModeOff {
		return w, nil, nil // another autoscaler may act while it only recommends
	}
	for _, of := range []func(context.Context, *v1alpha1.MultidimPodAutoscaler) (*refusal, error){r.otherMPA, r.horizontal, r.vertical} {
		if no, err := of(ctx, o); no != nil || err != nil {
			return w, no, err
		}
	}
	return w, nil, nil
}

// limits reports whether an object's limit is applied to pods.
func limits(o *v1alpha1.MultidimPodAutoscaler) bool {
	return o.Spec.Mode != v1alpha1.ModeOff && o.Spec.Concurrency != nil && o.Spec.Concurrency.Mode == v1alpha1.ConcurrencyApply && !o.Spec.ScaleTargetRef.Knative()
}

// oneService returns the reason that the limit of an object is not applied: a Service leads to its pods and to those
// of an older object whose limit is applied. Requests that one keeps out reach the other, and neither learns from
// that. Empty = it is applied.
func (r *reconciler) oneService(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, w *target.Workload) (string, error) {
	if !limits(o) {
		return "", nil
	}
	list := &v1alpha1.MultidimPodAutoscalerList{}
	if err := r.List(ctx, list, client.InNamespace(o.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return "", err
	}
	services := &corev1.ServiceList{}
	if err := r.List(ctx, services, client.InNamespace(o.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return "", err
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID == o.UID || other.DeletionTimestamp != nil || !limits(other) || !v1alpha1.Older(other, o) {
			continue
		}
		if other.Status.Phase == v1alpha1.PhaseRefused || other.Status.Concurrency == nil {
			continue // its limit is not applied now
		}
		pods, err := target.Find(ctx, r.Client, o.Namespace, other.Spec.ScaleTargetRef)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		for j := range services.Items {
			selector := labels.SelectorFromSet(services.Items[j].Spec.Selector)
			if !selector.Empty() && selector.Matches(labels.Set(w.Template.Labels)) && selector.Matches(labels.Set(pods.Template.Labels)) {
				ref := &other.Spec.ScaleTargetRef
				return fmt.Sprintf("Service %s also leads to the pods of %s %s, to which MultidimPodAutoscaler %s, which is older, applies one",
					services.Items[j].Name, ref.Kind, ref.Name, other.Name), nil
			}
		}
	}
	return "", nil
}

func hasContainer(w *target.Workload, name string) bool {
	return slices.ContainsFunc(target.Containers(&w.Template.Spec), func(c *corev1.Container) bool { return c.Name == name })
}

// otherMPA refuses where an older object has the same target.
func (r *reconciler) otherMPA(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler) (*refusal, error) {
	list := &v1alpha1.MultidimPodAutoscalerList{}
	if err := r.List(ctx, list, client.InNamespace(o.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID != o.UID && other.DeletionTimestamp == nil && other.Spec.Mode != v1alpha1.ModeOff &&
			other.Spec.ScaleTargetRef == o.Spec.ScaleTargetRef && v1alpha1.Older(other, o) {
			return refuse("OtherMPA", "MultidimPodAutoscaler %s, which is older, has the same target", other.Name), nil
		}
	}
	return nil, nil
}

// horizontal refuses where a HorizontalPodAutoscaler has the same target, unless the algorithm leaves the replicas to it.
func (r *reconciler) horizontal(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler) (*refusal, error) {
	list, err := horizontal.Of(ctx, r, o)
	if err != nil || len(list) == 0 || o.ByUse() {
		return nil, err
	}
	return refuse("HorizontalPodAutoscaler", "HorizontalPodAutoscaler %s has the same target; delete one of the two", list[0].Name), nil
}

// vertical refuses where a VerticalPodAutoscaler of the target does more than recommend.
func (r *reconciler) vertical(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler) (*refusal, error) {
	list, err := r.vpas.List(ctx, o.Namespace)
	if errors.Is(err, collect.ErrBusy) {
		return nil, err
	}
	if err != nil {
		return refuse("VerticalPodAutoscalersUnknown", "it is unknown whether a VerticalPodAutoscaler has the same target: %v", err), nil
	}
	for _, v := range list {
		at := func(path ...string) string {
			s, _, _ := unstructured.NestedString(v.Object, append([]string{"spec"}, path...)...)
			return s
		}
		if at("updatePolicy", "updateMode") != "Off" && o.Spec.ScaleTargetRef.Is(at("targetRef", "apiVersion"), at("targetRef", "kind"), at("targetRef", "name")) {
			return refuse("VerticalPodAutoscaler", "VerticalPodAutoscaler %s has the same target; delete one of the two, or set its updateMode to Off", v.GetName()), nil
		}
	}
	return nil, nil
}

// A lister lists the VerticalPodAutoscalers of a namespace.
type lister interface {
	List(ctx context.Context, namespace string) ([]unstructured.Unstructured, error)
}

// vpas lists them in a cluster that may not have the kind, or get it later.
type vpas struct {
	cache  cache.Cache
	mapper meta.RESTMapper
	clock  clock.PassiveClock

	mu      sync.Mutex
	asked   time.Time
	informs cache.Informer // nil = the kind is not installed
}

var vpaKind = schema.GroupVersionKind{Group: "autoscaling.k8s.io", Version: "v1", Kind: "VerticalPodAutoscaler"}

const (
	// lookEvery is the interval at which the API server is queried for the kind.
	lookEvery = 30 * time.Second
	// listFor is the timeout of the first list.
	listFor = 10 * time.Second
)

// List implements lister.
func (v *vpas) List(ctx context.Context, namespace string) ([]unstructured.Unstructured, error) {
	informs, err := v.look(ctx)
	switch {
	case err != nil || informs == nil:
		return nil, err
	case !informs.HasSynced() && v.clock.Since(v.asked) < listFor:
		return nil, collect.ErrBusy
	case !informs.HasSynced():
		return nil, fmt.Errorf("the list does not arrive; may this program list and watch verticalpodautoscalers.%s?", vpaKind.Group)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(vpaKind.GroupVersion().WithKind(vpaKind.Kind + "List"))
	if err := v.cache.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	return slices.Clip(list.Items), nil
}

func (v *vpas) look(ctx context.Context) (cache.Informer, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.clock.Now()
	if v.informs != nil || !v.asked.IsZero() && now.Sub(v.asked).Abs() < lookEvery {
		return v.informs, nil
	}
	_, err := v.mapper.RESTMapping(vpaKind.GroupKind(), vpaKind.Version)
	if meta.IsNoMatchError(err) {
		v.asked = now
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(vpaKind)
	if v.informs, err = v.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err == nil {
		v.asked = now
	}
	return v.informs, err
}
