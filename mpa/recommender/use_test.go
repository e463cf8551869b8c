package recommender

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/internal/usage/prometheus/prometheustest"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
	"github.com/sigma-scheduler/sigma/mpa/journal"
)

const mi = 1 << 20

// A usedWorld is a world whose object is sized by use, by a Prometheus with 28 days of it.
// Recommendations are carried out at once.
type usedWorld struct {
	*world
	prometheus *prometheustest.Fake
	away       bool
	cpu        float64 // cores of a pod, memory in bytes
	memory     float64
	last       int64 // recommendation that was carried out
}

func newUsed(t *testing.T, change ...func(*v1alpha1.MultidimPodAutoscaler)) *usedWorld {
	t.Helper()
	w := &usedWorld{cpu: .1, memory: 200 * mi}
	w.world = newWorld(t, append([]func(*v1alpha1.MultidimPodAutoscaler){func(o *v1alpha1.MultidimPodAutoscaler) {
		o.Spec.Mode = v1alpha1.ModeInPlace
		o.Spec.Recommender.Algorithm = v1alpha1.AlgorithmUsage
		o.Spec.Metrics.Prometheus = &v1alpha1.Prometheus{Server: "main"}
	}}, change...)...)
	w.prometheus = &prometheustest.Fake{}
	for i := range 2 {
		w.prometheus.Series = append(w.prometheus.Series, prometheustest.Of("shop", fmt.Sprint("web-", i), "web",
			func(int64) float64 { return w.cpu }, func(int64) float64 { return w.memory }))
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if w.away {
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		w.prometheus.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	var err error
	w.collector.Prometheus, err = collect.NewPrometheus([]collect.Server{{Name: "main", URL: server.URL}}, 20, w.clock.Now)
	require.NoError(t, err)
	w.history.Prometheus, w.history.Folder = w.collector.Prometheus, t.TempDir()
	w.options.JournalDir = t.TempDir()
	w.usage.cpu, w.usage.memory = "100m", "200Mi"
	w.template("500m", "512Mi")
	w.pods(func(p *corev1.Pod) { p.Labels["pod-template-hash"] = "1" })
	return w
}

// template edits the requests of the workload's template.
func (w *usedWorld) template(cpu, memory string) {
	w.t.Helper()
	d := &appsv1.Deployment{}
	require.NoError(w.t, w.Get(w.t.Context(), key, d))
	d.Spec.Template.Spec.Containers[0].Resources.Requests = amounts(cpu, memory)
	require.NoError(w.t, w.Update(w.t.Context(), d))
}

func (w *usedWorld) pods(change func(*corev1.Pod)) {
	w.t.Helper()
	for i := range 2 {
		p := pod(i)
		require.NoError(w.t, w.Get(w.t.Context(), client.ObjectKeyFromObject(p), p))
		change(p)
		require.NoError(w.t, w.Update(w.t.Context(), p))
	}
}

// size is what pods request: millicores and MiB.
func (w *usedWorld) size() [2]int64 {
	w.t.Helper()
	p := pod(0)
	require.NoError(w.t, w.Get(w.t.Context(), client.ObjectKeyFromObject(p), p))
	r := p.Spec.Containers[0].Resources.Requests
	return [2]int64{r.Cpu().MilliValue(), r.Memory().Value() / mi}
}

// live lets minutes pass.
func (w *usedWorld) live(minutes int) (o *v1alpha1.MultidimPodAutoscaler) {
	w.t.Helper()
	for range (2*minutes + 2) / 3 {
		w.history.Read(w.t.Context())
		o = w.step(90 * time.Second)
		if r := o.Status.Recommendation; r != nil && r.Change == v1alpha1.ChangeRequests && r.ID != w.last {
			w.last = r.ID
			w.pods(func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": *r.Containers[0].CPU, "memory": *r.Containers[0].Memory}
			})
		}
	}
	return o
}

// night lets time pass until half past the next midnight of UTC, and lives from then on.
func (w *usedWorld) night() {
	w.t.Helper()
	w.clock.SetTime(w.clock.Now().Truncate(24 * time.Hour).Add(24*time.Hour + 30*time.Minute))
	w.live(40)
}

func TestUse(t *testing.T) {
	w := newUsed(t)
	o := w.live(90)
	require.Equal(t, [2]int64{101, 230}, w.size(), o.Status.Decision)
	require.Equal(t, "OK", o.Status.Summary)
	require.Contains(t, condition(&o.Status, v1alpha1.ConditionRecommendation).Message, "28 days up to 2026-05-04")
	require.EqualValues(t, 2, o.Status.Observed.Replicas)
	require.Equal(t, v1alpha1.ChangeRequests, o.Status.Recommendation.Change, "replicas are left alone")

	w.cpu, w.memory, w.usage.memory = 1.2, 600*mi, "600Mi" // above the request, of the template too
	require.Equal(t, [2]int64{101, 230}, w.size())
	w.night()
	require.Greater(t, w.size()[0], int64(1200))
	require.Equal(t, int64(690), w.size()[1])

	w.spec(func(s *v1alpha1.MultidimPodAutoscalerSpec) { s.Recommender.Algorithm = v1alpha1.AlgorithmTemplate })
	w.live(30)
	require.Equal(t, [2]int64{500, 512}, w.size(), "the way back is exact")

	for _, file := range journal.Files(w.journalPath(o)) {
		v, err := journal.ReplayFile(file, nil)
		require.NoError(t, err)
		require.Nil(t, v.First)
		require.Positive(t, v.Decisions)
	}
}

// spec edits the object's spec.
func (w *usedWorld) spec(change func(*v1alpha1.MultidimPodAutoscalerSpec)) {
	w.t.Helper()
	o := w.read()
	change(&o.Spec)
	o.Generation++
	require.NoError(w.t, w.Update(w.t.Context(), o))
}

func TestUseOff(t *testing.T) {
	w := newUsed(t, func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Mode = v1alpha1.ModeOff })
	o := w.live(5)
	require.Equal(t, "101m", o.Status.Decision.Containers[0].CPU.String())
	require.Equal(t, [2]int64{500, 512}, w.size())
}

