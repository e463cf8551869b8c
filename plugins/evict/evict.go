package evict

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/sigma-scheduler/sigma/plugins/owner"
)

// Kinds are the kinds of workload whose evictions can be recorded. Pods of other kinds are
// not evicted: bare pods, those of DaemonSets, and those of foreign controllers.
var Kinds = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "batch", Version: "v1", Kind: "CronJob"},
}

// A Cluster is what an evictor asks of the API server itself: no cache, which shows the
// records of another process late. Errors are those of the API server.
type Cluster interface {
	// Workload returns one object.
	Workload(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	// Workloads returns all objects of a kind, of those with a label where it is not "".
	Workloads(ctx context.Context, kind schema.GroupVersionKind, label string) ([]metav1.PartialObjectMetadata, error)
	// Patch makes a JSON merge patch of one object, through its status: that takes
	// annotations and no other right over the workload.
	Patch(ctx context.Context, kind schema.GroupVersionKind, namespace, name string, patch []byte) error
	// Evict creates an Eviction.
	Evict(ctx context.Context, e *policyv1.Eviction) error
}

// An Evictor evicts pods one after the other, within its limits.
type Evictor struct {
	cluster Cluster
	limits  Limits
	by      Source
	clock   clock.PassiveClock
	mu      sync.Mutex
}

// New returns an evictor of one source.
func New(c Cluster, by Source, l Limits, now clock.PassiveClock) *Evictor {
	return &Evictor{cluster: c, by: by, limits: l, clock: now}
}

// A RefusedError says that an eviction is not allowed, whatever the limits: by a disruption
// budget, or because of what the pod or its workload is. Nothing was evicted.
type RefusedError struct {
	// Budget is true where a PodDisruptionBudget refuses, which may be over soon.
	Budget bool
	Err    error
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the API server's error, if it was that.
func (e *RefusedError) Unwrap() error { return e.Err }

// ErrGone says that the pod is gone or being deleted, or that another pod has its name.
var ErrGone = errors.New("the pod is gone")

// Passing reports whether an error of the API server may not come again at the next try.
func Passing(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnknown, // the connection, or a proxy
		metav1.StatusReasonConflict, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout,
		metav1.StatusReasonTooManyRequests, metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable:
		return true
	default:
		return false
	}
}

// An UncertainError says that the pod may be evicted or not: the API server's answer was
// lost. The eviction counts.
type UncertainError struct{ Err error }

// Error implements error.
func (e *UncertainError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the call.
func (e *UncertainError) Unwrap() error { return e.Err }

// Evict records an eviction of a pod with its workload and evicts the pod, if its UID is still
// the same. The error is a [LimitError], a [RefusedError], [ErrGone], an [UncertainError], or
// another error of the API server. Only after an UncertainError may the pod be evicted.
func (e *Evictor) Evict(ctx context.Context, pod *v1.Pod) error {
	return e.evict(ctx, pod, e.by, e.limits)
}

// EvictAs evicts as [Evictor.Evict] does, in the name of a source of its own. Of that source at
// most so many pods are evicted within any hour, by whatever process; 0 is no limit.
func (e *Evictor) EvictAs(ctx context.Context, by Source, most int, pod *v1.Pod) error {
	l := e.limits
	l.ofSource = most
	return e.evict(ctx, pod, by, l)
}

// Count returns how many pods were evicted in the name of a source within the last hour, by the
// records. What was evicted of workloads that are gone, it does not know.
func (e *Evictor) Count(ctx context.Context, by Source) (int, error) {
	all, err := e.workloads(ctx)
	return len(recordsOf(all, by)), err
}

// Recent returns whether a pod is of a workload of which a pod was evicted within the last hour,
// or whose records cannot be read.
func (e *Evictor) Recent(ctx context.Context) (func(*v1.Pod) bool, error) {
	all, err := e.workloads(ctx)
	if err != nil {
		return nil, err
	}
	name := func(group, kind, namespace, name string) string {
		return group + "/" + kind + "/" + namespace + "/" + name
	}
	moved := map[string]bool{}
	for _, w := range all {
		moved[name(w.ref.Group, w.ref.Kind, w.namespace, w.ref.Name)] = len(w.records) > 0 || w.broken != nil
	}
	return func(pod *v1.Pod) bool {
		kind, ref, err := recordedAt(pod)
		return err == nil && moved[name(kind.Group, kind.Kind, pod.Namespace, ref.Name)]
	}, nil
}

func recordsOf(all []*workload, by Source) (list []record) {
	for _, w := range all {
		for _, r := range w.records {
			if r.by == by {
				list = append(list, r)
			}
		}
	}
	return list
}

func (e *Evictor) evict(ctx context.Context, pod *v1.Pod, by Source, l Limits) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if pod.DeletionTimestamp != nil {
		return fmt.Errorf("pod %s/%s is being deleted: %w", pod.Namespace, pod.Name, ErrGone)
	}
	kind, ref, err := recordedAt(pod)
	if err != nil {
		return err
	}
	done := record{at: e.clock.Now().UTC().Truncate(time.Second), by: by, node: pod.Spec.NodeName}
	replicas, err := e.write(ctx, kind, pod.Namespace, ref, done, &l)
	if err != nil {
		return err
	}
	if err := e.again(ctx, pod, ref, replicas, by, &l); err != nil {
		return errors.Join(err, e.withdraw(ctx, kind, pod.Namespace, ref, done))
	}
	err = e.cluster.Evict(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	})
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err), apierrors.IsConflict(err):
		err = fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, ErrGone)
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		err = &RefusedError{Budget: true, Err: err}
	case apierrors.IsTooManyRequests(err): // by the API server itself: nothing happened
	case Passing(err):
		return &UncertainError{Err: err}
	default:
		err = &RefusedError{Err: err}
	}
	return errors.Join(err, e.withdraw(ctx, kind, pod.Namespace, ref, done))
}

