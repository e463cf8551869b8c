package recommender

import (
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

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
)

// gates is a Prometheus that scrapes the gates of both pods. They let 8 in at once; of 90
// requests a second each takes 10.7 ms of cpu, as the metrics API says, and waits 40 ms.
type gates struct {
	world  *world
	silent atomic.Bool
}

func (g *gates) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := float64(g.world.clock.Now().UnixMilli()) / 1000
	query := r.FormValue("query")
	result := fmt.Sprintf(`[{"metric":{"mpa_selector":"0"},"value":[%f,"%f"]}]`, now, now-5) // of a question for freshness
	if !strings.Contains(query, "timestamp(") {
		value := "90" // arriving, answered
		for part, v := range map[string]string{`"failed"`: "0", "inside_seconds": "6", "gate_waiting": "0", "gate_limit": "8", "latency": "0.1"} {
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

	// Another spec begins again, and so does another process.
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

// A status has no place for changes of the limit as long as no object lets one be changed.
func TestNoLimitIsAskedFor(t *testing.T) {
	o := web()
	o.Spec.Concurrency = &v1alpha1.Concurrency{Mode: "Observe", Learner: "law", Min: 1, Max: 310, Initial: 10}
	target, err := targetOf(o)
	require.NoError(t, err)
	assert.Zero(t, target.Limit)
}
