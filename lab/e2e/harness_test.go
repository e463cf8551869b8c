//go:build e2e

package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }

const scheduler = "sigma-scheduler"

func TestPodsRun(t *testing.T) {
	c := e2e.Shared(t)
	ns := c.Namespace(t)
	nodes := e2e.Nodes(1, 50)
	c.CreateNodes(t, nodes...)
	for i, node := range c.Nodes() { // the API server keeps a new node's status
		require.Equal(t, nodes[i].Status.Allocatable.Cpu().MilliValue(), node.Status.Allocatable.Cpu().MilliValue())
	}
	s := c.StartScheduler(t, scheduler, "")
	c.CreatePods(t, e2e.Pods(ns, 1, 300)...)
	c.WaitRunning(t, ns, 300)

	require.Len(t, c.Placements(ns), 300)
	c.RequireFits(t)
	awaitScheduled(t, s, 300)
	t.Logf("CPU seconds: scheduler %.2f, API server %.2f, etcd %.2f", s.CPUSeconds(t),
		c.CPUSeconds(t, "kube-apiserver"), c.CPUSeconds(t, "etcd"))
	s.Stop(t)
}

// awaitScheduled waits until a scheduler has counted what it scheduled: a pod may run
// before its binding's answer is there.
func awaitScheduled(t *testing.T, s *e2e.Scheduler, n float64) {
	t.Helper()
	e2e.Wait(t, "scheduled", func() (string, bool) {
		is := s.Metric(t, "scheduler_schedule_attempts_total", `result="scheduled"`)
		require.LessOrEqual(t, is, n)
		return fmt.Sprint(is), is == n
	})
}

func TestRolloutAndDrain(t *testing.T) {
	c := e2e.Shared(t)
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Node("a", "8", "32Gi"), e2e.Node("b", "8", "32Gi"), e2e.Node("c", "8", "32Gi"))
	c.StartScheduler(t, scheduler, "")
	c.CreateDeployment(t, e2e.Deployment(ns, "web", 12, "1", "1Gi"))
	c.WaitRunning(t, ns, 12)

	change := `{"spec":{"template":{"metadata":{"labels":{"version":"2"}}}}}`
	c.Kubectl(t, "", "patch", "deployment", "web", "-n", ns, "-p", change)
	e2e.Wait(t, "the rollout", func() (string, bool) {
		d, err := c.Client.AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{})
		require.NoError(t, err)
		return d.Status.String(), rolledOut(d)
	})
	c.WaitRunning(t, ns, 12)
	for _, pod := range c.Pods(ns) {
		require.Equal(t, "2", pod.Labels["version"], pod.Name)
	}

	// A budget of one makes the drain go pod by pod.
	c.Kubectl(t, "", "create", "poddisruptionbudget", "web", "-n", ns, "--selector=app=web", "--max-unavailable=1")
	require.Contains(t, slices.Collect(maps.Values(c.Placements(ns))), "b")
	c.Drain(t, "b")
	c.WaitRunning(t, ns, 12)
	require.NotContains(t, slices.Collect(maps.Values(c.Placements(ns))), "b")
	c.RequireFits(t)

	c.DeleteNode(t, "b")
	c.Cordon(t, "a", true)
	c.Cordon(t, "c", true)
	for i := 0; len(refused(c, ns)) == 0; i++ { // until the scheduler has seen it
		probe := e2e.Pod(ns, fmt.Sprintf("probe-%d", i), "1m", "1Mi")
		c.CreatePods(t, probe)
		e2e.Wait(t, "an answer", func() (string, bool) { return "", c.Placements(ns)[probe.Name] != "" || len(refused(c, ns)) == 1 })
	}
	c.Kubectl(t, "", "delete", "pods", "-n", ns, "--force", "-l", "app!=web")
	c.WaitRunning(t, ns, 12)
	c.Kubectl(t, "", "scale", "deployment", "web", "-n", ns, "--replicas=16")
	c.WaitRefused(t, ns, 4)
	c.Cordon(t, "a", false)
	c.Cordon(t, "c", false)
	c.WaitRunning(t, ns, 16)
	c.RequireFits(t)
}

// refused are the pods of a namespace that a scheduler found no room for.
func refused(c *e2e.Cluster, ns string) []*v1.Pod {
	return slices.DeleteFunc(c.Pods(ns), func(p *v1.Pod) bool {
		return e2e.Condition(p, v1.PodScheduled).Reason != v1.PodReasonUnschedulable
	})
}