// recordedAt returns the workload that keeps the records of a pod's evictions: the topmost
// one of a kind that is known, by the names in the pod.
func recordedAt(pod *v1.Pod) (kind schema.GroupVersionKind, ref owner.Ref, err error) {
	ref, ok := owner.Of(pod, nil)
	if !ok {
		return kind, ref, &RefusedError{Err: fmt.Errorf("pod %s/%s has no controller that would replace it", pod.Namespace, pod.Name)}
	}
	of := func(group, name string) bool {
		i := slices.IndexFunc(Kinds, func(k schema.GroupVersionKind) bool { return k.Group == group && k.Kind == name })
		if i >= 0 {
			kind = Kinds[i]
		}
		return i >= 0
	}
	if of(ref.Group, ref.Kind) {
		return kind, ref, nil
	}
	controller := metav1.GetControllerOfNoCopy(pod)
	if group := schema.FromAPIVersionAndKind(controller.APIVersion, controller.Kind); of(group.Group, group.Kind) {
		return kind, owner.Ref{Group: group.Group, Kind: group.Kind, Name: controller.Name, UID: controller.UID}, nil
	}
	return kind, ref, &RefusedError{Err: fmt.Errorf("pod %s/%s belongs to %s, a kind whose evictions are not recorded", pod.Namespace, pod.Name, ref)}
}

// maxTries is how often a record is written again after somebody else changed the workload.
const maxTries = 10

