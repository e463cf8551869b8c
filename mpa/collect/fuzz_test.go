package collect

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/api"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/share"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// FuzzPrometheusAnswer: whatever a server answers, what is measured is a finite number of at
// least 0 or missing with a problem, and the problem does not repeat the answer.
func FuzzPrometheusAnswer(f *testing.F) {
	good := `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"pod":"a","container":"web","mpa_selector":"0"},"value":[1777888800,"1"]}]}}`
	for _, body := range []string{
		good, strings.ReplaceAll(good, `"1"`, `"-Inf"`), strings.ReplaceAll(good, "1777888800", "1e300"), good[:100],
		`{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[null]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":null,"histogram":[1,{"count":"1","sum":"1","buckets":[[0,"0","1","1"]]}]}]},"warnings":["w"]}`,
		`{"status":"error","errorType":"bad_data","error":"1:5: parse error"}`, "<html>", "",
	} {
		f.Add(200, []byte(body), []byte(good))
		f.Add(400, []byte(body), []byte(body))
	}
	f.Fuzz(func(t *testing.T, code int, value, fresh []byte) {
		urls, err := api.NewClient(api.Config{Address: "http://main"})
		require.NoError(t, err)
		answers := roundTrip(func(r *http.Request) (*http.Response, error) {
			body := value
			if strings.Contains(r.FormValue("query"), selectorLabel) {
				body = fresh
			}
			return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
		})
		p := &Prometheus{clock: clock, servers: []*server{{Server: &Server{Name: "main"}, urls: urls, places: share.New(1, 0, clock), pauses: map[string]*pause{}, http: &http.Client{
			Transport: answers, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}}}}
		ob := &mpa.Observation{Time: now, Pods: []mpa.Pod{{Name: "a", Containers: []mpa.Container{{Name: "web"}}}}}
		used, problems, err := p.measure(t.Context(), object(func(o *v1alpha1.MultidimPodAutoscaler) {
			o.Spec.Metrics = v1alpha1.Metrics{
				Usage: v1alpha1.UsagePrometheus, Prometheus: &v1alpha1.Prometheus{Server: "main", Queries: v1alpha1.Queries{Rate: "a"}},
			}
		}), ob)
		require.NoError(t, err)
		if ob.Rate.Time.IsZero() {
			require.NotEmpty(t, problems)
		}
		require.False(t, ob.Rate.Value < 0 || math.IsNaN(ob.Rate.Value) || math.IsInf(ob.Rate.Value, 0), ob.Rate)
		for pod, containers := range used {
			for container, u := range containers {
				require.Equal(t, "a/web", pod+"/"+container)
				require.True(t, u.CPU >= 0 && u.Memory >= 0, u)
			}
		}
		for _, problem := range problems {
			for _, body := range [][]byte{value, fresh} {
				if len(body) > 60 {
					require.NotContains(t, problem.Message, string(body))
				}
			}
		}
	})
}