func rolledOut(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration == d.Generation && d.Status.Replicas == *d.Spec.Replicas &&
		d.Status.UpdatedReplicas == *d.Spec.Replicas && d.Status.AvailableReplicas == *d.Spec.Replicas
}

// Every program of the control plane, and the scheduler, dies while pods are
// being placed.
func TestKilledWhileScheduling(t *testing.T) {
	c := e2e.Shared(t)
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Nodes(2, 50)...)
	c.CreatePods(t, e2e.Pods(ns, 2, 300)...)
	// A bind and more each: ten seconds for all, so that every kill meets it at work.
	s := c.StartScheduler(t, scheduler, "clientConnection: {qps: 30, burst: 1}")

	atWork := func() {
		t.Helper()
		require.Less(t, c.WaitMoreBound(t, ns, 20), 250, "too fast: the kill would meet nothing")
	}
	atWork()
	c.Signal(t, "kube-apiserver", syscall.SIGKILL)
	c.WaitReady(t)
	atWork()
	c.Signal(t, "etcd", syscall.SIGKILL)
	c.WaitReady(t)
	atWork()
	s.Kill(t)
	s.Restart(t)
	atWork()
	s.Signal(t, syscall.SIGSTOP)
	c.Signal(t, "kube-controller-manager", syscall.SIGKILL)
	s.Signal(t, syscall.SIGCONT)

	c.WaitRunning(t, ns, 300)
	c.RequireFits(t)
}

func TestLeaderDies(t *testing.T) {
	c := e2e.Shared(t)
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Nodes(3, 5)...)
	config := fmt.Sprintf(`
leaderElection:
  leaderElect: true
  resourceNamespace: %s
  leaseDuration: 10s
  renewDeadline: 8s
  retryPeriod: 500ms
`, ns)
	leads := func(s *e2e.Scheduler) bool { return s.Metric(t, "leader_election_master_status") == 1 }
	first := c.StartScheduler(t, scheduler, config)
	e2e.Wait(t, "a leader", func() (string, bool) { return "", leads(first) })
	second := c.StartScheduler(t, scheduler, config)
	c.CreatePods(t, e2e.Pods(ns, 3, 20)...)
	c.WaitRunning(t, ns, 20)
	require.False(t, leads(second))
	require.Zero(t, second.Metric(t, "scheduler_schedule_attempts_total"))

	first.Kill(t)
	c.CreatePods(t, e2e.Pods(ns, 3, 40)[20:]...)
	c.WaitRunning(t, ns, 40)
	require.True(t, leads(second))
	awaitScheduled(t, second, 20)
	c.RequireFits(t)
}

func TestResizeInPlace(t *testing.T) {
	c := e2e.Shared(t)
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Node("a", "4", "16Gi"))
	c.StartScheduler(t, scheduler, "")
	c.CreatePods(t, e2e.Pod(ns, "grows", "1", "1Gi"))
	c.WaitRunning(t, ns, 1)
	uid := c.Pods(ns)[0].UID
	await := func(cpu string, pending string) {
		t.Helper()
		e2e.Wait(t, "resize", func() (string, bool) {
			pod := c.Pods(ns)[0]
			is := pod.Status.ContainerStatuses[0].Resources.Requests.Cpu().String()
			reason := e2e.Condition(pod, v1.PodResizePending).Reason
			underWay := e2e.Condition(pod, v1.PodResizeInProgress).Status == v1.ConditionTrue
			return fmt.Sprintf("cpu %s, pending %q, under way %t", is, reason, underWay), is == cpu && reason == pending && !underWay
		})
	}
	c.Resize(t, ns, "grows", "3", "1Gi")
	await("3", "")

	// The scheduler knows that two more cores are not free until it shrinks.
	c.CreatePods(t, e2e.Pod(ns, "waits", "2", "1Gi"))
	c.WaitRefused(t, ns, 1)
	c.Resize(t, ns, "grows", "2", "1Gi")
	await("2", "")
	c.WaitRunning(t, ns, 2)

	c.Kubelet.RefuseResize(func(*v1.Pod) string { return v1.PodReasonDeferred })
	c.Resize(t, ns, "grows", "1", "1Gi")
	await("2", v1.PodReasonDeferred)
	c.Kubelet.RefuseResize(func(*v1.Pod) string { return v1.PodReasonInfeasible })
	await("2", v1.PodReasonInfeasible)
	c.Kubelet.RefuseResize(nil)
	await("1", "")
	require.Equal(t, uid, c.Pods(ns)[0].UID)
	require.Zero(t, c.Pods(ns)[0].Status.ContainerStatuses[0].RestartCount)
}

