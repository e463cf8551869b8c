package evict

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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

// A Cluster is the API server itself, not a cache, which shows the records of another process
// late. Errors are those of the API server.
type Cluster interface {
	// Workload returns one object.
	Workload(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	// Workloads returns all objects of a kind, of those with a label where it is not "".
	Workloads(ctx context.Context, kind schema.GroupVersionKind, label string) ([]metav1.PartialObjectMetadata, error)
	// Patch makes a JSON merge patch of one object, through its status: that takes
	// annotations and no other right over the workload.
	Patch(ctx context.Context, kind schema.GroupVersionKind, namespace, name string, patch []byte) error
	// List returns the ConfigMap of the list of evictions.
	List(ctx context.Context) (*v1.ConfigMap, error)
	// PatchList patches that ConfigMap; an apply patch creates it.
	PatchList(ctx context.Context, kind types.PatchType, patch []byte) (*v1.ConfigMap, error)
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
	joined  atomic.Bool // the list has the records that were in annotations before
}

// New returns an evictor of one source.
func New(c Cluster, by Source, l Limits, now clock.PassiveClock) *Evictor {
	return &Evictor{cluster: c, by: by, limits: l, clock: now}
}

// A RefusedError is returned if an eviction is not allowed, whatever the limits: by a
// disruption budget, or because of the kind of the pod or its workload. Nothing was evicted.
type RefusedError struct {
	// Budget is true if a PodDisruptionBudget refuses, which may end soon.
	Budget bool
	Err    error
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the API server's error, if it was that.
func (e *RefusedError) Unwrap() error { return e.Err }

// ErrGone is returned if the pod was deleted or is being deleted, or if another pod has its
// name.
var ErrGone = errors.New("the pod is gone")

// Passing reports whether a retry may succeed after an error of the API server.
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

// An UncertainError is returned if the API server's answer was lost: the pod may be evicted
// or not. The eviction counts.
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

// EvictAs evicts as [Evictor.Evict] does, in the name of a source of its own. At most most pods
// are evicted for that source within any hour, by all processes; 0 is no limit.
func (e *Evictor) EvictAs(ctx context.Context, by Source, most int, pod *v1.Pod) error {
	l := e.limits
	l.ofSource = most
	return e.evict(ctx, pod, by, l)
}

// Count returns how many pods were evicted in the name of a source within the last hour, by the
// list.
func (e *Evictor) Count(ctx context.Context, by Source) (int, error) {
	list, err := e.list(ctx)
	return len(recordsOf(list, func(n entry) bool { return n.by == by })), err
}

// Full returns the limit of a namespace, of a node or of the cluster that has no room for the evictions of some pods within
// this hour; nil = none.
func (e *Evictor) Full(ctx context.Context, pods []*v1.Pod) error {
	list, err := e.list(ctx)
	if err != nil {
		return err
	}
	return e.limits.full(pods, list)
}

// Recent returns how many pods of a pod's workload were evicted within the last hour; if its records cannot be read, the
// largest number.
func (e *Evictor) Recent(ctx context.Context) (func(*v1.Pod) int, error) {
	all, err := e.workloads(ctx)
	if err != nil {
		return nil, err
	}
	list, err := e.list(ctx)
	if err != nil {
		return nil, err
	}
	moved := map[string]int{}
	for _, n := range list {
		moved[n.workload]++
	}
	for _, w := range all {
		if moved[w.String()] = max(moved[w.String()], len(w.records)); w.broken != nil {
			moved[w.String()] = math.MaxInt32
		}
	}
	return func(pod *v1.Pod) int {
		kind, ref, err := recordedAt(pod)
		if err != nil {
			return 0
		}
		return moved[(&workload{kind: kind, ref: ref, namespace: pod.Namespace}).String()]
	}, nil
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
	w, err := e.write(ctx, kind, pod.Namespace, ref, done, &l)
	if err != nil {
		return err
	}
	// Where the answer is lost the list may have the entry: it stays, and counts for an hour.
	if err := e.enter(ctx, w, done, &l); err != nil {
		return errors.Join(err, e.withdraw(ctx, w, done))
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
	return errors.Join(err, e.withdraw(ctx, w, done), e.leave(ctx, entry{done, w.String()}))
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

// write adds a record to the annotation of a workload, where the limits allow it, and returns
// the workload as it was before.
func (e *Evictor) write(ctx context.Context, kind schema.GroupVersionKind, namespace string, ref owner.Ref, r record, l *Limits) (*workload, error) {
	for tries := 1; ; tries++ {
		object, err := e.cluster.Workload(ctx, kind, namespace, ref.Name)
		switch {
		case apierrors.IsNotFound(err):
			return nil, &RefusedError{Err: fmt.Errorf("no %s in namespace %s, which should replace the pod: %w", ref, namespace, err)}
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", ref, err)
		}
		now := e.clock.Now()
		w := read(object, kind, now)
		if kind.Group == "apps" {
			w.replicas, w.ready = number(object, 1, "spec", "replicas"), number(object, 0, "status", "readyReplicas")
		}
		if w.broken != nil {
			return nil, &LimitError{Limit: "workload " + w.String(), Why: w.broken.Error() + "; remove the annotation once an hour has passed"}
		}
		list, err := e.list(ctx)
		if err != nil {
			return nil, err
		}
		if err := l.settled(w, list, now); err != nil {
			return nil, err
		}
		if err := l.check(w, r, list, now); err != nil {
			return nil, err
		}
		err = e.patch(ctx, w, object, append(slices.Clone(w.records), r))
		if !apierrors.IsConflict(err) || tries == maxTries {
			return w, err
		}
	}
}

// withdraw removes a record from the annotation of a workload. Where that fails it counts for
// an hour, though nothing was evicted.
func (e *Evictor) withdraw(ctx context.Context, w *workload, r record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for tries := 1; ; tries++ {
		object, err := e.cluster.Workload(ctx, w.kind, w.namespace, w.ref.Name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			last := read(object, w.kind, e.clock.Now())
			i := slices.Index(last.records, r)
			if last.broken != nil || i < 0 {
				return nil // it is too old, or somebody removed it
			}
			err = e.patch(ctx, last, object, slices.Delete(last.records, i, i+1))
		}
		if err == nil || !apierrors.IsConflict(err) || tries == maxTries {
			return err
		}
	}
}

func (e *Evictor) patch(ctx context.Context, w *workload, object *unstructured.Unstructured, records []record) error {
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
	return e.cluster.Patch(ctx, w.kind, w.namespace, w.ref.Name, patch)
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

// read reads an object's metadata.
func read(object metav1.Object, kind schema.GroupVersionKind, now time.Time) *workload {
	w := &workload{
		ref:  owner.Ref{Group: kind.Group, Kind: kind.Kind, Name: object.GetName(), UID: object.GetUID()},
		kind: kind, namespace: object.GetNamespace(), own: wroteAnnotation(object), replicas: -1, ready: -1,
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
