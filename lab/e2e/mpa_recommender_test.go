//go:build e2e

package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// startRecommender starts a namespace with a Deployment web of two pods with a core each and
// a load of 1.8 cores, and a recommender that decides every second.
func startRecommender(t *testing.T, flags ...string) (*e2e.Cluster, string, *e2e.Workload, *e2e.MPA) {
	t.Helper()
	c, ns, w := startWeb(t)
	return c, ns, w, runRecommender(t, c, flags...)
}

func runRecommender(t *testing.T, c *e2e.Cluster, flags ...string) *e2e.MPA {
	t.Helper()
	return c.StartMPA(t, append([]string{"recommender", "--kubeconfig=" + filepath.Join(c.Dir, "kubeconfig"), "--leader-elect=false", "--interval=1s"}, flags...)...)
}

func startWeb(t *testing.T) (*e2e.Cluster, string, *e2e.Workload) {
	t.Helper()
	c := e2e.Shared(t)
	c.Kubectl(t, "", "apply", "-k", filepath.Join(repository, "manifests", "mpa", "crds"))
	c.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s", "crd/multidimpodautoscalers.autoscaling.sigma-scheduler.io", "crd/scalingpolicies.autoscaling.sigma-scheduler.io")
	c.InstallMetricsAPI(t)
	ns := c.Namespace(t)
	c.CreateNodes(t, e2e.Node("a", "8", "32Gi"))
	c.StartScheduler(t, "kube-scheduler", "")
	c.CreateDeployment(t, e2e.Deployment(ns, "web", 2, "1", "1Gi"))
	c.WaitRunning(t, ns, 2)
	w := c.StartWorkload(t, e2e.WorkloadSpec{Namespace: ns, App: "web", CPUSeconds: .01, Load: e2e.Steps(time.Hour, 180)})
	return c, ns, w
}

// applyMPA creates the object web, or changes it. more is further YAML of its spec.
func applyMPA(t *testing.T, c *e2e.Cluster, ns, mode, more string) {
	t.Helper()
	container := c.Pods(ns)[0].Spec.Containers[0].Name
	c.Kubectl(t, fmt.Sprintf(`
apiVersion: autoscaling.sigma-scheduler.io/v1alpha1
kind: MultidimPodAutoscaler
metadata: {name: web, namespace: %s}
spec:
  scaleTargetRef: {kind: Deployment, name: web}
  mode: "%s"
  constraints: {replicas: {min: 2, max: 6}, containers: [{name: %s, controlled: [cpu]}]}
%s`, ns, mode, container, more), "apply", "-f", "-")
}

// awaitMPA waits until done holds for the object's status.
func awaitMPA(t *testing.T, c *e2e.Cluster, ns, what string, done func(*v1alpha1.MultidimPodAutoscalerStatus) bool) *v1alpha1.MultidimPodAutoscaler {
	t.Helper()
	o := &v1alpha1.MultidimPodAutoscaler{}
	e2e.Wait(t, what, func() (string, bool) {
		*o = *readMPA(t, c, ns)
		return fmt.Sprintf("%+v", o.Status), done(&o.Status)
	})
	return o
}

func readMPA(t *testing.T, c *e2e.Cluster, ns string) *v1alpha1.MultidimPodAutoscaler {
	t.Helper()
	u, err := c.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("multidimpodautoscalers")).Namespace(ns).Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	o := &v1alpha1.MultidimPodAutoscaler{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o))
	return o
}

func reasonOf(s *v1alpha1.MultidimPodAutoscalerStatus, kind string, status metav1.ConditionStatus) string {
	if c := meta.FindStatusCondition(s.Conditions, kind); c != nil && c.Status == status {
		return c.Reason
	}
	return ""
}

func refusedFor(reason string) func(*v1alpha1.MultidimPodAutoscalerStatus) bool {
	return func(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return s.Phase == v1alpha1.PhaseRefused && s.Summary == reason && reasonOf(s, v1alpha1.ConditionActive, metav1.ConditionFalse) == reason
	}
}

