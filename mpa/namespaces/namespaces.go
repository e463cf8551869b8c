package namespaces

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/horizontal"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

const (
	// Label of a namespace: Observe makes objects in mode Off, Apply objects that act. As an annotation of a workload
	// with the value Off it excludes the workload. Objects that were made have it, too.
	Label = v1alpha1.GroupName + "/usage"
	// Observe is a value of [Label].
	Observe = "Observe"
	// Apply is a value of [Label].
	Apply = "Apply"
	// Off is a value of [Label], as no label.
	Off = "Off"
	// Server is an annotation of a namespace: the Prometheus, by its name in the recommender's list. Without it, it is "default".
	Server = v1alpha1.GroupName + "/prometheus"

	owner = "sigma-mpa-namespaces"
	// made is an annotation of an object: the digest of the spec that was applied.
	made = v1alpha1.GroupName + "/made"
	// soon is the interval of looks at pods on their way back to their templates.
	soon = 30 * time.Second
)

// Setup adds the controller to a manager. Objects in a namespace that [target.Ignores] are not made.
func Setup(m manager.Manager, own string) error {
	r := &reconciler{Client: m.GetClient(), own: own, events: m.GetEventRecorderFor(owner)} //nolint:staticcheck // as the recommender's
	toNamespace := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetNamespace()}}}
	})
	changed := builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	return ctrl.NewControllerManagedBy(m).Named("mpa-namespaces").
		For(&corev1.Namespace{}, builder.WithPredicates(predicate.Or[client.Object](predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&appsv1.Deployment{}, toNamespace, changed).
		Watches(&appsv1.StatefulSet{}, toNamespace, changed).
		Watches(&v1alpha1.MultidimPodAutoscaler{}, toNamespace, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(r)
}

type reconciler struct {
	client.Client
	own    string // the autoscaler's namespace
	events record.EventRecorder
}

// Reconcile makes the objects of one namespace, changes them, or takes them away.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	ns := &corev1.Namespace{}
	if err := r.Get(ctx, request.NamespacedName, ns); err != nil || ns.DeletionTimestamp != nil || target.Ignores(ns.Name, r.own) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	mode, ok := map[string]v1alpha1.Mode{"": "", Off: "", Observe: v1alpha1.ModeOff, Apply: v1alpha1.ModeInPlace}[ns.Labels[Label]]
	if !ok {
		r.events.Eventf(ns, corev1.EventTypeWarning, "LabelInvalid", "label %s: %q: want %s, %s or %s; nothing changes until then", Label, ns.Labels[Label], Observe, Apply, Off)
		return ctrl.Result{}, nil
	}
	objects, own := &v1alpha1.MultidimPodAutoscalerList{}, map[string]*v1alpha1.MultidimPodAutoscaler{}
	if err := r.List(ctx, objects, client.InNamespace(ns.Name), client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, err
	}
	foreign, taken := map[v1alpha1.TargetReference]bool{}, map[string]bool{}
	for i := range objects.Items {
		if o := &objects.Items[i]; o.Labels[Label] != "" {
			own[o.Name] = o
		} else {
			foreign[o.Spec.ScaleTargetRef], taken[o.Name] = true, true
		}
	}
	if mode == "" && len(own) == 0 {
		return ctrl.Result{}, nil
	}
	workloads, err := r.workloads(ctx, ns.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	var result ctrl.Result
	var failed error // of one workload: the others are served
	for _, w := range workloads {
		name, o := nameOf(w), own[nameOf(w)]
		acts := mode
		if foreign[refOf(w)] || taken[name] || w.Object.GetAnnotations()[Label] == Off || len(containersOf(w)) == 0 {
			acts = ""
		}
		if acts == "" && o == nil {
			continue
		}
		back, err := false, error(nil)
		if acts != v1alpha1.ModeInPlace && o != nil && o.Spec.Mode != v1alpha1.ModeOff { // it has acted
			back, err = r.differs(ctx, w)
		}
		switch {
		case err != nil:
		case back:
			result.RequeueAfter = soon
			err = r.apply(ctx, ns, name, w, o, v1alpha1.AlgorithmTemplate, v1alpha1.ModeInPlaceOrRecreate)
		case acts == "":
			err = client.IgnoreNotFound(r.Delete(ctx, o, client.Preconditions{UID: &o.UID}))
		default:
			err = r.apply(ctx, ns, name, w, o, v1alpha1.AlgorithmUsage, acts)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
		}
	}
	return result, failed
}

// workloads returns a namespace's Deployments and StatefulSets.
func (r *reconciler) workloads(ctx context.Context, namespace string) (list []*target.Workload, err error) {
	deployments, sets := &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}
	for _, of := range []client.ObjectList{deployments, sets} {
		if err := r.List(ctx, of, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
	}
	add := func(o client.Object, template *corev1.PodTemplateSpec, selector *metav1.LabelSelector) {
		if s, invalid := metav1.LabelSelectorAsSelector(selector); invalid == nil && o.GetDeletionTimestamp() == nil {
			list = append(list, &target.Workload{Object: o, Template: template, Selector: s})
		}
	}
	for i := range deployments.Items {
		add(&deployments.Items[i], &deployments.Items[i].Spec.Template, deployments.Items[i].Spec.Selector)
	}
	for i := range sets.Items {
		add(&sets.Items[i], &sets.Items[i].Spec.Template, sets.Items[i].Spec.Selector)
	}
	return list, nil
}

func refOf(w *target.Workload) v1alpha1.TargetReference {
	return v1alpha1.TargetReference{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: w.Ref().Kind, Name: w.Object.GetName()}
}

// nameOf returns the name of a workload's object, at most 63 characters.
func nameOf(w *target.Workload) string {
	name := strings.ToLower(w.Ref().Kind) + "-" + w.Object.GetName()
	if len(name) > 63 {
		name = fmt.Sprintf("%s-%x", strings.TrimRight(name[:54], "-."), sha256.Sum256([]byte(name)))[:63]
	}
	return name
}

// differs reports whether a pod of a workload has other requests than its template, or a HorizontalPodAutoscaler other
// targets than it had.
func (r *reconciler) differs(ctx context.Context, w *target.Workload) (bool, error) {
	pods, err := w.Pods(ctx, r)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(pods, func(p corev1.Pod) bool { return !target.SameRequests(&p.Spec, &w.Template.Spec) }) {
		return true, nil
	}
	list, ref := &autoscalingv2.HorizontalPodAutoscalerList{}, refOf(w)
	if err := r.List(ctx, list, client.InNamespace(w.Object.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.Items, func(h autoscalingv2.HorizontalPodAutoscaler) bool {
		to := h.Spec.ScaleTargetRef
		return horizontal.Converted(&h) && ref.Is(to.APIVersion, to.Kind, to.Name)
	}), nil
}

// containersOf returns the bounds of the containers that request something: a size by use takes the place of a request.
func containersOf(w *target.Workload) (list []v1alpha1.ContainerConstraints) {
	for _, c := range target.Containers(&w.Template.Spec) {
		of := v1alpha1.ContainerConstraints{
			Name:       c.Name,
			MinAllowed: v1alpha1.Amounts{CPU: quantity("10m"), Memory: quantity("32Mi")},
			MaxAllowed: v1alpha1.UpperAmounts{CPU: quantity("1k"), Memory: quantity("64Ti")}, // the agent keeps limits
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q := c.Resources.Requests[name]; !q.IsZero() {
				of.Controlled = append(of.Controlled, name)
			}
		}
		if len(of.Controlled) > 0 && len(list) < 16 {
			list = append(list, of)
		}
	}
	return list
}

func quantity(s string) *resource.Quantity { return new(resource.MustParse(s)) }

// apply writes an object unless it was written so before. Where somebody else has set one of its fields the object stays
// as it is.
func (r *reconciler) apply(ctx context.Context, ns *corev1.Namespace, name string, w *target.Workload, o *v1alpha1.MultidimPodAutoscaler, algorithm string, mode v1alpha1.Mode) error {
	spec := v1alpha1.MultidimPodAutoscalerSpec{
		ScaleTargetRef: refOf(w), Mode: mode,
		Metrics: v1alpha1.Metrics{Usage: v1alpha1.UsagePrometheus, Prometheus: &v1alpha1.Prometheus{Server: cmp.Or(ns.Annotations[Server], "default")}},
		Constraints: v1alpha1.Constraints{
			Replicas: v1alpha1.ReplicaRange{Min: 1, Max: 100_000}, Containers: containersOf(w),
		},
		Recommender: v1alpha1.Recommender{Algorithm: algorithm},
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(text))[:16]
	if o != nil && o.Annotations[made] == digest {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return err
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	patch.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("MultidimPodAutoscaler"))
	patch.SetNamespace(ns.Name)
	patch.SetName(name)
	patch.SetLabels(map[string]string{Label: "namespace"})
	patch.SetAnnotations(map[string]string{made: digest})
	ref := w.Ref()
	patch.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: ref.Kind, Name: ref.Name, UID: ref.UID}})
	err = r.Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(owner))
	if apierrors.IsConflict(err) && o != nil {
		log.FromContext(ctx).Info("An object was edited by somebody else and stays as it is", "object", name, "why", err.Error())
		r.events.Eventf(o, corev1.EventTypeWarning, "Edited", "somebody else has set fields of this object, so the label %s of its namespace changes nothing here; delete the object to have it made again", Label)
		return nil
	}
	return err
}
