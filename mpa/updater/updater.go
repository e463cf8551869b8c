// Package updater carries out what a recommender wrote to a MultidimPodAutoscaler's
// status, whoever that is: it reads status.recommendation and writes
// status.actuation.
//
// Each recommendation is carried out once. Before anything is done, status.actuation says
// that it was begun, from how many replicas, and counts it; that write fails if
// anybody changed the object meanwhile, so that of two updaters one begins. One that
// is killed at any point finds there where it was: replicas are changed only from the
// number that was found at first, and a pod gets the same requests as the first time.
//
// Requests that were carried out stand until the next: a pod that came without them,
// as when the webhook was away, is resized later. They no longer stand once the
// workload's template has other requests or limits for these containers than at that
// time: who edits them knows something new, so that the next word is the recommender's. Nor does
// a pod that somebody else resized get them again.
package updater

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/target"
	"github.com/sigma-scheduler/sigma/plugins/owner"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// Options of the updater.
type Options struct {
	// Scalings and Resizes are the most of each in an hour, for one object.
	Scalings, Resizes int
	// EvictAfter is how long a resize may be deferred before its pod is evicted, where
	// the mode allows that.
	EvictAfter time.Duration
	// Workers look after as many objects at a time.
	Workers int
}

// AddFlags adds the options, with their defaults, to a command.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.IntVar(&o.Scalings, "max-scalings-per-hour", 12, "changes of replicas of one object in an hour, whoever recommends them")
	flags.IntVar(&o.Resizes, "max-resizes-per-hour", 6, "changes of requests of one object in an hour, whoever recommends them")
	flags.DurationVar(&o.EvictAfter, "evict-after", 5*time.Minute, "how long a resize may be deferred before its pod is evicted, in modes that evict")
	flags.IntVar(&o.Workers, "updater-workers", 4, "objects that are updated at a time")
}

// Validate says what is wrong, by flag.
func (o *Options) Validate() error {
	switch {
	case o.Scalings < 0 || o.Scalings > 1000 || o.Resizes < 0 || o.Resizes > 1000:
		return fmt.Errorf("--max-scalings-per-hour %d, --max-resizes-per-hour %d: want 0 to 1000", o.Scalings, o.Resizes)
	case o.EvictAfter < 0:
		return fmt.Errorf("--evict-after %v: want at least 0", o.EvictAfter)
	case o.Workers < 1:
		return fmt.Errorf("--updater-workers %d: want at least 1", o.Workers)
	}
	return nil
}

// Setup adds it to a manager.
func Setup(m manager.Manager, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	u := &updater{
		Options: o, client: m.GetClient(), direct: m.GetAPIReader(), clock: clock.RealClock{},
		events: m.GetEventRecorderFor(v1alpha1.OwnerUpdater), metrics: newMetrics(), objects: map[types.NamespacedName]*object{},
	}
	if err := u.metrics.register(metrics.Registry); err != nil {
		return err
	}
	// Filled before the first look, as the caches of what is watched are.
	if _, err := m.GetCache().GetInformer(context.Background(), target.ReplicaSets(), cache.BlockUntilSynced(false)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(m).Named("mpa-updater").
		For(&v1alpha1.MultidimPodAutoscaler{}).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(u.ofWorkload("Deployment"))).
		Watches(&appsv1.StatefulSet{}, handler.EnqueueRequestsFromMapFunc(u.ofWorkload("StatefulSet"))).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, handler.EnqueueRequestsFromMapFunc(u.ofHPA)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(u.ofPod)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: o.Workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, 30*time.Second),
		}).
		Complete(u)
}

// ofWorkload finds the objects that have a workload of that kind as their target.
func (u *updater) ofWorkload(kind string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		return u.requestsFor(ctx, o.GetNamespace(), func(m *v1alpha1.MultidimPodAutoscaler) bool {
			return m.Spec.ScaleTargetRef.Kind == kind && m.Spec.ScaleTargetRef.Name == o.GetName()
		})
	}
}

