// Package quotas decides which ResourceQuotas count a pod and the remainder they have for it,
// by the API server's own functions. It reads nothing from a cluster.
package quotas

import (
	v1 "k8s.io/api/core/v1"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"
)

// pods counts pods as the API server does.
var pods = core.NewPodEvaluator(nil, clock.RealClock{})

// Selects reports whether a quota counts a pod: its scopes select the pod, and it has an entry
// for pods. One that cannot be read counts all.
func Selects(q *v1.ResourceQuota, pod *v1.Pod) bool {
	ok, err := pods.Matches(q, pod)
	return ok || err != nil
}

// Exceeded reports whether a change of a pod that is to be created requests more than the
// remainder of a quota.
func Exceeded(before, after *v1.Pod, q *v1.ResourceQuota) bool {
	if !Selects(q, after) {
		return false
	}
	is, err := pods.Usage(after)
	if err != nil {
		return true
	}
	was := v1.ResourceList{}
	if Selects(q, before) {
		if was, err = pods.Usage(before); err != nil {
			return true
		}
	}
	more := quota.RemoveZeros(quota.SubtractWithNonNegativeResult(is, was))
	is = quota.Mask(is, quota.ResourceNames(more))
	fits, _ := quota.LessThanOrEqual(quota.Mask(quota.Add(q.Status.Used, is), quota.ResourceNames(is)), q.Status.Hard)
	return !fits
}
