package collect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// The default queries of usage: the metrics of the kubelet's cAdvisor.
const (
	DefaultCPU    = `max by (pod, container) (rate(container_cpu_usage_seconds_total{namespace="$namespace", pod=~"$pods", container!="", container!="POD"}[2m]))`
	DefaultMemory = `max by (pod, container) (container_memory_working_set_bytes{namespace="$namespace", pod=~"$pods", container!="", container!="POD"})`
)

// A question is a query and its answer.
type question struct {
	source, field string
	query
	by           string // labels that distinguish the answer's series
	value, fresh model.Vector
	problem      *Problem
	answered     bool // at least in part, if only with a refusal
}

// measure runs all queries of an object. The usages are nil when they are not queried or
// there are none.
func (p *Prometheus) measure(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, ob *mpa.Observation) (usages, []Problem, error) {
	questions := questionsOf(o, ob)
	if len(questions) == 0 {
		return nil, nil, nil
	}
	var problems []Problem
	fail := func(q *question, problem Problem) {
		problem.Source = q.source
		if problem.Message != "" && !slices.Contains(problems, problem) {
			problems = append(problems, problem)
		}
	}
	s, err := p.enter(o.Spec.Metrics.Prometheus.Address)
	if problem := (*Problem)(nil); errors.As(err, &problem) {
		for _, q := range questions {
			fail(q, *problem)
		}
		return nil, problems, nil
	} else if err != nil {
		return nil, nil, err
	}
	var all sync.WaitGroup
	for _, q := range questions {
		all.Go(func() { s.ask(ctx, q) })
	}
	all.Wait()
	var silent *Problem
	for _, q := range questions {
		if q.problem != nil {
			if !q.answered && len(q.selectors) > 0 {
				silent = q.problem
			}
			fail(q, *q.problem)
		}
	}
	// A single query that takes too long is the object's fault, not the server's.
	if slices.ContainsFunc(questions, func(q *question) bool { return q.answered }) {
		silent = nil
	}
	p.leave(s, silent)
	used, more := answers(questions, ob)
	return used, append(problems, more...), nil
}

// questionsOf returns the queries of an object with its names filled in.
func questionsOf(o *v1alpha1.MultidimPodAutoscaler, ob *mpa.Observation) []*question {
	names := make([]string, len(ob.Pods))
	for i, pod := range ob.Pods {
		names[i] = strings.ReplaceAll(pod.Name, ".", "[.]") // in any kind of quotes
	}
	fill := strings.NewReplacer("$namespace", o.Namespace, "$name", o.Spec.ScaleTargetRef.Name, "$pods", strings.Join(names, "|"))
	var list []*question
	add := func(source, field, by, expression string) {
		if expression != "" {
			list = append(list, &question{source: source, field: field, by: by, query: readQuery(fill.Replace(expression))})
		}
	}
	queries := o.Spec.Metrics.Prometheus.Queries
	add(Rate, "rate", "", queries.Rate)
	add(Latency, "latency", "", queries.Latency)
	add(Throughput, "throughput", "", queries.Throughput)
	if o.Spec.Metrics.Usage == v1alpha1.UsagePrometheus {
		add(Usage, "cpu", "pod, container", or(queries.CPU, DefaultCPU))
		add(Usage, "memory", "pod, container", or(queries.Memory, DefaultMemory))
	}
	return list
}

func or(s, otherwise string) string {
	if s != "" {
		return s
	}
	return otherwise
}

func (q *question) fail(reason, format string, args ...any) {
	q.problem = &Problem{q.source, reason, fmt.Sprintf("queries.%s: ", q.field) + fmt.Sprintf(format, args...)}
}

// ask queries a value and its freshness.
func (s *server) ask(ctx context.Context, q *question) {
	if len(q.selectors) == 0 {
		q.fail("QueryInvalid", "it asks for no series: %s", q.text)
		return
	}
	var fresh promAnswer
	var both sync.WaitGroup
	both.Go(func() { fresh = s.query(ctx, q.freshness(q.by)) })
	value := s.query(ctx, q.text)
	both.Wait()
	q.answered = !value.silent() || !fresh.silent()
	switch {
	case value.reason != "":
		q.fail(value.reason, "%s", value.message)
	case fresh.reason != "":
		q.fail(fresh.reason, "when asked for the age of its samples: %s", fresh.message)
	default:
		q.value, q.fresh = value.vector, fresh.vector
	}
}

