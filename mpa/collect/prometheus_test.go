package collect

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// prom answers queries as Prometheus does: value is the JSON of the result's samples,
// ages are those of the selectors' newest samples in seconds.
func prom(value string, ages ...float64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.FormValue("query"), selectorLabel) {
			var list []string
			for i, age := range ages {
				list = append(list, fmt.Sprintf(`{"metric":{"%s":"%d"},"value":[%d,"%f"]}`, selectorLabel, i, now.Unix(), float64(now.Unix())-age))
			}
			value := "[" + strings.Join(list, ",") + "]"
			_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":%s}}`, value)
			return
		}
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":%s}}`, value)
	}
}

// allow returns a list of servers.
func allow(t *testing.T, limit int, clock func() time.Time, servers ...Server) *Prometheus {
	t.Helper()
	p, err := NewPrometheus(servers, limit, clock)
	require.NoError(t, err)
	return p
}

func one(value string) string {
	return fmt.Sprintf(`[{"metric":{},"value":[%d,"%s"]}]`, now.Unix(), value)
}

func code(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}
}

// hang answers once the caller has given up.
func hang(_ http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm() // the server notices the end of a connection only after the body
	<-r.Context().Done()
}

func TestNumberFromPrometheus(t *testing.T) {
	const q = `histogram_quantile(.99, sum by (le) (rate(seconds_bucket{ns="$namespace",app="$name",pod=~"$pods"}[1m])))`
	for _, test := range []struct {
		name            string
		query           string
		answer          http.HandlerFunc
		want            float64
		age             time.Duration
		reason, message string
	}{
		{name: "fresh", answer: prom(one("0.25"), 5), want: .25, age: 5 * time.Second},
		{name: "zero", answer: prom(one("0"), 5), age: 5 * time.Second},
		{name: "ahead of the answer", answer: prom(one("1"), -3), want: 1},
		{name: "scalar", query: "scalar(a)", want: 2, age: time.Second, answer: func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.FormValue("query"), selectorLabel) {
				prom("", 1)(w, r)
				return
			}
			_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"scalar","result":[%d,"2"]}}`, now.Unix())
		}},
		{
			// Within the look-back the value is there though its target has gone.
			name: "stale", answer: prom(one("0.25"), 240), want: .25, age: 4 * time.Minute,
			reason: "Stale", message: "the newest sample of the latency is 4m0s old (2026-05-04T09:56:00Z); it counts for 2m0s",
		},
		{
			name: "an old answer", answer: prom(fmt.Sprintf(`[{"metric":{},"value":[%d,"1"]}]`, now.Add(-10*time.Minute).Unix()), 5), want: 1, age: 10 * time.Minute,
			reason: "Stale", message: "is 10m0s old",
		},
		{name: "the older of two selectors", query: "a / b", answer: prom(one("1"), 5, 50), want: 1, age: 50 * time.Second},
		{name: "a selector without samples", query: "a / b", answer: prom(one("1"), 5), reason: "NoSeries", message: "some of its series have no recent sample"},
		{name: "an alternative", query: "a or b", answer: prom(one("1"), 5), want: 1, age: 5 * time.Second},
		{name: "an alternative of which nothing is left", query: "sum(a) or vector(0)", answer: prom(one("0")), reason: "NoSeries", message: "it needs a"},
		{name: "a constant", query: "vector(1)", answer: prom(one("1")), reason: "QueryInvalid", message: "it asks for no series: vector(1)"},
		{name: "no series", answer: prom("[]", 5), reason: "NoSeries", message: "no series match"},
		{
			name: "several series", answer: prom(`[{"metric":{"pod":"a"},"value":[1,"1"]},{"metric":{"pod":"b"},"value":[1,"1"]}]`, 5),
			reason: "SeveralSeries", message: "2 series; one number is wanted: sum or max",
		},
		{name: "NaN", answer: prom(one("NaN"), 5), reason: "NotANumber", message: "0 ÷ 0"},
		{name: "infinite", answer: prom(one("+Inf"), 5), reason: "Infinite", message: "+Inf"},
		{name: "minus infinite", answer: prom(one("-Inf"), 5), reason: "Infinite", message: "-Inf"},
		{name: "negative", answer: prom(one("-1"), 5), reason: "Negative", message: "want 0 or more"},
		{
			name:   "a histogram",
			answer: prom(fmt.Sprintf(`[{"metric":{},"histogram":[%d,{"count":"1","sum":"1","buckets":[[0,"0","1","1"]]}]}]`, now.Unix()), 5),
			reason: "NotANumber", message: "a histogram",
		},
		{
			name: "a matrix", reason: "QueryInvalid", message: "is a function around a range missing?",
			answer: code(200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`),
		},
		{
			name: "a query that is refused", reason: "QueryInvalid", message: "queries.latency: Prometheus refuses it with status code 400",
			answer: code(400, `{"status":"error","errorType":"bad_data","error":"1:5: parse error"}`),
		},
		{
			name: "a query that fails", reason: "QueryFailed", message: "status code 422",
			answer: code(422, `{"status":"error","errorType":"execution","error":"too many samples"}`),
		},
		{
			name: "a query that takes the server too long", reason: "QueryFailed", message: "status code 503",
			answer: code(503, `{"status":"error","errorType":"timeout","error":"query timed out"}`),
		},
		{name: "a server error", answer: code(502, "bad gateway"), reason: "QueryFailed", message: "status code 502"},
		{name: "not found", answer: code(404, "nothing"), reason: "QueryFailed", message: "status code 404"},
		{name: "not Prometheus", answer: code(200, "<html>"), reason: "PrometheusGarbled", message: "is not Prometheus"},
		{name: "broken off", answer: code(200, `{"status":"success","data":{"resultTy`), reason: "PrometheusGarbled", message: "breaks off"},
		{
			name: "a warning", reason: "QueryWarning", message: "Prometheus answers with a warning",
			answer: code(200, `{"status":"success","data":{"resultType":"vector","result":`+one("1")+`},"warnings":["a store is down"]}`),
		},
		{name: "a note as a warning", want: 1, age: 5 * time.Second, answer: func(w http.ResponseWriter, r *http.Request) {
			note := httptest.NewRecorder()
			prom(one("1"), 5)(note, r)
			_, _ = w.Write([]byte(strings.TrimSuffix(strings.TrimSpace(note.Body.String()), "}") + `,"warnings":["PromQL info: metric might not be a counter"]}`))
		}},
		{name: "null", answer: code(200, `{"status":"success","data":{"resultType":"vector","result":[null]}}`), reason: "PrometheusGarbled", message: "is null"},
		{name: "the connection ends", answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, reason: "PrometheusUnreachable", message: "cannot be reached"},
		{name: "slow", answer: hang, reason: "PrometheusTimeout", message: "did not answer in time"},
		{name: "a bomb", answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			packed := gzip.NewWriter(w)
			for range 8 * mostAnswer / 4096 {
				_, _ = packed.Write(make([]byte, 4096))
			}
			_ = packed.Close()
		}, reason: "QueryFailed", message: "its answer is larger than 256 KiB"},
		{name: "endless", answer: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`"`))
			for range mostAnswer / 4096 {
				_, _ = w.Write(make([]byte, 4096))
			}
		}, reason: "QueryFailed", message: "its answer is larger than 256 KiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := httptest.NewServer(test.answer)
			t.Cleanup(s.Close)
			s.Config.ErrorLog = nil
			fresh := now.Add(-time.Second)
			c := newCollector(t, metricsAPI{list: func(context.Context, metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error) {
				return &metricsv1beta1.PodMetricsList{Items: []metricsv1beta1.PodMetrics{podMetrics("web-a", "1", "1Gi", fresh), podMetrics("web-b", "1", "1Gi", fresh)}}, nil
			}}, cluster()...)
			c.Prometheus = allow(t, 4, clock, Server{Name: "main", URL: s.URL})
			if test.name == "endless" || test.name == "a bomb" {
				c.Timeout = time.Minute
			}
			ob, problems := observe(t, c, object(func(o *v1alpha1.MultidimPodAutoscaler) {
				o.Spec.Metrics.Prometheus = &v1alpha1.Prometheus{Server: "main", Queries: v1alpha1.Queries{Latency: or(test.query, q)}}
			}))
			requireProblem(t, problems, Latency, test.reason, test.message)
			if test.reason != "" && test.reason != "Stale" {
				assert.Zero(t, ob.Latency)
				return
			}
			assert.Equal(t, mpa.Metric{Value: test.want, Time: now.Add(-test.age)}, ob.Latency)
			assert.Equal(t, test.reason == "", ob.Latency.Known(now, 2*time.Minute))
		})
	}
}

