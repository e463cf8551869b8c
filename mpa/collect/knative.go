package collect

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// The metrics of queue-proxy of Knative v0.48 with request-metrics-protocol prometheus:
// requests on arrival, including refused ones, and requests in the containers, without those
// that wait. A status that no request had has no series. Containers of the Service may export
// the same names.
const (
	knativeOf      = `container=~"(queue-proxy)?", namespace="$namespace", pod=~"$pods"`
	knativeGood    = `http_response_status_code!~"5..", ` + knativeOf
	knativeAll     = `sum(rate(http_server_request_duration_seconds_count{` + knativeOf + `}[1m]))`
	knativeLost    = `sum(rate(http_server_request_duration_seconds_count{http_response_status_code=~"5..", ` + knativeOf + `}[1m])) or 0 * ` + knativeAll
	knativeServed  = `sum(rate(http_server_request_duration_seconds_count{` + knativeGood + `}[1m])) or 0 * ` + knativeAll
	knativeLatency = `histogram_quantile(%g, sum by (le) (rate(http_server_request_duration_seconds_bucket{` + knativeGood + `}[1m])))`
	// knativeInside is the mean number in the containers by Little's law: the seconds that requests were there, a second.
	knativeInside = `sum(rate(kn_serving_invocation_duration_seconds_sum{` + knativeOf + `}[1m]))`
	// activatorLost are the requests that the activator answered with an error, its own or a
	// pod's. They are 0 if it is not in the path or not scraped.
	activatorLost = `sum(rate(http_server_request_duration_seconds_count{http_response_status_code=~"5..", ` + activatorOf + `}[1m])) or 0 * ` + knativeAll
	activatorOf   = `kn_revision_name="$revision", k8s_namespace_name="$namespace"`
)

// knativeQueries are gateQueries for queue-proxy. The limit is the Service's.
var knativeQueries = []struct{ source, field, text string }{
	{Rate, "rate", knativeAll},
	{Throughput, "throughput", knativeServed},
	{Gates, "inside", knativeInside},
	{Gates, "waiting", `clamp_min(sum(rate(http_server_request_duration_seconds_sum{` + knativeOf + `}[1m])) - ` + knativeInside + `, 0)`},
	{Gates, "arriving", knativeAll},
	{Gates, "failed", knativeLost},
}

// knativeBounds are those of queue-proxy's histogram, in seconds.
var knativeBounds = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}

// KnativeLatency returns the bounds of an SLO that queue-proxy's histogram can measure.
func KnativeLatency() (least, most time.Duration) {
	of := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	return of(knativeBounds[0]), of(knativeBounds[len(knativeBounds)-1])
}

// knativeLate is a query for the requests of the series of that were answered later than the
// last bound up to seconds. It is 0 if nothing was answered but the buckets exist.
func knativeLate(seconds float64, of string) string {
	bound := knativeBounds[0]
	for _, b := range knativeBounds {
		if b <= seconds {
			bound = b
		}
	}
	le := strings.ReplaceAll(strconv.FormatFloat(bound, 'f', -1, 64), ".", "[.]") // Prometheus 3 writes 1 as 1.0
	return fmt.Sprintf(`clamp_min(sum(rate(http_server_request_duration_seconds_count{http_response_status_code!~"5..", %[2]s}[1m])) - sum(rate(http_server_request_duration_seconds_bucket{le=~"%[1]s([.]0)?", http_response_status_code!~"5..", %[2]s}[1m])), 0) or 0 * sum(rate(http_server_request_duration_seconds_bucket{le=~"%[1]s([.]0)?", %[3]s}[1m]))`,
		le, of, knativeOf)
}

// Served is the load of one Revision of a Knative Service, in requests a second: all that
// arrive, those that are lost, and those that are answered later than the SLO's latency,
// rounded down to a bound of queue-proxy's histogram. Requests that wait or are lost in the
// activator count.
type Served struct{ Requests, Lost, Late mpa.Metric }

// Served queries a Revision of an object's target and its pods. Values that are not measured
// are missing, and the problems give the reasons.
func (p *Prometheus) Served(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, revision string, pods []string) (s Served, problems []Problem, err error) {
	seconds := o.Spec.SLO.Latency.Target.Seconds()
	fill := filler(o, pods)
	var questions []*question
	for _, q := range []struct{ field, text string }{
		{"requests", knativeAll},
		{"lost", knativeLost},
		{"late", knativeLate(seconds, knativeOf)},
		{"lostBefore", activatorLost},
		{"lateBefore", knativeLate(seconds, activatorOf)},
	} {
		text := strings.ReplaceAll(fill.Replace(q.text), "$revision", revision)
		questions = append(questions, &question{source: Gates, field: q.field, query: readQuery(text)})
	}
	if problems, err = p.askAll(ctx, o, questions); err != nil {
		return s, nil, err
	}
	var before, late mpa.Metric
	for i, to := range []*mpa.Metric{&s.Requests, &s.Lost, &s.Late, &before, &late} {
		q := questions[i]
		if q.problem != nil {
			continue
		}
		*to = q.number()
		if q.problem != nil {
			problems = append(problems, *q.problem)
		}
	}
	// The activator also counts the answers of the pods.
	unseen := max(0, before.Value-s.Lost.Value)
	s.Requests.Value += unseen
	s.Lost.Value += unseen
	s.Late.Value = max(s.Late.Value, late.Value)
	return s, problems, nil
}
