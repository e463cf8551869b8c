//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MPA is sigma-mpa under test.
type MPA struct {
	*Process
	metrics, health string // addresses
	scheme          string // https, or http of a former build
	token           string // for its metrics
}

// StartMPA starts sigma-mpa with args, its command first, and returns when it is ready.
func (c *Cluster) StartMPA(t testing.TB, args ...string) *MPA {
	t.Helper()
	return c.StartMPAProgram(t, Program(t, "sigma-mpa"), args...)
}

// StartMPAProgram is StartMPA with another build of sigma-mpa.
func (c *Cluster) StartMPAProgram(t testing.TB, program string, args ...string) *MPA {
	t.Helper()
	metrics, health := fmt.Sprintf("127.0.0.1:%d", FreePort(t)), fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	m := &MPA{metrics: metrics, health: health, scheme: "https", token: c.Config.BearerToken}
	m.Process = StartProcess(t, fmt.Sprintf("sigma-mpa-%d", processes.Add(1)), program,
		append(args, "--metrics-bind-address="+metrics, "--health-probe-bind-address="+health)...)
	m.WaitReady(t)
	return m
}

// WaitReady waits until sigma-mpa reports that it is ready, after a Restart too.
func (m *MPA) WaitReady(t testing.TB) {
	t.Helper()
	m.waitOK(t, func() (*http.Response, error) {
		response, err := insecure.Get(m.scheme + "://" + m.health + "/readyz")
		if err != nil && strings.Contains(err.Error(), "HTTP response to HTTPS client") {
			m.scheme = "http"
		}
		return response, err
	})
}

// Metric is the sum of the series with that name and those labels; see [Metric].
func (m *MPA) Metric(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	return MetricWith(t, m.scheme+"://"+m.metrics+"/metrics", m.token, name, labels...)
}

// Load is requests per second at a time since the workload's start.
type Load func(at time.Duration) float64

// Steps is a load that changes after each period; the last rate stays.
func Steps(each time.Duration, rates ...float64) Load {
	return func(at time.Duration) float64 { return rates[min(int(at/each), len(rates)-1)] }
}

// A WorkloadSpec describes the load on the pods with label app=App, and the cost of a
// request.
type WorkloadSpec struct {
	Namespace, App string
	Load           Load
	CPUSeconds     float64 // of a request, which runs on one core at a time
	WaitSeconds    float64 // that a request waits besides, for other services
	// QueueSeconds is how long a request may be queued before it is refused with
	// 503. Zero is 10 s.
	QueueSeconds float64
	// MemoryBytes of a container that has run for age and gets rate requests per
	// second. Above its limit it is killed. Nil is 100 MiB.
	MemoryBytes func(rate float64, age time.Duration) float64
}

// A Workload is an application simulated in real time on the pods that are ready.
// Requests are spread evenly over them. A pod is a processor-sharing queue whose
// speed is the cpu in its containers' status: the limit or else the request, as on
// a full node. Latency is exponential above WaitSeconds and the time that the queue takes;
// the queue grows while more arrives than is served.
//
// It exposes its figures on the page at Target as http_requests_total by code,
// http_request_duration_seconds (a histogram), container_cpu_usage_seconds_total
// and container_memory_working_set_bytes, all by namespace and pod; and, after
// FeedMetricsAPI, into PodMetrics.
type Workload struct {
	WorkloadSpec
	Target string // host:port of its page for Prometheus
	Page   *Feed  // the figures on that page

	c     *Cluster
	start time.Time

	mu    sync.Mutex
	now   time.Time
	pods  map[types.UID]*served
	lost  float64 // requests while no pod was ready
	fresh Figures
}

// Figures of a workload at a moment.
type Figures struct {
	Rate        float64 // requests per second
	Pods        int     // that are ready
	Capacity    float64 // cores of those
	Cores       float64 // used
	Utilisation float64 // of the capacity
	P95         float64 // seconds, of the slowest pod
	MemoryBytes float64 // of all pods
	Refused     float64 // requests since the start, including those without a pod
}

// served is the state of a pod.
type served struct {
	pod      *v1.Pod
	running  time.Time // its container, since
	restarts int32

	backlog float64 // core-seconds requested and not yet done
	cpu     float64 // core-seconds used
	memory  float64 // bytes
	cores   float64 // used in the last step
	p95     float64 // seconds; 0 = not ready

	answered, refused, seconds float64
	within                     []float64 // requests answered within each of latencyBounds
}

// latencyBounds are upper limits in seconds, a factor of about 1.3 apart.
var latencyBounds = []float64{
	.005, .0065, .0085, .011, .014, .018, .023, .03, .04, .05, .065, .085, .11, .14, .18, .23, .3, .4, .5, .65, .85,
	1.1, 1.4, 1.8, 2.3, 3, 4, 5, 6.5, 8.5, 11, 14,
}

// tick is a step of the simulation, which uses the time that really passed.
const tick = 100 * time.Millisecond

