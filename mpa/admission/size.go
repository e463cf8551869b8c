package admission

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/quotas"
	"github.com/sigma-scheduler/sigma/mpa/target"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// Why a pod keeps its size.
var (
	errQoS      = errors.New("another size would change its QoS class")
	errPodLevel = errors.New("it has requests of its own beside its containers'")
	errRange    = errors.New("a LimitRange leaves no room")
	errQuota    = errors.New("a ResourceQuota leaves no room")
	bothAmounts = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}
)

// size gives pod the wanted requests, within the constraints' maximum and the namespace's
// limits, and returns the changes. Limits keep their ratio to the requests, or stay. After an
// error the caller has to discard the pod.
func size(pod *v1.Pod, want []v1alpha1.ContainerRequests, constraints []v1alpha1.ContainerConstraints, keep bool, ranges []v1.LimitRange, limits []v1.ResourceQuota) (string, error) {
	before := pod.DeepCopy()
	containers := target.Containers(&pod.Spec)
	for _, c := range containers {
		i := slices.IndexFunc(constraints, func(l v1alpha1.ContainerConstraints) bool { return l.Name == c.Name })
		j := slices.IndexFunc(want, func(r v1alpha1.ContainerRequests) bool { return r.Name == c.Name })
		if i < 0 || j < 0 {
			continue
		}
		bounds, wanted := constraints[i], want[j]
		for _, name := range bounds.Controlled {
			q := quantityOf(name, wanted.CPU, wanted.Memory)
			if q == nil || q.Sign() <= 0 {
				continue
			}
			to := *q // q belongs to the cache
			// A request below minAllowed is not raised: the running pods have it too, and the
			// newest pod's size is taken for the size of all.
			if most := quantityOf(name, bounds.MaxAllowed.CPU, bounds.MaxAllowed.Memory); most != nil && to.Cmp(*most) > 0 {
				to = *most
			}
			setRequest(c, name, to, keep, ranges)
		}
	}
	for _, r := range ranges {
		for _, item := range r.Spec.Limits {
			if item.Type == v1.LimitTypePod {
				shareRoom(before, pod, keep, item)
			}
		}
	}

	changes := difference(target.Containers(&before.Spec), containers)
	switch {
	case changes == "":
		return "", nil
	case pod.Spec.Resources != nil:
		return "", errPodLevel
	case qosOf(pod) != qosOf(before):
		return "", fmt.Errorf("%w %s", errQoS, qosOf(before))
	case inRanges(before, ranges) && !inRanges(pod, ranges):
		return "", errRange
	}
	for i := range limits {
		if quotas.Exceeded(before, pod, &limits[i]) {
			return "", fmt.Errorf("%w: %s", errQuota, limits[i].Name)
		}
	}
	return changes, nil
}

func quantityOf(name v1.ResourceName, cpu, memory *resource.Quantity) *resource.Quantity {
	if name == v1.ResourceCPU {
		return cpu
	}
	return memory
}

// setRequest sets a request within the ranges for containers, and the limit to the same
// multiple of it as before; keep = the limit stays, and bounds the request.
func setRequest(c *v1.Container, name v1.ResourceName, to resource.Quantity, keep bool, ranges []v1.LimitRange) {
	was, most := amount(name, c.Resources.Requests[name]), amount(name, c.Resources.Limits[name])
	for _, r := range ranges {
		for _, item := range r.Spec.Limits {
			if item.Type != v1.LimitTypeContainer {
				continue
			}
			if low, ok := item.Min[name]; ok && to.Cmp(low) < 0 {
				to = low
			}
			if ratio, ok := item.MaxLimitRequestRatio[name]; ok && keep && most > 0 && ratio.Sign() > 0 {
				if low := int64(math.Ceil(float64(most) / ratio.AsApproximateFloat64())); amount(name, to) < low {
					to = quantity(name, low)
				}
			}
			if high, ok := item.Max[name]; ok {
				if was > 0 && most > was && !keep { // the request whose limit is the largest allowed
					high = quantity(name, multiple(amount(name, high), was, most))
				}
				if to.Cmp(high) > 0 {
					to = high
				}
			}
		}
	}
	if keep && most > 0 && amount(name, to) > most {
		to = quantity(name, most)
	}
	next := amount(name, to)
	if next == was || next <= 0 || was == 0 && most > 0 { // no request before: no ratio to keep
		return
	}
	if c.Resources.Requests == nil {
		c.Resources.Requests = v1.ResourceList{}
	}
	c.Resources.Requests[name] = to
	switch {
	case keep:
	case most == was && most > 0:
		c.Resources.Limits[name] = to
	case most > 0:
		c.Resources.Limits[name] = quantity(name, max(next, multiple(next, most, was)))
	}
}

