//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
)

// Of the kubelet: enough that the API server answers before the next is asked.
const workers = 16

// Kubelet stands for the kubelets of all nodes it owns: their pods run as soon
// as they are bound, go as soon as they are deleted, and are resized in place as
// far as their node has room. A pod on a node that it does not own stays as it is.
type Kubelet struct {
	client      kubernetes.Interface
	pods, nodes cache.SharedIndexInformer
	queue       workqueue.TypedRateLimitingInterface[string]
	ips         atomic.Uint32 // the number of the last address given to a pod

	mu          sync.Mutex
	own         map[string]bool // nodes
	refuse      func(*v1.Pod) (reason string)
	resizeDelay time.Duration
	begun       map[types.UID]time.Time       // when resizes under way were
	granted     map[types.UID]v1.ResourceList // what a pod's node set aside for it
	usage       []func(*v1.Pod) (bytes int64)
	outOfMemory map[types.UID]bool // to be killed
}

func newKubelet(client kubernetes.Interface, pods, nodes cache.SharedIndexInformer) *Kubelet {
	backoff := workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, time.Second)
	k := &Kubelet{client: client, pods: pods, nodes: nodes, queue: workqueue.NewTypedRateLimitingQueue(backoff)}
	k.reset()
	enqueue := func(object any) {
		if pod, ok := object.(*v1.Pod); ok && pod.Spec.NodeName != "" {
			k.queue.Add(pod.Namespace + "/" + pod.Name)
		}
	}
	// A pod that is gone needs nothing. The error is for stopped informers only.
	_, _ = pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
	})
	return k
}

// reset makes it a kubelet without nodes that actuates resizes after 100 ms.
func (k *Kubelet) reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.own, k.begun = map[string]bool{}, map[types.UID]time.Time{}
	k.granted, k.outOfMemory = map[types.UID]v1.ResourceList{}, map[types.UID]bool{}
	k.refuse, k.resizeDelay, k.usage = nil, 100*time.Millisecond, nil
}

// Own starts kubelets for the nodes.
func (k *Kubelet) Own(nodes ...string) {
	k.set(func() {
		for _, node := range nodes {
			k.own[node] = true
		}
	})
}

// Disown stops the nodes' kubelets; the pods stay as they are.
func (k *Kubelet) Disown(nodes ...string) {
	k.set(func() {
		maps.DeleteFunc(k.own, func(node string, _ bool) bool { return slices.Contains(nodes, node) })
	})
}

// ResizeAfter sets how long it takes to actuate a resize, those under way too.
func (k *Kubelet) ResizeAfter(delay time.Duration) { k.set(func() { k.resizeDelay = delay }) }

// RefuseResize has resizes refused for the reason that the function returns for
// a pod, v1.PodReasonDeferred or v1.PodReasonInfeasible. With "" or a nil
// function they are actuated, those refused before too.
func (k *Kubelet) RefuseResize(reason func(*v1.Pod) string) { k.set(func() { k.refuse = reason }) }

// MemoryUsage adds a way to know what a pod's container uses. A memory limit is
// not lowered below that: the resize stays under way, with an error.
func (k *Kubelet) MemoryUsage(bytes func(*v1.Pod) int64) {
	k.set(func() { k.usage = append(k.usage, bytes) })
}

// OOMKill kills a pod's first container for want of memory. It runs again
// restartDelay later.
func (k *Kubelet) OOMKill(pod *v1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.outOfMemory[pod.UID] = true
	k.queue.Add(pod.Namespace + "/" + pod.Name)
}

// set changes what the kubelet goes by and has it look at all pods again.
func (k *Kubelet) set(change func()) {
	k.mu.Lock()
	change()
	k.mu.Unlock()
	for _, key := range k.pods.GetIndexer().ListKeys() {
		k.queue.Add(key)
	}
}

