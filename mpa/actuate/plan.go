package actuate

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"math/bits"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/target"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// Larger requests are taken for mistakes, as in the object's bounds: 100,000
// cores and 1 PiB.
var largest = mpa.Resources{CPU: 100_000 * 1000, Memory: 1 << 50}

// Limits defines the limits of containers whose requests change.
type Limits int

// The limits keep their ratio to the requests, stay as they are and at least as in the
// template, or are those of the template. The last two bound the requests.
const (
	LimitsFollow Limits = iota
	LimitsStay
	LimitsOfTemplate
)

// LimitsOf returns the limits by an object's algorithm: an honest request must not
// throttle.
func LimitsOf(m *v1alpha1.MultidimPodAutoscaler) Limits {
	switch m.Spec.Recommender.Algorithm {
	case v1alpha1.AlgorithmUsage:
		return LimitsStay
	case v1alpha1.AlgorithmTemplate:
		return LimitsOfTemplate
	}
	return LimitsFollow
}

// Constraints returns those of an object's containers. A bound that was lowered below the
// memory that the recommender saw in use is raised to it: less would get containers killed.
func Constraints(m *v1alpha1.MultidimPodAutoscaler) []v1alpha1.ContainerConstraints {
	list := slices.Clone(m.Spec.Constraints.Containers)
	if m.Spec.Recommender.Algorithm == v1alpha1.AlgorithmTemplate { // the way back is exact
		for i := range list {
			list[i].MinAllowed, list[i].MaxAllowed = v1alpha1.Amounts{}, v1alpha1.UpperAmounts{}
		}
	}
	if m.Status.Memory == nil {
		return list
	}
	for _, k := range m.Status.Memory.Containers {
		i := slices.IndexFunc(list, func(c v1alpha1.ContainerConstraints) bool { return c.Name == k.Name })
		if i < 0 || list[i].MaxAllowed.Memory == nil {
			continue
		}
		floor := podspec.Value(list[i].MaxAllowed.Memory)
		for _, p := range k.Peaks {
			floor = max(floor, bounded.Int(mpa.DefaultGuards().Headroom*float64(podspec.Value(&p.Memory))))
		}
		list[i].MaxAllowed.Memory = resource.NewQuantity(floor, resource.BinarySI)
	}
	return list
}

// Wanted returns the requests of each listed container, by name; 0 leaves a resource as it
// is. Recommendations are clamped to the constraints, in whole millicores and bytes.
func Wanted(recommended []v1alpha1.ContainerRequests, constraints []v1alpha1.ContainerConstraints) (map[string]mpa.Resources, error) {
	want := map[string]mpa.Resources{}
	for _, c := range constraints {
		i := slices.IndexFunc(recommended, func(r v1alpha1.ContainerRequests) bool { return r.Name == c.Name })
		if i < 0 {
			continue
		}
		var r mpa.Resources
		var err error
		if slices.Contains(c.Controlled, corev1.ResourceCPU) {
			r.CPU, err = amount(recommended[i].CPU, c.MinAllowed.CPU, c.MaxAllowed.CPU, podspec.Milli, largest.CPU)
			if err != nil {
				return nil, fmt.Errorf("container %s: cpu %w", c.Name, err)
			}
		}
		if slices.Contains(c.Controlled, corev1.ResourceMemory) {
			r.Memory, err = amount(recommended[i].Memory, c.MinAllowed.Memory, c.MaxAllowed.Memory, podspec.Value, largest.Memory)
			if err != nil {
				return nil, fmt.Errorf("container %s: memory %w", c.Name, err)
			}
		}
		if r != (mpa.Resources{}) {
			want[c.Name] = r
		}
	}
	return want, nil
}

func amount(q, low, high *resource.Quantity, value func(*resource.Quantity) int64, most int64) (int64, error) {
	if q == nil {
		return 0, nil
	}
	v := value(q)
	if v <= 0 || v > most {
		return 0, fmt.Errorf("%v: want more than 0 and at most %d", q, most)
	}
	if low != nil {
		v = max(v, value(low))
	}
	if high != nil {
		v = min(v, value(high))
	}
	return v, nil
}