// write adds a record to a workload, where the limits allow it, and returns the workload's
// replicas.
func (e *Evictor) write(ctx context.Context, kind schema.GroupVersionKind, namespace string, ref owner.Ref, r record, l *Limits) (replicas int, err error) {
	for tries := 1; ; tries++ {
		object, err := e.cluster.Workload(ctx, kind, namespace, ref.Name)
		switch {
		case apierrors.IsNotFound(err):
			return 0, &RefusedError{Err: fmt.Errorf("no %s in namespace %s, which should replace the pod: %w", ref, namespace, err)}
		case err != nil:
			return 0, fmt.Errorf("read %s: %w", ref, err)
		}
		now := e.clock.Now()
		w := read(object, kind, now)
		if kind.Group == "apps" {
			w.replicas, w.ready = number(object, 1, "spec", "replicas"), number(object, 0, "status", "readyReplicas")
		}
		if w.broken != nil {
			return 0, &LimitError{Limit: "workload " + w.String(), Why: w.broken.Error() + "; remove the annotation once an hour has passed"}
		}
		if err := l.settled(w, now); err != nil {
			return 0, err
		}
		all, err := e.workloads(ctx)
		if err != nil {
			return 0, err
		}
		if err := l.check(w, r.node, r.by, all, 1, now); err != nil {
			return 0, err
		}
		err = e.patch(ctx, kind, object, append(w.records, r))
		if !apierrors.IsConflict(err) || tries == maxTries {
			return w.replicas, err
		}
	}
}

// again checks the limits once the record is written and everybody else can see it.
func (e *Evictor) again(ctx context.Context, pod *v1.Pod, ref owner.Ref, replicas int, by Source, l *Limits) error {
	all, err := e.workloads(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(w *workload) bool { return w.namespace == pod.Namespace && w.ref.Is(ref) })
	if i < 0 {
		return fmt.Errorf("the record in %s was removed at once", ref)
	}
	all[i].replicas = replicas
	return l.check(all[i], pod.Spec.NodeName, by, all, 0, e.clock.Now())
}

// withdraw removes a record. Where that fails it counts for an hour, though nothing was
// evicted.
func (e *Evictor) withdraw(ctx context.Context, kind schema.GroupVersionKind, namespace string, ref owner.Ref, r record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for tries := 1; ; tries++ {
		object, err := e.cluster.Workload(ctx, kind, namespace, ref.Name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			w := read(object, kind, e.clock.Now())
			i := slices.Index(w.records, r)
			if w.broken != nil || i < 0 {
				return nil // it is too old, or somebody removed it
			}
			err = e.patch(ctx, kind, object, slices.Delete(w.records, i, i+1))
		}
		if err == nil || !apierrors.IsConflict(err) || tries == maxTries {
			return err
		}
	}
}

func (e *Evictor) patch(ctx context.Context, kind schema.GroupVersionKind, object *unstructured.Unstructured, records []record) error {
	var value any
	if len(records) > 0 {
		value = format(records)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion(),
		"annotations": map[string]any{Annotation: value}, "labels": map[string]any{Annotation: "recorded"},
	}})
	if err != nil {
		return err
	}
	return e.cluster.Patch(ctx, kind, object.GetNamespace(), object.GetName(), patch)
}

// workloads returns all workloads with records.
func (e *Evictor) workloads(ctx context.Context) ([]*workload, error) {
	var all []*workload
	for _, kind := range Kinds {
		label := Annotation
		if kind.Kind == "Deployment" {
			label = "" // its status takes no labels
		}
		list, err := e.cluster.Workloads(ctx, kind, label)
		if err != nil {
			return nil, fmt.Errorf("list %ss with evictions: %w", kind.Kind, err)
		}
		for i := range list {
			if list[i].Annotations[Annotation] != "" {
				all = append(all, read(&list[i], kind, e.clock.Now()))
			}
		}
	}
	return all, nil
}

// read reads what an object's metadata say.
func read(object metav1.Object, kind schema.GroupVersionKind, now time.Time) *workload {
	w := &workload{
		ref:       owner.Ref{Group: kind.Group, Kind: kind.Kind, Name: object.GetName(), UID: object.GetUID()},
		namespace: object.GetNamespace(), replicas: -1, ready: -1,
	}
	w.records, w.broken = parse(object.GetAnnotations()[Annotation], now)
	return w
}

// number returns a field of an object, or its default.
func number(object *unstructured.Unstructured, missing int, path ...string) int {
	if n, found, err := unstructured.NestedInt64(object.Object, path...); found && err == nil {
		return int(n)
	}
	return missing
}
