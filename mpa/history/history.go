package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	metrics "github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/internal/usage/prometheus"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
	"github.com/sigma-scheduler/sigma/plugins/owner"
)

const (
	day = 24 * time.Hour
	// tick is the time from one check to the next.
	tick = 30 * time.Second
	// delay is the time after a midnight from which the day before is read.
	delay = 20 * time.Minute
	// leastPause and mostPause bound the pause after a failure; each is twice the one before.
	leastPause = time.Minute
	mostPause  = 30 * time.Minute
	// rest is the pause after a folding, as a multiple of its time: new objects may arrive one
	// by one.
	rest = 10
	// together is the number of workloads whose histories are in memory at the same time by
	// default: with two containers each, some 150 MiB.
	together = 1000
	// kept are the days whose files are kept.
	kept = usage.Window + 2
)

var (
	midnights = metrics.NewGaugeVec(metrics.GaugeOpts{
		Name: "sigma_mpa_usage_midnight_seconds", Help: "Midnight, in seconds since 1970, that ends the days of use that objects with the algorithm usage are sized by, by Prometheus server.",
	}, []string{"server"})
	failures = metrics.NewCounterVec(metrics.CounterOpts{
		Name: "sigma_mpa_usage_failures_total", Help: "Failed attempts to read the use of the last days, by Prometheus server.",
	}, []string{"server"})
)

func init() { ctrlmetrics.Registry.MustRegister(midnights, failures) }

// A Keeper reads and keeps histories. It serves several goroutines.
type Keeper struct {
	Client     client.Reader // a cache
	Prometheus *collect.Prometheus
	// Folder has the files of days; empty = no histories.
	Folder string
	// Counts reports whether an object counts; objects of others are none of this recommender's.
	Counts func(o *v1alpha1.MultidimPodAutoscaler) bool
	Clock  clock.PassiveClock

	atOnce int // workloads whose histories are in memory at the same time; 0 = together

	mu      sync.Mutex
	servers map[string]*server
}

// A server is a Prometheus whose history is kept.
type server struct {
	busy      bool
	record    *prometheus.Record // nil = not read yet
	workloads map[string]bool    // whose histories are kept
	histories map[prometheus.ContainerOf]usage.Summary
	progress  string // of the first reading
	problem   string // of the last reading; empty = none
	pause     time.Duration
	again     time.Time // no attempt before
}

// midnight ends the days of a server's histories; zero = there are none.
func (s *server) midnight() time.Time {
	if s.histories == nil {
		return time.Time{}
	}
	return time.Unix(s.record.Until*int64(day/time.Second), 0).UTC()
}

// Start reads the days that are due, until ctx ends.
func (k *Keeper) Start(ctx context.Context) error {
	var all sync.WaitGroup
	wait.UntilWithContext(ctx, func(ctx context.Context) { k.due(ctx, all.Go) }, tick)
	all.Wait()
	return nil
}

// Read reads the days that are due now, server by server.
func (k *Keeper) Read(ctx context.Context) { k.due(ctx, func(read func()) { read() }) }

// A reading is of the server that some objects name, and their workloads.
type reading struct {
	collect.Server
	api       promv1.API
	workloads map[string]bool
}

// due begins the readings that are due.
func (k *Keeper) due(ctx context.Context, begin func(read func())) {
	if k.Folder == "" {
		return
	}
	list := &v1alpha1.MultidimPodAutoscalerList{}
	if err := k.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the objects whose use is read")
		return
	}
	readings := map[string]*reading{}
	for i := range list.Items {
		o := &list.Items[i]
		if o.Spec.Recommender.Algorithm != v1alpha1.AlgorithmUsage || o.DeletionTimestamp != nil || !k.Counts(o) || o.Spec.Metrics.Prometheus == nil {
			continue
		}
		s, api, problem := k.Prometheus.History(o.Spec.Metrics.Prometheus)
		if problem != nil {
			continue // its status has it
		}
		if readings[s.Name] == nil {
			readings[s.Name] = &reading{s, api, map[string]bool{}}
		}
		readings[s.Name].workloads[workloadOf(o)] = true
	}
	for _, read := range k.claim(ctx, readings) {
		begin(read)
	}
}

// claim returns the readings that are due, each of which is then busy.
func (k *Keeper) claim(ctx context.Context, readings map[string]*reading) (due []func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.servers == nil {
		k.servers = map[string]*server{}
	}
	for name, s := range k.servers {
		if readings[name] == nil && !s.busy {
			delete(k.servers, name)
			midnights.DeleteLabelValues(name)
		}
	}
	now := k.Clock.Now()
	for name, r := range readings {
		s := k.servers[name]
		if s == nil {
			s = &server{}
			k.servers[name] = s
		}
		if s.busy || now.Before(s.again) && s.again.Sub(now) <= mostPause || !s.lacks(r.workloads, now) {
			continue
		}
		s.busy = true
		due = append(due, func() { k.read(ctx, s, r) })
	}
	return due
}