// Each reason for which there is no history is in the status.
func TestUseWithoutHistory(t *testing.T) {
	reason := func(w *usedWorld) [2]string {
		c := condition(&w.live(3).Status, v1alpha1.ConditionMetrics)
		return [2]string{c.Reason, c.Message}
	}
	w := newUsed(t)
	w.history.Folder = ""
	require.Equal(t, "HistoryOff", reason(w)[0])
	require.Equal(t, [2]int64{500, 512}, w.size())
	w = newUsed(t)
	w.away = true
	require.Equal(t, [2]string{"HistoryFailed", "history: the use of the last 28 days cannot be read from server main: Prometheus answers with an error (server_error); the recommender's log says more"}, reason(w))
	w = newUsed(t)
	w.prometheus.Series = nil
	require.Contains(t, reason(w)[1], "it has to scrape the kubelets' cAdvisor")
	w = newUsed(t, func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Metrics.Prometheus.Server = "other" })
	require.Equal(t, "PrometheusServer", reason(w)[0])
}

// An edit of the template ends the sizes by use, also for a process without the journal.
func TestUseAfterAnEdit(t *testing.T) {
	w := newUsed(t)
	w.live(90)
	w.template("400m", "300Mi")
	o := w.live(10)
	require.Equal(t, [2]int64{400, 300}, w.size())
	require.Contains(t, condition(&o.Status, v1alpha1.ConditionRecommendation).Message, "left alone")
	w.restart()
	require.NoError(t, os.RemoveAll(w.options.JournalDir))
	w.night()
	require.Equal(t, [2]int64{400, 300}, w.size())
	w.spec(func(*v1alpha1.MultidimPodAutoscalerSpec) {})
	o = w.live(90)
	require.Equal(t, [2]int64{101, 230}, w.size(), o.Status.Decision)
}

// A HorizontalPodAutoscaler whose target would change with requests and that a program owns keeps the requests of the
// template, or brings them back; the status has the reason.
func TestUseBesideHorizontal(t *testing.T) {
	w := newUsed(t)
	w.live(90)
	require.Equal(t, [2]int64{101, 230}, w.size())
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "h"}}
	h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	h.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(60))},
	}}}
	require.NoError(t, w.Create(t.Context(), h))
	o := w.live(30)
	require.Equal(t, v1alpha1.PhaseHolding, o.Status.Phase)
	require.Equal(t, [2]int64{101, 230}, w.size(), "the updater converts its target")
	h.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	require.NoError(t, w.Update(t.Context(), h))
	o = w.live(30)
	require.Equal(t, [2]int64{500, 512}, w.size())
	require.Contains(t, condition(&o.Status, v1alpha1.ConditionRecommendation).Message, "left alone: HorizontalPodAutoscaler h has a target of 60 % of the requests of cpu, and Helm (app.kubernetes.io/managed-by) owns it")
	require.NoError(t, w.Delete(t.Context(), h))
	w.live(90)
	require.Equal(t, [2]int64{101, 230}, w.size())
}

