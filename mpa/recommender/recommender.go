// Package recommender decides: it observes each MultidimPodAutoscaler's workload, calls
// the pure controller of package mpa, and writes the decision to the status. It changes
// nothing else.
//
// # State after a kill
//
// A recommendation, its id and the guards' memory of it are one write, which fails if
// another program wrote the status meanwhile. A recommender that is killed before the write
// has counted nothing; one that is killed after it finds all of it. A recommender
// that finds an id that is not its own replaces its memory by the status', so that two
// recommenders together keep the limits of one.
package recommender

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
	"github.com/sigma-scheduler/sigma/mpa/history"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/mpa/namespaces"
	"github.com/sigma-scheduler/sigma/mpa/reach"
	"github.com/sigma-scheduler/sigma/mpa/share"
	"github.com/sigma-scheduler/sigma/mpa/target"
)

// Options of the recommender.
type Options struct {
	Name     string
	Interval time.Duration
	Workers  int // for one namespace; all have twice as many
	// CoolDown and Patience are those of [mpa.Guards], Stabilisation that of [mpa.Target].
	CoolDown, Patience, Stabilisation time.Duration
	// JournalDir has a journal for each object, of at most JournalBytes; empty = no journals. A
	// journal without new lines for JournalAge is removed. Each namespace with objects has an equal share of
	// JournalTotal for all of its journals; 0 = no bound.
	JournalDir                 string
	JournalBytes, JournalTotal int64
	JournalAge                 time.Duration
	// UsageHistory has the days of use that objects with the algorithm usage are sized by; empty
	// = a folder in JournalDir, or none without one.
	UsageHistory string
	// Servers is a file with the Prometheus servers that may be queried; empty = no servers.
	Servers string
	// RetrainingTemplate is the CronJob in Namespace from which Jobs are made that train a
	// policy after an alarm; empty = no retraining. The first begins RetrainingAfter the alarm,
	// the next one of an object RetrainingCoolDown after the last; at most RetrainingJobs run
	// at once.
	RetrainingTemplate                  string
	RetrainingJobs                      int
	RetrainingAfter, RetrainingCoolDown time.Duration
	// WebhookProbe is the interval of checks that the API server reaches the webhook of new
	// pods; 0 = never.
	WebhookProbe time.Duration
	// Namespaces makes objects for the workloads of labelled namespaces: see package namespaces.
	Namespaces bool
	// Namespace is the autoscaler's own. Its objects are ignored.
	Namespace string
}

// AddFlags adds the flags of all options but the namespace, with their defaults.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Name, "recommender-name", "default", "decide for the objects with this spec.recommender.name")
	flags.DurationVar(&o.Interval, "interval", 15*time.Second, "time from one decision to the next, for each object")
	flags.IntVar(&o.Workers, "workers", 16, "objects of one namespace that are observed at the same time, and half of those of all; at most half as many query the same Prometheus")
	guards := mpa.DefaultGuards()
	flags.DurationVar(&o.CoolDown, "cool-down", guards.CoolDown, "least time between two changes of requests of an object, and between any change and one that shrinks")
	flags.DurationVar(&o.Patience, "patience", guards.Patience, "how long pods that do not start and resizes that wait for room delay other changes, and how long usage has to be back after a gap before anything shrinks")
	flags.DurationVar(&o.Stabilisation, "downscale-stabilisation", agents.DefaultHPA().Down.Stabilisation, "scale down only after the lower count has been enough for this long")
	flags.StringVar(&o.JournalDir, "journal-dir", "", "folder for a journal of each object's observations and decisions, from which a restarted process continues; empty: none")
	flags.Int64Var(&o.JournalBytes, "journal-bytes", 256<<20, "size of an object's journal; the oldest of its 8 files is dropped")
	flags.Int64Var(&o.JournalTotal, "journal-total-bytes", 16<<30, "size of the journals of all objects, shared equally between their namespaces; while namespaces come they may take twice as much; 0: no bound")
	flags.StringVar(&o.UsageHistory, "usage-history", "", "folder for the last 28 days of use, which the algorithm usage sizes by; empty: .use in --journal-dir, or none without one")
	flags.StringVar(&o.Servers, "prometheus-servers", "", "YAML file with the Prometheus servers that objects may name, and their credentials; no other is asked")
	flags.StringVar(&o.RetrainingTemplate, "retraining-template", "", "CronJob of the own namespace of whose template Jobs are made that train a policy on the journal of a workload that has changed; empty: none")
	flags.DurationVar(&o.RetrainingAfter, "retraining-after", 6*time.Hour, "how long the journal shows the changed workload before such a Job begins; a further change begins the time again")
	flags.DurationVar(&o.RetrainingCoolDown, "retraining-cool-down", 24*time.Hour, "least time between two such Jobs of an object")
	flags.IntVar(&o.RetrainingJobs, "retraining-jobs", 4, "such Jobs that run at the same time, for all objects")
	flags.DurationVar(&o.WebhookProbe, "webhook-probe", time.Minute, "how often a dry run tries whether the API server reaches the webhook of new pods, for the condition WebhookReached; 0: never")
	flags.BoolVar(&o.Namespaces, "usage-namespaces", false, "make an object of the algorithm usage for each workload of namespaces with the label "+namespaces.Label)
	flags.DurationVar(&o.JournalAge, "journal-age", 30*24*time.Hour, "a journal without new lines for this long, such as that of a deleted object, is removed")
}