// workloadOf is the name of an object's workload in histories.
func workloadOf(o *v1alpha1.MultidimPodAutoscaler) string {
	return o.Namespace + "/" + o.Spec.ScaleTargetRef.Kind + "/" + o.Spec.ScaleTargetRef.Name
}

// last is the last midnight whose day before is complete.
func last(now time.Time) time.Time { return now.Add(-delay).UTC().Truncate(day) }

// lacks reports whether the day before the last midnight, or a workload, is missing. A
// midnight a little ahead is that of a clock that was set back.
func (s *server) lacks(workloads map[string]bool, now time.Time) bool {
	at, due := s.midnight(), last(now)
	if at.Before(due) || at.After(due.Add(day)) {
		return true
	}
	for w := range workloads {
		if !s.workloads[w] {
			return true
		}
	}
	return false
}

// read reads the days that are due from a server, and replaces its histories.
func (k *Keeper) read(ctx context.Context, s *server, r *reading) {
	begin := k.Clock.Now()
	record, histories, err := k.fold(ctx, s, r, begin)
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.Clock.Now()
	s.busy, s.progress = false, ""
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		failures.WithLabelValues(r.Name).Inc()
		s.pause = min(mostPause, max(leastPause, 2*s.pause))
		s.again, s.problem = now.Add(s.pause), explain(ctx, err)
		log.FromContext(ctx).Error(err, "Cannot read the use of the last days", "server", r.Name, "again", s.pause)
		return
	}
	s.record, s.histories, s.workloads = record, histories, r.workloads
	s.problem, s.pause, s.again = "", 0, now.Add(min(rest*now.Sub(begin), mostPause))
	midnights.WithLabelValues(r.Name).Set(float64(s.midnight().Unix()))
}

// fold returns the days of a server, read where they are due, and the histories of its
// workloads.
func (k *Keeper) fold(ctx context.Context, s *server, r *reading, now time.Time) (*prometheus.Record, map[prometheus.ContainerOf]usage.Summary, error) {
	record := s.record // only this goroutine replaces it
	if record == nil || record.Until*int64(day/time.Second) != last(now).Unix() {
		reader := prometheus.Reader{
			URLs: []string{r.URL}, Match: r.Match, Folder: k.Folder, Keep: kept,
			API: func(string) promv1.API { return r.api },
			Progress: func(done, of int) {
				k.mu.Lock()
				defer k.mu.Unlock()
				s.progress = fmt.Sprintf("day %d of %d is read", done, of)
			},
		}
		var err error
		if record, err = reader.Read(ctx, now, usage.Window); err != nil {
			return nil, nil, err
		}
	}
	name, err := k.namer(ctx, r.workloads)
	if err != nil {
		return nil, nil, err
	}
	all := map[prometheus.ContainerOf]usage.Summary{}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(r.workloads)), cmp.Or(k.atOnce, together)) {
		histories, err := record.ContainerHistories(ctx, record.Until, func(d *prometheus.Day, pod prometheus.Pod) string {
			workload := name(d, pod)
			if _, among := slices.BinarySearch(some, workload); among {
				return workload
			}
			return ""
		})
		if err != nil {
			return nil, nil, err
		}
		for of, h := range histories {
			all[of] = h.Summary(float64(record.Until) * day.Seconds())
		}
	}
	return record, all, nil
}

// namer names the workloads of pods, those given and others.
func (k *Keeper) namer(ctx context.Context, workloads map[string]bool) (prometheus.Namer, error) {
	n := prometheus.Names{Pods: map[prometheus.Pod]string{}, There: maps.Clone(workloads)}
	pods := &corev1.PodList{}
	if err := k.Client.List(ctx, pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if ref, ok := owner.Of(p, nil); ok {
			workload := p.Namespace + "/" + ref.Kind + "/" + ref.Name
			n.Pods[prometheus.Pod{Namespace: p.Namespace, Name: p.Name}], n.There[workload] = workload, true
		}
	}
	return n.Name, nil
}

// explain is an error for people who may not see the words of a server.
func explain(ctx context.Context, err error) string {
	var mixed *prometheus.MixedError
	switch {
	case errors.As(err, &mixed):
		return fmt.Sprintf("it has several clusters, by the label %s: the server's entry in the recommender's list needs match", mixed.Label)
	case errors.Is(err, prometheus.ErrEmpty):
		return "it has no container_cpu_usage_seconds_total of pods: it has to scrape the kubelets' cAdvisor, every 2 minutes or more often"
	}
	return collect.ExplainHistory(ctx, err)
}

// NeedLeaderElection is true: only one process decides.
func (k *Keeper) NeedLeaderElection() bool { return true }
