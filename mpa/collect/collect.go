package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metrics "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/target"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Collector observes workloads, several at a time.
type Collector struct {
	Client     client.Reader // a cache with the fields of [target.Index]
	Metrics    metrics.PodMetricsesGetter
	Prometheus *Prometheus
	// Timeout limits the queries of one observation together.
	Timeout time.Duration
}

// ErrBusy means that a Prometheus answers as many queries as it may already. The workload
// is observed later.
var ErrBusy = errors.New("Prometheus answers as many queries as it may already")

// A Problem is the reason that something was not measured, for people who can mend it.
type Problem struct {
	Source  string // usage, rate, latency, throughput, gates or history
	Reason  string // one word in CamelCase
	Message string
}

func (p *Problem) Error() string { return p.Source + ": " + p.Message }

// The sources of a [Problem].
const (
	Usage      = "usage"
	Rate       = "rate"
	Latency    = "latency"
	Throughput = "throughput"
	Gates      = "gates"
	History    = "history"
)

// usages are by pod and container.
type usages map[string]map[string]mpa.Usage

// Observe measures a workload. Values that could not be measured are missing, and the
// problems give the reasons. An error is a failure of this program, not of the workload;
// after [ErrBusy] nothing was queried.
func (c *Collector) Observe(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, w *target.Workload, now time.Time) (*mpa.Observation, []Problem, error) {
	pods, err := w.IndexedPods(ctx, c.Client)
	if err != nil {
		return nil, nil, err
	}
	// Whole microseconds, as a status stores them.
	ob := &mpa.Observation{Time: now.UTC().Truncate(time.Microsecond), Replicas: w.Replicas}
	listed := make([]string, 0, len(o.Spec.Constraints.Containers))
	for _, k := range o.Spec.Constraints.Containers {
		listed = append(listed, k.Name)
	}
	if o.Spec.ScaleTargetRef.Knative() { // not its queue-proxy
		for _, k := range w.Template.Spec.Containers {
			listed = append(listed, k.Name)
		}
	}
	for i := range pods {
		ob.Pods = append(ob.Pods, podOf(&pods[i], listed))
	}
	if len(pods) == 0 {
		return ob, []Problem{{Usage, "NoPods", fmt.Sprintf("%s has no pods yet", name(o))}}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	used, problems, err := c.measure(ctx, o, w, ob)
	if err != nil {
		return nil, nil, err
	}
	fill(ob, used)
	maxAge := MaxAge(o)
	problems = append(missing(ob, o, used, problems, maxAge), stale(ob, maxAge, problems)...)
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(order[a.Source], order[b.Source]) })
	return ob, problems, nil
}

var order = map[string]int{Usage: 0, Latency: 1, Throughput: 2, Rate: 3, Gates: 4}

func name(o *v1alpha1.MultidimPodAutoscaler) string {
	return o.Spec.ScaleTargetRef.Kind + " " + o.Spec.ScaleTargetRef.Name
}

// MaxAge is the largest age of a measurement that counts.
func MaxAge(o *v1alpha1.MultidimPodAutoscaler) time.Duration {
	if m := o.Spec.Metrics.MaxAge; m != nil {
		return m.Duration
	}
	return mpa.DefaultGuards().MaxAge
}

// measure queries both sources at once.
func (c *Collector) measure(ctx context.Context, o *v1alpha1.MultidimPodAutoscaler, w *target.Workload, ob *mpa.Observation) (usages, []Problem, error) {
	var used usages
	var fromAPI *Problem
	done := make(chan struct{})
	go func() {
		defer close(done)
		if o.Spec.Metrics.Usage != v1alpha1.UsagePrometheus {
			used, fromAPI = c.metricsAPI(ctx, w)
		}
	}()
	var measured usages
	var problems []Problem
	var err error
	if o.Spec.Metrics.Prometheus != nil {
		measured, problems, err = c.Prometheus.measure(ctx, o, ob)
	}
	<-done
	if measured != nil {
		used = measured
	}
	if fromAPI != nil {
		problems = append(problems, *fromAPI)
	}
	return used, problems, err
}

// fill assigns usage to containers. Usage from before a pod's start belongs to an earlier pod
// of the same name.
func fill(ob *mpa.Observation, used usages) {
	for i := range ob.Pods {
		p := &ob.Pods[i]
		for j := range p.Containers {
			k := &p.Containers[j]
			if u := used[p.Name][k.Name]; !u.Time.Before(p.Started) {
				k.Usage = u
			}
		}
	}
}