// Validate returns the invalid option, by flag.
func (o *Options) Validate() error {
	switch {
	case o.Name == "":
		return errors.New("--recommender-name is empty")
	case o.Interval < time.Second || o.Interval > 5*time.Minute:
		return fmt.Errorf("--interval %v: want 1s to 5m", o.Interval)
	case o.Workers < 1 || o.Workers > 1000:
		return fmt.Errorf("--workers %d: want 1 to 1000", o.Workers)
	case o.CoolDown < 0 || o.Patience < 0 || o.CoolDown > time.Hour || o.Patience > time.Hour:
		return fmt.Errorf("--cool-down %v, --patience %v: want 0s to 1h", o.CoolDown, o.Patience)
	case o.Stabilisation < time.Second || o.Stabilisation > time.Hour:
		return fmt.Errorf("--downscale-stabilisation %v: want 1s to 1h", o.Stabilisation)
	case o.JournalBytes < leastJournal:
		return fmt.Errorf("--journal-bytes %d: want at least %d", o.JournalBytes, leastJournal)
	case o.JournalTotal != 0 && o.JournalTotal < leastJournal:
		return fmt.Errorf("--journal-total-bytes %d: want 0 or at least %d", o.JournalTotal, leastJournal)
	case o.JournalAge < time.Hour:
		return fmt.Errorf("--journal-age %v: want at least 1h", o.JournalAge)
	case o.WebhookProbe != 0 && o.WebhookProbe < time.Second:
		return fmt.Errorf("--webhook-probe %v: want 0 or at least 1s", o.WebhookProbe)
	case o.RetrainingTemplate != "" && o.JournalDir == "":
		return errors.New("--retraining-template needs --journal-dir: a Job trains on the journal")
	case o.RetrainingJobs < 1:
		return fmt.Errorf("--retraining-jobs %d: want at least 1", o.RetrainingJobs)
	case o.RetrainingAfter < 0 || o.RetrainingCoolDown < 0:
		return fmt.Errorf("--retraining-after %v, --retraining-cool-down %v: want at least 0", o.RetrainingAfter, o.RetrainingCoolDown)
	}
	_, err := o.prometheus(nil)
	return err
}

// prometheus returns the servers that may be asked.
func (o *Options) prometheus(now func() time.Time) (*collect.Prometheus, error) {
	var servers []collect.Server
	var err error
	if o.Servers != "" {
		if servers, err = collect.ReadServers(o.Servers); err != nil {
			return nil, fmt.Errorf("--prometheus-servers: %w", err)
		}
	}
	p, err := collect.NewPrometheus(servers, o.Workers/2, now)
	if err != nil {
		return nil, fmt.Errorf("--prometheus-servers: %s: %w", o.Servers, err)
	}
	return p, nil
}

// set applies the options to a setup.
func (o *Options) set(s *journal.Setup) {
	s.Guards.CoolDown, s.Guards.Patience = o.CoolDown, o.Patience
	s.Target.Stabilisation = o.Stabilisation
}

