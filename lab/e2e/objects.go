//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
)

// nodeShapes are common machines: name, cores and memory in GiB.
var nodeShapes = []struct {
	name       string
	cores, gib int64
}{
	{"general-8", 8, 32},
	{"general-16", 16, 64},
	{"compute-16", 16, 32},
	{"memory-16", 16, 128},
	{"general-32", 32, 128},
	{"general-64", 64, 256},
}

// Node returns a node that is ready, with the room given as Kubernetes quantities
// and 110 pods.
func Node(name, cpu, memory string) *v1.Node {
	room := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse(cpu),
		v1.ResourceMemory: resource.MustParse(memory),
		v1.ResourcePods:   resource.MustParse("110"),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			v1.LabelHostname: name, v1.LabelOSStable: "linux", v1.LabelArchStable: "amd64",
		}},
		Status: v1.NodeStatus{
			Capacity: room, Allocatable: room.DeepCopy(),
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady"}},
		},
	}
}

// Nodes returns n nodes of several shapes, in three zones, node-0000 and so on.
// The same seed gives the same nodes; the first n of more are the same too.
func Nodes(seed uint64, n int) []*v1.Node {
	rng := rand.New(rand.NewPCG(seed, 0))
	nodes := make([]*v1.Node, n)
	for i := range nodes {
		shape := nodeShapes[rng.IntN(len(nodeShapes))]
		// The capacity without the system's share differs a little between nodes.
		system := 100 + 100*rng.Int64N(4)
		node := Node(fmt.Sprintf("node-%04d", i), fmt.Sprint(shape.cores), fmt.Sprintf("%dGi", shape.gib))
		node.Status.Allocatable[v1.ResourceCPU] = *resource.NewMilliQuantity(1000*shape.cores-system, resource.DecimalSI)
		node.Status.Allocatable[v1.ResourceMemory] = *resource.NewQuantity(shape.gib<<30-system<<22, resource.BinarySI)
		node.Labels[v1.LabelInstanceTypeStable] = shape.name
		node.Labels[v1.LabelTopologyRegion] = "region-1"
		node.Labels[v1.LabelTopologyZone] = fmt.Sprintf("zone-%d", rng.IntN(3))
		nodes[i] = node
	}
	return nodes
}

// Pod returns a pod of one container whose requests are Kubernetes quantities.
func Pod(namespace, name, cpu, memory string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec:       podSpec(cpu, memory),
	}
}

func podSpec(cpu, memory string) v1.PodSpec {
	return v1.PodSpec{
		Containers: []v1.Container{{
			Name: "main", Image: "registry.example.org/main",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
				v1.ResourceCPU:    resource.MustParse(cpu),
				v1.ResourceMemory: resource.MustParse(memory),
			}},
		}},
	}
}

// Pods returns n pods of 250m to 4 cores and as many apps as a tenth of that,
// pod-00000 and so on. The same seed gives the same pods; the first n of more are
// the same too.
func Pods(namespace string, seed uint64, n int) []*v1.Pod {
	rng := rand.New(rand.NewPCG(seed, 1))
	pods := make([]*v1.Pod, n)
	for i := range pods {
		milli := 250 << rng.IntN(5)
		mebi := milli << rng.IntN(4) // 1 to 8 GiB a core
		pods[i] = Pod(namespace, fmt.Sprintf("pod-%05d", i), fmt.Sprintf("%dm", milli), fmt.Sprintf("%dMi", mebi))
		pods[i].Labels["app"] = fmt.Sprintf("app-%d", i/10)
	}
	return pods
}

// Deployment returns a Deployment of pods as Pod makes them.
func Deployment(namespace, name string, replicas int32, cpu, memory string) *appsv1.Deployment {
	app := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: podSpec(cpu, memory)},
		},
	}
}

// CreateNodes creates nodes, their status included, starts their kubelets, and
// returns when Nodes has them.
func (c *Cluster) CreateNodes(t testing.TB, nodes ...*v1.Node) {
	t.Helper()
	for _, node := range nodes {
		c.Kubelet.Own(node.Name)
	}
	require.NoError(t, parallel(nodes, func(node *v1.Node) error {
		_, err := c.Client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		return err
	}))
	Wait(t, "the new nodes", func() (string, bool) {
		for _, node := range nodes {
			if _, known, _ := c.nodes.GetStore().GetByKey(node.Name); !known {
				return node.Name, false
			}
		}
		return "", true
	})
}

