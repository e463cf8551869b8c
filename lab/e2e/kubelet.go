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
	"k8s.io/klog/v2"
)

// Of the kubelet: enough to keep several requests to the API server in flight.
const workers = 16

// Kubelet is a fake of the kubelets of all nodes it owns: their pods run as soon
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
	startDelay  time.Duration
	held        func(*v1.Pod) bool
	runtime     Runtime
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
	// A deleted pod needs no work. AddEventHandler fails for stopped informers only.
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
	k.refuse, k.resizeDelay, k.startDelay, k.held, k.usage, k.runtime = nil, 100*time.Millisecond, 0, nil, nil, nil
}

// A Runtime runs the containers of pods. Start returns the pod's address, the proposed one or that
// which it had got, when it is ready, and Stop when it has ended. Both may be called again.
type Runtime interface {
	Start(pod *v1.Pod, ip string) (string, error)
	Stop(pod *v1.Pod) error
}

// Run has a runtime run the containers of pods that start from now on; nil = nothing does.
func (k *Kubelet) Run(runtime Runtime) { k.set(func() { k.runtime = runtime }) }

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

// StartAfter sets how long after its binding a pod runs and is ready, to the full second.
func (k *Kubelet) StartAfter(delay time.Duration) { k.set(func() { k.startDelay = delay }) }

// Hold keeps pods that do not run yet, and those whose container has ended, from starting as long
// as the function returns true for them. Nil holds none.
func (k *Kubelet) Hold(held func(*v1.Pod) bool) { k.set(func() { k.held = held }) }

// RefuseResize has resizes refused for the reason that the function returns for
// a pod, v1.PodReasonDeferred or v1.PodReasonInfeasible. With "" or a nil
// function they are actuated, those refused before too.
func (k *Kubelet) RefuseResize(reason func(*v1.Pod) string) { k.set(func() { k.refuse = reason }) }

// MemoryUsage adds a source of the memory used by a pod's container. A memory limit is not
// lowered below that: the resize stays in progress, with an error.
func (k *Kubelet) MemoryUsage(bytes func(*v1.Pod) int64) {
	k.set(func() { k.usage = append(k.usage, bytes) })
}

// OOMKill kills a pod's first container for lack of memory. It runs again restartDelay
// later.
func (k *Kubelet) OOMKill(pod *v1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.outOfMemory[pod.UID] = true
	k.queue.Add(pod.Namespace + "/" + pod.Name)
}

// set changes the kubelet's settings and makes it sync all pods again.
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
	owned, outOfMemory, held := k.own[pod.Spec.NodeName], k.outOfMemory[pod.UID], k.held
	runtime := k.runtime
	starting := time.Until(Condition(pod, v1.PodScheduled).LastTransitionTime.Add(k.startDelay))
	k.mu.Unlock()
	switch {
	case !owned:
		return nil
	case pod.DeletionTimestamp != nil:
		if runtime != nil {
			if err := runtime.Stop(pod); err != nil {
				return err
			}
		}
		now := metav1.NewDeleteOptions(0)
		now.Preconditions = &metav1.Preconditions{UID: &pod.UID}
		return k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *now)
	case pod.Status.Phase == v1.PodPending && held != nil && held(pod):
		return nil
	case pod.Status.Phase == v1.PodPending && starting > 0:
		k.queue.AddAfter(key, starting)
		return nil
	case pod.Status.Phase == v1.PodPending:
		ip := k.ips.Add(1)
		k.mu.Lock()
		k.granted[pod.UID] = requests(pod)
		k.mu.Unlock()
		address := fmt.Sprintf("10.%d.%d.%d", ip>>16&255, ip>>8&255, ip&255)
		if runtime != nil {
			if address, err = runtime.Start(pod, address); err != nil {
				return err
			}
		}
		return k.update(ctx, pod, started(pod, address))
	case pod.Status.Phase != v1.PodRunning:
		return nil
	case outOfMemory:
		return k.kill(ctx, pod)
	case len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Waiting != nil && (held == nil || !held(pod)):
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

// restartDelay is how long a killed container is down, or less by the rest of the second:
// the API has no fractions.
const restartDelay = 2 * time.Second

func (k *Kubelet) kill(ctx context.Context, pod *v1.Pod) error {
	now := metav1.Now()
	status := pod.Status.DeepCopy()
	if status.ContainerStatuses[0].State.Running != nil {
		end(status, "OOMKilled", now)
	}
	err := k.update(ctx, pod, status)
	if err == nil {
		k.mu.Lock()
		delete(k.outOfMemory, pod.UID)
		k.mu.Unlock()
	}
	return err
}

// end ends a pod's first container, which starts again.
func end(status *v1.PodStatus, reason string, now metav1.Time) {
	s := &status.ContainerStatuses[0]
	s.LastTerminationState = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		Reason: reason, ExitCode: 137, StartedAt: s.State.Running.StartedAt, FinishedAt: now, ContainerID: s.ContainerID,
	}}
	s.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	s.Ready, s.Started = false, new(false)
	s.RestartCount++
	setReady(status, v1.ConditionFalse, now)
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

// exceeded names the memory limit that would fall below the pod's usage; "" = none would.
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
