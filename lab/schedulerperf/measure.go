package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/ptr"

	"github.com/sigma-scheduler/sigma/lab/controlplane"
	"github.com/sigma-scheduler/sigma/lab/schedulerperf/policy"
)

// bench is what all measurements share.
type bench struct {
	programs  string // folder of etcd, kube-apiserver, ...
	scheduler string // the program
	upstream  string // test binary with scheduler_perf, or empty
	root      string // folder of the main module
	templates templates
	pods      int
	profiles  []profile
	work      string // folder for everything, removed at the end
}

// measurement is one run of one profile.
type measurement struct {
	podsPerCPUSecond float64
	podsPerSecond    float64 // from the first to the last binding, by the clock
	scored           float64 // nodes for each pod
	nodes            int     // that the measured pods went to
	latency          map[string]latency
	micros           float64 // PreFilter, PreScore, Score and Reserve of a pod, mean
}

// latency of an extension point, all plugins together, in milliseconds.
type latency struct{ p50, p99 float64 }

var extensionPoints = []string{"PreFilter", "Filter", "PreScore", "Score"}

// controllers that would act on our nodes and pods, or only watch them, are off.
var controllers = "--controllers=-garbage-collector-controller,-pod-garbage-collector-controller," +
	"-deployment-controller,-replicaset-controller,-daemonset-controller,-statefulset-controller,-job-controller," +
	"-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller,-disruption-controller," +
	"-horizontal-pod-autoscaler-controller,-resourcequota-controller,-taint-eviction-controller,-ttl-controller," +
	"-persistentvolume-binder-controller,-persistentvolume-attach-detach-controller,-persistentvolume-expander-controller," +
	"-persistentvolumeclaim-protection-controller,-ephemeral-volume-controller,-resourceclaim-controller," +
	"-device-taint-eviction-controller,-replicationcontroller-controller,-node-route-controller"

func (b *bench) start(ctx context.Context, dir string) (*controlplane.ControlPlane, *rest.Config, *kubernetes.Clientset, error) {
	plane, err := controlplane.Start(ctx, controlplane.Options{
		Programs: b.programs, Dir: dir, Log: os.Stderr,
		ControllerManager: []string{controllers},
	})
	if err != nil {
		return nil, nil, nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", plane.Kubeconfig())
	if err == nil {
		config.QPS = -1 // no limit
		var client *kubernetes.Clientset
		if client, err = kubernetes.NewForConfig(config); err == nil {
			return plane, config, client, nil
		}
	}
	plane.Stop()
	return nil, nil, nil, err
}

// prepare makes a cluster in which pods wait for a scheduler, and returns the
// folder of etcd's data: every measurement starts from a copy of it.
func (b *bench) prepare(ctx context.Context, nodes int) (string, error) {
	dir, err := os.MkdirTemp(b.work, "prepare-")
	if err != nil {
		return "", err
	}
	plane, config, client, err := b.start(ctx, dir)
	if err != nil {
		return "", err
	}
	defer plane.Stop()
	if err := policy.Install(ctx, config, b.root); err != nil {
		return "", err
	}
	if err := b.templates.create(ctx, client, nodes, b.pods); err != nil {
		return "", err
	}
	// The lease is ours: a scheduler fills its caches and waits for it.
	_, err = client.CoordinationV1().Leases(leaseNamespace).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: leaseName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       new("bench"),
			LeaseDurationSeconds: new(int32(3600)),
			AcquireTime:          new(metav1.NowMicro()),
			RenewTime:            new(metav1.NowMicro()),
		},
	}, metav1.CreateOptions{})
	return filepath.Join(dir, "etcd"), err
}

// measure lets a profile schedule all waiting pods of the store. The scheduler's CPU
// time is taken from idle, with full caches, to idle.
func (b *bench) measure(ctx context.Context, store string, p profile) (m measurement, err error) {
	dir, err := os.MkdirTemp(b.work, p.name+"-")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.CopyFS(filepath.Join(dir, "etcd"), os.DirFS(store)); err != nil {
		return m, err
	}
	plane, _, client, err := b.start(ctx, dir)
	if err != nil {
		return m, err
	}
	defer plane.Stop()
	s, err := startScheduler(ctx, b.scheduler, filepath.Join("config", p.name+".yaml"), plane.Kubeconfig(), dir)
	if err != nil {
		return m, err
	}
	defer s.stop()
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, s.tail())
		}
	}()

	before, err := s.idle(ctx)
	if err != nil {
		return m, err
	}
	elapsed, err := b.schedule(ctx, client)
	if err != nil {
		return m, err
	}
	after, err := s.idle(ctx)
	if err != nil {
		return m, err
	}
	m.podsPerCPUSecond = float64(b.pods) / (after - before)
	m.podsPerSecond = float64(b.pods-1) / elapsed.Seconds()

	if m.nodes, err = b.nodesTaken(ctx, client); err != nil {
		return m, err
	}
	page, err := s.read(ctx, "/metrics")
	if err != nil {
		return m, err
	}
	if err := b.read(page, p, &m); err != nil {
		return m, err
	}
	settings, err := s.read(ctx, "/configz")
	if err != nil {
		return m, err
	}
	return m, checkSampling(settings, p)
}

