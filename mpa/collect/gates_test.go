package collect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/gate"
)

// What is asked for is what a gate says.
func TestGateQueriesNameItsMetrics(t *testing.T) {
	g, err := gate.New(gate.DefaultOptions())
	require.NoError(t, err)
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(g))
	families, err := registry.Gather()
	require.NoError(t, err)
	known := map[string]bool{}
	for _, f := range families {
		known[f.GetName()] = true
		for _, m := range f.Metric {
			for _, l := range m.Label {
				known[fmt.Sprintf("%s=%q", l.GetName(), l.GetValue())] = true
			}
		}
	}
	for _, q := range gateQueries {
		for _, name := range regexp.MustCompile(`sigma_gate_\w+|result="\w+"`).FindAllString(q.text, -1) {
			assert.True(t, known[name], "%s: no gate says %s", q.field, name)
		}
		assert.Len(t, readQuery(q.text).selectors, 1, q.text)
	}
}

// Gates are asked only where the object says so, and stand for the rate and the throughput
// that it does not ask for itself.
func TestGates(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.FormValue("query")
		value := map[bool]string{true: "0"}[strings.Contains(q, "failed")]
		for part, v := range map[string]string{"answered": "90", "inside_seconds": "3.5", "gate_waiting": "2", "gate_limit": "8", "own": "77"} {
			if strings.Contains(q, part) {
				value = v
			}
		}
		if value == "" {
			value = "100"
		}
		prom(one(value), 5)(w, r)
	}))
	defer server.Close()
	p := allow(t, 10, func() time.Time { return now }, Server{Name: "main", URL: server.URL})
	o := object()
	o.Spec.Metrics.Prometheus = &v1alpha1.Prometheus{Server: "main"}
	observe := func() (*mpa.Observation, []Problem) {
		ob := &mpa.Observation{Time: now, Pods: []mpa.Pod{{Name: "web-1"}}}
		_, problems, err := p.measure(t.Context(), o, ob)
		require.NoError(t, err)
		return ob, problems
	}
	ob, problems := observe()
	assert.Empty(t, problems)
	assert.Zero(t, ob.Gates)
	o.Spec.Concurrency = &v1alpha1.Concurrency{}
	ob, problems = observe()
	assert.Empty(t, problems, asked)
	at := func(v float64) mpa.Metric { return mpa.Metric{Value: v, Time: ob.Gates.Inside.Time} }
	assert.WithinDuration(t, now.Add(-5*time.Second), ob.Gates.Inside.Time, time.Second)
	assert.Equal(t, mpa.Gates{Window: time.Minute, Limit: 8, Inside: at(3.5), Waiting: at(2), Rate: at(100), Failed: at(0)}, ob.Gates)
	assert.Equal(t, []mpa.Metric{at(100), at(90)}, []mpa.Metric{ob.Rate, ob.Throughput})
	o.Spec.Metrics.Prometheus.Queries.Throughput = "own"
	ob, _ = observe()
	assert.Equal(t, 77., ob.Throughput.Value)
	server.Close()
	ob, problems = observe()
	assert.Zero(t, ob.Gates)
	require.NotEmpty(t, problems, "missing, and said")
}