// Digest returns a digest of a template's requests and limits for the containers. Other
// edits, of an image or another container, do not change it.
func Digest(template *corev1.PodSpec, containers []v1alpha1.ContainerRequests) string {
	hash := sha256.New()
	for _, c := range target.Containers(template) {
		if slices.ContainsFunc(containers, func(r v1alpha1.ContainerRequests) bool { return r.Name == c.Name }) {
			r, l := c.Resources.Requests, c.Resources.Limits
			fmt.Fprintln(hash, c.Name, podspec.Milli(r.Cpu()), podspec.Value(r.Memory()), podspec.Milli(l.Cpu()), podspec.Value(l.Memory()))
		}
	}
	return fmt.Sprintf("%x", hash.Sum(nil))[:16]
}

// A Plan is the changes of one pod.
type Plan struct {
	// Containers that have to change, with all their resources after it.
	Containers map[string]corev1.ResourceRequirements
	// Restarts is true if a container restarts.
	Restarts bool
	// Left has the reasons for parts that stay as they are until the pod is replaced.
	Left []string
}

// PlanResize plans the change of a pod in place. The template is the workload's.
func PlanResize(pod *corev1.Pod, template *corev1.PodSpec, want map[string]mpa.Resources, limits Limits) Plan {
	p := PlanPod(pod, template, want, limits)
	if len(p.Containers) == 0 {
		return p
	}
	if why := unsupported(pod); why != "" {
		return Plan{Left: []string{why}}
	}
	for _, c := range target.Containers(&pod.Spec) {
		to, ok := p.Containers[c.Name]
		if !ok {
			continue
		}
		for _, policy := range c.ResizePolicy {
			if policy.RestartPolicy != corev1.RestartContainer || !differs(c.Resources, to, policy.ResourceName) {
				continue
			}
			if shrinks(c.Resources, to, policy.ResourceName) {
				p.Left = append(p.Left, fmt.Sprintf("container %s restarts to have less %s", c.Name, policy.ResourceName))
				to.Requests[policy.ResourceName] = c.Resources.Requests[policy.ResourceName]
				if limit, ok := c.Resources.Limits[policy.ResourceName]; ok {
					to.Limits[policy.ResourceName] = limit
				}
				continue
			}
			p.Restarts = true
		}
		if same(c.Resources, to) {
			delete(p.Containers, c.Name)
		}
	}
	if guaranteed(&pod.Spec, nil) != guaranteed(&pod.Spec, p.Containers) {
		return Plan{Left: append(p.Left, otherQoS)}
	}
	return p
}

// PlanPod plans the change of a pod, whether or not it can be made in place.
func PlanPod(pod *corev1.Pod, template *corev1.PodSpec, want map[string]mpa.Resources, limits Limits) Plan {
	p := Plan{Containers: map[string]corev1.ResourceRequirements{}}
	if pod.Spec.Resources != nil {
		return Plan{Left: []string{"the pod as a whole has resources"}}
	}
	fixed := guaranteed(&pod.Spec, nil)
	for _, c := range target.Containers(&pod.Spec) {
		w, ok := want[c.Name]
		if !ok {
			continue
		}
		base := c.Resources
		if i := slices.IndexFunc(target.Containers(template), func(t *corev1.Container) bool { return t.Name == c.Name }); i >= 0 {
			base = target.Containers(template)[i].Resources
		}
		to := *c.Resources.DeepCopy()
		for _, r := range []struct {
			name   corev1.ResourceName
			amount int64
			of     func(int64) *resource.Quantity
			value  func(*resource.Quantity) int64
		}{
			{corev1.ResourceCPU, w.CPU, func(v int64) *resource.Quantity { return resource.NewMilliQuantity(v, resource.DecimalSI) }, podspec.Milli},
			{corev1.ResourceMemory, w.Memory, func(v int64) *resource.Quantity { return resource.NewQuantity(v, resource.BinarySI) }, podspec.Value},
		} {
			if r.amount == 0 {
				continue
			}
			now, ok := to.Requests[r.name]
			if !ok || now.IsZero() {
				p.Left = append(p.Left, fmt.Sprintf("container %s has no %s request", c.Name, r.name))
				continue
			}
			to.Requests[r.name] = *r.of(r.amount)
			limit, ok := to.Limits[r.name]
			if !ok {
				continue
			}
			if limits != LimitsFollow {
				if l, ok := base.Limits[r.name]; ok && !l.IsZero() && (limits == LimitsOfTemplate || l.Cmp(limit) > 0) {
					limit = l
				}
				to.Requests[r.name], to.Limits[r.name] = *r.of(min(r.amount, r.value(&limit))), limit
				continue
			}
			request := now
			if l, ok := base.Limits[r.name]; ok && !l.IsZero() && !fixed {
				limit, request = l, l
				if q, ok := base.Requests[r.name]; ok && !q.IsZero() {
					request = q
				}
			}
			to.Limits[r.name] = *r.of(scaled(r.amount, r.value(&limit), r.value(&request)))
		}
		if !same(c.Resources, to) {
			p.Containers[c.Name] = to
		}
	}
	if limits != LimitsFollow && fixed != guaranteed(&pod.Spec, p.Containers) {
		return Plan{Left: []string{otherQoS}}
	}
	return p
}

