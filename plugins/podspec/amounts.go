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
// kube-scheduler counts it. Pods is the dimension that every pod needs one of.
var Units = map[string]string{"cpu": "m"}

// Pods is the name of the dimension that every pod needs one of.
const Pods = string(v1.ResourcePods)

// Demand is what a pod needs of each resource, in units, as kube-scheduler counts
// it: init and sidecar containers, overhead, pod-level resources, and while a
// resize is under way the larger of the old and the new.
func Demand(pod *v1.Pod) map[string]int64 {
	demand := Amounts(podresource.PodRequests(pod, podresource.PodResourcesOptions{UseStatusResources: true}))
	demand[Pods] = 1
	return demand
}

// Amounts are the amounts that are not zero, in units, none above what the core
// can hold.
func Amounts(list v1.ResourceList) map[string]int64 {
	out := make(map[string]int64, len(list)+1)
	for name, quantity := range list {
		if n := Amount(string(name), &quantity); n > 0 {
			out[string(name)] = n
		}
	}
	return out
}

// Amount is a quantity in the units of its dimension, from 0 to what the core can hold.
func Amount(dimension string, q *resource.Quantity) int64 {
	n := Value(q)
	if Units[dimension] == "m" {
		n = Milli(q)
	}
	return min(max(n, 0), binpack.MaxValue)
}

// Value is a quantity in ones, rounded up. Beyond the range of int64 it is the end of it, and the
// method of a quantity a remainder or 0.
func Value(q *resource.Quantity) int64 { return within(q, math.MaxInt64, q.Value) }

// Milli is a quantity in thousandths in the same way.
func Milli(q *resource.Quantity) int64 { return within(q, math.MaxInt64/1000, q.MilliValue) }

// within is a value of a quantity from -most to most, beyond which the value is no number of 64 bits.
func within(q *resource.Quantity, most int64, value func() int64) int64 {
	switch {
	case q.CmpInt64(most) > 0:
		return math.MaxInt64
	case q.CmpInt64(-most) < 0:
		return -math.MaxInt64
	}
	return value()
}

// Size writes a demand down: equal demands are equal texts.
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

// Format writes an amount of a dimension as a quantity: 1500m, 3, 512Mi.
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