// missing adds a problem for running pods without usage, unless there is one about usage.
func missing(ob *mpa.Observation, o *v1alpha1.MultidimPodAutoscaler, used usages, problems []Problem, maxAge time.Duration) []Problem {
	if slices.ContainsFunc(problems, func(p Problem) bool { return p.Source == Usage }) {
		return problems
	}
	from := "the metrics API"
	if o.Spec.Metrics.Usage == v1alpha1.UsagePrometheus {
		from = "Prometheus"
	}
	running, fresh, due := 0, 0, ""
	var newest time.Time
	for _, p := range ob.Pods {
		if p.Phase != mpa.Running || p.Deleting {
			continue
		}
		running++
		known := len(p.Containers) > 0
		for _, k := range p.Containers {
			known = known && k.Usage.Known(ob.Time, maxAge)
			if k.Usage.Time.After(newest) {
				newest = k.Usage.Time
			}
		}
		switch {
		case known:
			fresh++
		case due == "" && p.Ready && p.Started.Add(maxAge).Before(ob.Time):
			due = p.Name
		}
	}
	add := func(reason, format string, args ...any) []Problem {
		return append(problems, Problem{Usage, reason, fmt.Sprintf(format, args...)})
	}
	switch {
	case running == 0:
		return add("NoRunningPods", "none of the %d pods of %s runs", len(ob.Pods), name(o))
	case fresh == 0 && newest.After(ob.Time):
		return add("UsageFromTheFuture", "the newest usage that %s has is %v ahead of this clock", from, newest.Sub(ob.Time).Round(time.Second))
	case fresh == 0 && !newest.IsZero():
		return add("UsageStale", "the newest usage that %s has is %v old; it counts for %v", from, ob.Time.Sub(newest).Round(time.Second), maxAge)
	case fresh == 0 && len(used) > 0:
		return add("UsageMissing", "%s has usage of pods of %s, but of no running pod with all its containers", from, name(o))
	case fresh == 0:
		return add("UsageMissing", "%s has no usage of the %d running pods of %s", from, running, name(o))
	case due != "":
		return add("PodsMissing", "%s has fresh usage of %d of %d running pods; not of %s", from, fresh, running, due)
	}
	return problems
}

// stale returns problems for numbers that are too old.
func stale(ob *mpa.Observation, maxAge time.Duration, known []Problem) []Problem {
	var problems []Problem
	for _, m := range []struct {
		source string
		mpa.Metric
	}{{Rate, ob.Rate}, {Latency, ob.Latency}, {Throughput, ob.Throughput}, {Gates, ob.Gates.Inside}} {
		if m.Time.IsZero() || m.Known(ob.Time, maxAge) || slices.ContainsFunc(known, func(p Problem) bool { return p.Source == m.source }) {
			continue
		}
		problems = append(problems, Problem{m.source, "Stale", fmt.Sprintf("the newest sample of the %s is %v old (%s); it counts for %v",
			m.source, ob.Time.Sub(m.Time).Round(time.Second), m.Time.UTC().Format(time.RFC3339), maxAge)})
	}
	return problems
}

// podOf translates a pod for decisions, with the listed containers; if the list is empty,
// with all but init containers.
func podOf(pod *corev1.Pod, listed []string) mpa.Pod {
	p := mpa.Pod{Name: pod.Name, Phase: phaseOf(pod.Status.Phase), Deleting: pod.DeletionTimestamp != nil}
	if t := pod.Status.StartTime; t != nil {
		p.Started = t.UTC()
	}
	for _, c := range pod.Status.Conditions {
		on := c.Status == corev1.ConditionTrue
		switch {
		case c.Type == corev1.PodReady:
			p.Ready, p.ReadySince = on, c.LastTransitionTime.UTC()
		case c.Type == corev1.PodResizePending && on:
			// A resize that waits counts, not one that is under way before it.
			p.Resize, p.ResizeSince = mpa.Resize(c.Reason), c.LastTransitionTime.UTC()
		case c.Type == corev1.PodResizeInProgress && on && p.Resize == mpa.NoResize:
			p.Resize, p.ResizeSince = mpa.InProgress, c.LastTransitionTime.UTC()
		}
	}
	statuses := map[string]*corev1.ContainerStatus{}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			statuses[list[i].Name] = &list[i]
		}
	}
	add := func(c *corev1.Container) {
		k := mpa.Container{Name: c.Name, Request: amounts(c.Resources.Requests), MemoryLimit: podspec.Amount("memory", c.Resources.Limits.Memory())}
		if s := statuses[c.Name]; s != nil {
			if s.Resources != nil {
				k.Actual = amounts(s.Resources.Requests)
			}
			k.Killed = killed(s)
		}
		p.Containers = append(p.Containers, k)
	}
	for _, c := range target.Containers(&pod.Spec) {
		own := slices.ContainsFunc(pod.Spec.Containers, func(o corev1.Container) bool { return o.Name == c.Name })
		if slices.Contains(listed, c.Name) || len(listed) == 0 && own {
			add(c)
		}
	}
	return p
}

func phaseOf(p corev1.PodPhase) mpa.Phase {
	switch p {
	case corev1.PodRunning:
		return mpa.Running
	case corev1.PodSucceeded, corev1.PodFailed:
		return mpa.Ended
	default:
		return mpa.Pending
	}
}

func amounts(list corev1.ResourceList) mpa.Resources {
	return resources(list[corev1.ResourceCPU], list[corev1.ResourceMemory])
}

func resources(cpu, memory resource.Quantity) mpa.Resources {
	return mpa.Resources{CPU: podspec.Amount("cpu", &cpu), Memory: podspec.Amount("memory", &memory)}
}

// killed returns when a container last ran out of memory.
func killed(s *corev1.ContainerStatus) time.Time {
	var last time.Time
	for _, t := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if t != nil && t.Reason == "OOMKilled" && t.FinishedAt.After(last) {
			last = t.FinishedAt.UTC()
		}
	}
	return last
}
