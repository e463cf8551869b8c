//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

const (
	rateQuery   = `sum(rate(http_requests_total[5s]))`
	p95Query    = `histogram_quantile(.95, sum by (le) (rate(http_request_duration_seconds_bucket[5s])))`
	cpuQuery    = `sum(rate(container_cpu_usage_seconds_total[5s]))`
	memoryQuery = `sum(container_memory_working_set_bytes)`
)

// ask queries Prometheus, for at most a few seconds.
func ask(t *testing.T, url, expression string) (float64, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return e2e.Query(ctx, url, expression)
}

// awaitNear waits until a query's answer is near a number.
func awaitNear(t *testing.T, url, expression string, want, share float64) {
	t.Helper()
	e2e.Wait(t, expression, func() (string, bool) {
		is, err := ask(t, url, expression)
		return fmt.Sprintf("want %g, have %g %v", want, is, err), err == nil && math.Abs(is-want) <= share*math.Abs(want)
	})
}

// podMetrics returns the PodMetrics of a namespace, by name.
func podMetrics(t *testing.T, c *e2e.Cluster, ns string) map[string]unstructured.Unstructured {
	t.Helper()
	var list *unstructured.UnstructuredList
	e2e.Wait(t, "PodMetrics", func() (string, bool) { // a new API server does not know the kind yet
		var err error
		list, err = c.Dynamic.Resource(schema.GroupVersionResource{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods"}).
			Namespace(ns).List(t.Context(), metav1.ListOptions{})
		return fmt.Sprint(err), err == nil
	})
	all := map[string]unstructured.Unstructured{}
	for _, item := range list.Items {
		all[item.GetName()] = item
	}
	return all
}

// usageOf returns the usage in a PodMetrics, as text.
func usageOf(t *testing.T, object unstructured.Unstructured) map[string]string {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(object.Object, "containers")
	require.NoError(t, err)
	require.Len(t, containers, 1)
	usage, _, err := unstructured.NestedStringMap(containers[0].(map[string]any), "usage")
	require.NoError(t, err)
	return usage
}

// The load, then the Deployment, then a pod takes a step: queries and the metrics API give
// the figures of queueing theory.
func TestWorkload(t *testing.T) {
	c := e2e.Shared(t)
	c.InstallMetricsAPI(t)
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Node("a", "8", "32Gi"))
	c.StartScheduler(t, "kube-scheduler", "")
	c.CreateDeployment(t, e2e.Deployment(ns, "web", 2, "1", "1Gi"))
	c.WaitRunning(t, ns, 2)
	var rate atomic.Int64
	rate.Store(20)
	w := c.StartWorkload(t, e2e.WorkloadSpec{
		Namespace: ns, App: "web", CPUSeconds: .01, WaitSeconds: .02,
		Load: func(time.Duration) float64 { return float64(rate.Load()) },
	})
	api := w.FeedMetricsAPI(t)
	p := e2e.StartPrometheus(t, w.Target)

	awaitNear(t, p.URL, rateQuery, 20, .05)
	awaitNear(t, p.URL, cpuQuery, .2, .05)
	rate.Store(120)
	// 60 requests of 10 ms a second use 60 % of a core, where each takes 25 ms.
	awaitNear(t, p.URL, rateQuery, 120, .05)
	awaitNear(t, p.URL, cpuQuery, 1.2, .05)
	awaitNear(t, p.URL, p95Query, .02+.025*math.Log(20), .1)
	awaitNear(t, p.URL, memoryQuery, 200<<20, 0)
	require.InDelta(t, .6, w.Now().Utilisation, .01)

	e2e.Wait(t, "PodMetrics", func() (string, bool) {
		all := podMetrics(t, c, ns)
		if len(all) != 2 {
			return fmt.Sprint(all), false
		}
		for _, object := range all {
			cpu := resource.MustParse(usageOf(t, object)["cpu"])
			if math.Abs(cpu.AsApproximateFloat64()-.6) > .05 {
				return cpu.String(), false
			}
			require.Equal(t, fmt.Sprint(100<<20), usageOf(t, object)["memory"])
			require.Equal(t, "web", object.GetLabels()["app"])
		}
		return "", true
	})
	top := c.Kubectl(t, "", "top", "pods", "-n", ns, "--no-headers")
	require.Equal(t, 2, strings.Count(top, "100Mi"), top)

	c.Kubectl(t, "", "scale", "deployment", "web", "-n", ns, "--replicas=4")
	c.WaitRunning(t, ns, 4)
	awaitNear(t, p.URL, `max(rate(container_cpu_usage_seconds_total[5s]))`, .3, .05)
	require.Equal(t, 4, w.Now().Pods)
	e2e.Wait(t, "PodMetrics", func() (string, bool) { return "", len(podMetrics(t, c, ns)) == 4 })

	// The kubelet, not the spec, determines how fast a pod is.
	c.Kubelet.ResizeAfter(time.Hour)
	slower := c.Pods(ns)[0].Name
	c.Resize(t, ns, slower, "250m", "1Gi")
	e2e.Wait(t, "the resize under way", func() (string, bool) {
		return "", e2e.Condition(c.Pods(ns)[0], v1.PodResizeInProgress).Status == v1.ConditionTrue
	})
	time.Sleep(time.Second)
	require.Equal(t, 4., w.Now().Capacity)
	c.Kubelet.ResizeAfter(0)
	e2e.Wait(t, "the slower pod", func() (string, bool) { return fmt.Sprint(w.Now()), w.Now().Capacity == 3.25 })
	e2e.Wait(t, "its queue", func() (string, bool) { return fmt.Sprint(w.Now()), w.Now().P95 > 2 })
	awaitNear(t, p.URL, `min(rate(container_cpu_usage_seconds_total[5s]))`, .25, .05)

	// Without pods nothing is answered, and the metrics show it.
	c.Kubectl(t, "", "scale", "deployment", "web", "-n", ns, "--replicas=0")
	c.WaitRunning(t, ns, 0)
	awaitNear(t, p.URL, `sum(rate(http_requests_total{code="503"}[5s]))`, 120, .05)
	e2e.Wait(t, "no PodMetrics", func() (string, bool) { return "", len(podMetrics(t, c, ns)) == 0 })
	require.NotZero(t, w.Now().Refused)

	// After the API server was down, the figures continue.
	c.Kubectl(t, "", "scale", "deployment", "web", "-n", ns, "--replicas=1")
	c.WaitRunning(t, ns, 1)
	c.RestartAPIServer(t)
	e2e.Wait(t, "PodMetrics", func() (string, bool) { return "", len(podMetrics(t, c, ns)) == 1 })
	api.Stop()
	e2e.Wait(t, "no PodMetrics", func() (string, bool) { return "", len(podMetrics(t, c, ns)) == 0 })
}

func TestFeedFaults(t *testing.T) {
	c := e2e.Shared(t)
	c.InstallMetricsAPI(t)
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Node("a", "8", "32Gi"))
	c.StartScheduler(t, "kube-scheduler", "")
	c.CreateDeployment(t, e2e.Deployment(ns, "web", 1, "1", "1Gi"))
	c.WaitRunning(t, ns, 1)
	w := c.StartWorkload(t, e2e.WorkloadSpec{
		Namespace: ns, App: "web", CPUSeconds: .01, Load: e2e.Steps(time.Hour, 50),
	})
	api := w.FeedMetricsAPI(t)
	p := e2e.StartPrometheus(t, w.Target)
	pod := c.Pods(ns)[0].Name
	awaitUsage := func(name, want string) {
		t.Helper()
		e2e.Wait(t, want, func() (string, bool) {
			object, ok := podMetrics(t, c, ns)[pod]
			return fmt.Sprint(object), ok && usageOf(t, object)[name] == want
		})
	}

	t.Run("page", func(t *testing.T) {
		age := `time() - max(timestamp(container_memory_working_set_bytes))`
		awaitNear(t, p.URL, memoryQuery, 100<<20, 0)
		w.Page.Distort(func(string, float64) float64 { return math.NaN() })
		e2e.Wait(t, "NaN", func() (string, bool) {
			is, err := ask(t, p.URL, memoryQuery)
			return fmt.Sprint(is, err), err == nil && math.IsNaN(is)
		})
		w.Page.Distort(func(_ string, v float64) float64 { return -v })
		awaitNear(t, p.URL, memoryQuery, -100<<20, 0)
		w.Page.Freeze()
		e2e.Wait(t, "old samples", func() (string, bool) {
			is, err := ask(t, p.URL, age)
			return fmt.Sprint(is, err), err == nil && is > 5
		})
		awaitNear(t, p.URL, memoryQuery, -100<<20, 0)
		w.Page.Stop()
		e2e.Wait(t, "nothing", func() (string, bool) {
			is, err := ask(t, p.URL, memoryQuery)
			return fmt.Sprint(is), err != nil && strings.Contains(err.Error(), "want one sample")
		})
		w.Page.Resume()
		awaitNear(t, p.URL, memoryQuery, 100<<20, 0)
	})

	t.Run("metrics API", func(t *testing.T) {
		awaitUsage("memory", fmt.Sprint(100<<20))
		for value, want := range map[float64]string{-1: "-1", 1e18: "1000000000000000000", math.NaN(): "NaN"} {
			api.Distort(func(string, float64) float64 { return value })
			awaitUsage("memory", want)
		}
		api.Resume()
		awaitUsage("memory", fmt.Sprint(100<<20))
		api.Freeze()
		before := podMetrics(t, c, ns)[pod]
		time.Sleep(3 * time.Second)
		require.Equal(t, before, podMetrics(t, c, ns)[pod])
		api.Resume()
		e2e.Wait(t, "new PodMetrics", func() (string, bool) {
			return "", podMetrics(t, c, ns)[pod].Object["timestamp"] != before.Object["timestamp"]
		})
	})

	t.Run("Prometheus", func(t *testing.T) {
		awaitNear(t, p.URL, rateQuery, 50, .05)
		p.Kill(t)
		_, err := ask(t, p.URL, rateQuery)
		require.ErrorContains(t, err, "refused")
		p.Restart(t)
		p.WaitReady(t)
		awaitNear(t, p.URL, rateQuery, 50, .05)
		p.Signal(t, syscall.SIGSTOP)
		_, err = ask(t, p.URL, rateQuery)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		p.Signal(t, syscall.SIGCONT)
		awaitNear(t, p.URL, rateQuery, 50, .05)
	})

	t.Run("proxy", func(t *testing.T) {
		proxy := e2e.StartFaultProxy(t, p.URL)
		awaitNear(t, proxy.URL, rateQuery, 50, .05)
		require.Zero(t, proxy.Met())
		for name, is := range map[string]struct {
			fault e2e.Fault
			err   string
			value string
		}{
			"down":        {fault: e2e.Down, err: "EOF"},
			"unavailable": {fault: e2e.Unavailable, err: "503"},
			"garbled":     {fault: e2e.Garbled, err: "bad_response"},
			"slow":        {fault: e2e.Slow(time.Minute), err: "deadline exceeded"},
			"empty":       {fault: e2e.Empty, err: "want one sample"},
			"NaN":         {fault: e2e.Answer("NaN"), value: "NaN"},
			"negative":    {fault: e2e.Answer("-1"), value: "-1"},
			"infinite":    {fault: e2e.Answer("+Inf"), value: "+Inf"},
		} {
			proxy.Set(is.fault)
			before := proxy.Met()
			value, err := ask(t, proxy.URL, rateQuery)
			if is.err != "" {
				require.ErrorContains(t, err, is.err, name)
			} else {
				require.NoError(t, err, name)
				require.Equal(t, is.value, model.SampleValue(value).String(), name)
			}
			require.Greater(t, proxy.Met(), before, name)
		}
		proxy.Set(e2e.Late(3 * time.Second))
		before, err := ask(t, p.URL, `vector(time())`)
		require.NoError(t, err)
		then, err := ask(t, proxy.URL, `vector(time())`)
		require.NoError(t, err)
		after, err := ask(t, p.URL, `vector(time())`)
		require.NoError(t, err)
		require.GreaterOrEqual(t, then, before-3.01) // the proxy counts in milliseconds
		require.LessOrEqual(t, then, after-2.99)
		awaitNear(t, proxy.URL, rateQuery, 50, .05)
		proxy.Set(nil)
		then, err = ask(t, proxy.URL, `vector(time())`)
		require.NoError(t, err)
		require.GreaterOrEqual(t, then, after)
	})
}

