//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// A Feed is one of the outputs of a workload's figures. A test may tamper with it.
type Feed struct {
	mu      sync.Mutex
	state   feedState
	distort func(name string, value float64) float64
	frozen  []prometheus.Metric
}

type feedState int

const (
	flowing feedState = iota
	freezing
	stopped
)

// Freeze makes the feed repeat its last figures, with their time.
func (f *Feed) Freeze() { f.set(freezing) }

// Stop makes the feed empty.
func (f *Feed) Stop() { f.set(stopped) }

// Resume undoes Freeze, Stop and Distort.
func (f *Feed) Resume() {
	f.set(flowing)
	f.Distort(nil)
}

func (f *Feed) set(state feedState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state, f.frozen = state, nil
}

// Distort changes the values of the feed. Names are those on the page, and for PodMetrics
// cpu in cores and memory in bytes; of a histogram, only the sum can be changed.
func (f *Feed) Distort(distort func(name string, value float64) float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.distort = distort
}

// value returns the distorted value; the lock is held.
func (f *Feed) value(name string, value float64) float64 {
	if f.distort == nil {
		return value
	}
	return f.distort(name, value)
}

// Describe implements [prometheus.Collector]: the metrics depend on the pods.
func (w *Workload) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (w *Workload) Collect(out chan<- prometheus.Metric) {
	w.advance()
	w.Page.mu.Lock()
	defer w.Page.mu.Unlock()
	metrics := w.Page.frozen
	switch {
	case w.Page.state == stopped:
		return
	case metrics == nil:
		metrics = w.metrics()
	}
	if w.Page.state == freezing {
		w.Page.frozen = metrics
	}
	for _, metric := range metrics {
		out <- metric
	}
}

func (w *Workload) metrics() []prometheus.Metric {
	w.mu.Lock()
	defer w.mu.Unlock()
	var metrics []prometheus.Metric
	add := func(metric prometheus.Metric) {
		metrics = append(metrics, prometheus.NewMetricWithTimestamp(w.now, metric))
	}
	number := func(name string, kind prometheus.ValueType, value float64, labels prometheus.Labels) {
		add(prometheus.MustNewConstMetric(prometheus.NewDesc(name, name, nil, labels), kind, w.Page.value(name, value)))
	}
	const requests, latency = "http_requests_total", "http_request_duration_seconds"
	number(requests, prometheus.CounterValue, w.lost,
		prometheus.Labels{"namespace": w.Namespace, "app": w.App, "pod": "", "code": "503"})
	for _, s := range w.pods {
		labels := func(more ...string) prometheus.Labels {
			l := prometheus.Labels{"namespace": w.Namespace, "pod": s.pod.Name}
			for i := 0; i < len(more); i += 2 {
				l[more[i]] = more[i+1]
			}
			return l
		}
		number(requests, prometheus.CounterValue, s.answered, labels("app", w.App, "code", "200"))
		number(requests, prometheus.CounterValue, s.refused, labels("app", w.App, "code", "503"))
		container := labels("container", s.pod.Spec.Containers[0].Name)
		number("container_cpu_usage_seconds_total", prometheus.CounterValue, s.cpu, container)
		number("container_memory_working_set_bytes", prometheus.GaugeValue, s.memory, container)
		buckets := map[float64]uint64{}
		for i, bound := range latencyBounds {
			buckets[bound] = uint64(math.Round(s.within[i]))
		}
		add(prometheus.MustNewConstHistogram(prometheus.NewDesc(latency, latency, nil, labels("app", w.App)),
			uint64(math.Round(s.answered)), w.Page.value(latency, s.seconds), buckets))
	}
	return metrics
}

// podMetrics is metrics.k8s.io as a writable resource, in place of metrics-server's.
var podMetrics = schema.GroupVersionResource{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods"}

const podMetricsDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: pods.metrics.k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, test fixture"}
spec:
  group: metrics.k8s.io
  scope: Namespaced
  names: {plural: pods, singular: podmetrics, kind: PodMetrics, listKind: PodMetricsList}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// InstallMetricsAPI installs the kind PodMetrics, without objects.
func (c *Cluster) InstallMetricsAPI(t testing.TB) {
	t.Helper()
	c.Kubectl(t, podMetricsDefinition, "apply", "-f", "-")
	c.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s", "crd/pods.metrics.k8s.io")
}

// FeedMetricsAPI writes PodMetrics of the workload's pods once a second, after
// InstallMetricsAPI.
func (w *Workload) FeedMetricsAPI(t testing.TB) *Feed {
	t.Helper()
	f := &Feed{}
	last := map[types.UID]float64{} // core-seconds by then
	var then time.Time
	written := map[string]bool{} // names
	every(t, time.Second, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.state == freezing {
			return
		}
		objects := map[string]map[string]any{}
		w.mu.Lock()
		window := w.now.Sub(then)
		for uid, s := range w.pods {
			before, known := last[uid]
			last[uid] = s.cpu
			if known && f.state == flowing && s.memory > 0 {
				cores := (s.cpu - before) / window.Seconds()
				objects[s.pod.Name] = w.usage(f, s, window, cores)
			}
		}
		then = w.now
		w.mu.Unlock()
		for name := range objects {
			written[name] = true
		}
		names := slices.Collect(maps.Keys(written))
		err := parallel(names, func(name string) error { return w.c.writePodMetrics(w.Namespace, name, objects[name]) })
		if err != nil { // the API server may be back in the next second
			klog.V(2).InfoS("PodMetrics", "err", err)
			return
		}
		maps.DeleteFunc(written, func(name string, _ bool) bool { return objects[name] == nil })
	})
	return f
}

// usage is the content of a PodMetrics.
func (w *Workload) usage(f *Feed, s *served, window time.Duration, cores float64) map[string]any {
	usage := containerUsage(s.pod.Spec.Containers[0].Name, f.value("cpu", cores), f.value("memory", s.memory))
	return metricsOf(s.pod, w.now, window, usage)
}

// metricsOf is the content of a pod's PodMetrics, with the [containerUsage] of containers.
func metricsOf(pod *v1.Pod, at time.Time, window time.Duration, containers ...any) map[string]any {
	labels := map[string]any{}
	for key, value := range pod.Labels {
		labels[key] = value
	}
	return map[string]any{
		"metadata":   map[string]any{"labels": labels},
		"timestamp":  at.UTC().Format(time.RFC3339),
		"window":     window.Round(time.Millisecond).String(),
		"containers": containers,
	}
}

func containerUsage(name string, cores, bytes float64) any {
	return map[string]any{"name": name, "usage": map[string]any{"cpu": quantity(cores, 1e9, "n"), "memory": quantity(bytes, 1, "")}}
}

// quantity writes an amount as a whole number of units, as Kubernetes does; NaN stays NaN.
func quantity(amount, units float64, suffix string) string {
	return strconv.FormatFloat(math.Round(amount*units), 'f', 0, 64) + suffix
}

// writePodMetrics creates or updates a PodMetrics with that content, or deletes it without one.
func (c *Cluster) writePodMetrics(namespace, name string, content map[string]any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client := c.Dynamic.Resource(podMetrics).Namespace(namespace)
	if content == nil {
		err := client.Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	patch, err := json.Marshal(content)
	if err == nil {
		_, err = client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if apierrors.IsNotFound(err) {
		object := &unstructured.Unstructured{Object: content}
		object.SetAPIVersion(podMetrics.GroupVersion().String())
		object.SetKind("PodMetrics")
		object.SetName(name)
		_, err = client.Create(ctx, object, metav1.CreateOptions{})
	}
	return err
}