// schedule lets the scheduler begin and returns the time from the first binding
// to the last.
func (b *bench) schedule(ctx context.Context, client kubernetes.Interface) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	bound := metav1.ListOptions{FieldSelector: "spec.nodeName!="}
	list, err := client.CoreV1().Pods("").List(ctx, bound)
	if err != nil {
		return 0, err
	}
	// The API server ends the watch of a client that is too slow for it.
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = bound.FieldSelector
			return client.CoreV1().Pods("").Watch(ctx, options)
		},
	})
	if err != nil {
		return 0, err
	}
	defer watcher.Stop()
	if err := client.CoordinationV1().Leases(leaseNamespace).Delete(ctx, leaseName, metav1.DeleteOptions{}); err != nil {
		return 0, err
	}
	var first time.Time
	for count := 0; count < b.pods; {
		event, open := <-watcher.ResultChan()
		if !open {
			return 0, fmt.Errorf("%d of %d pods were bound when the watch ended: %w", count, b.pods, context.Cause(ctx))
		}
		switch event.Type {
		case watch.Added: // to what the selector selects
			if count++; count == 1 {
				first = time.Now() //nolint:forbidigo // a clock is what measures
			}
		case watch.Modified, watch.Bookmark:
		default:
			return 0, fmt.Errorf("%s after %d bindings: %v", event.Type, count, event.Object)
		}
	}
	return time.Since(first), nil //nolint:forbidigo // the same
}

// nodesTaken counts the nodes that the measured pods went to. All must be bound.
func (b *bench) nodesTaken(ctx context.Context, client kubernetes.Interface) (int, error) {
	list, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	taken := make(map[string]bool)
	scheduled := 0
	for _, pod := range list.Items {
		if pod.Spec.NodeName == "" {
			return 0, fmt.Errorf("%s is not bound", pod.Name)
		}
		// Only what a scheduler has bound has this condition.
		if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }) {
			taken[pod.Spec.NodeName] = true
			scheduled++
		}
	}
	if scheduled != b.pods {
		return 0, fmt.Errorf("%d pods were scheduled, want %d", scheduled, b.pods)
	}
	return len(taken), nil
}

// families are a scheduler's metrics by name, as testutil wants them.
type families map[string]*dto.MetricFamily

func (f families) Gather() ([]*dto.MetricFamily, error) {
	var all []*dto.MetricFamily
	for _, family := range f {
		all = append(all, family)
	}
	return all, nil
}

var _ metrics.Gatherer = families{}

// read takes latencies from the metrics and verifies that every pod took one
// attempt, and that the profile's plugins and Sigma's policy decided.
func (b *bench) read(page []byte, p profile, m *measurement) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return err
	}
	all := families(parsed)
	if err := all.want("scheduler_schedule_attempts_total", "result", map[string]float64{"scheduled": float64(b.pods)}); err != nil {
		return err
	}
	if slices.Contains(p.scorers, "Sigma") {
		if err := all.want("sigma_decisions_total", "cause", map[string]float64{"policy": float64(b.pods)}); err != nil {
			return err
		}
	}
	scores, err := testutil.GetCounterValuesFromGatherer(all,
		"scheduler_plugin_evaluation_total", map[string]string{"extension_point": "Score"}, "plugin")
	if err != nil {
		return err
	}
	if !p.scoredBy(slices.Collect(maps.Keys(scores))) {
		return fmt.Errorf("the plugins that scored, with nodes scored: %v, want %v", scores, p.scorers)
	}
	m.scored = scores[p.scorers[0]] / float64(b.pods)

	m.latency = make(map[string]latency)
	for _, point := range append(slices.Clip(extensionPoints), "Reserve") {
		histogram, err := testutil.GetHistogramVecFromGatherer(all,
			"scheduler_framework_extension_point_duration_seconds", map[string]string{"extension_point": point})
		if err != nil {
			return err
		}
		if count := histogram.GetAggregatedSampleCount(); count != uint64(b.pods) {
			return fmt.Errorf("%s ran %d times for %d pods", point, count, b.pods)
		}
		if point != "Filter" {
			m.micros += 1e6 * histogram.GetAggregatedSampleSum() / float64(b.pods)
		}
		m.latency[point] = latency{p50: 1000 * histogram.Quantile(.5), p99: 1000 * histogram.Quantile(.99)}
	}
	return nil
}

// want verifies a counter's values by label.
func (f families) want(counter, label string, want map[string]float64) error {
	values, err := testutil.GetCounterValuesFromGatherer(f, counter, nil, label)
	if err == nil && !maps.Equal(values, want) {
		err = fmt.Errorf("%s by %s: %v, want %v", counter, label, values, want)
	}
	return err
}

// checkSampling verifies that the scheduler scored all nodes, or the share that it
// chooses itself, as the profile says.
func checkSampling(configz []byte, p profile) error {
	var settings struct {
		Componentconfig struct{ PercentageOfNodesToScore *int32 }
	}
	if err := json.Unmarshal(configz, &settings); err != nil {
		return fmt.Errorf("/configz: %w", err)
	}
	// Zero leaves it to the scheduler.
	if percentage := ptr.Deref(settings.Componentconfig.PercentageOfNodesToScore, 0); percentage != p.percentage {
		return fmt.Errorf("%s: percentageOfNodesToScore is %d, want %d", p.name, percentage, p.percentage)
	}
	return nil
}