type promAnswer struct {
	vector          model.Vector
	reason, message string
}

// silent reports whether the server did not answer.
func (a *promAnswer) silent() bool {
	return a.reason == "PrometheusUnreachable" || a.reason == "PrometheusTimeout"
}

// query evaluates an expression at the server's present time.
func (s *server) query(ctx context.Context, expression string) promAnswer {
	value, warnings, err := s.api.Query(ctx, expression, time.Time{})
	if err != nil {
		reason, message := explain(ctx, err)
		return promAnswer{reason: reason, message: message}
	}
	// Until Prometheus 2.54, notes arrive as warnings: that a name is not a counter's, say.
	warnings = slices.DeleteFunc(warnings, func(w string) bool { return strings.HasPrefix(w, "PromQL info: ") })
	if len(warnings) > 0 {
		// A part of the data is missing, for example.
		return promAnswer{reason: "QueryWarning", message: "Prometheus warns: " + strings.Join(warnings, "; ")}
	}
	switch v := value.(type) {
	case model.Vector:
		if slices.Contains(v, nil) {
			return promAnswer{reason: "PrometheusGarbled", message: "what answers is not Prometheus: its answer has a series that is null"}
		}
		return promAnswer{vector: v}
	case *model.Scalar:
		return promAnswer{vector: model.Vector{{Metric: model.Metric{}, Value: v.Value, Timestamp: v.Timestamp}}}
	default:
		return promAnswer{reason: "QueryInvalid", message: fmt.Sprintf("its answer is a %s, want an instant vector: is a function around a range missing?", value.Type())}
	}
}

// explain translates an error for the people who run the server.
func explain(ctx context.Context, err error) (reason, message string) {
	var e *promv1.Error
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return "QueryFailed", fmt.Sprintf("its answer is larger than %d MiB", large.Limit>>20)
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return "PrometheusTimeout", "Prometheus did not answer in time"
	case !errors.As(err, &e):
		return "PrometheusUnreachable", "Prometheus cannot be reached: " + err.Error()
	case e.Type == promv1.ErrBadData:
		return "QueryInvalid", "Prometheus refuses it: " + e.Msg
	case e.Type == promv1.ErrTimeout:
		return "PrometheusTimeout", "Prometheus gave up on it: " + e.Msg
	case e.Type == promv1.ErrBadResponse:
		return "PrometheusGarbled", "what answers is not Prometheus, or breaks off: " + e.Msg
	default:
		detail := strings.TrimSpace(e.Detail)
		return "QueryFailed", strings.TrimSpace(fmt.Sprintf("Prometheus: %s: %s %s", e.Type, e.Msg, detail[:min(len(detail), 200)]))
	}
}

// answers writes the numbers to the observation and returns the usages.
func answers(questions []*question, ob *mpa.Observation) (usages, []Problem) {
	var problems []Problem
	var cpu, memory *question
	for _, q := range questions {
		if q.problem != nil {
			continue
		}
		switch q.field {
		case "cpu":
			cpu = q
		case "memory":
			memory = q
		default:
			m := q.number()
			if q.problem != nil {
				problems = append(problems, *q.problem)
			}
			*map[string]*mpa.Metric{Rate: &ob.Rate, Latency: &ob.Latency, Throughput: &ob.Throughput}[q.source] = m
		}
	}
	if cpu == nil || memory == nil {
		return nil, problems
	}
	used, problem := usageOf(cpu, memory)
	if problem != nil {
		problems = append(problems, *problem)
	}
	return used, problems
}

// number returns the answer of a question for a single number.
func (q *question) number() mpa.Metric {
	switch {
	case len(q.value) == 0:
		q.fail("NoSeries", "Prometheus has no answer: no series match, or none is fresh")
		return mpa.Metric{}
	case len(q.value) > 1:
		q.fail("SeveralSeries", "Prometheus answers with %d series, such as %v and %v; one number is wanted: sum or max over them", len(q.value), q.value[0].Metric, q.value[1].Metric)
		return mpa.Metric{}
	}
	s := q.value[0]
	if !q.plausible(s) {
		return mpa.Metric{}
	}
	t, ok := q.time(s)
	if !ok {
		q.fail("NoSeries", "some of its series have no recent sample, so that %g cannot be trusted: it needs %s", float64(s.Value), strings.Join(q.selectors, ", "))
		return mpa.Metric{}
	}
	return mpa.Metric{Value: float64(s.Value), Time: t}
}