// A container that outgrows its limit is killed, and no limit is lowered below
// what is used.
func TestMemoryLimits(t *testing.T) {
	c := e2e.Shared(t)
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Node("a", "8", "32Gi"))
	c.StartScheduler(t, "kube-scheduler", "")
	d := e2e.Deployment(ns, "web", 2, "1", "1Gi")
	d.Spec.Template.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("2Gi")}
	c.CreateDeployment(t, d)
	c.WaitRunning(t, ns, 2)
	var rate atomic.Int64
	rate.Store(40)
	w := c.StartWorkload(t, e2e.WorkloadSpec{
		Namespace: ns, App: "web", CPUSeconds: .01, Load: func(time.Duration) float64 { return float64(rate.Load()) },
		MemoryBytes: func(rate float64, _ time.Duration) float64 { return (100 + 100*rate) * (1 << 20) },
	})
	e2e.Wait(t, "both killed", func() (string, bool) {
		for _, pod := range c.Pods(ns) {
			last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
			if last == nil {
				return pod.Name, false
			}
			require.Equal(t, "OOMKilled", last.Reason)
		}
		return "", true
	})
	rate.Store(2)
	c.WaitRunning(t, ns, 2)
	e2e.Wait(t, "calm", func() (string, bool) { return fmt.Sprint(w.Now()), w.Now().MemoryBytes == 2*200<<20 })
	pod := c.Pods(ns)[0].Name
	restarts := c.Pods(ns)[0].Status.ContainerStatuses[0].RestartCount
	require.Positive(t, restarts)

	limit := func(memory string) {
		t.Helper()
		patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"memory":%q},"limits":{"memory":%[1]q}}}]}}`, memory)
		c.Kubectl(t, "", "patch", "pod", pod, "-n", ns, "--subresource=resize", "-p", patch)
	}
	state := func() (memory string, underWay v1.PodCondition) {
		is := c.Pods(ns)[0]
		return is.Status.ContainerStatuses[0].Resources.Limits.Memory().String(), e2e.Condition(is, v1.PodResizeInProgress)
	}
	limit("150Mi") // it uses 200
	e2e.Wait(t, "refusal", func() (string, bool) {
		memory, underWay := state()
		require.Equal(t, "2Gi", memory)
		return underWay.String(), underWay.Reason == v1.PodReasonError && strings.Contains(underWay.Message, "below current usage")
	})
	limit("300Mi")
	e2e.Wait(t, "the lower limit", func() (string, bool) {
		memory, underWay := state()
		return memory, memory == "300Mi" && underWay.Status == ""
	})
	require.Equal(t, restarts, c.Pods(ns)[0].Status.ContainerStatuses[0].RestartCount)
}

// The API server refuses what the node never has, the kubelet defers what it has not now.
func TestResizeOnFullNode(t *testing.T) {
	c := e2e.Shared(t)
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Node("a", "4", "16Gi"))
	c.StartScheduler(t, "kube-scheduler", "")
	c.CreatePods(t, e2e.Pod(ns, "grows", "1", "1Gi"), e2e.Pod(ns, "other", "2", "1Gi"))
	c.WaitRunning(t, ns, 2)
	await := func(reason, cpu string) {
		t.Helper()
		e2e.Wait(t, reason+cpu, func() (string, bool) {
			pod := c.Pods(ns)[0]
			pending, is := e2e.Condition(pod, v1.PodResizePending), pod.Status.ContainerStatuses[0].Resources.Requests.Cpu().String()
			return pending.String() + is, pending.Reason == reason && is == cpu
		})
	}
	require.ErrorContains(t, c.TryResize(t, ns, "grows", "5", "1Gi"), "node didn't have enough allocatable resources")
	c.Resize(t, ns, "grows", "3", "1Gi")
	await(v1.PodReasonDeferred, "1")
	c.RequireFits(t)
	c.Kubectl(t, "", "delete", "pod", "other", "-n", ns)
	await("", "3")
	c.RequireFits(t)
}

// The proxy in front of the API server delays and drops the requests that a test names.
func TestProxyMatch(t *testing.T) {
	c := e2e.Shared(t)
	ns := c.Namespace(t)
	d := e2e.Deployment(ns, "web", 1, "1", "1Gi")
	c.CreateDeployment(t, d)
	proxy := c.StartProxy(t, "kubeconfig")
	config, err := clientcmd.BuildConfigFromFlags("", proxy.Kubeconfig)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	scale := func(to int) error {
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, to)
		_, err := client.AppsV1().Deployments(ns).Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{}, "scale")
		return err
	}
	replicas := func() int {
		d, err := c.Client.AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{})
		require.NoError(t, err)
		return int(*d.Spec.Replicas)
	}
	proxy.Match(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/scale") })
	release := proxy.Hold()
	scaled := make(chan error)
	go func() { scaled <- scale(2) }()
	proxy.WaitHeld(t, 1)
	require.Equal(t, 1, replicas())
	release()
	require.NoError(t, <-scaled)
	require.Equal(t, 2, replicas())

	proxy.SetLose(time.Millisecond)
	require.Error(t, scale(3))
	require.Equal(t, 3, replicas())
	proxy.SetLose(0)
	proxy.SetRefuse(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/scale") })
	require.Error(t, scale(4))
	require.Equal(t, 3, replicas())
}

// sigma-mpa as a child: ready, dead, ready again.
func TestMPAStarts(t *testing.T) {
	c := e2e.Shared(t)
	c.Kubectl(t, "", "apply", "-k", filepath.Join(repository, "manifests", "mpa", "crds"))
	c.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s", "crd/multidimpodautoscalers.autoscaling.sigma-scheduler.io", "crd/scalingpolicies.autoscaling.sigma-scheduler.io")
	m := c.StartMPA(t, "updater", "--kubeconfig="+filepath.Join(c.Dir, "kubeconfig"), "--leader-elect=false")
	require.Positive(t, m.Metric(t, "go_goroutines"))
	m.Kill(t)
	m.Restart(t)
	m.WaitReady(t)
	m.Stop(t)
}
