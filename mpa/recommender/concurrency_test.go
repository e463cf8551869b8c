package recommender

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
)

// gates is a Prometheus that scrapes the gates of both pods. They let 8 in at once; of 90
// requests a second each takes 10.7 ms of cpu, as the metrics API says, and waits 40 ms.
type gates struct {
	world  *world
	silent atomic.Bool
	limit  atomic.Int32 // in force; 0 = 8
	worse  atomic.Bool  // at any other limit pods are full and answer less
}

func (g *gates) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := float64(g.world.clock.Now().UnixMilli()) / 1000
	query := r.FormValue("query")
	result := fmt.Sprintf(`[{"metric":{"mpa_selector":"0"},"value":[%f,"%f"]}]`, now, now-5) // of a question for freshness
	if !strings.Contains(query, "timestamp(") {
		value, inside, limit := "90", "6", cmp.Or(g.limit.Load(), 8) // value: arriving, answered
		if g.worse.Load() && limit != 8 {
			value, inside = "50", fmt.Sprint(2*limit)
		}
		for part, v := range map[string]string{`"failed"`: "0", "inside_seconds": inside, "gate_waiting": "0", "gate_limit": fmt.Sprint(limit), "latency": "0.1"} {
			if strings.Contains(query, part) {
				value = v
			}
		}
		result = fmt.Sprintf(`[{"metric":{},"value":[%f,"%s"]}]`, now, value)
	}
	if g.silent.Load() && strings.Contains(query, "sigma_gate") {
		result = "[]"
	}
	_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":%s}}`, result)
}

func gatedWorld(t *testing.T, change ...func(*v1alpha1.MultidimPodAutoscaler)) (*world, *gates) {
	t.Helper()
	w := newWorld(t, append([]func(*v1alpha1.MultidimPodAutoscaler){func(o *v1alpha1.MultidimPodAutoscaler) {
		o.Spec.Concurrency = &v1alpha1.Concurrency{Mode: "Observe", Learner: "law+walk", Min: 1, Max: 310, Initial: 10}
		o.Spec.Metrics.Prometheus = &v1alpha1.Prometheus{Server: "main", Queries: v1alpha1.Queries{Latency: "latency"}}
		o.Spec.SLO = &v1alpha1.SLO{Latency: &v1alpha1.LatencySLO{Percentile: 95, Target: metav1.Duration{Duration: time.Second}}}
	}}, change...)...)
	g := &gates{world: w}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	var err error
	w.collector.Prometheus, err = collect.NewPrometheus([]collect.Server{{Name: "main", URL: server.URL}}, 20, w.clock.Now)
	require.NoError(t, err)
	return w, g
}

// The status says what a pod takes; no limit and no workload is changed for it.
func TestObservesConcurrency(t *testing.T) {
	w, g := gatedWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Mode = v1alpha1.ModeOff })
	c := w.step(0).Status.Concurrency
	require.NotNil(t, c)
	assert.Equal(t, int32(8), c.InForce)
	assert.Equal(t, int32(10), c.Limit)
	assert.Contains(t, c.Reason, "nothing is known of a pod yet")
	assert.Nil(t, c.Demand)
	for range 12 {
		c = w.step(15 * time.Second).Status.Concurrency
	}
	require.NotNil(t, c.Demand, "%+v", c)
	assert.Positive(t, c.Windows)
	assert.InDelta(t, .96/90, c.Demand.Value.Seconds(), .0005)
	assert.LessOrEqual(t, c.Demand.Low.Duration, c.Demand.Value.Duration)
	assert.GreaterOrEqual(t, c.Demand.High.Duration, c.Demand.Value.Duration)
	assert.InDelta(t, .85*.5/(.96/90), c.RatePerPod.AsApproximateFloat64(), 5, "somewhat below .85 of what its cpu allows")
	assert.InDelta(t, 5, c.Limit, 3)

	g.silent.Store(true)
	o := w.step(15 * time.Second)
	assert.Contains(t, o.Status.Concurrency.Reason, "no gate measures the requests")
	assert.NotNil(t, o.Status.Concurrency.Demand, "what was learned stays")
	assert.Contains(t, condition(&o.Status, v1alpha1.ConditionMetrics).Message, "gates: ")
	g.silent.Store(false)

	// Another spec begins again.
	o.Generation++
	o.Spec.Concurrency.Initial = 7
	require.NoError(t, w.Update(t.Context(), o))
	c = w.step(15 * time.Second).Status.Concurrency
	assert.Equal(t, int32(7), c.Limit)
	assert.Zero(t, c.Windows)
	o = w.read()
	o.Generation++
	o.Spec.Concurrency = nil
	require.NoError(t, w.Update(t.Context(), o))
	assert.Nil(t, w.step(15*time.Second).Status.Concurrency)
}

// With the algorithm capacity the replicas follow the learned rate.
func TestScalesByCapacity(t *testing.T) {
	w, _ := gatedWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Recommender.Algorithm = "capacity" })
	var o *v1alpha1.MultidimPodAutoscaler
	for range 12 {
		o = w.step(15 * time.Second)
	}
	require.NotNil(t, o.Status.Recommendation, "%+v", o.Status.Decision)
	assert.Equal(t, v1alpha1.ChangeReplicas, o.Status.Recommendation.Change)
	assert.Equal(t, int32(3), o.Status.Recommendation.Replicas, "90 requests a second, some 35 in a pod")
	assert.Equal(t, "capacity", o.Status.Decision.Source)
	assert.NotContains(t, strings.Join(o.Status.Decision.Guards, " "), "limit", "nothing takes one, so none is asked for")
}

