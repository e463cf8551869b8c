package collect

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// What queue-proxy of Knative v0.48 says with request-metrics-protocol prometheus: requests as they
// come to it, those that it refuses included, and as the containers take them, without those that wait.
// A status that no request had has no series.
const (
	knativeAll    = `sum(rate(http_server_request_duration_seconds_count{namespace="$namespace", pod=~"$pods"}[1m]))`
	knativeGood   = `http_response_status_code!~"5..", namespace="$namespace", pod=~"$pods"`
	knativeLost   = `sum(rate(http_server_request_duration_seconds_count{http_response_status_code=~"5..", namespace="$namespace", pod=~"$pods"}[1m])) or 0 * ` + knativeAll
	knativeServed = `sum(rate(http_server_request_duration_seconds_count{` + knativeGood + `}[1m])) or 0 * ` + knativeAll
	// knativeInside is the mean number in the containers by Little's law: the seconds that requests were there, a second.
	knativeInside  = `sum(rate(kn_serving_invocation_duration_seconds_sum{namespace="$namespace", pod=~"$pods"}[1m]))`
	knativeLatency = `histogram_quantile(%g, sum by (le) (rate(http_server_request_duration_seconds_bucket{namespace="$namespace", pod=~"$pods"}[1m])))`
)

// knativeQueries are gateQueries for queue-proxy. The limit is the Service's.
var knativeQueries = []struct{ source, field, text string }{
	{Rate, "rate", knativeAll},
	{Throughput, "throughput", knativeServed},
	{Gates, "inside", knativeInside},
	{Gates, "waiting", `clamp_min(sum(rate(http_server_request_duration_seconds_sum{namespace="$namespace", pod=~"$pods"}[1m])) - ` + knativeInside + `, 0)`},
	{Gates, "arriving", knativeAll},
	{Gates, "failed", knativeLost},
}

// knativeBounds are those of queue-proxy's histogram, in seconds.
var knativeBounds = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}

// knativeLate asks for the requests that were answered later than the first bound from seconds on; the
// largest where there is none.
func knativeLate(seconds float64) string {
	bound := knativeBounds[len(knativeBounds)-1]
	for i := len(knativeBounds) - 1; i >= 0 && knativeBounds[i] >= seconds; i-- {
		bound = knativeBounds[i]
	}
	le := strings.ReplaceAll(strconv.FormatFloat(bound, 'f', -1, 64), ".", "[.]") // Prometheus 3 writes 1 as 1.0
	return fmt.Sprintf(`clamp_min(sum(rate(http_server_request_duration_seconds_count{%[1]s}[1m])) - sum(rate(http_server_request_duration_seconds_bucket{le=~"%[2]s([.]0)?", %[1]s}[1m])), 0) or 0 * `,
		knativeGood, le) + knativeAll
}

// Served is what pods of one Revision of a Knative Service do, in requests a second: all that come,
// those that are lost, and those that are answered later than the SLO's latency, rounded up to a bound
// of queue-proxy's histogram.
type Served struct{ Requests, Lost, Late mpa.Metric }

// Served asks for some pods of an object's target. What is not measured is missing, and the problems
// say why.
func (p *Prometheus) Served(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, pods []string) (s Served, problems []Problem, err error) {
	late := knativeLate(o.Spec.SLO.Latency.Target.Seconds())
	fill := filler(o, pods)
	questions := []*question{
		{source: Gates, field: "requests", query: readQuery(fill.Replace(knativeAll))},
		{source: Gates, field: "lost", query: readQuery(fill.Replace(knativeLost))},
		{source: Gates, field: "late", query: readQuery(fill.Replace(late))},
	}
	if problems, err = p.askAll(ctx, o, questions); err != nil {
		return s, nil, err
	}
	for i, to := range []*mpa.Metric{&s.Requests, &s.Lost, &s.Late} {
		q := questions[i]
		if q.problem != nil {
			continue
		}
		*to = q.number()
		if q.problem != nil {
			problems = append(problems, *q.problem)
		}
	}
	return s, problems, nil
}