// otherQoS is the reason that a pod is left alone.
const otherQoS = "its QoS class would change"

// scaled is amount × limit/request, rounded down as the admission webhook does it; at
// least the amount.
func scaled(amount, limit, request int64) int64 {
	if limit <= request {
		return amount
	}
	high, low := bits.Mul64(uint64(amount), uint64(limit))
	if high >= uint64(request) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(high, low, uint64(request))
	return int64(min(q, math.MaxInt64))
}

// unsupported returns the reason that a pod cannot be resized in place at all.
func unsupported(pod *corev1.Pod) string {
	switch {
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return "the pod is static"
	case pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows, pod.Spec.NodeSelector[corev1.LabelOSStable] == string(corev1.Windows):
		return "the pod runs on Windows"
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if s.State.Running != nil && s.Resources == nil {
			return "its node does not support resizes"
		}
	}
	return ""
}

var both = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

func differs(a, b corev1.ResourceRequirements, name corev1.ResourceName) bool {
	return compare(a.Requests, b.Requests, name) != 0 || compare(a.Limits, b.Limits, name) != 0
}

// shrinks reports whether b has less than a.
func shrinks(a, b corev1.ResourceRequirements, name corev1.ResourceName) bool {
	return cmp.Or(compare(b.Requests, a.Requests, name), compare(b.Limits, a.Limits, name)) < 0
}

func same(a, b corev1.ResourceRequirements) bool {
	return !slices.ContainsFunc(both, func(name corev1.ResourceName) bool { return differs(a, b, name) })
}

func compare(a, b corev1.ResourceList, name corev1.ResourceName) int {
	x, y := a[name], b[name]
	return x.Cmp(y)
}

// Guaranteed reports whether a pod is of class Guaranteed.
func Guaranteed(spec *corev1.PodSpec) bool { return guaranteed(spec, nil) }

// guaranteed reports whether a pod with these changes is of class Guaranteed, by
// upstream's rule: every container has limits of both, and requests equal limits in sum.
func guaranteed(spec *corev1.PodSpec, changes map[string]corev1.ResourceRequirements) bool {
	requests, limits := map[corev1.ResourceName]*resource.Quantity{}, map[corev1.ResourceName]*resource.Quantity{}
	for _, name := range both {
		requests[name], limits[name] = &resource.Quantity{}, &resource.Quantity{}
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		r := c.Resources
		if to, ok := changes[c.Name]; ok {
			r = to
		}
		for _, name := range both {
			limit, ok := r.Limits[name]
			if !ok || limit.IsZero() {
				return false
			}
			requests[name].Add(r.Requests[name])
			limits[name].Add(limit)
		}
	}
	return requests[both[0]].Cmp(*limits[both[0]]) == 0 && requests[both[1]].Cmp(*limits[both[1]]) == 0
}

// A State is the progress of a pod's resize.
type State string

// The states.
const (
	Resized    State = "Resized"
	InProgress State = "InProgress"
	Deferred   State = "Deferred"
	Infeasible State = "Infeasible"
)

// StateOf returns the state of a pod whose spec has the wanted requests, with the node's
// condition about it.
func StateOf(pod *corev1.Pod) (State, corev1.PodCondition) {
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodResizePending || c.Status != corev1.ConditionTrue {
			continue
		}
		if c.Reason == corev1.PodReasonInfeasible {
			return Infeasible, c
		}
		return Deferred, c
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodResizeInProgress && c.Status == corev1.ConditionTrue {
			return InProgress, c
		}
	}
	for _, c := range target.Containers(&pod.Spec) {
		for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if s.Name == c.Name && s.Resources != nil && !same(*s.Resources, c.Resources) {
				return InProgress, corev1.PodCondition{}
			}
		}
	}
	return Resized, corev1.PodCondition{}
}