func TestMPARecommends(t *testing.T) {
	c, ns, w, m := startRecommender(t, "--journal-dir="+t.TempDir(), "--cool-down=1h")
	applyMPA(t, c, ns, "Off", "")
	awaitMPA(t, c, ns, "a missing metric", func(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return s.Phase == v1alpha1.PhaseStarting && s.Summary == "UsageMissing" && s.Recommendation == nil
	})
	w.FeedMetricsAPI(t)
	awaitMPA(t, c, ns, "what would be", func(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return s.Phase == v1alpha1.PhaseRecommending && s.Decision.Replicas == 4 && s.Summary == "OK"
	})
	require.Nil(t, readMPA(t, c, ns).Status.Recommendation, "mode Off")

	// Where another autoscaler has the target, the object may only recommend.
	c.Kubectl(t, "", "autoscale", "deployment", "web", "-n", ns, "--max=4", "--cpu-percent=100")
	count := m.Metric(t, "sigma_mpa_decisions_total")
	e2e.Wait(t, "decisions", func() (string, bool) { return "", m.Metric(t, "sigma_mpa_decisions_total") >= count+3 })
	require.Equal(t, v1alpha1.PhaseRecommending, readMPA(t, c, ns).Status.Phase)
	applyMPA(t, c, ns, "InPlace", "")
	awaitMPA(t, c, ns, "the refusal of the new spec", func(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return refusedFor("HorizontalPodAutoscaler")(s) && s.ObservedGeneration == 2
	})
	require.Nil(t, readMPA(t, c, ns).Status.Recommendation)
	c.Kubectl(t, "", "delete", "hpa", "web", "-n", ns)
	o := awaitMPA(t, c, ns, "the recommendation", func(s *v1alpha1.MultidimPodAutoscalerStatus) bool { return s.Recommendation != nil })
	first := o.Status.Recommendation
	require.Equal(t, int64(1), first.ID)
	require.Equal(t, int32(4), first.Replicas)
	require.Equal(t, v1alpha1.ChangeReplicas, first.Change)
	require.Len(t, o.Status.Memory.ReplicaChanges, 1)
	require.Contains(t, c.Kubectl(t, "", "get", "mpa", "web", "-n", ns), "hpa+vpa")
	events := c.Kubectl(t, "", "get", "events", "-n", ns)
	require.Contains(t, events, "Recommended")
	require.Contains(t, events, "Resumed")
	require.Positive(t, m.Metric(t, "sigma_mpa_decisions_total", `action="Scale"`))
	require.EqualValues(t, 4, m.Metric(t, "sigma_mpa_recommended_replicas", `name="web"`))

	// After a kill, the next process knows the last recommendation and does not repeat it.
	for range 3 {
		m.Kill(t)
		m.Restart(t)
		m.WaitReady(t)
		e2e.Wait(t, "decisions", func() (string, bool) { return "", m.Metric(t, "sigma_mpa_decisions_total") >= 3 })
		again := readMPA(t, c, ns)
		require.Equal(t, first, again.Status.Recommendation)
		require.Equal(t, o.Status.Memory.ReplicaChanges, again.Status.Memory.ReplicaChanges)
	}

	c.Kubectl(t, "", "scale", "deployment", "web", "-n", ns, "--replicas=0")
	awaitMPA(t, c, ns, "the end of the workload", refusedFor("SwitchedOff"))
	c.Kubectl(t, "", "scale", "deployment", "web", "-n", ns, "--replicas=2")
	awaitMPA(t, c, ns, "its return", func(s *v1alpha1.MultidimPodAutoscalerStatus) bool { return s.Phase != v1alpha1.PhaseRefused })
	c.Kubectl(t, "", "delete", "deployment", "web", "-n", ns)
	awaitMPA(t, c, ns, "the missing target", refusedFor("TargetMissing"))
	require.Equal(t, first.ID, readMPA(t, c, ns).Status.Recommendation.ID)
	c.Kubectl(t, "", "delete", "mpa", "web", "-n", ns)
	e2e.Wait(t, "its metrics to go", func() (string, bool) { return "", m.Metric(t, "sigma_mpa_recommended_replicas") == 0 })
}

// Each fault of Prometheus is reported, nothing is recommended during it, and everything
// recovers after it.
func TestMPAPrometheusFaults(t *testing.T) {
	c, ns, w := startWeb(t)
	p := e2e.StartPrometheus(t, w.Target)
	proxy := e2e.StartFaultProxy(t, p.URL)
	runRecommender(t, c, e2e.PrometheusServers(t, map[string]string{"main": proxy.URL}))
	spec := `
  metrics:
    usage: Prometheus
    maxAge: 10s
    prometheus:
      server: main
      queries:
        cpu: sum by (pod, container) (rate(container_cpu_usage_seconds_total{namespace="$namespace", pod=~"$pods"}[1m]))
        memory: sum by (pod, container) (container_memory_working_set_bytes{namespace="$namespace", pod=~"$pods"})
`
	awaitNear(t, p.URL, strings.ReplaceAll(cpuQuery, "[5s]", "[1m]"), 1.8, .1)
	for _, test := range []struct {
		name   string
		fault  e2e.Fault
		reason []string
	}{
		{"down", e2e.Down, []string{"PrometheusUnreachable"}},
		{"unavailable", e2e.Unavailable, []string{"QueryFailed"}},
		{"garbled", e2e.Garbled, []string{"PrometheusGarbled"}},
		{"slow", e2e.Slow(time.Minute), []string{"PrometheusTimeout", "PrometheusUnreachable"}},
		{"empty", e2e.Empty, []string{"UsageMissing"}},
		{"late", e2e.Late(time.Hour), []string{"UsageMissing"}},
		{"NaN", e2e.Answer("NaN"), []string{"NotANumber"}},
		{"infinite", e2e.Answer("+Inf"), []string{"Infinite"}},
		{"negative", e2e.Answer("-1"), []string{"Negative"}},
		{"frozen", nil, []string{"UsageStale"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.fault == nil {
				w.Page.Freeze()
				e2e.Wait(t, "old samples", func() (string, bool) {
					age, err := ask(t, p.URL, `time() - max(timestamp(container_cpu_usage_seconds_total))`)
					return fmt.Sprint(age, err), err == nil && age > 10.5 // maxAge and a margin
				})
			}
			proxy.Set(test.fault)
			applyMPA(t, c, ns, "InPlace", spec)
			told := func(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
				is := reasonOf(s, v1alpha1.ConditionMetrics, metav1.ConditionFalse)
				for _, reason := range test.reason {
					if is == reason {
						return true
					}
				}
				return false
			}
			o := awaitMPA(t, c, ns, "the reason", told)
			t.Log(meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionMetrics).Message)
			time.Sleep(3 * time.Second)
			o = readMPA(t, c, ns)
			require.True(t, told(&o.Status), "%+v", o.Status)
			require.Nil(t, o.Status.Recommendation)
			require.Equal(t, v1alpha1.PhaseStarting, o.Status.Phase)

			proxy.Set(nil)
			w.Page.Resume()
			o = awaitMPA(t, c, ns, "the recommendation", func(s *v1alpha1.MultidimPodAutoscalerStatus) bool { return s.Recommendation != nil })
			require.Equal(t, int32(4), o.Status.Recommendation.Replicas)
			c.Kubectl(t, "", "delete", "mpa", "web", "-n", ns)
		})
	}
}