// CreatePods creates pods, in no order.
func (c *Cluster) CreatePods(t testing.TB, pods ...*v1.Pod) {
	t.Helper()
	require.NoError(t, parallel(pods, func(pod *v1.Pod) error {
		_, err := c.Client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		return err
	}))
}

// CreateDeployment creates a Deployment.
func (c *Cluster) CreateDeployment(t testing.TB, d *appsv1.Deployment) {
	t.Helper()
	_, err := c.Client.AppsV1().Deployments(d.Namespace).Create(t.Context(), d, metav1.CreateOptions{})
	require.NoError(t, err)
}

// parallel calls f for every item, on 16 goroutines, and returns the first error.
func parallel[T any](items []T, f func(T) error) error {
	var all errgroup.Group
	all.SetLimit(16)
	for _, item := range items {
		all.Go(func() error { return f(item) })
	}
	return all.Wait()
}

// all yields the pods of a namespace, of all with "", in no order: waiting must not
// cost as much as sorting thousands.
func (c *Cluster) all(namespace string) iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		for _, object := range c.pods.GetStore().List() {
			if pod := object.(*v1.Pod); (namespace == "" || pod.Namespace == namespace) && !yield(pod) {
				return
			}
		}
	}
}

// Pods returns the pods of a namespace, of all with "", in the order of their names.
func (c *Cluster) Pods(namespace string) []*v1.Pod {
	return slices.SortedFunc(c.all(namespace), func(a, b *v1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// Nodes returns the nodes in the order of their names.
func (c *Cluster) Nodes() []*v1.Node {
	var nodes []*v1.Node
	for _, object := range c.nodes.GetStore().List() {
		nodes = append(nodes, object.(*v1.Node))
	}
	slices.SortFunc(nodes, func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

// Placements returns the node of every bound pod of a namespace, by its name.
func (c *Cluster) Placements(namespace string) map[string]string {
	placements := map[string]string{}
	for pod := range c.all(namespace) {
		if pod.Spec.NodeName != "" {
			placements[pod.Name] = pod.Spec.NodeName
		}
	}
	return placements
}

// WaitBound waits until at least n pods of a namespace are bound.
func (c *Cluster) WaitBound(t testing.TB, namespace string, n int) {
	t.Helper()
	Wait(t, fmt.Sprintf("%d pods bound", n), func() (string, bool) {
		bound := 0
		for pod := range c.all(namespace) {
			if pod.Spec.NodeName != "" {
				bound++
			}
		}
		return fmt.Sprintf("%d are", bound), bound >= n
	})
}

// WaitMoreBound waits until n more pods of a namespace are bound, and returns the
// number of bound ones. It reads from the API server: after an outage the caches are
// late.
func (c *Cluster) WaitMoreBound(t testing.TB, namespace string, n int) (bound int) {
	t.Helper()
	least := -1 // not known
	Wait(t, fmt.Sprintf("%d more pods bound", n), func() (string, bool) {
		list, err := c.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName!="})
		if err != nil {
			return err.Error(), false
		}
		bound = len(list.Items)
		if least < 0 {
			least = bound + n
		}
		return fmt.Sprintf("%d are, of %d", bound, least), bound >= least
	})
	return bound
}

// WaitRunning waits until a namespace has exactly n pods and all of them are ready.
func (c *Cluster) WaitRunning(t testing.TB, namespace string, n int) {
	t.Helper()
	Wait(t, fmt.Sprintf("%d pods ready", n), func() (string, bool) {
		pods, ready, other := 0, 0, new(v1.Pod)
		for pod := range c.all(namespace) {
			pods++
			if Condition(pod, v1.PodReady).Status == v1.ConditionTrue && pod.DeletionTimestamp == nil {
				ready++
			} else {
				other = pod
			}
		}
		return fmt.Sprintf("%d are, of %d; another: %s on %q: %s", ready, pods, other.Name, other.Spec.NodeName,
			Condition(other, v1.PodScheduled).Message), ready == n && pods == n
	})
}

// WaitRefused waits until a scheduler has reported of exactly n pods of a namespace
// that they find no room.
func (c *Cluster) WaitRefused(t testing.TB, namespace string, n int) {
	t.Helper()
	Wait(t, fmt.Sprintf("%d pods refused", n), func() (string, bool) {
		refused := 0
		for pod := range c.all(namespace) {
			if Condition(pod, v1.PodScheduled).Reason == v1.PodReasonUnschedulable {
				refused++
			}
		}
		return fmt.Sprintf("%d are", refused), refused == n
	})
}

// Condition returns the pod's condition of that type, or an empty one.
func Condition(pod *v1.Pod, kind v1.PodConditionType) v1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return v1.PodCondition{}
	}
	return pod.Status.Conditions[i]
}

// RequireFits fails the test if the pods on a node need more than it has. It counts
// the nodes and pods in the API server's objects.
func (c *Cluster) RequireFits(t testing.TB) {
	t.Helper()
	free := map[string]v1.ResourceList{}
	for _, node := range c.Nodes() {
		free[node.Name] = node.Status.Allocatable.DeepCopy()
	}
	for pod := range c.all("") {
		room, known := free[pod.Spec.NodeName]
		if !known || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			continue
		}
		if pending := Condition(pod, v1.PodResizePending); pending.Reason == v1.PodReasonDeferred {
			pod = pod.DeepCopy() // it keeps its old requests, though schedulers reserve room for the new ones
			pending.Reason = v1.PodReasonInfeasible
			setCondition(&pod.Status, pending)
		}
		needs := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true})
		needs[v1.ResourcePods] = resource.MustParse("1")
		for name, amount := range needs {
			left := room[name]
			left.Sub(amount)
			room[name] = left
		}
	}
	for _, node := range slices.Sorted(maps.Keys(free)) {
		for name, left := range free[node] {
			require.GreaterOrEqual(t, left.Sign(), 0, "%s of %s: %s left", name, node, left.String())
		}
	}
}

