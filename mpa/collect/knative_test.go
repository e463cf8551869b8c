package collect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// What is asked for is what queue-proxy of Knative v0.48.0 says; testdata/queue-proxy.txt is what one said after 37
// requests that were answered and 7 that were not.
func TestKnativeQueriesNameQueueProxysMetrics(t *testing.T) {
	text, err := os.ReadFile("testdata/queue-proxy.txt")
	require.NoError(t, err)
	said := string(text)
	all := knativeLatency + knativeLate(.25) + knativeLate(3600)
	for _, q := range knativeQueries {
		all += q.text
		assert.NotEmpty(t, readQuery(q.text).selectors)
	}
	names := regexp.MustCompile(`(http|kn)_[a-z_]+_seconds_[a-z]+`).FindAllString(all, -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		assert.Contains(t, said, "\n"+name+"{", name)
	}
	assert.Contains(t, said, `http_response_status_code="502"`)
	for _, bound := range knativeBounds {
		assert.Regexp(t, fmt.Sprintf(`kn_serving_invocation_duration_seconds_bucket{[^}]*le="%v"} `, bound), said)
		assert.Regexp(t, fmt.Sprintf(`http_server_request_duration_seconds_bucket{[^}]*le="%v"} `, bound), said)
	}
}

func TestKnativeLate(t *testing.T) {
	for seconds, want := range map[float64]string{.25: "0[.]25", .2: "0[.]25", .251: "0[.]5", 1: "1", .0001: "0[.]005", 10: "10", 60: "10"} {
		assert.Contains(t, knativeLate(seconds), `{le=~"`+want+`([.]0)?", `, "%v", seconds)
	}
}

// A status that no request had has no series; what is not measured is missing, and said.
func TestServed(t *testing.T) {
	silent := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.FormValue("query")
		if !strings.Contains(q, "timestamp(") {
			assert.Contains(t, q, `namespace="shop", pod=~"web-1|web[.]2"`)
		}
		switch {
		case silent != "" && strings.Contains(q, silent):
			prom("[]", 0)(w, r)
		case strings.Contains(q, "_bucket{le="):
			prom(one("3"), 5)(w, r)
		case strings.Contains(q, `=~"5.."`):
			prom(one("2"), 5)(w, r)
		default:
			prom(one("100"), 5)(w, r)
		}
	}))
	defer server.Close()
	p := allow(t, 10, func() time.Time { return now }, Server{Name: "main", URL: server.URL})
	o := object()
	o.Spec.Metrics.Prometheus = &v1alpha1.Prometheus{Server: "main"}
	o.Spec.SLO = &v1alpha1.SLO{Latency: &v1alpha1.LatencySLO{Percentile: 95, Target: metav1.Duration{Duration: 250 * time.Millisecond}}}
	s, problems, err := p.Served(t.Context(), o, []string{"web-1", "web.2"})
	require.NoError(t, err)
	assert.Empty(t, problems)
	at := func(v float64) mpa.Metric { return mpa.Metric{Value: v, Time: s.Requests.Time} }
	assert.Equal(t, Served{at(100), at(2), at(3)}, s)
	assert.WithinDuration(t, now.Add(-5*time.Second), s.Requests.Time, time.Second)
	silent = "_bucket{le="
	s, problems, err = p.Served(t.Context(), o, []string{"web-1", "web.2"})
	require.NoError(t, err)
	require.Len(t, problems, 1)
	assert.Equal(t, Gates, problems[0].Source)
	assert.Zero(t, s.Late)
	server.Close()
	_, problems, err = p.Served(t.Context(), o, []string{"web-1"})
	require.NoError(t, err)
	assert.NotEmpty(t, problems)
}