// run works until ctx ends.
func (k *Kubelet) run(ctx context.Context) {
	var done sync.WaitGroup
	for range workers {
		done.Go(func() {
			for k.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	k.queue.ShutDown()
	done.Wait()
}

func (k *Kubelet) next(ctx context.Context) bool {
	key, shutdown := k.queue.Get()
	if shutdown {
		return false
	}
	defer k.queue.Done(key)
	err := k.sync(ctx, key)
	switch {
	case err == nil, apierrors.IsNotFound(err):
		k.queue.Forget(key)
	default: // a conflict, or the API server is away
		k.queue.AddRateLimited(key)
		if !apierrors.IsConflict(err) && ctx.Err() == nil {
			klog.V(2).InfoS("Fake kubelet tries again", "pod", key, "err", err)
		}
	}
	return true
}

func (k *Kubelet) sync(ctx context.Context, key string) error {
	object, exists, err := k.pods.GetIndexer().GetByKey(key)
	if err != nil || !exists {
		return err
	}
	pod := object.(*v1.Pod)
	k.mu.Lock()
	owned, outOfMemory := k.own[pod.Spec.NodeName], k.outOfMemory[pod.UID]
	k.mu.Unlock()
	switch {
	case !owned:
		return nil
	case pod.DeletionTimestamp != nil:
		now := metav1.NewDeleteOptions(0)
		now.Preconditions = &metav1.Preconditions{UID: &pod.UID}
		return k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *now)
	case pod.Status.Phase == v1.PodPending:
		ip := k.ips.Add(1)
		k.mu.Lock()
		k.granted[pod.UID] = requests(pod)
		k.mu.Unlock()
		return k.update(ctx, pod, started(pod, fmt.Sprintf("10.%d.%d.%d", ip>>16&255, ip>>8&255, ip&255)))
	case pod.Status.Phase != v1.PodRunning:
		return nil
	case outOfMemory:
		return k.kill(ctx, pod)
	case len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Waiting != nil:
		return k.restart(ctx, key, pod)
	default:
		return k.resize(ctx, key, pod)
	}
}

func (k *Kubelet) update(ctx context.Context, pod *v1.Pod, status *v1.PodStatus) error {
	if equality.Semantic.DeepEqual(&pod.Status, status) {
		return nil
	}
	changed := *pod
	changed.Status = *status
	changed.Status.ObservedGeneration = pod.Generation
	_, err := k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	return err
}

// started is the status of a pod whose containers all run.
func started(pod *v1.Pod, ip string) *v1.PodStatus {
	now := metav1.Now()
	status := pod.Status.DeepCopy()
	status.Phase, status.StartTime = v1.PodRunning, &now
	status.PodIP, status.PodIPs = ip, []v1.PodIP{{IP: ip}}
	status.HostIP, status.HostIPs = "127.0.0.1", []v1.HostIP{{IP: "127.0.0.1"}}
	for _, condition := range []v1.PodConditionType{v1.PodReadyToStartContainers, v1.PodInitialized, v1.ContainersReady, v1.PodReady} {
		setCondition(status, v1.PodCondition{Type: condition, Status: v1.ConditionTrue, LastTransitionTime: now})
	}
	runs := func(container v1.Container) v1.ContainerStatus {
		s := v1.ContainerStatus{
			Name: container.Name, Image: container.Image, ImageID: container.Image,
			ContainerID: fmt.Sprintf("fake://%s/%s", pod.UID, container.Name),
			Ready:       true, Started: new(true),
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}},
		}
		allocate(container, &s)
		actuate(container, &s)
		return s
	}
	status.ContainerStatuses, status.InitContainerStatuses = nil, nil
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, runs(container))
	}
	for _, container := range pod.Spec.InitContainers {
		s := runs(container)
		if !sidecar(container) {
			s.Started = new(false)
			s.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}}
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, s)
	}
	return status
}

// restartDelay is how long a killed container is down, to the next full second
// less: the API knows no fractions.
const restartDelay = 2 * time.Second

func (k *Kubelet) kill(ctx context.Context, pod *v1.Pod) error {
	now := metav1.Now()
	status := pod.Status.DeepCopy()
	s := &status.ContainerStatuses[0]
	if s.State.Running != nil {
		killed := &v1.ContainerStateTerminated{
			Reason: "OOMKilled", ExitCode: 137, StartedAt: s.State.Running.StartedAt, FinishedAt: now, ContainerID: s.ContainerID,
		}
		s.LastTerminationState = v1.ContainerState{Terminated: killed}
		s.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		s.Ready, s.Started = false, new(false)
		s.RestartCount++
		setReady(status, v1.ConditionFalse, now)
	}
	err := k.update(ctx, pod, status)
	if err == nil {
		k.mu.Lock()
		delete(k.outOfMemory, pod.UID)
		k.mu.Unlock()
	}
	return err
}

func (k *Kubelet) restart(ctx context.Context, key string, pod *v1.Pod) error {
	now := metav1.Now()
	status := pod.Status.DeepCopy()
	s := &status.ContainerStatuses[0]
	if wait := s.LastTerminationState.Terminated.FinishedAt.Add(restartDelay).Sub(now.Time); wait > 0 {
		k.queue.AddAfter(key, wait)
		return nil
	}
	s.State = v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}}
	s.Ready, s.Started = true, new(true)
	setReady(status, v1.ConditionTrue, now)
	return k.update(ctx, pod, status)
}

func setReady(status *v1.PodStatus, ready v1.ConditionStatus, now metav1.Time) {
	for _, condition := range []v1.PodConditionType{v1.ContainersReady, v1.PodReady} {
		setCondition(status, v1.PodCondition{Type: condition, Status: ready, LastTransitionTime: now})
	}
}

func sidecar(container v1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// retryAfter is when a resize that could not be done is looked at again.
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
		each(pod, status, actuate)
		removeCondition(status, v1.PodResizeInProgress)
	}
	return k.update(ctx, pod, status)
}

// grant sets aside on its node what a pod asks for, or says why not, as the real
// kubelet does.
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

// exceeded says which memory limit would fall below what the pod uses; "" = none.
func exceeded(pod *v1.Pod, status *v1.PodStatus, usage []func(*v1.Pod) int64) (message string) {
	var used int64
	for _, bytes := range usage {
		used += bytes(pod)
	}
	each(pod, status, func(container v1.Container, s *v1.ContainerStatus) {
		limit, limited := container.Resources.Limits[v1.ResourceMemory]
		if !limited || s.Resources == nil {
			return
		}
		now, was := s.Resources.Limits[v1.ResourceMemory]
		if (!was || limit.Cmp(now) < 0) && used >= limit.Value() {
			message = fmt.Sprintf("cannot decrease memory limits: attempting to set container %q memory limit (%d) below current usage (%d)",
				container.Name, limit.Value(), used)
		}
	})
	return message
}

// setBegun notes when a resize began; the zero time forgets it.
func (k *Kubelet) setBegun(pod types.UID, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at.IsZero() {
		delete(k.begun, pod)
	} else {
		k.begun[pod] = at
	}
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

// setCondition replaces the condition of that type unless it says the same.
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