// Under faults nothing shrinks without data, no request is below the memory in use, and after them
// the sizes are those of the use.
func TestUseFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(w *usedWorld, r *rand.Rand)
	}{
		{"Prometheus is away", func(w *usedWorld, _ *rand.Rand) {
			before := w.size()
			w.away, w.cpu, w.memory = true, w.cpu/2, w.memory/2
			w.night()
			require.Equal(w.t, before, w.size())
			w.away = false
			w.live(40) // the backoff
		}},
		{"the history is deleted, and Prometheus keeps three days", func(w *usedWorld, _ *rand.Rand) {
			before, all := w.size(), w.prometheus.Series
			from := w.clock.Now().Unix()/300 - 3*288
			short := func(of func(int64) float64) func(int64) float64 {
				return func(step int64) float64 {
					if step < from {
						return prometheustest.None
					}
					return of(step) / 2
				}
			}
			w.prometheus.Series = nil
			for _, s := range all {
				w.prometheus.Series = append(w.prometheus.Series, prometheustest.Of("shop", s.Pod, "web", short(s.CPU), short(s.Memory)))
			}
			require.NoError(w.t, os.RemoveAll(w.history.Folder))
			w.restart()
			w.night()
			require.Equal(w.t, before, w.size(), "nothing shrinks without data")
			w.prometheus.Series = all
			require.NoError(w.t, os.RemoveAll(w.history.Folder))
		}},
		{"the clock goes back", func(w *usedWorld, r *rand.Rand) {
			w.live(5)
			before := w.size()
			w.clock.SetTime(w.clock.Now().Add(-time.Duration(1+r.IntN(100)) * time.Hour))
			w.live(10)
			require.Equal(w.t, before, w.size())
		}},
		{"the recommender is killed again and again", func(w *usedWorld, r *rand.Rand) {
			w.clock.SetTime(w.clock.Now().Truncate(24 * time.Hour).Add(24*time.Hour + 15*time.Minute))
			defer func() { w.patch = func(next func() error) error { return next() } }()
			for range 15 {
				before := r.IntN(3)
				w.patch = func(next func() error) error {
					if before == 0 {
						return errors.New("killed before the write")
					}
					err := next()
					if before == 1 && err == nil {
						err = errors.New("killed after the write")
					}
					return err
				}
				w.live(1 + r.IntN(3))
				w.restart()
			}
		}},
		{"tenfold load", func(w *usedWorld, _ *rand.Rand) {
			before := w.size()
			cpu, memory := w.cpu, w.memory
			w.cpu, w.memory, w.usage.memory = 10*cpu, 1.8*memory, fmt.Sprintf("%.0f", 1.8*memory)
			w.live(10)
			require.Equal(w.t, before, w.size(), "use is counted at midnight")
			w.night()
			require.Greater(w.t, w.size()[0], before[0])
			require.GreaterOrEqual(w.t, float64(w.size()[1]), 1.15*1.8*memory/mi-1)
			w.cpu, w.memory = cpu, memory
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rounds := 1
			if text := os.Getenv("SIGMA_ROUNDS"); text != "" {
				var err error
				rounds, err = strconv.Atoi(text)
				require.NoError(t, err)
			}
			defer func() { t.Logf("| %s | %d | |", c.name, rounds) }()
			for round := range rounds {
				r := rand.New(rand.NewPCG(uint64(round), 1))
				w := newUsed(t)
				w.cpu, w.memory = .15+.25*r.Float64(), float64(150+r.IntN(200))*mi // two steps from the template
				w.usage.memory = fmt.Sprintf("%.0f", w.memory)
				w.live(20)
				c.fault(w, r)
				w.usage.memory = fmt.Sprintf("%.0f", w.memory)
				w.night()
				require.GreaterOrEqual(t, float64(w.size()[1]), 1.15*w.memory/mi-1, "round %d", round)
				require.GreaterOrEqual(t, float64(w.size()[0]), 1000*w.cpu-1, "round %d", round)
				require.LessOrEqual(t, w.size()[0], int64(4600))
			}
		})
	}
}