// amount is a quantity in thousandths of a core or in bytes.
func amount(name v1.ResourceName, q resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return podspec.Milli(&q)
	}
	return podspec.Value(&q)
}

func quantity(name v1.ResourceName, n int64) resource.Quantity {
	if name == v1.ResourceCPU {
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	}
	return *resource.NewQuantity(n, resource.BinarySI)
}

// multiple is n·above/below, rounded down. All are positive.
func multiple(n, above, below int64) int64 {
	high, low := bits.Mul64(uint64(n), uint64(above))
	if high >= uint64(below) {
		return n // more than 64 bits: no real size
	}
	q, _ := bits.Div64(high, low, uint64(below))
	return int64(min(q, 1<<62))
}

// shareRoom reverts as much of the change as a range for whole pods demands, the same share
// in each container.
func shareRoom(before, pod *v1.Pod, keep bool, item v1.LimitRangeItem) {
	for _, name := range bothAmounts {
		share := int64(1000)
		for _, sum := range []func(*v1.Pod) v1.ResourceList{requestsOf, limitsOf} {
			was, is := amount(name, sum(before)[name]), amount(name, sum(pod)[name])
			if high, ok := item.Max[name]; ok && is > was && is > amount(name, high) {
				share = min(share, 1000*max(0, amount(name, high)-was)/(is-was))
			}
			if low, ok := item.Min[name]; ok && is < was && is < amount(name, low) {
				share = min(share, 1000*max(0, was-amount(name, low))/(was-is))
			}
		}
		if share == 1000 {
			continue
		}
		old := target.Containers(&before.Spec)
		for i, c := range target.Containers(&pod.Spec) {
			from, to := amount(name, old[i].Resources.Requests[name]), amount(name, c.Resources.Requests[name])
			if from == to {
				continue
			}
			put(c.Resources.Requests, old[i].Resources.Requests, name)
			put(c.Resources.Limits, old[i].Resources.Limits, name)
			if from > 0 {
				setRequest(c, name, quantity(name, from+(to-from)/1000*share+(to-from)%1000*share/1000), keep, nil)
			}
		}
	}
}

func put(to, from v1.ResourceList, name v1.ResourceName) {
	if q, ok := from[name]; ok {
		to[name] = q
	} else {
		delete(to, name)
	}
}

func requestsOf(pod *v1.Pod) v1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{ExcludeOverhead: true})
}

func limitsOf(pod *v1.Pod) v1.ResourceList {
	return resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{ExcludeOverhead: true})
}

// inRanges reports whether the API server's LimitRanger admits the pod.
func inRanges(pod *v1.Pod, ranges []v1.LimitRange) bool {
	var internal core.Pod
	if err := corev1.Convert_v1_Pod_To_core_Pod(pod.DeepCopy(), &internal, nil); err != nil {
		return false
	}
	for i := range ranges {
		if limitranger.PodValidateLimitFunc(&ranges[i], &internal) != nil {
			return false
		}
	}
	return true
}

// qosOf returns the class that the API server gives a pod without requests of its own.
func qosOf(pod *v1.Pod) v1.PodQOSClass {
	some, all := false, true
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, name := range bothAmounts {
			request, limit := amount(name, c.Resources.Requests[name]), amount(name, c.Resources.Limits[name])
			some = some || request > 0 || limit > 0
			all = all && limit > 0 && request == limit
		}
	}
	switch {
	case !some:
		return v1.PodQOSBestEffort
	case all:
		return v1.PodQOSGuaranteed
	}
	return v1.PodQOSBurstable
}

// difference returns the changes of requests as text.
func difference(before, after []*v1.Container) string {
	var all []string
	for i, c := range after {
		var changes []string
		for _, name := range bothAmounts {
			was, is := before[i].Resources.Requests[name], c.Resources.Requests[name]
			if is.Cmp(was) != 0 {
				changes = append(changes, fmt.Sprintf("%s %s to %s", name, &was, &is))
			}
		}
		if changes != nil {
			all = append(all, c.Name+": "+strings.Join(changes, ", "))
		}
	}
	return strings.Join(all, "; ")
}