func TestQueriesAreFilledIn(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.FormValue("query"))
		mu.Unlock()
		prom(one("1"), 1)(w, r)
	}))
	t.Cleanup(s.Close)
	o := object(func(o *v1alpha1.MultidimPodAutoscaler) {
		o.Spec.Metrics.Prometheus = &v1alpha1.Prometheus{Server: "main", Queries: v1alpha1.Queries{Rate: `a{b="$namespace/$name/$pods"}`}}
	})
	ob := &mpa.Observation{Time: now, Pods: []mpa.Pod{{Name: "web-a"}, {Name: "web.b-0"}}}
	_, problems, err := allow(t, 1, clock, Server{Name: "main", URL: s.URL}).measure(t.Context(), o, ob)
	require.NoError(t, err)
	require.Empty(t, problems)
	assert.ElementsMatch(t, []string{
		`a{b="shop/web/web-a|web[.]b-0"}`,
		`label_replace(max by () (timestamp(a{b="shop/web/web-a|web[.]b-0"})), "mpa_selector", "0", "", "")`,
	}, asked)
}

func TestUsageFromPrometheus(t *testing.T) {
	sample := func(pod, container, value string) string {
		return fmt.Sprintf(`{"metric":{"pod":"%s","container":"%s"},"value":[%d,"%s"]}`, pod, container, now.Unix(), value)
	}
	fresh := func(pod, container string, age float64) string {
		return fmt.Sprintf(`{"metric":{"%s":"0","pod":"%s","container":"%s"},"value":[%d,"%f"]}`, selectorLabel, pod, container, now.Unix(), float64(now.Unix())-age)
	}
	both := []string{fresh("web-a", "web", 5), fresh("web-b", "web", 30)}
	cpu := []string{sample("web-a", "web", "0.25"), sample("web-b", "web", "0.3331")}
	memory := []string{sample("web-a", "web", "1048576"), sample("web-b", "web", "2097152")}
	used := func(cpu, memory int64, age time.Duration) mpa.Usage {
		return mpa.Usage{Resources: mpa.Resources{CPU: cpu, Memory: memory}, Time: now.Add(-age), Window: 2 * time.Minute}
	}
	a, b := used(250, 1<<20, 5*time.Second), used(334, 2<<20, 30*time.Second)
	for _, test := range []struct {
		name               string
		cpu, memory, fresh []string
		a, b               mpa.Usage
		reason, message    string
	}{
		{name: "both", cpu: cpu, memory: memory, fresh: both, a: a, b: b},
		{name: "more than was asked for", cpu: append(cpu, sample("x", "y", "NaN")), memory: append(memory, sample("", "", "1")), fresh: both, a: a, b: b},
		{name: "a pod that has gone", cpu: cpu, memory: memory, fresh: []string{both[0], fresh("web-b", "web", 250)}, a: a, b: used(334, 2<<20, 250*time.Second), reason: "PodsMissing", message: "not of web-b"},
		{name: "all have gone", cpu: cpu, memory: memory, fresh: []string{fresh("web-a", "web", 250), fresh("web-b", "web", 240)}, a: used(250, 1<<20, 250*time.Second), b: used(334, 2<<20, 240*time.Second), reason: "UsageStale", message: "Prometheus has is 4m0s old"},
		{name: "no memory of one", cpu: cpu, memory: memory[:1], fresh: both, a: a, reason: "PodsMissing", message: "not of web-b"},
		{name: "NaN of one", cpu: []string{cpu[0], sample("web-b", "web", "NaN")}, memory: memory, fresh: both, a: a, reason: "NotANumber", message: "queries.cpu: Prometheus answers NaN for container web of pod web-b"},
		{name: "negative", cpu: cpu, memory: []string{memory[0], sample("web-b", "web", "-5")}, fresh: both, a: a, reason: "Negative", message: "queries.memory"},
		{name: "twice", cpu: append(cpu, cpu[1]), memory: memory, fresh: both, a: a, reason: "SeveralSeries", message: "several series for container web of pod web-b"},
		{name: "no labels", cpu: []string{`{"metric":{"name":"web"},"value":[1,"1"]}`}, memory: memory, fresh: both, reason: "LabelsMissing", message: "lack the labels pod and container"},
		{name: "nothing", reason: "UsageMissing", message: "Prometheus has no usage of the 2 running pods"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				list := test.memory
				switch q := r.FormValue("query"); {
				case strings.Contains(q, selectorLabel):
					list = test.fresh
				case strings.Contains(q, "cpu"):
					list = test.cpu
				}
				_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, strings.Join(list, ","))
			}))
			t.Cleanup(s.Close)
			c := newCollector(t, metricsAPI{}, cluster()...)
			c.Prometheus = allow(t, 4, clock, Server{Name: "main", URL: s.URL})
			ob, problems := observe(t, c, object(func(o *v1alpha1.MultidimPodAutoscaler) {
				o.Spec.Metrics = v1alpha1.Metrics{Usage: v1alpha1.UsagePrometheus, Prometheus: &v1alpha1.Prometheus{Server: "main"}}
			}))
			requireProblem(t, problems, Usage, test.reason, test.message)
			assert.Equal(t, test.a, ob.Pods[0].Containers[0].Usage)
			assert.Equal(t, test.b, ob.Pods[1].Containers[0].Usage)
		})
	}
}