func (u *updater) ofHPA(ctx context.Context, o client.Object) []reconcile.Request {
	return u.requestsFor(ctx, o.GetNamespace(), func(m *v1alpha1.MultidimPodAutoscaler) bool {
		return targets(o.(*autoscalingv2.HorizontalPodAutoscaler), m)
	})
}

// ofPod finds the objects whose target a pod belongs to, by the pod's names: to look once
// more than necessary does no harm.
func (u *updater) ofPod(ctx context.Context, o client.Object) []reconcile.Request {
	above, ok := owner.Of(o, nil)
	if !ok {
		return nil
	}
	return u.requestsFor(ctx, o.GetNamespace(), func(m *v1alpha1.MultidimPodAutoscaler) bool {
		return above.Is(target.RefOf(&m.Spec.ScaleTargetRef))
	})
}

// requestsFor asks for a look at each object of a namespace for which is holds.
func (u *updater) requestsFor(ctx context.Context, namespace string, is func(*v1alpha1.MultidimPodAutoscaler) bool) []reconcile.Request {
	var list v1alpha1.MultidimPodAutoscalerList
	if err := u.client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache is stopped
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if is(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// An event older than this says nothing of now; controllers repeat theirs.
const maxEventAge = 10 * time.Minute

// A workload is the target of an object, and what its controller is doing.
type workload struct {
	*target.Workload
	// settled says that no rollout is under way.
	settled bool
	// short says that pods are missing, failing why its controller cannot make them.
	short   bool
	failing string
}

// workloadOf is the target of an object; the error is NotFound where it is gone.
func (u *updater) workloadOf(ctx context.Context, m *v1alpha1.MultidimPodAutoscaler) (*workload, error) {
	found, err := target.Find(ctx, u.client, m.Namespace, m.Spec.ScaleTargetRef)
	if err != nil {
		return nil, err
	}
	w := &workload{Workload: found}
	switch o := found.Object.(type) {
	case *appsv1.Deployment:
		w.settled = o.Status.ObservedGeneration == o.Generation && o.Status.UpdatedReplicas == o.Status.Replicas
		for _, c := range o.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				w.failing = c.Message
			}
		}
	case *appsv1.StatefulSet:
		w.settled = o.Status.ObservedGeneration == o.Generation && o.Status.UpdateRevision == o.Status.CurrentRevision
		w.short = o.Spec.Replicas != nil && o.Status.Replicas < *o.Spec.Replicas
	}
	if w.short {
		w.failing, err = u.failedCreate(ctx, w.Object)
	}
	return w, err
}

// failedCreate is the last event that says why a StatefulSet's pod was not made: its
// status does not.
func (u *updater) failedCreate(ctx context.Context, set client.Object) (string, error) {
	var events corev1.EventList
	if err := u.direct.List(ctx, &events, client.InNamespace(set.GetNamespace()),
		client.MatchingFields{"involvedObject.uid": string(set.GetUID()), "reason": "FailedCreate"}); err != nil {
		return "", err
	}
	var last corev1.Event
	for _, e := range events.Items {
		if !e.LastTimestamp.Before(&last.LastTimestamp) {
			last = e
		}
	}
	if u.clock.Now().Sub(last.LastTimestamp.Time) > maxEventAge {
		return "", nil
	}
	return last.Message, nil
}

// pods returns those of the workload that have not ended, by name.
func (w *workload) pods(ctx context.Context, r client.Reader) ([]corev1.Pod, error) {
	pods, err := w.Pods(ctx, r)
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool { return podspec.Ended(&p) }), err
}

func targets(h *autoscalingv2.HorizontalPodAutoscaler, m *v1alpha1.MultidimPodAutoscaler) bool {
	ref := h.Spec.ScaleTargetRef
	return m.Spec.ScaleTargetRef.Is(ref.APIVersion, ref.Kind, ref.Name)
}

func ready(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