const (
	// askFor is the timeout of an observation.
	askFor = 5 * time.Second
	// writeFor is the timeout of a write.
	writeFor = 10 * time.Second
	// soon is the wait before an object is reconciled again for which Prometheus was busy, or
	// that another writer changed.
	soon = time.Second
	// retry is the wait before an object is reconciled again after an error.
	retry = 5 * time.Second
	// refreshEvery is the interval of status writes if only numbers changed.
	refreshEvery = time.Minute
	// journalFiles is the largest number of files of a journal.
	journalFiles = 8
	// leastJournal is the size, in bytes, below which an object has no journal.
	leastJournal = 1 << 20
	// pruneEvery is the time from one removal of old journals to the next.
	pruneEvery = 10 * time.Minute
)

// Setup adds the recommender to a manager.
func Setup(m manager.Manager, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if o.RetrainingTemplate != "" && o.Namespace == "" {
		return errors.New("--retraining-template needs --namespace")
	}
	ctx := context.Background()
	if err := target.Index(ctx, m.GetFieldIndexer()); err != nil {
		return err
	}
	// All caches are filled before the first decision.
	for _, kind := range []client.Object{&v1alpha1.ScalingPolicy{}, &corev1.Pod{}, &corev1.Service{}, &appsv1.Deployment{}, &appsv1.StatefulSet{}, &autoscalingv2.HorizontalPodAutoscaler{}} {
		if _, err := m.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	config := rest.CopyConfig(m.GetConfig())
	config.QPS, config.Burst = 200, 400 // one query for each object and interval
	metrics, err := metricsclient.NewForConfigAndClient(config, m.GetHTTPClient())
	if err != nil {
		return err
	}
	now := clock.RealClock{}
	prometheus, err := o.prometheus(now.Now)
	if err != nil {
		return err
	}
	kept := o.keeper()
	kept.Client, kept.Prometheus, kept.Clock = m.GetCache(), prometheus, now
	if kept.Folder != "" {
		if err := m.Add(kept); err != nil {
			return err
		}
	}
	r := &reconciler{
		history: kept,
		Client:  m.GetClient(), live: m.GetAPIReader(), options: o, clock: now,
		// The recorder that replaces it folds events of one reason and keeps the first text only.
		events: m.GetEventRecorderFor(v1alpha1.OwnerRecommender), //nolint:staticcheck // see above
		vpas:   &vpas{cache: m.GetCache(), mapper: m.GetRESTMapper(), clock: now},
		collector: &collect.Collector{
			Client: m.GetCache(), Metrics: metrics, Prometheus: prometheus, Timeout: askFor,
		},
		objects: map[types.NamespacedName]*object{}, of: map[string]int{}, full: map[string]time.Time{}, made: map[string]time.Time{},
	}
	if o.WebhookProbe > 0 {
		r.webhook = reach.New(m.GetClient(), o.Namespace, o.WebhookProbe)
		if err := m.Add(r.webhook); err != nil {
			return err
		}
	}
	if o.Namespaces {
		if err := namespaces.Setup(m, o.Namespace); err != nil {
			return err
		}
	}
	if o.JournalDir != "" {
		if err := m.Add(manager.RunnableFunc(r.prune)); err != nil {
			return err
		}
	}
	if err := ctrl.NewControllerManagedBy(m).Named("mpa-policies").
		For(&v1alpha1.ScalingPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(&policies{m.GetClient()}); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(m).Named("mpa-recommender").
		For(&v1alpha1.MultidimPodAutoscaler{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: share.Workers(o.Workers)}).
		Complete(share.Reconciler(r, o.Workers, now.Now))
}

// prune removes old journals, now and every few minutes.
func (r *reconciler) prune(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := journal.Prune(r.options.JournalDir, r.clock.Now().Add(-r.options.JournalAge)); err != nil {
			log.FromContext(ctx).Error(err, "Cannot remove old journals")
		}
		if total := r.options.JournalTotal; total > 0 {
			r.shrink(ctx, total)
		}
	}, pruneEvery)
	return nil
}

// shrink removes journals of deleted objects where their namespaces have more than their share.
func (r *reconciler) shrink(ctx context.Context, total int64) {
	list := &v1alpha1.MultidimPodAutoscalerList{}
	err := r.List(ctx, list)
	var gone []string
	if err == nil {
		living := map[string]bool{}
		for i := range list.Items {
			living[r.journalPath(&list.Items[i])] = true
		}
		gone, err = journal.Shrink(r.options.JournalDir, total, func(path string) bool { return living[path] })
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot remove journals of deleted objects that are too large")
	}
	if len(gone) > 0 {
		log.FromContext(ctx).Info("Removed journals of deleted objects, of namespaces with more than their share", "journals", gone)
	}
}