// carryOut is what the updater does with a limit.
func carryOut(w *world, g *gates, o *v1alpha1.MultidimPodAutoscaler) {
	w.t.Helper()
	r := o.Status.Recommendation
	if r == nil || r.Change != v1alpha1.ChangeLimit || o.Status.Actuation != nil && o.Status.Actuation.ID == r.ID {
		return
	}
	g.limit.Store(r.Limit)
	o.Status.Actuation = &v1alpha1.Actuation{ID: r.ID, Outcome: v1alpha1.OutcomeApplied, Time: micro(w.clock.Now()), Limit: &v1alpha1.LimitInForce{ID: r.ID, Limit: r.Limit}}
	require.NoError(w.t, w.Status().Update(w.t.Context(), o))
}

// In mode Recommend the status has limit, rate and replicas, and no limit is asked for.
func TestRecommendsConcurrency(t *testing.T) {
	w, _ := gatedWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Concurrency.Mode = v1alpha1.ConcurrencyRecommend })
	for range 20 {
		o := w.step(15 * time.Second)
		if r := o.Status.Recommendation; r != nil {
			require.NotEqual(t, v1alpha1.ChangeLimit, r.Change)
		}
	}
	c := w.read().Status.Concurrency
	assert.Equal(t, int32(3), c.Replicas)
	assert.InDelta(t, 5, c.Limit, 3)
	assert.NotNil(t, c.RatePerPod)
}

// In mode Apply the limit is asked for, one dimension at a time and with its reason; what is
// worse is taken back, said, and remembered by the next process, with a journal and without.
func TestAppliesConcurrency(t *testing.T) {
	for _, journal := range []bool{false, true} {
		t.Run(fmt.Sprintf("journal %v", journal), func(t *testing.T) {
			w, g := gatedWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) {
				o.Spec.Concurrency.Mode, o.Spec.Recommender.Algorithm = v1alpha1.ConcurrencyApply, "static"
			})
			if journal {
				w.options.JournalDir = t.TempDir()
			}
			g.worse.Store(true)
			w.usage.memory = "100Mi"
			var limits []int32
			run := func(n int) {
				for range n {
					o := w.step(15 * time.Second)
					if r := o.Status.Recommendation; r != nil && (o.Status.Actuation == nil || o.Status.Actuation.ID != r.ID) {
						require.Equal(t, v1alpha1.ChangeLimit, r.Change)
						limits = append(limits, r.Limit)
						assert.NotEmpty(t, r.Reason)
						assert.NotEmpty(t, o.Status.Memory.LimitChanges)
						carryOut(w, g, o)
					}
				}
			}
			run(80)
			require.Len(t, limits, 4, "a lower one and a higher one, both taken back: %v", limits)
			assert.Less(t, limits[0], int32(8))
			assert.Greater(t, limits[2], int32(8))
			assert.Equal(t, []int32{8, 8}, []int32{limits[1], limits[3]})
			c := w.read().Status.Concurrency
			require.Len(t, c.Worse, 2)
			assert.Equal(t, []int32{8, limits[0]}, []int32{c.Worse[0].From, c.Worse[0].Limit})
			assert.Contains(t, c.Worse[0].Reason, "a pod that was full answered")
			said := ""
			for len(w.events.Events) > 0 {
				said += <-w.events.Events + "\n"
			}
			assert.Contains(t, said, fmt.Sprintf("Normal Recommended %d requests at once instead of what there is", limits[0]))
			assert.Contains(t, said, fmt.Sprintf("Warning LimitWorse 8 requests at once, not %d: ", limits[0]))

			w.restart()
			run(3)
			if c := w.read().Status.Concurrency; journal {
				assert.Positive(t, c.Windows, "what was learned")
				assert.NotNil(t, c.Demand)
			} else {
				assert.Zero(t, c.Windows)
			}
			run(60)
			assert.Len(t, limits, 4, "remembered: %v", limits)
			require.Len(t, w.read().Status.Concurrency.Worse, 2)
		})
	}
}

// As long as a user's limit stands, none is asked for, and the status says why.
func TestUsersLimitStands(t *testing.T) {
	w, _ := gatedWorld(t, func(o *v1alpha1.MultidimPodAutoscaler) {
		o.Spec.Concurrency.Mode, o.Spec.Recommender.Algorithm = v1alpha1.ConcurrencyApply, "static"
	})
	o := w.step(0)
	o.Status.Actuation = &v1alpha1.Actuation{ID: 1, Outcome: v1alpha1.OutcomeSuperseded, Limit: &v1alpha1.LimitInForce{ID: 1, Limit: 20, Ended: "pod web-0: a user set it"}}
	require.NoError(t, w.Status().Update(t.Context(), o))
	for range 20 {
		o = w.step(15 * time.Second)
	}
	assert.Nil(t, o.Status.Recommendation)
	assert.Contains(t, o.Status.Concurrency.Reason, "not applied: pod web-0: a user set it; ")
	assert.InDelta(t, 5, o.Status.Concurrency.Limit, 3)
}

// A limit is asked for only where the object lets it be applied.
func TestLimitIsAskedFor(t *testing.T) {
	for mode, want := range map[v1alpha1.ConcurrencyMode]mpa.Range{
		v1alpha1.ConcurrencyObserve: {}, v1alpha1.ConcurrencyRecommend: {}, v1alpha1.ConcurrencyApply: {Min: 1, Max: 310},
	} {
		o := web()
		o.Spec.Concurrency = &v1alpha1.Concurrency{Mode: mode, Learner: "law", Min: 1, Max: 310, Initial: 10}
		target, err := targetOf(o)
		require.NoError(t, err)
		assert.Equal(t, want, target.Limit)
	}
}
