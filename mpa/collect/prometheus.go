package collect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// The default queries of usage: the metrics of the kubelet's cAdvisor.
const (
	DefaultCPU    = `max by (pod, container) (rate(container_cpu_usage_seconds_total{namespace="$namespace", pod=~"$pods", container!="", container!="POD"}[2m]))`
	DefaultMemory = `max by (pod, container) (container_memory_working_set_bytes{namespace="$namespace", pod=~"$pods", container!="", container!="POD"})`
)

// GateWindow is the window of the means in the queries of gates and of queue-proxy: [1m].
const GateWindow = time.Minute

// gateQueries query the measurements of the pods' gates. Rate and throughput replace those
// that the object has no query for.
var gateQueries = []struct{ source, field, text string }{
	{Rate, "rate", `sum(rate(sigma_gate_requests_total{namespace="$namespace", pod=~"$pods"}[1m]))`},
	{Throughput, "throughput", `sum(rate(sigma_gate_requests_total{result="answered", namespace="$namespace", pod=~"$pods"}[1m]))`},
	{Gates, "inside", `sum(rate(sigma_gate_inside_seconds_total{namespace="$namespace", pod=~"$pods"}[1m]))`},
	{Gates, "waiting", `sum(sigma_gate_waiting{namespace="$namespace", pod=~"$pods"})`},
	{Gates, "arriving", `sum(rate(sigma_gate_requests_total{namespace="$namespace", pod=~"$pods"}[1m]))`},
	{Gates, "failed", `sum(rate(sigma_gate_requests_total{result="failed", namespace="$namespace", pod=~"$pods"}[1m]))`},
	// A new pod has no limit, 0, for a while: 0 counts only if no pod has another limit.
	{Gates, "limit", `min(sigma_gate_limit{namespace="$namespace", pod=~"$pods"} > 0) or min(sigma_gate_limit{namespace="$namespace", pod=~"$pods"})`},
}

// ofGates stores a number of the gates.
func ofGates(ob *mpa.Observation, field string, m mpa.Metric) {
	g := &ob.Gates
	g.Window = GateWindow
	if field == "limit" {
		g.Limit = int32(min(m.Value, math.MaxInt32))
		return
	}
	*map[string]*mpa.Metric{"inside": &g.Inside, "waiting": &g.Waiting, "arriving": &g.Rate, "failed": &g.Failed}[field] = m
}

// A question is a query and its answer.
type question struct {
	source, field string
	query
	by           string         // labels that distinguish the answer's series
	asked        map[place]bool // where by is pod and container: those that are observed
	value, fresh model.Vector
	problem      *Problem
	cause        error // of the problem, in the server's words
	answered     bool  // at least in part, if only with a refusal
}

// measure runs all queries of an object. The usages are nil if they are not queried or
// missing.
func (p *Prometheus) measure(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, ob *mpa.Observation) (usages, []Problem, error) {
	questions := questionsOf(o, ob)
	if len(questions) == 0 {
		return nil, nil, nil
	}
	problems, err := p.askAll(ctx, o, questions)
	if err != nil {
		return nil, nil, err
	}
	used, more := answers(questions, ob)
	return used, append(problems, more...), nil
}

// askAll queries the server of an object.
func (p *Prometheus) askAll(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, questions []*question) (problems []Problem, err error) {
	fail := func(q *question, problem Problem) {
		problem.Source = q.source
		if problem.Message != "" && !slices.Contains(problems, problem) {
			problems = append(problems, problem)
		}
	}
	s, err := p.enter(o.Namespace, o.Spec.Metrics.Prometheus)
	if problem := (*Problem)(nil); errors.As(err, &problem) {
		for _, q := range questions {
			q.problem = problem
			fail(q, *problem)
		}
		return problems, nil
	} else if err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	for _, q := range questions {
		all.Go(func() { s.ask(ctx, q) })
	}
	all.Wait()
	var silent *Problem
	var cause error
	for _, q := range questions {
		if q.problem != nil {
			if !q.answered && len(q.selectors) > 0 {
				silent, cause = q.problem, q.cause
			}
			fail(q, *q.problem)
		}
	}
	// A single query that takes too long is the object's fault, not the server's.
	if slices.ContainsFunc(questions, func(q *question) bool { return q.answered }) {
		silent = nil
	}
	if silent != nil {
		log.FromContext(ctx).Info("A Prometheus does not answer", "server", s.Name, "why", short(cause))
	}
	p.leave(s, o.Namespace, silent)
	return problems, nil
}

