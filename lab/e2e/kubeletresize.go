//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// retryAfter is the wait before a failed resize is tried again.
const retryAfter = time.Second

// A resize takes the steps of the real kubelet: refused (PodResizePending), or
// allocated (PodResizeInProgress), and actuated a while later unless that fails.
func (k *Kubelet) resize(ctx context.Context, key string, pod *v1.Pod) error {
	k.mu.Lock()
	delay, refuse, usage := k.resizeDelay, k.refuse, k.usage
	begun, underWay := k.begun[pod.UID]
	k.mu.Unlock()
	reason, message := "", "refused by the test"
	if refuse != nil {
		reason = refuse(pod)
	}

	now := metav1.Now()
	status := pod.Status.DeepCopy()
	condition := func(kind v1.PodConditionType) v1.PodCondition {
		return v1.PodCondition{Type: kind, Status: v1.ConditionTrue, LastTransitionTime: now, ObservedGeneration: pod.Generation}
	}
	switch {
	case all(pod, status, actuated):
		removeCondition(status, v1.PodResizePending)
		removeCondition(status, v1.PodResizeInProgress)
		k.setBegun(pod.UID, time.Time{})
	case !all(pod, status, allocated):
		if reason == "" {
			reason, message = k.grant(pod)
		}
		if reason != "" {
			pending := condition(v1.PodResizePending)
			pending.Reason, pending.Message = reason, message
			setCondition(status, pending)
			k.queue.AddAfter(key, retryAfter)
			break
		}
		each(pod, status, allocate)
		removeCondition(status, v1.PodResizePending)
		setCondition(status, condition(v1.PodResizeInProgress))
		k.setBegun(pod.UID, now.Time)
	case underWay && now.Time.Before(begun.Add(delay)):
		k.queue.AddAfter(key, begun.Add(delay).Sub(now.Time))
	default:
		if message := exceeded(pod, status, usage); message != "" {
			failed := condition(v1.PodResizeInProgress)
			failed.Reason, failed.Message = v1.PodReasonError, message
			setCondition(status, failed)
			k.queue.AddAfter(key, retryAfter)
			break
		}
		restart := restarts(&pod.Spec.Containers[0], &status.ContainerStatuses[0])
		each(pod, status, actuate)
		removeCondition(status, v1.PodResizeInProgress)
		if restart {
			end(status, "Error", now)
		}
	}
	return k.update(ctx, pod, status)
}

// grant reserves a pod's requests on its node, or returns the reason why it
// cannot, like the real kubelet.
func (k *Kubelet) grant(pod *v1.Pod) (reason, message string) {
	object, known, _ := k.nodes.GetStore().GetByKey(pod.Spec.NodeName)
	if !known {
		return "", ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	wanted, room := requests(pod), object.(*v1.Node).Status.Allocatable
	for _, name := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
		if amount, all := wanted[name], room[name]; amount.Cmp(all) > 0 {
			return v1.PodReasonInfeasible, fmt.Sprintf("Node didn't have enough capacity: %s, requested: %s, capacity: %s",
				name, amount.String(), all.String())
		}
	}
	for _, name := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
		free := room[name].DeepCopy()
		for _, object := range k.pods.GetStore().List() {
			other := object.(*v1.Pod)
			if other.UID == pod.UID || other.Spec.NodeName != pod.Spec.NodeName ||
				other.Status.Phase == v1.PodSucceeded || other.Status.Phase == v1.PodFailed {
				continue
			}
			granted, known := k.granted[other.UID]
			if !known {
				granted = requests(other)
			}
			free.Sub(granted[name])
		}
		if amount := wanted[name]; amount.Cmp(free) > 0 {
			return v1.PodReasonDeferred, fmt.Sprintf("Node didn't have enough resource: %s, requested: %s, free: %s",
				name, amount.String(), free.String())
		}
	}
	k.granted[pod.UID] = wanted
	return "", ""
}

func requests(pod *v1.Pod) v1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

func allocate(container v1.Container, s *v1.ContainerStatus) {
	s.AllocatedResources = container.Resources.Requests.DeepCopy()
}

func allocated(container v1.Container, s *v1.ContainerStatus) bool {
	return equality.Semantic.DeepEqual(s.AllocatedResources, container.Resources.Requests)
}

func actuate(container v1.Container, s *v1.ContainerStatus) {
	s.Resources = &v1.ResourceRequirements{
		Requests: container.Resources.Requests.DeepCopy(),
		Limits:   container.Resources.Limits.DeepCopy(),
	}
}

func actuated(container v1.Container, s *v1.ContainerStatus) bool {
	return allocated(container, s) && s.Resources != nil &&
		equality.Semantic.DeepEqual(s.Resources.Requests, container.Resources.Requests) &&
		equality.Semantic.DeepEqual(s.Resources.Limits, container.Resources.Limits)
}

// restarts reports whether a resize restarts a running container, by its resizePolicy.
func restarts(container *v1.Container, s *v1.ContainerStatus) bool {
	return s.State.Running != nil && s.Resources != nil && slices.ContainsFunc(container.ResizePolicy, func(p v1.ContainerResizePolicy) bool {
		is, was := container.Resources.Requests[p.ResourceName], s.Resources.Requests[p.ResourceName]
		return p.RestartPolicy == v1.RestartContainer && is.Cmp(was) != 0
	})
}

// each does something with every container that can be resized and has a status.
func each(pod *v1.Pod, status *v1.PodStatus, do func(v1.Container, *v1.ContainerStatus)) {
	match := func(containers []v1.Container, statuses []v1.ContainerStatus) {
		for _, container := range containers {
			for i := range statuses {
				if statuses[i].Name == container.Name {
					do(container, &statuses[i])
				}
			}
		}
	}
	match(pod.Spec.Containers, status.ContainerStatuses)
	match(slices.DeleteFunc(slices.Clone(pod.Spec.InitContainers), func(c v1.Container) bool { return !sidecar(c) }),
		status.InitContainerStatuses)
}

func all(pod *v1.Pod, status *v1.PodStatus, is func(v1.Container, *v1.ContainerStatus) bool) bool {
	yes := true
	each(pod, status, func(container v1.Container, s *v1.ContainerStatus) { yes = yes && is(container, s) })
	return yes
}

// setCondition replaces the condition of that type unless it is equal.
func setCondition(status *v1.PodStatus, condition v1.PodCondition) {
	i := slices.IndexFunc(status.Conditions, func(c v1.PodCondition) bool { return c.Type == condition.Type })
	switch {
	case i < 0:
		status.Conditions = append(status.Conditions, condition)
	case status.Conditions[i].Status != condition.Status, status.Conditions[i].Reason != condition.Reason:
		status.Conditions[i] = condition
	}
}

func removeCondition(status *v1.PodStatus, kind v1.PodConditionType) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c v1.PodCondition) bool { return c.Type == kind })
}
