package collect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
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
	all := knativeLatency + knativeLate(.25, knativeOf) + knativeLate(5, knativeOf)
	for _, q := range knativeQueries {
		all += q.text
		assert.NotEmpty(t, readQuery(q.text).selectors)
	}
	names := regexp.MustCompile(`(http|kn)_[a-z_]+_seconds_[a-z]+`).FindAllString(all, -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		assert.Contains(t, said, "\n"+name+"{", name)
	}
	labels := regexp.MustCompile(`[{ ]([a-z_]+)(?:!~|=~|=|!=)"`).FindAllStringSubmatch(all, -1)
	require.NotEmpty(t, labels)
	for _, l := range labels {
		if !slices.Contains([]string{"namespace", "pod", "container"}, l[1]) { // a PodMonitor gives these
			assert.Regexp(t, `http_server_request_duration_seconds_bucket{([^}]*,)?`+l[1]+`="`, said)
		}
	}
	for _, bound := range knativeBounds {
		assert.Regexp(t, fmt.Sprintf(`kn_serving_invocation_duration_seconds_bucket{[^}]*le="%v"} `, bound), said)
		assert.Regexp(t, fmt.Sprintf(`http_server_request_duration_seconds_bucket{[^}]*le="%v"} `, bound), said)
	}
}

func TestKnativeLate(t *testing.T) {
	for seconds, want := range map[float64]string{.25: "0[.]25", .2: "0[.]1", .11: "0[.]1", .251: "0[.]25", 1: "1", .005: "0[.]005", 10: "10"} {
		assert.Contains(t, knativeLate(seconds, knativeOf), `{le=~"`+want+`([.]0)?", `, "%v", seconds)
	}
	least, most := KnativeLatency()
	assert.Equal(t, []time.Duration{5 * time.Millisecond, 10 * time.Second}, []time.Duration{least, most})
	assert.Contains(t, knativeLatency, `!~"5.."`, "what is refused at once is not fast")
}

// A status that no request had has no series; what is not measured is missing, and said.
func TestServed(t *testing.T) {
	silent, before := "", "2" // what the activator answers with an error
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.FormValue("query")
		if strings.Contains(q, "timestamp(") {
			prom(one("3"), 5)(w, r)
			return
		}
		assert.Contains(t, q, `container=~"(queue-proxy)?", namespace="shop", pod=~"web-1|web[.]2"`)
		text, otherwise, either := strings.Cut(q, " or ")
		gone := func(text string) bool { return silent != "" && strings.Contains(text, silent) }
		switch {
		case gone(text) && either && !gone(otherwise):
			prom(one("0"), 5)(w, r)
		case gone(text):
			prom("[]", 0)(w, r)
		case strings.Contains(text, `kn_revision_name="web-00001", k8s_namespace_name="shop"`):
			prom(one(before), 5)(w, r)
		case strings.Contains(text, "_bucket{le="):
			prom(one("3"), 5)(w, r)
		case strings.Contains(text, `=~"5.."`):
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
	s, problems, err := p.Served(t.Context(), o, "web-00001", []string{"web-1", "web.2"})
	require.NoError(t, err)
	assert.Empty(t, problems)
	at := func(v float64) mpa.Metric { return mpa.Metric{Value: v, Time: s.Requests.Time} }
	assert.Equal(t, Served{at(100), at(2), at(3)}, s)
	assert.WithinDuration(t, now.Add(-5*time.Second), s.Requests.Time, time.Second)
	before = "7" // five of them came to no pod, and it had seven that were late
	s, problems, err = p.Served(t.Context(), o, "web-00001", []string{"web-1", "web.2"})
	require.NoError(t, err)
	assert.Empty(t, problems)
	assert.Equal(t, Served{at(105), at(7), at(7)}, s)
	silent, before = `http_response_status_code!~"5.."`, "2" // nothing was answered
	s, problems, err = p.Served(t.Context(), o, "web-00001", []string{"web-1", "web.2"})
	require.NoError(t, err)
	assert.Empty(t, problems)
	assert.Equal(t, Served{at(100), at(2), at(0)}, s)
	silent = "_bucket{le="
	s, problems, err = p.Served(t.Context(), o, "web-00001", []string{"web-1", "web.2"})
	require.NoError(t, err)
	require.NotEmpty(t, problems, "the buckets are dropped, or have other bounds")
	assert.Equal(t, Gates, problems[0].Source)
	assert.Zero(t, s.Late)
	server.Close()
	_, problems, err = p.Served(t.Context(), o, "web-00001", []string{"web-1"})
	require.NoError(t, err)
	assert.NotEmpty(t, problems)
}