// questionsOf returns the queries of an object with its names filled in.
func questionsOf(o *v1alpha1.MultidimPodAutoscaler, ob *mpa.Observation) []*question {
	names := make([]string, len(ob.Pods))
	for i, pod := range ob.Pods {
		names[i] = pod.Name
	}
	asked := map[place]bool{}
	for _, pod := range ob.Pods {
		for _, k := range pod.Containers {
			asked[place{pod.Name, k.Name}] = true
		}
	}
	fill := filler(o, names)
	var list []*question
	add := func(source, field, by, expression string) {
		if expression != "" {
			list = append(list, &question{source: source, field: field, by: by, asked: asked, query: readQuery(fill.Replace(expression))})
		}
	}
	queries := o.Spec.Metrics.Prometheus.Queries
	add(Rate, "rate", "", queries.Rate)
	add(Latency, "latency", "", queries.Latency)
	add(Throughput, "throughput", "", queries.Throughput)
	if o.Spec.Concurrency != nil {
		queriesOf := gateQueries
		if o.Spec.Concurrency.Pod == v1alpha1.PodKnative {
			queriesOf = knativeQueries
			if queries.Latency == "" && o.Spec.SLO != nil && o.Spec.SLO.Latency != nil {
				add(Latency, "latency", "", fmt.Sprintf(knativeLatency, o.Spec.SLO.Latency.Percentile/100))
			}
		}
		for _, g := range queriesOf {
			if g.field == "throughput" && queries.Throughput != "" || g.field == "rate" && queries.Rate != "" {
				continue
			}
			add(g.source, g.field, "", g.text)
		}
	}
	if o.Spec.Metrics.Usage == v1alpha1.UsagePrometheus {
		add(Usage, "cpu", "pod, container", or(queries.CPU, DefaultCPU))
		add(Usage, "memory", "pod, container", or(queries.Memory, DefaultMemory))
	}
	return list
}

// filler fills in the names of an object's target and of pods.
func filler(o *v1alpha1.MultidimPodAutoscaler, pods []string) *strings.Replacer {
	names := make([]string, len(pods))
	for i, name := range pods {
		names[i] = strings.ReplaceAll(name, ".", "[.]") // in any kind of quotes
	}
	return strings.NewReplacer("$namespace", o.Namespace, "$name", o.Spec.ScaleTargetRef.Name, "$pods", strings.Join(names, "|"))
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
	api := s.api(q.mostBytes())
	var both sync.WaitGroup
	both.Go(func() { fresh = evaluate(ctx, api, q.freshness(q.by)) })
	value := evaluate(ctx, api, q.text)
	both.Wait()
	q.answered = !value.silent() || !fresh.silent()
	for _, a := range []*promAnswer{&value, &fresh} {
		if q.cause == nil && a.cause != nil {
			q.cause = a.cause
			log.FromContext(ctx).V(1).Info("A query has no answer", "server", s.Name, "query", q.field, "why", short(a.cause))
		}
	}
	switch {
	case value.reason != "":
		q.fail(value.reason, "%s", value.message)
	case fresh.reason != "":
		q.fail(fresh.reason, "when asked for the age of its samples: %s", fresh.message)
	default:
		q.value, q.fresh = value.vector, fresh.vector
	}
}

// mostBytes is the largest size of an answer. Its author pays nothing for a query that
// returns all series of the server, so the size is in proportion to the containers observed.
func (q *question) mostBytes() int64 {
	if q.by == "" {
		return leastAnswer
	}
	return min(mostAnswer, leastAnswer+answerEach*int64(len(q.asked)))
}

const (
	leastAnswer = 256 << 10
	mostAnswer  = 16 << 20
	answerEach  = 4 << 10 // for each container
)

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
			if q.source == Gates {
				ofGates(ob, q.field, m)
				continue
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
		q.fail("SeveralSeries", "Prometheus answers with %d series; one number is wanted: sum or max over them", len(q.value))
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

// plausible reports whether a sample is a finite number of at least 0. Its labels are not for
// everybody, but for those of an observed container.
func (q *question) plausible(s *model.Sample) bool {
	of := ""
	if at := placeOf(s); q.by != "" && q.asked[at] {
		of = fmt.Sprintf(" for container %s of pod %s", at.container, at.pod)
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
		t := timeOf(float64(f.Value))
		if q.by != "" && f.Metric["pod"] == s.Metric["pod"] && f.Metric["container"] == s.Metric["container"] {
			return t, true
		}
		if !ok || t.After(newest) {
			newest, ok = t, true
		}
	}
	return newest, ok
}

// timeOf converts seconds since 1970 to a time with a year of four digits, which JSON can
// have. Other values become 1970.
func timeOf(seconds float64) time.Time {
	const most = 253_402_300_799 // the end of the year 9999
	if !(seconds >= 0) {
		seconds = 0
	}
	return time.UnixMilli(int64(math.Round(1000 * min(seconds, most)))).UTC()
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

func placeOf(s *model.Sample) place {
	return place{string(s.Metric["pod"]), string(s.Metric["container"])}
}

// byContainer returns the numbers of a question for one number a container, of those that are
// observed. A wrong one is left out, and becomes the question's problem; the others count.
func (q *question) byContainer() map[place]mpa.Metric {
	numbers, labelled := map[place]mpa.Metric{}, false
	twice := map[place]bool{}
	for _, s := range q.value {
		at := placeOf(s)
		labelled = labelled || at.pod != "" && at.container != ""
		if !q.asked[at] {
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
	if len(q.value) > 0 && !labelled {
		q.fail("LabelsMissing", "the series that Prometheus answers with lack the labels pod and container")
	}
	return numbers
}
