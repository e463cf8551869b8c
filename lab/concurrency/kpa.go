package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	netheader "knative.dev/networking/pkg/http/header"
	"knative.dev/serving/pkg/apis/autoscaling"
	"knative.dev/serving/pkg/apis/autoscaling/v1alpha1"
	"knative.dev/serving/pkg/autoscaler/metrics"
	"knative.dev/serving/pkg/autoscaler/scaling"
)

// Knative's defaults, of its ConfigMap config-autoscaler.
const (
	kpaTick       = 2 * time.Second
	kpaStable     = 60 * time.Second
	kpaPanic      = 6 * time.Second
	kpaTarget     = 100. // requests at once, where there is no hard limit
	kpaUse        = .7   // of the target
	kpaUp         = 1000
	kpaDown       = 2
	kpaPanicShare = 2
)

// A setting holds the settings of a Knative Service for a pod.
type setting struct {
	Name  string  `json:"name"`
	Limit int     `json:"limit"` // containerConcurrency; 0 = no limit
	Rate  float64 `json:"rate"`  // target of requests a second; 0 = Knative's target of requests at once
	Used  float64 `json:"used"`  // of the target; 0 = Knative's default
}

func (s *setting) decider() *scaling.DeciderSpec {
	d := &scaling.DeciderSpec{
		MaxScaleUpRate: kpaUp, MaxScaleDownRate: kpaDown, PanicThreshold: kpaPanicShare, StableWindow: kpaStable,
		TargetBurstCapacity: -1, Reachable: true, // the activator is always there
	}
	switch {
	case s.Rate > 0:
		d.ScalingMetric, d.TotalValue = autoscaling.RPS, s.Rate
	case s.Limit > 0:
		d.ScalingMetric, d.TotalValue = autoscaling.Concurrency, float64(s.Limit)
	default:
		d.ScalingMetric, d.TotalValue = autoscaling.Concurrency, kpaTarget
	}
	d.TargetValue = cmp.Or(s.Used, kpaUse) * d.TotalValue
	return d
}

// A kpa is Knative's autoscaler of one Revision: its collector of metrics, which scrapes the queue-proxies, and its
// decisions.
type kpa struct {
	activator *activator
	collector *metrics.MetricCollector
	scaler    scaling.UniScaler
	logger    *zap.SugaredLogger
}

var revision = types.NamespacedName{Namespace: "default", Name: "web-00001"}

// newKPA returns one for the pods of an activator. It has to be closed.
func newKPA(a *activator, s *setting) (*kpa, error) {
	k := &kpa{activator: a, logger: zap.NewNop().Sugar()}
	k.collector = metrics.NewMetricCollector(func(*v1alpha1.Metric, *zap.SugaredLogger) (metrics.StatsScraper, error) { return k, nil }, k.logger)
	err := k.collector.CreateOrUpdate(&v1alpha1.Metric{
		ObjectMeta: metav1.ObjectMeta{Namespace: revision.Namespace, Name: revision.Name},
		Spec:       v1alpha1.MetricSpec{StableWindow: kpaStable, PanicWindow: kpaPanic, ScrapeTarget: "web-00001-private"},
	})
	k.scaler = scaling.New(attribute.Set{}, noop.NewMeterProvider(), revision.Namespace, revision.Name, k.collector, k, s.decider())
	return k, err
}

func (k *kpa) close() { k.collector.Delete(revision.Namespace, revision.Name) }

// ReadyCount and NotReadyCount are the autoscaler's view of the cluster.
func (k *kpa) ReadyCount() (int, error)    { return len(k.activator.ready()), nil }
func (k *kpa) NotReadyCount() (int, error) { return 0, nil }

// Scrape implements [metrics.StatsScraper], which the collector calls every second: the sum of the reports of all
// queue-proxies.
func (k *kpa) Scrape(time.Duration) (sum metrics.Stat, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, b := range k.activator.ready() {
		s, err := b.pod.stat(ctx)
		if err != nil {
			continue // the pod has just ended
		}
		sum.PodName = "sum"
		sum.AverageConcurrentRequests += s.AverageConcurrentRequests
		sum.AverageProxiedConcurrentRequests += s.AverageProxiedConcurrentRequests
		sum.RequestCount += s.RequestCount
		sum.ProxiedRequestCount += s.ProxiedRequestCount
	}
	return sum, nil
}

// report passes the activator's counts since the last report to the collector; it is called every second.
func (k *kpa) report(now time.Time) {
	r := k.activator.stats.Report(now)
	k.collector.Record(revision, now, metrics.Stat{PodName: "activator", AverageConcurrentRequests: r.AverageConcurrency, RequestCount: r.RequestCount})
}

// wants returns the desired number of pods; false = unknown.
func (k *kpa) wants(now time.Time) (int, bool) {
	r := k.scaler.Scale(k.logger, now)
	return int(r.DesiredPodCount), r.ScaleValid
}

var statsURL = "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(queueStatsPort)) + "/metrics"

// stat is queue-proxy's report to the autoscaler.
func (d *pod) stat(ctx context.Context) (s metrics.Stat, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, statsURL, nil)
	if err != nil {
		return s, err
	}
	request.Header.Set("Accept", netheader.ProtobufMIMEType)
	response, err := d.client.Do(request)
	if err != nil {
		return s, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", statsURL, response.Status)
	}
	if err != nil {
		return s, err
	}
	return s, s.Unmarshal(text)
}

// startQueue starts queue-proxy, the program at a path, with a limit.
func (d *pod) startQueue(ctx context.Context, program string, limit int) error {
	_, port, err := net.SplitHostPort(functionAddress)
	if err != nil {
		return err
	}
	user, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	q := queueProxy{Program: program, Concurrency: limit, UserPort: user, TimeoutSeconds: 300, Namespace: revision.Namespace, Revision: revision.Name, Pod: d.name}
	return d.front(ctx, q.command(), "http://"+queueAddress+emptyPath)
}
