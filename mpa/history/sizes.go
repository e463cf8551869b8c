package history

import (
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/internal/usage/prometheus"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/actuate"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
	"github.com/sigma-scheduler/sigma/mpa/target"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// Use returns the template of an object's workload, and, for the algorithm usage, the sizes of
// its containers. The problem is the reason that there are no sizes or only old ones.
func (k *Keeper) Use(o *v1alpha1.MultidimPodAutoscaler, w *target.Workload) (*mpa.Use, *collect.Problem) {
	use := &mpa.Use{Generation: o.Generation}
	containers := target.Containers(&w.Template.Spec)
	for _, c := range o.Spec.Constraints.Containers {
		i := slices.IndexFunc(containers, func(t *corev1.Container) bool { return t.Name == c.Name })
		if i < 0 {
			return use, nil // the object is refused for it
		}
		use.Template = append(use.Template, mpa.TemplateSize{Request: requested(&containers[i].Resources), Limit: amounts(containers[i].Resources.Limits)})
	}
	if o.Spec.Recommender.Algorithm != v1alpha1.AlgorithmUsage {
		return use, nil
	}
	if guaranteed(&w.Template.Spec) {
		use.Fixed = "its pods are Guaranteed: with smaller requests and the same limits they would not be"
		return use, nil
	}
	problem := k.sizes(o, use)
	if use.Sizes == nil && problem != nil {
		use.Missing = problem.Message
	}
	return use, problem
}

func (k *Keeper) sizes(o *v1alpha1.MultidimPodAutoscaler, use *mpa.Use) *collect.Problem {
	fail := func(reason, format string, args ...any) *collect.Problem {
		return &collect.Problem{Source: collect.History, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case k.Folder == "":
		return fail("HistoryOff", "the recommender keeps no history of use: it needs --usage-history or --journal-dir")
	case o.Spec.Metrics.Prometheus == nil:
		return fail("PrometheusServer", "metrics.prometheus.server: the algorithm usage needs the server that has the use of 28 days")
	}
	found, _, problem := k.Prometheus.History(o.Spec.Metrics.Prometheus)
	if problem != nil {
		return problem
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s, workload := k.servers[found.Name], workloadOf(o)
	switch {
	case s == nil:
		return fail("HistoryUnread", "the use of the last %d days is not read yet", usage.Window)
	case s.histories == nil && s.problem != "":
		return fail("HistoryFailed", "the use of the last %d days cannot be read from server %s: %s", usage.Window, found.Name, s.problem)
	case !s.workloads[workload]:
		return fail("HistoryUnread", "the use of the last %d days is being read; %s", usage.Window, s.progress)
	}
	use.Midnight = s.midnight()
	for i, c := range o.Spec.Constraints.Containers {
		use.Sizes = append(use.Sizes, s.size(prometheus.ContainerOf{Workload: workload, Container: c.Name}, use.Template[i].Request))
	}
	if s.problem != "" {
		return fail("HistoryFailed", "the use after %s cannot be read from server %s, older sizes stay: %s", use.Midnight.Format(time.DateOnly), found.Name, s.problem)
	}
	return nil
}

// size returns the size of a container.
func (s *server) size(of prometheus.ContainerOf, request mpa.Resources) mpa.UseSize {
	h := s.histories[of]
	size := h.Size(usage.Amounts{CPU: float64(request.CPU) / 1000, Memory: float64(request.Memory)}, false, usage.LeastDays)
	out := mpa.UseSize{CPUReason: string(size.CPUReason), MemoryReason: string(size.MemoryReason), Days: size.Days, MemoryDays: size.MemoryDays}
	if !size.CPUReason.ByRequest() {
		out.CPU = mpa.Amount(math.Ceil(size.CPU*1000 - 1e-6))
	}
	if !size.MemoryReason.ByRequest() {
		out.Memory = mpa.Amount(math.Ceil(size.Memory))
		const mi = 1 << 20
		if whole := (out.Memory + mi - 1) / mi * mi; whole <= request.Memory || out.Memory > request.Memory {
			out.Memory = whole
		}
	}
	return out
}

func amounts(list corev1.ResourceList) mpa.Resources {
	return mpa.Resources{CPU: podspec.Amount("cpu", list.Cpu()), Memory: podspec.Amount("memory", list.Memory())}
}

// requested returns the requests that the API server gives a new container: the limit, where
// there is no request.
func requested(r *corev1.ResourceRequirements) mpa.Resources {
	request, limit := amounts(r.Requests), amounts(r.Limits)
	if request.CPU == 0 {
		request.CPU = limit.CPU
	}
	if request.Memory == 0 {
		request.Memory = limit.Memory
	}
	return request
}

// guaranteed reports whether pods of a template are of class Guaranteed.
func guaranteed(spec *corev1.PodSpec) bool {
	full := corev1.PodSpec{InitContainers: slices.Clone(spec.InitContainers), Containers: slices.Clone(spec.Containers)}
	for _, list := range [][]corev1.Container{full.InitContainers, full.Containers} {
		for i := range list {
			list[i].Resources = corev1.ResourceRequirements{Limits: list[i].Resources.Limits, Requests: defaulted(list[i].Resources)}
		}
	}
	return actuate.Guaranteed(&full)
}

func defaulted(r corev1.ResourceRequirements) corev1.ResourceList {
	list := r.Requests.DeepCopy()
	if list == nil {
		list = corev1.ResourceList{}
	}
	for name, limit := range r.Limits {
		if _, ok := list[name]; !ok {
			list[name] = limit
		}
	}
	return list
}
