// Package updater carries out the recommendations that any recommender wrote to a
// MultidimPodAutoscaler's status: it reads status.recommendation and writes status.actuation.
//
// It carries out each recommendation once. Before it changes anything it records in
// status.actuation that it has begun, from how many replicas, and counts the attempt.
// That write fails if the object changed meanwhile, so that only one of two updaters
// begins. An updater that is killed resumes from there: it changes replicas only from the
// recorded number, and gives a pod the same requests as the first time.
//
// Requests that were carried out stay active until the next recommendation: a pod that was
// created without them, because the webhook was away, is resized later. They lapse when the
// template's requests or limits of these containers change: the editor has newer knowledge,
// and the next recommendation starts from there. A pod that another writer resized does not
// get them again.
package updater

import (
	"cmp"
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

	"github.com/sigma-scheduler/sigma/mpa/actuate"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/knative"
	"github.com/sigma-scheduler/sigma/mpa/share"
	"github.com/sigma-scheduler/sigma/mpa/target"
	"github.com/sigma-scheduler/sigma/plugins/evict"
	"github.com/sigma-scheduler/sigma/plugins/owner"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// Options of the updater.
type Options struct {
	// Scalings and Resizes are the most shrinking changes of each kind for an object in an hour.
	Scalings, Resizes int
	// EvictAfter is the time for which a resize may be deferred before its pod is evicted, if
	// the mode allows that.
	EvictAfter time.Duration
	// MaxGrace is the longest grace period of a pod that is evicted; 0 = [podspec.MaxGrace].
	MaxGrace time.Duration
	// Evictions limits the pods that are evicted within an hour, those of the scheduler's moves
	// included.
	Evictions evict.Limits
	// Canary is the timing of a new Revision of a Knative Service.
	Canary knative.Timing
	// Workers is the number of objects of one namespace that are updated at a time; of all it is twice as many.
	Workers int
	// Namespace is the autoscaler's own. Its objects are ignored.
	Namespace string
}

// AddFlags adds all options but the namespace, with their defaults, to a command.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.IntVar(&o.Scalings, "max-scalings-per-hour", 12, "changes of replicas of one object in an hour, from all recommenders together, from which on they only grow")
	flags.IntVar(&o.Resizes, "max-resizes-per-hour", 6, "changes of requests of one object in an hour, from all recommenders together, from which on they only grow")
	flags.DurationVar(&o.EvictAfter, "evict-after", 5*time.Minute, "how long a resize may be deferred before its pod is evicted, in modes that evict")
	flags.DurationVar(&o.MaxGrace, "max-grace-period", podspec.MaxGrace, "longest terminationGracePeriodSeconds of a pod that is evicted")
	flags.IntVar(&o.Evictions.PerHour, "max-evictions-per-hour", 1000, "most pods evicted within an hour, the scheduler's moves included; 0: no limit")
	flags.IntVar(&o.Evictions.PerNamespace, "max-evictions-per-namespace", 200, "most of them from one namespace; 0: no limit")
	flags.IntVar(&o.Evictions.PerNode, "max-evictions-per-node", 110, "most of them from one node; 0: no limit")
	o.Canary = knative.DefaultTiming()
	flags.DurationVar(&o.Canary.Ready, "canary-ready", o.Canary.Ready, "how long a new Revision of a Knative Service may take to become ready before it is taken back")
	flags.DurationVar(&o.Canary.Least, "canary-least", o.Canary.Least, "how long a new Revision is compared with the present one at least")
	flags.DurationVar(&o.Canary.Longest, "canary-longest", o.Canary.Longest, "how long a new Revision has a part of the requests at most; one that is not better by then is taken back")
	flags.DurationVar(&o.Canary.Pause, "canary-pause", o.Canary.Pause, "least time from the end of one such comparison to the next new Revision")
	flags.IntVar(&o.Workers, "updater-workers", 4, "objects of one namespace that are updated at a time, and half of those of all")
}

// Validate returns the invalid options, by flag.
func (o *Options) Validate() error {
	switch {
	case o.Scalings < 0 || o.Scalings > 1000 || o.Resizes < 0 || o.Resizes > 1000:
		return fmt.Errorf("--max-scalings-per-hour %d, --max-resizes-per-hour %d: want 0 to 1000", o.Scalings, o.Resizes)
	case o.EvictAfter < 0:
		return fmt.Errorf("--evict-after %v: want at least 0", o.EvictAfter)
	case o.MaxGrace < time.Second || o.MaxGrace > 24*time.Hour:
		return fmt.Errorf("--max-grace-period %v: want 1s to 24h", o.MaxGrace)
	case o.Evictions.PerHour < 0 || o.Evictions.PerNamespace < 0 || o.Evictions.PerNode < 0:
		return fmt.Errorf("--max-evictions-per-hour %d, --max-evictions-per-namespace %d, --max-evictions-per-node %d: want at least 0",
			o.Evictions.PerHour, o.Evictions.PerNamespace, o.Evictions.PerNode)
	case o.Workers < 1:
		return fmt.Errorf("--updater-workers %d: want at least 1", o.Workers)
	}
	if err := o.Canary.Check(); err != nil {
		return fmt.Errorf("--canary-%w", err)
	}
	return nil
}

