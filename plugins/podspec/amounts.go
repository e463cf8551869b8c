package podspec

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Units are those of the dimensions that are not counted in ones: cpu in m, as
// kube-scheduler counts it.
var Units = map[string]string{"cpu": "m"}

// Pods is the name of the dimension that every pod needs one of.
const Pods = string(v1.ResourcePods)

// asScheduler are the options with which kube-scheduler counts a pod (PodInfo.CalculateResource in
// k8s.io/kubernetes/pkg/scheduler/framework) with the default feature gates of the version in go.mod. A test
// compares the sums on random pods.
var asScheduler = podresource.PodResourcesOptions{
	UseStatusResources: true, // InPlacePodVerticalScaling
	InPlacePodLevelResourcesVerticalScalingEnabled: true,
}

// Demand returns a pod's demand of each resource, in units, as kube-scheduler counts
// it: init and sidecar containers, overhead, pod-level resources, and during a
// resize the larger of the old and the new.
func Demand(pod *v1.Pod) map[string]int64 {
	demand := Amounts(podresource.PodRequests(summable(pod), asScheduler))
	demand[Pods] = 1
	return demand
}

// Desired returns the amounts that a pod's spec requests, in units: during a resize in place those that are desired.
func Desired(pod *v1.Pod) map[string]int64 {
	return Amounts(podresource.PodRequests(summable(pod), podresource.PodResourcesOptions{}))
}

// Amounts returns the amounts that are not zero, in units, none above the maximum of
// the core.
func Amounts(list v1.ResourceList) map[string]int64 {
	out := make(map[string]int64, len(list)+1)
	for name, quantity := range list {
		if n := Amount(string(name), &quantity); n > 0 {
			out[string(name)] = n
		}
	}
	return out
}

// Amount returns a quantity in the units of its dimension, from 0 to the maximum of the core.
func Amount(dimension string, q *resource.Quantity) int64 {
	n := Value(q)
	if Units[dimension] == "m" {
		n = Milli(q)
	}
	return min(max(n, 0), binpack.MaxValue)
}

// Value returns a quantity in ones, rounded up. Beyond 2^62 it is the largest number, where the method of a
// quantity returns a remainder or 0.
func Value(q *resource.Quantity) int64 { return within(q, 1<<62, q.Value) }

// Milli returns a quantity in thousandths in the same way.
func Milli(q *resource.Quantity) int64 { return within(q, (1<<62)/1000, q.MilliValue) }

// within returns a value of a quantity from -most to most, beyond which the value is no number of 64 bits. An
// exact comparison would write out every digit of 1e99999999.
func within(q *resource.Quantity, most float64, value func() int64) int64 {
	switch about := q.AsApproximateFloat64(); {
	case q.IsZero():
		return 0
	case about > most:
		return math.MaxInt64
	case about < -most:
		return -math.MaxInt64
	}
	return value()
}

// summable returns a pod that may be summed: no request is above the maximum of the core, since sums of larger ones
// take too long, and no request changes: PodRequests adds the overhead to the pod's own amounts where they are written
// as 1.5Gi. It returns the pod itself where neither can happen.
func summable(pod *v1.Pod) *v1.Pod {
	large := func(q resource.Quantity) bool {
		return !(math.Abs(q.AsApproximateFloat64()) <= float64(binpack.MaxValue))
	}
	largest := func(list v1.ResourceList) bool {
		for _, q := range list {
			if large(q) {
				return true
			}
		}
		return false
	}
	if !slices.ContainsFunc(requestsOf(pod), largest) {
		if pod.Spec.Resources == nil || len(pod.Spec.Overhead) == 0 {
			return pod
		}
		own := *pod
		own.Spec.Resources = pod.Spec.Resources.DeepCopy()
		return &own
	}
	pod = pod.DeepCopy()
	for _, list := range requestsOf(pod) {
		for name, q := range list {
			if large(q) {
				list[name] = *resource.NewQuantity(binpack.MaxValue*int64(q.Sign()), resource.DecimalSI)
			}
		}
	}
	return pod
}

// requestsOf returns all lists of amounts that make up a pod's demand.
func requestsOf(pod *v1.Pod) []v1.ResourceList {
	lists := []v1.ResourceList{pod.Spec.Overhead}
	add := func(r *v1.ResourceRequirements) {
		if r != nil {
			lists = append(lists, r.Requests, r.Limits)
		}
	}
	add(pod.Spec.Resources)
	add(pod.Status.Resources)
	lists = append(lists, pod.Status.AllocatedResources)
	for _, containers := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			add(&containers[i].Resources)
		}
	}
	for _, statuses := range [][]v1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			add(statuses[i].Resources)
			lists = append(lists, statuses[i].AllocatedResources)
		}
	}
	return lists
}

// Size formats a demand: equal demands are equal texts.
func Size(demand map[string]int64) string {
	names := make([]string, 0, len(demand))
	for name := range demand {
		if name != Pods {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "nothing"
	}
	for i, name := range names {
		names[i] = name + "=" + Format(name, demand[name])
	}
	return strings.Join(names, ",")
}

// Format formats an amount of a dimension as a quantity: 1500m, 3, 512Mi.
func Format(dimension string, n int64) string {
	if Units[dimension] == "m" {
		if n%1000 != 0 {
			return strconv.FormatInt(n, 10) + "m"
		}
		return strconv.FormatInt(n/1000, 10)
	}
	suffix := ""
	for _, next := range []string{"Ki", "Mi", "Gi", "Ti"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, suffix = n/1024, next
	}
	return fmt.Sprint(n, suffix)
}