// coscheduling is a profile with gangs and other plugins.
func coscheduling(plugins string) string {
	return fmt.Sprintf(`
profiles:
- plugins:
    multiPoint: {enabled: [{name: Coscheduling}%s]}
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
  pluginConfig:
  - name: Coscheduling
    args: {permitWaitingTimeSeconds: 60}
`, plugins)
}

func TestGang(t *testing.T) {
	t.Run("upstream", func(t *testing.T) {
		placeGang(t, e2e.Shared(t), coscheduling(""))
	})
	t.Run("sigma", func(t *testing.T) {
		c := e2e.Shared(t)
		installSigma(t, c)
		applyPolicy(t, c, "general-k1", "general")
		s := placeGang(t, c, coscheduling(", {name: Sigma, weight: 2000}"))
		require.NotZero(t, s.Metric(t, "sigma_decisions_total", `cause="policy"`))
	})
}

// placeGang asks for a gang of four, first where three of it fit. Nominations are off, as
// docs/operations.md has it for gangs.
func placeGang(t *testing.T, c *e2e.Cluster, config string) *e2e.Scheduler {
	t.Helper()
	ns := c.Namespace(t)
	installPlugins(t, c, "coscheduling", "podgroups")
	var gang []*v1.Pod
	for i := range 4 {
		pod := e2e.Pod(ns, fmt.Sprintf("gang-%d", i), "3", "1Gi")
		pod.Labels["scheduling.x-k8s.io/pod-group"] = "gang"
		gang = append(gang, pod)
	}
	c.Kubectl(t, fmt.Sprintf(`
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: gang, namespace: %s}
spec: {minMember: 4}
`, ns), "apply", "-f", "-")

	c.CreateNodes(t, e2e.Node("a", "4", "16Gi"), e2e.Node("b", "4", "16Gi"), e2e.Node("c", "4", "16Gi"))
	s := c.StartScheduler(t, scheduler, config, "--feature-gates=NominatedNodeNameForExpectation=false")
	c.CreatePods(t, gang...)
	// Three find room and wait for the fourth, which finds none: all are refused.
	c.WaitRefused(t, ns, 4)
	c.CreatePods(t, e2e.Pod(ns, "alone", "3", "1Gi"))
	c.WaitBound(t, ns, 1)
	require.Equal(t, []string{"alone"}, slices.Collect(maps.Keys(c.Placements(ns))))

	// The gang is created again: Coscheduling does not wake a waiting gang for a new
	// node, so it would wait the five minutes after which all pods are tried again.
	c.Kubectl(t, "", "delete", "pods", "--all", "-n", ns)
	c.CreateNodes(t, e2e.Node("d", "16", "64Gi"))
	c.CreatePods(t, gang...)
	c.WaitRunning(t, ns, 4)
	c.RequireFits(t)
	require.Zero(t, s.Metric(t, "scheduler_schedule_attempts_total", `result="error"`))
	return s
}

func TestWipe(t *testing.T) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Node("a", "4", "16Gi"))
	c.CreateDeployment(t, e2e.Deployment(ns, "web", 3, "1", "1Gi"))
	e2e.Wait(t, "its pods", func() (string, bool) { return "", len(c.Pods(ns)) == 3 })
	c.Wipe(t)
	require.Empty(t, c.Pods(""))
	require.Empty(t, c.Nodes())
	require.Empty(t, c.Kubectl(t, "", "get", "placementpolicies,deployments,replicasets", "-A", "-o", "name"))
}

// A cluster of a test's own takes flags and leaves nothing behind.
func TestOwnCluster(t *testing.T) {
	var dir string
	t.Run("runs", func(t *testing.T) {
		c := e2e.StartCluster(t, "-apiserver=--enable-admission-plugins=AlwaysPullImages")
		dir = c.Dir
		ns := c.Namespace(t)
		c.CreatePods(t, e2e.Pod(ns, "one", "1", "1Gi"))
		e2e.Wait(t, "the pod", func() (string, bool) { return "", len(c.Pods(ns)) == 1 })
		require.Equal(t, v1.PullAlways, c.Pods(ns)[0].Spec.Containers[0].ImagePullPolicy)
	})
	require.NoDirExists(t, dir)
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, name := range commands {
		command, err := os.ReadFile(name)
		if err == nil { // else it ended meanwhile
			require.NotContains(t, string(command), dir)
		}
	}
}