// StartWorkload starts an application that ends with the test. Its pods may change.
func (c *Cluster) StartWorkload(t testing.TB, spec WorkloadSpec) *Workload {
	t.Helper()
	require.Positive(t, spec.CPUSeconds)
	spec.QueueSeconds = cmp.Or(spec.QueueSeconds, 10)
	if spec.MemoryBytes == nil {
		spec.MemoryBytes = func(float64, time.Duration) float64 { return 100 << 20 }
	}
	now := time.Now()
	w := &Workload{WorkloadSpec: spec, c: c, start: now, now: now, pods: map[types.UID]*served{}, Page: &Feed{}}
	c.Kubelet.MemoryUsage(func(pod *v1.Pod) int64 {
		w.mu.Lock()
		defer w.mu.Unlock()
		if s := w.pods[pod.UID]; s != nil {
			return int64(s.memory)
		}
		return 0
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(w)
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	w.Target = strings.TrimPrefix(server.URL, "http://")
	every(t, tick, w.advance)
	return w
}

// every calls f periodically until the test ends, beginning at once.
func every(t testing.TB, period time.Duration, f func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var done sync.WaitGroup
	f()
	done.Go(func() {
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				f()
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

// Now returns the present figures.
func (w *Workload) Now() Figures {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fresh
}

func (w *Workload) advance() {
	var pods []*v1.Pod
	for p := range w.c.all(w.Namespace) { // often, and in any order
		if p.Labels["app"] == w.App && p.Status.Phase == v1.PodRunning && len(p.Status.ContainerStatuses) > 0 {
			pods = append(pods, p)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	seconds := now.Sub(w.now).Seconds()
	if seconds <= 0 {
		return
	}
	w.now = now
	w.follow(pods)

	fresh := Figures{Rate: w.Load(now.Sub(w.start)), Refused: w.fresh.Refused}
	for _, s := range w.pods {
		if s.ready() {
			fresh.Pods++
		}
	}
	if fresh.Pods == 0 {
		w.lost += fresh.Rate * seconds
		fresh.Refused += fresh.Rate * seconds
	}
	for _, s := range w.pods {
		s.cores, s.p95 = 0, 0
		rate := 0.0
		if s.ready() {
			rate = fresh.Rate / float64(fresh.Pods)
			fresh.Refused += w.serve(s, rate, seconds)
			fresh.Capacity += s.capacity()
		}
		w.setMemory(s, rate)
		fresh.Cores += s.cores
		fresh.P95 = max(fresh.P95, s.p95)
		fresh.MemoryBytes += s.memory
	}
	if fresh.Capacity > 0 {
		fresh.Utilisation = fresh.Cores / fresh.Capacity
	}
	w.fresh = fresh
}

// follow updates the pods' states, with new pods and without deleted ones.
func (w *Workload) follow(pods []*v1.Pod) {
	there := map[types.UID]bool{}
	for _, pod := range pods {
		there[pod.UID] = true
		s := w.pods[pod.UID]
		if s == nil {
			s = &served{running: w.now, within: make([]float64, len(latencyBounds))}
			w.pods[pod.UID] = s
		}
		if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != s.restarts {
			s.restarts, s.running, s.backlog = restarts, w.now, 0
		}
		s.pod = pod
	}
	maps.DeleteFunc(w.pods, func(uid types.UID, _ *served) bool { return !there[uid] })
}

func (s *served) ready() bool {
	return s.pod.DeletionTimestamp == nil && Condition(s.pod, v1.PodReady).Status == v1.ConditionTrue && s.capacity() > 0
}

// actual returns the kubelet's figures for one of the pod's resources, over its
// containers: the limit, and the limit or else the request.
func (s *served) actual(name v1.ResourceName) (limit, either float64) {
	for _, status := range s.pod.Status.ContainerStatuses {
		if status.Resources == nil {
			continue
		}
		amount, limited := status.Resources.Limits[name]
		if limited {
			limit += amount.AsApproximateFloat64()
		} else {
			amount = status.Resources.Requests[name]
		}
		either += amount.AsApproximateFloat64()
	}
	return limit, either
}

func (s *served) capacity() float64 {
	_, cores := s.actual(v1.ResourceCPU)
	return cores
}

// serve simulates a pod for some seconds and returns how many requests it refused.
func (w *Workload) serve(s *served, rate, seconds float64) (refused float64) {
	cores := s.capacity()
	requests := rate * seconds
	s.backlog += requests * w.CPUSeconds
	done := min(s.backlog, cores*seconds)
	s.backlog -= done
	s.cpu += done
	s.cores = done / seconds
	if over := s.backlog - cores*w.QueueSeconds; over > 0 {
		refused = min(over/w.CPUSeconds, requests)
		s.backlog -= refused * w.CPUSeconds
	}
	s.refused += refused

	least := w.WaitSeconds + s.backlog/cores
	mean := sojourn(rate*w.CPUSeconds/cores, w.CPUSeconds, cores)
	s.p95 = least + mean*math.Log(20)
	answered := requests - refused
	s.answered += answered
	s.seconds += answered * (least + mean)
	for i, bound := range latencyBounds {
		if bound > least {
			s.within[i] += answered * -math.Expm1(-(bound-least)/mean)
		}
	}
	return refused
}

// sojourn is the mean time that requests of a size in core-seconds spend at a number of
// cores with a utilisation: that of M/M/1 for one core or less, which is exact, and
// Sakasegawa's approximation of M/M/c above. Utilisation stops at 98 %: the backlog covers
// the rest.
func sojourn(share, size, cores float64) float64 {
	share = min(share, .98)
	c := max(cores, 1)
	alone := size / min(cores, 1)
	return alone * (1 + math.Pow(share, math.Sqrt(2*(c+1))-1)/(c*(1-share)))
}

// setMemory sets a pod's memory, and kills the pod if that is too much.
func (w *Workload) setMemory(s *served, rate float64) {
	if s.pod.Status.ContainerStatuses[0].State.Running == nil {
		s.memory = 0
		return
	}
	s.memory = w.MemoryBytes(rate, w.now.Sub(s.running))
	if limit, _ := s.actual(v1.ResourceMemory); limit > 0 && s.memory > limit {
		s.memory = limit
		w.c.Kubelet.OOMKill(s.pod)
	}
}