// Cordon makes a node unschedulable, or schedulable again.
func (c *Cluster) Cordon(t testing.TB, node string, unschedulable bool) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, unschedulable)
	_, err := c.Client.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// Drain cordons a node and evicts its pods, except those of DaemonSets and static
// ones, as far and as fast as their PodDisruptionBudgets allow.
func (c *Cluster) Drain(t testing.TB, node string) {
	t.Helper()
	c.Cordon(t, node, true)
	Wait(t, "drain of "+node, func() (string, bool) {
		left := 0
		for pod := range c.all("") {
			if pod.Spec.NodeName != node || stays(pod) {
				continue
			}
			left++
			if pod.DeletionTimestamp == nil {
				require.NoError(t, c.evict(t.Context(), pod))
			}
		}
		return fmt.Sprintf("%d pods left", left), left == 0
	})
}

func stays(pod *v1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet" || pod.Annotations[v1.MirrorPodAnnotationKey] != ""
}

func (c *Cluster) evict(ctx context.Context, pod *v1.Pod) error {
	err := c.Client.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
	})
	if apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) { // deleted, or not yet allowed
		return nil
	}
	return err
}

// DeleteNode deletes a node and stops its kubelet. Pods that are still on it stay
// until a controller collects them, which takes it a minute.
func (c *Cluster) DeleteNode(t testing.TB, node string) {
	t.Helper()
	c.Kubelet.Disown(node)
	require.NoError(t, c.Client.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}))
}

// Resize requests other resources for a pod's first container, in place.
func (c *Cluster) Resize(t testing.TB, namespace, pod, cpu, memory string) {
	t.Helper()
	require.NoError(t, c.TryResize(t, namespace, pod, cpu, memory))
}

// TryResize is Resize, and returns the API server's refusal.
func (c *Cluster) TryResize(t testing.TB, namespace, pod, cpu, memory string) error {
	t.Helper()
	current, err := c.Client.CoreV1().Pods(namespace).Get(t.Context(), pod, metav1.GetOptions{})
	require.NoError(t, err)
	patch := fmt.Appendf(nil, `{"spec":{"containers":[{"name":%q,"resources":{"requests":{"cpu":%q,"memory":%q}}}]}}`,
		current.Spec.Containers[0].Name, cpu, memory)
	_, err = c.Client.CoreV1().Pods(namespace).Patch(t.Context(), pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize")
	return err
}