// Setup adds the updater to a manager.
func Setup(m manager.Manager, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	u := &updater{
		Options: o, client: m.GetClient(), direct: m.GetAPIReader(), clock: clock.RealClock{},
		// The recorder that replaces it folds events of one reason and keeps the first text only.
		events:  m.GetEventRecorderFor(v1alpha1.OwnerUpdater), //nolint:staticcheck // see above
		metrics: newMetrics(), objects: map[types.NamespacedName]*object{}, webhookLag: webhookLag,
	}
	u.evictor = evict.New(actuate.Cluster(u.client, u.direct), evict.Updater, o.Evictions, u.clock)
	if err := u.metrics.register(metrics.Registry); err != nil {
		return err
	}
	// The cache is filled before the first reconcile, like those of the watched kinds.
	if _, err := m.GetCache().GetInformer(context.Background(), target.ReplicaSets(), cache.BlockUntilSynced(false)); err != nil {
		return err
	}
	k := &knatives{u}
	if err := m.Add(manager.RunnableFunc(k.sweeps)); err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(m).Named("mpa-knative").
		For(&v1alpha1.MultidimPodAutoscaler{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: share.Workers(o.Workers), RateLimiter: limiter()}).
		Complete(share.Reconciler(k, o.Workers, u.clock.Now)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(m).Named("mpa-updater").
		For(&v1alpha1.MultidimPodAutoscaler{}).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(u.ofWorkload("Deployment"))).
		Watches(&appsv1.StatefulSet{}, handler.EnqueueRequestsFromMapFunc(u.ofWorkload("StatefulSet"))).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, handler.EnqueueRequestsFromMapFunc(u.ofHPA)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(u.ofPod)).
		WithOptions(controller.Options{MaxConcurrentReconciles: share.Workers(o.Workers), RateLimiter: limiter()}).
		Complete(share.Reconciler(u, o.Workers, u.clock.Now))
}

// limiter is the backoff for a failed object.
func limiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, 30*time.Second)
}

// ofWorkload returns requests for the objects whose target is a workload of that kind.
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

// ofPod returns requests for the objects whose target a pod belongs to, by the pod's names:
// a reconcile too many does no harm.
func (u *updater) ofPod(ctx context.Context, o client.Object) []reconcile.Request {
	above, ok := owner.Of(o, nil)
	if !ok {
		return nil
	}
	return u.requestsFor(ctx, o.GetNamespace(), func(m *v1alpha1.MultidimPodAutoscaler) bool {
		return above.Is(target.RefOf(&m.Spec.ScaleTargetRef))
	})
}

// requestsFor returns a request for each object of a namespace that is accepts.
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

// maxEventAge is the largest age of an event that describes the present; controllers repeat theirs.
const maxEventAge = 10 * time.Minute

// A workload is the target of an object, and the state of its controller.
type workload struct {
	*target.Workload
	settled bool // no rollout is under way
	// short is true if pods are missing; failing is the reason that the controller cannot
	// create them.
	short   bool
	failing string
}

// workloadOf returns the target of an object; the error is NotFound if it does not exist.
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

// failedCreate returns the newest event's reason that a StatefulSet's pod was not created,
// which its status does not give.
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

// pods returns the workload's pods that have not ended, by name.
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

// illLag is the longest time from a kill until the kubelet reports the pod as not ready.
const illLag = time.Minute

// ill reports whether a restart or an eviction costs a pod nothing and a new size may help it: it
// runs on no node, a container has ended with an error and does not run, or one ran out of memory
// and the pod is not ready since. A pod that only starts, or waits for another service, is not ill.
func ill(p *corev1.Pod) bool {
	if ready(p) || p.DeletionTimestamp != nil {
		return false
	}
	var unready time.Time
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			unready = c.LastTransitionTime.Time
		}
	}
	return p.Spec.NodeName == "" || slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(s corev1.ContainerStatus) bool {
		last := cmp.Or(s.State.Terminated, s.LastTerminationState.Terminated)
		switch {
		case last == nil:
			return false
		case last.Reason == "OOMKilled":
			return !unready.After(last.FinishedAt.Add(illLag))
		}
		return s.State.Running == nil && last.ExitCode != 0
	})
}
