package podspec

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"
)

// SetRequests sets the requests of a pod that no API server has seen as one would (SetObjectDefaults_Pod in
// k8s.io/kubernetes/pkg/apis/core/v1): those of a container are its limits where it makes none; those of the pod,
// where it has limits of its own, are the requests of its containers, else these limits; and all are rounded up to
// thousandths. It ignores LimitRanges and the overhead of a RuntimeClass.
func SetRequests(pod *v1.Pod) {
	pod.Spec = summable(pod).Spec
	spec := &pod.Spec
	for _, list := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			r := &list[i].Resources
			setMissing(&r.Requests, r.Limits, func(v1.ResourceName) bool { return true })
		}
	}
	if r := spec.Resources; r != nil && len(r.Limits)+len(r.Requests) > 0 {
		hugepages := func(name v1.ResourceName) bool { return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) }
		setMissing(&r.Limits, podresource.AggregateContainerLimits(pod, podresource.PodResourcesOptions{}), func(name v1.ResourceName) bool {
			_, requested := r.Requests[name]
			return hugepages(name) && !requested
		})
		if len(r.Limits) > 0 {
			setMissing(&r.Requests, podresource.AggregateContainerRequests(pod, podresource.PodResourcesOptions{}), func(name v1.ResourceName) bool {
				return podresource.IsSupportedPodLevelResource(name) && !hugepages(name)
			})
			setMissing(&r.Requests, r.Limits, podresource.IsSupportedPodLevelResource)
		}
	}
	for _, list := range requestsOf(pod) {
		for name, q := range list {
			q.RoundUp(-3)
			list[name] = q
		}
	}
}

// setMissing adds to a list the amounts of another that it lacks and that are wanted.
func setMissing(to *v1.ResourceList, from v1.ResourceList, wanted func(v1.ResourceName) bool) {
	for name, q := range from {
		if _, has := (*to)[name]; has || !wanted(name) {
			continue
		}
		if *to == nil {
			*to = v1.ResourceList{}
		}
		(*to)[name] = q.DeepCopy()
	}
}