// plausible reports whether a sample is a finite number of at least 0.
func (q *question) plausible(s *model.Sample) bool {
	of := ""
	if len(s.Metric) > 0 {
		of = " for " + s.Metric.String()
	}
	switch v := float64(s.Value); {
	case s.Histogram != nil:
		q.fail("NotANumber", "Prometheus answers with a histogram%s; want a number", of)
	case math.IsNaN(v):
		q.fail("NotANumber", "Prometheus answers NaN%s, as for 0 ÷ 0 when nothing is asked of the workload", of)
	case math.IsInf(v, 0):
		q.fail("Infinite", "Prometheus answers %v%s", s.Value, of)
	case v < 0:
		q.fail("Negative", "Prometheus answers %v%s; want 0 or more", s.Value, of)
	default:
		return true
	}
	return false
}

// time returns how fresh a sample is: the oldest of the newest samples of the selectors,
// and at most the time of the answer. It is unknown when a selector lacks samples that the
// query needs.
func (q *question) time(s *model.Sample) (time.Time, bool) {
	oldest, found := s.Timestamp.Time().UTC(), 0
	for i := range q.selectors {
		t, ok := q.newest(strconv.Itoa(i), s)
		switch {
		case ok && t.Before(oldest):
			oldest, found = t, found+1
		case ok:
			found++
		case !q.either:
			return time.Time{}, false
		}
	}
	return oldest, found > 0
}

// newest returns the time of a selector's newest sample, for the same pod and container
// where its labels name them.
func (q *question) newest(selector string, s *model.Sample) (newest time.Time, ok bool) {
	for _, f := range q.fresh {
		if string(f.Metric[selectorLabel]) != selector {
			continue
		}
		t := time.UnixMilli(int64(math.Round(1000 * float64(f.Value)))).UTC()
		if q.by != "" && f.Metric["pod"] == s.Metric["pod"] && f.Metric["container"] == s.Metric["container"] {
			return t, true
		}
		if !ok || t.After(newest) {
			newest, ok = t, true
		}
	}
	return newest, ok
}

// usageOf joins cpu and memory. A container that lacks one has no usage.
func usageOf(cpu, memory *question) (usages, *Problem) {
	cores, bytes := cpu.byContainer(), memory.byContainer()
	used := usages{}
	for at, c := range cores {
		m, ok := bytes[at]
		if !ok {
			continue
		}
		if used[at.pod] == nil {
			used[at.pod] = map[string]mpa.Usage{}
		}
		u := mpa.Usage{
			Resources: mpa.Resources{CPU: int64(math.Ceil(1000 * min(c.Value, mostAmount))), Memory: int64(math.Ceil(min(m.Value, mostAmount)))},
			Time:      c.Time, Window: cpu.window,
		}
		if m.Time.Before(u.Time) {
			u.Time = m.Time
		}
		used[at.pod][at.container] = u
	}
	if cpu.problem != nil {
		return used, cpu.problem
	}
	return used, memory.problem
}

// mostAmount keeps absurd answers within the range of an int64.
const mostAmount = 1e15

type place struct{ pod, container string }

// byContainer returns the numbers of a question for one number a container. A wrong one is
// left out, and becomes the question's problem; the others count.
func (q *question) byContainer() map[place]mpa.Metric {
	numbers, unlabelled := map[place]mpa.Metric{}, model.Metric(nil)
	twice := map[place]bool{}
	for _, s := range q.value {
		at := place{string(s.Metric["pod"]), string(s.Metric["container"])}
		if at.pod == "" || at.container == "" {
			unlabelled = s.Metric
			continue
		}
		if twice[at] {
			q.fail("SeveralSeries", "Prometheus answers with several series for container %s of pod %s; one number is wanted: sum or max by (pod, container)", at.container, at.pod)
			delete(numbers, at)
			continue
		}
		twice[at] = true
		if !q.plausible(s) {
			continue
		}
		if t, ok := q.time(s); ok {
			numbers[at] = mpa.Metric{Value: float64(s.Value), Time: t}
		}
	}
	if len(twice) == 0 && unlabelled != nil {
		q.fail("LabelsMissing", "the series that Prometheus answers with, such as %v, lack the labels pod and container", unlabelled)
	}
	return numbers
}