// journalPath is the file of an object's journal.
func (r *reconciler) journalPath(o *v1alpha1.MultidimPodAutoscaler) string {
	return filepath.Join(r.options.JournalDir, o.Namespace, fmt.Sprintf("%s.%s.jsonl", o.Name, o.UID))
}

type reconciler struct {
	client.Client               // reads from the cache
	live          client.Reader // reads from the API server
	collector     *collect.Collector
	history       *history.Keeper
	options       Options
	clock         clock.PassiveClock
	events        record.EventRecorder
	vpas          lister
	webhook       *reach.Prober // nil = it is not probed

	mu      sync.Mutex
	objects map[types.NamespacedName]*object
	of      map[string]int       // the number of objects of a namespace
	full    map[string]time.Time // when it was logged last that objects of a namespace have no journal
	making  sync.Mutex
	made    map[string]time.Time // Jobs that the cache may not show yet, when
}

// Reconcile decides for one object when it is due.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if target.Ignores(request.Namespace, r.options.Namespace) {
		log.FromContext(ctx).V(1).Info("Ignored: the autoscaler leaves this namespace alone")
		return ctrl.Result{}, nil
	}
	o := &v1alpha1.MultidimPodAutoscaler{}
	err := r.Get(ctx, request.NamespacedName, o)
	if apierrors.IsNotFound(err) || err == nil && (o.DeletionTimestamp != nil || o.Spec.Recommender.Name != r.options.Name) {
		r.forget(ctx, request.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.clock.Now()
	s := r.object(ctx, o, now)
	if left := s.slot.next.Sub(now); left > 0 && left <= 2*r.interval(o) && s.slot.generation == o.Generation {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	switch err := r.decide(ctx, o, s, now); {
	case errors.Is(err, collect.ErrBusy) || errors.Is(err, errForeign) || apierrors.IsConflict(err):
		log.FromContext(ctx).V(1).Info("Later", "why", err.Error())
		return ctrl.Result{RequeueAfter: soon}, nil
	case apierrors.IsNotFound(err): // deleted; the event is on its way
		return ctrl.Result{RequeueAfter: soon}, nil
	case err != nil:
		// Without the queue's growing delays: once the API server is back, decisions go on.
		log.FromContext(ctx).Error(err, "The decision failed and is tried again")
		return ctrl.Result{RequeueAfter: min(retry, r.options.Interval)}, nil
	}
	s.slot.generation = o.Generation
	s.slot.next = r.slot(o, now)
	return ctrl.Result{RequeueAfter: s.slot.next.Sub(now)}, nil
}

// slot returns when an object is due next. The UID spreads objects over the interval.
func (r *reconciler) slot(o *v1alpha1.MultidimPodAutoscaler, now time.Time) time.Time {
	h, interval := fnv.New64a(), r.interval(o)
	_, _ = h.Write([]byte(o.UID))
	offset := time.Duration(h.Sum64() % uint64(interval))
	next := now.Truncate(interval).Add(offset)
	for next.Sub(now) < interval/2 { // after a change of the spec it was reconciled between its slots
		next = next.Add(interval)
	}
	return next
}

// object returns the recommender's knowledge of an object. One for which another process
// decided before waits for its slot.
func (r *reconciler) object(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, now time.Time) *object {
	key := client.ObjectKeyFromObject(o)
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.objects[key]
	if s != nil && s.uid == o.UID {
		return s
	}
	if s != nil { // a deleted object of the same name
		s.journaled.close(ctx)
	} else {
		r.of[key.Namespace]++
	}
	s = &object{uid: o.UID, learned: learnedPolicy{weights: agents.Weights{}}}
	if o.Status.ObservedGeneration == o.Generation {
		s.slot.generation, s.slot.next = o.Generation, r.slot(o, now.Add(-r.interval(o)/2))
	}
	r.objects[key] = s
	return s
}

func (r *reconciler) forget(ctx context.Context, key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.objects[key]; s != nil {
		s.journaled.close(ctx)
		delete(r.objects, key)
		if r.of[key.Namespace]--; r.of[key.Namespace] == 0 {
			delete(r.of, key.Namespace)
			delete(r.full, key.Namespace)
		}
		forgetMetrics(key)
	}
}