// TestSlowQueryIsItsObjects: a query that takes too long does not keep others from a
// server that answers.
func TestSlowQueryIsItsObjects(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("query") == "slow" {
			hang(w, r)
			return
		}
		prom(one("1"), 1)(w, r)
	}))
	t.Cleanup(s.Close)
	p := allow(t, 3, clock, Server{Name: "main", URL: s.URL})
	for _, step := range []struct{ query, reason string }{{"slow", "PrometheusTimeout"}, {"quick", ""}, {"slow", "PrometheusTimeout"}} {
		o := object(func(o *v1alpha1.MultidimPodAutoscaler) {
			o.Spec.Metrics.Prometheus = &v1alpha1.Prometheus{Server: "main", Queries: v1alpha1.Queries{Rate: step.query}}
		})
		patience := 300 * time.Millisecond
		if step.reason == "" {
			patience = time.Minute
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, problems, err := p.measure(ctx, o, &mpa.Observation{Time: now, Pods: []mpa.Pod{{Name: "a"}}})
		cancel()
		require.NoError(t, err)
		requireProblem(t, problems, Rate, step.reason, "")
	}
}

// A server that does not answer is tried again after a while, by one query at a time, and takes
// no more than its share.
func TestSlowServerHoldsNobodyUp(t *testing.T) {
	at := now
	var mu sync.Mutex
	tick := func() time.Time { mu.Lock(); defer mu.Unlock(); return at }
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); at = at.Add(d) }
	var asked atomic.Int64
	var dead atomic.Bool
	dead.Store(true)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if dead.Load() {
			hang(w, r)
			return
		}
		prom(one("1"), 1)(w, r)
	}))
	t.Cleanup(s.Close)
	p := allow(t, 3, tick, Server{Name: "main", URL: s.URL})
	o := object(func(o *v1alpha1.MultidimPodAutoscaler) {
		o.Spec.Metrics.Prometheus = &v1alpha1.Prometheus{Server: "main", Queries: v1alpha1.Queries{Rate: "a"}}
	})
	ask := func() ([]Problem, error) {
		patience := 50 * time.Millisecond
		if !dead.Load() {
			patience = time.Minute
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, problems, err := p.measure(ctx, o, &mpa.Observation{Time: now, Pods: []mpa.Pod{{Name: "a"}}})
		return problems, err
	}
	many := func(n int) (busy, slow, quick int) {
		var all sync.WaitGroup
		var mu sync.Mutex
		for range n {
			all.Go(func() {
				problems, err := ask()
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, ErrBusy):
					busy++
				case len(problems) == 1 && problems[0].Reason == "PrometheusTimeout":
					slow++
				case len(problems) == 1 && problems[0].Reason == "PrometheusUnreachable":
					quick++
				}
			})
		}
		all.Wait()
		return
	}
	busy, slow, _ := many(20)
	assert.Equal(t, 3, slow)
	assert.Equal(t, 17, busy)
	for _, pause := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute} {
		pass(pause - time.Second)
		before := asked.Load()
		_, slow, quick := many(20)
		assert.Zero(t, slow)
		assert.Equal(t, 20, quick)
		assert.Equal(t, before, asked.Load(), "not asked before %v", pause)
		pass(time.Second)
		_, slow, quick = many(20)
		assert.Equal(t, 1, slow)
		assert.Equal(t, 19, quick)
	}
	dead.Store(false)
	pass(time.Minute)
	problems, err := ask()
	require.NoError(t, err)
	assert.Empty(t, problems)
	busy, slow, quick := many(3)
	assert.Zero(t, busy+slow+quick, "all are served again")
}
