//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa/batch"
	"github.com/sigma-scheduler/sigma/plugins/evict"
)

const batchJob = `
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  parallelism: PODS
  completions: 100
  backoffLimit: 100
  template:
    metadata: {labels: {app: NAME, sigma-scheduler.io/batch: "true"}}
    spec:
      restartPolicy: Never
      containers: [{name: c, image: i, resources: {requests: {cpu: "1", memory: 1Gi}}}]
`

// installBatch applies the component of batch work, and starts what it runs.
func installBatch(t *testing.T, c *e2e.Cluster) (s *service, start func(mode string) *e2e.MPA) {
	t.Helper()
	s = installMPA(t, c, "mpa/apart")
	c.Kubectl(t, "", "delete", "deployments", "--all", "-n", mpaSystem, "--wait=true") // their pods would count; processes take their place
	folder := filepath.Join(repository, "manifests", "mpa", "batch")
	c.Kubectl(t, "", "apply", "-f", filepath.Join(folder, "rbac.yaml"), "-f", filepath.Join(folder, "priority.yaml"))
	c.Kubectl(t, "", "patch", "mutatingwebhookconfiguration", "sigma-mpa", "--type=json", "--patch-file="+filepath.Join(folder, "webhooks.yaml"))
	c.Kubectl(t, "", "patch", "mutatingwebhookconfiguration", "sigma-mpa", "--type=json", "-p", fmt.Sprintf(
		`[{"op":"replace","path":"/webhooks/2/clientConfig","value":{"url":"https://%[1]s/batch-pod"}},{"op":"replace","path":"/webhooks/3/clientConfig","value":{"url":"https://%[1]s/batch-pod"}}]`, s.address))
	text, err := os.ReadFile(filepath.Join(folder, "deployment.yaml"))
	require.NoError(t, err)
	document, _, _ := strings.Cut(string(text), "\n---\n")
	var d appsv1.Deployment
	require.NoError(t, yaml.Unmarshal([]byte(document), &d))
	return s, func(mode string) *e2e.MPA {
		return s.startPod(t, c, &d.Spec.Template.Spec, t.TempDir(), "--mode="+mode, "--every=1s", "--stale=10s", "--starving=3s", "--growth=1000000")
	}
}

// TestBatchOnWhatIsLeft runs Jobs on the cpu that online pods leave. They leave first when the use of the node rises, and
// online pods stay.
func TestBatchOnWhatIsLeft(t *testing.T) {
	c := e2e.StartCluster(t)
	c.CreateNodes(t, e2e.Node("a", "10", "32Gi"))
	c.StartScheduler(t, scheduler, sigmaConfig(false, ""))
	c.InstallMetricsAPI(t)
	s, start := installBatch(t, c)
	const ns = "default"
	c.CreateDeployment(t, e2e.Deployment(ns, "web", 2, "2", "4Gi"))
	c.WaitRunning(t, ns, 2)
	online := c.Pods(ns)
	var used atomic.Int64 // thousandths of a core, of each of both; negative = the metrics stop
	used.Store(500)
	feed(t, c, online, &used)
	offered := func() string {
		n, err := c.Client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
		require.NoError(t, err)
		cpu, ok := n.Status.Allocatable[batch.CPU]
		memory := n.Status.Allocatable[batch.Memory]
		if !ok {
			return "none"
		}
		return fmt.Sprintf("%s %d", cpu.String(), memory.Value()>>30)
	}
	wait := func(want string) {
		t.Helper()
		e2e.Wait(t, "offer "+want, func() (string, bool) { is := offered(); return is, is == want })
	}
	running := func(app string) (names []string) {
		for _, p := range c.Pods(ns) {
			if p.Labels["app"] == app && p.Spec.NodeName != "" && p.DeletionTimestamp == nil && p.Status.Phase != v1.PodFailed {
				names = append(names, p.Name)
			}
		}
		return names
	}
	waitRunning := func(app string, n int) {
		t.Helper()
		e2e.Wait(t, fmt.Sprintf("%d pods of %s", n, app), func() (string, bool) { is := running(app); return fmt.Sprint(is), len(is) == n })
	}

	// Observe publishes nothing.
	watching := start("Observe")
	e2e.Wait(t, "a look", func() (string, bool) {
		v := watching.Metric(t, "sigma_mpa_batch_cores", "node", "a", "of", "offered")
		return fmt.Sprint(v), v > 5.4
	})
	require.Equal(t, "none", offered())
	watching.Stop(t)

	program := start("Apply")
	wait("5500 23") // 95 % of 10 cores without the requests, as there is no history
	s.startPart(t, c, "admission")
	e2e.Wait(t, "the webhook", func() (string, bool) {
		ca := c.Kubectl(t, "", "get", "mutatingwebhookconfiguration", "sigma-mpa", "-o", "jsonpath={.webhooks[2].clientConfig.caBundle}")
		return ca, ca != ""
	})
	job := func(name string, pods int) {
		t.Helper()
		c.Kubectl(t, strings.NewReplacer("NAME", name, "PODS", fmt.Sprint(pods)).Replace(batchJob), "apply", "-n", ns, "-f", "-")
	}
	job("old", 1)
	waitRunning("old", 1)
	old := running("old")
	for _, p := range c.Pods(ns) {
		if p.Labels["app"] != "old" {
			continue
		}
		r := p.Spec.Containers[0].Resources
		require.Equal(t, "1k", r.Requests.Name(batch.CPU, "").String(), "%v", r)
		require.Equal(t, v1.PodQOSBestEffort, p.Status.QOSClass)
		require.EqualValues(t, 1<<30, r.Limits.Name(batch.Memory, "").Value())
		require.Equal(t, batch.PriorityClass, p.Spec.PriorityClassName)
		require.EqualValues(t, -1000, *p.Spec.Priority)
	}
	time.Sleep(2 * time.Second) // the others are younger
	job("young", 6)
	waitRunning("young", 4) // of 5.5 cores

	// The kubelet registers the node anew.
	c.Kubectl(t, "", "patch", "node", "a", "--subresource=status", "--type=merge", "-p",
		`{"status":{"capacity":{"sigma-scheduler.io/batch-cpu":"0","sigma-scheduler.io/batch-memory":"0"},"allocatable":{"sigma-scheduler.io/batch-cpu":"0","sigma-scheduler.io/batch-memory":"0"}}}`)
	wait("5500 23")

	// Online pods use nine cores: one is left, which is 60 % of one batch pod and no more.
	used.Store(4500)
	wait("500 23")
	waitRunning("young", 0)
	time.Sleep(8 * time.Second)
	require.Equal(t, old, running("old"), "the oldest stays")
	require.Len(t, running("web"), 2)
	for _, p := range online {
		require.Contains(t, running("web"), p.Name)
	}
	listed := c.Kubectl(t, "", "get", "configmap", "-n", evict.ListNamespace, evict.ListName, "-o", "jsonpath={.data.evictions}")
	require.Equal(t, 4, strings.Count(listed, "/batch/a/batch/Job/"+ns+"/young"), listed)

	// A killed controller goes on where it was, and without metrics nothing is offered, and nobody evicted.
	used.Store(500)
	wait("5500 23")
	waitRunning("young", 4)
	program.Kill(t)
	program = start("Apply")
	used.Store(-1)
	wait("0 0")
	require.Len(t, running("young"), 4)

	// The way back.
	program.Stop(t)
	start("Observe")
	wait("none")
	require.Len(t, running("young"), 4)
}

// feed writes PodMetrics of pods each second.
func feed(t *testing.T, c *e2e.Cluster, pods []*v1.Pod, used *atomic.Int64) {
	t.Helper()
	client := c.Dynamic.Resource(schema.GroupVersionResource{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods"})
	write := func() {
		milli := used.Load()
		if milli < 0 {
			return
		}
		for _, p := range pods {
			content, err := json.Marshal(map[string]any{
				"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", "metadata": map[string]any{"name": p.Name, "namespace": p.Namespace},
				"timestamp": time.Now().UTC().Format(time.RFC3339), "window": "1s",
				"containers": []any{map[string]any{"name": "main", "usage": map[string]any{"cpu": fmt.Sprintf("%dm", milli), "memory": "1Gi"}}},
			})
			if err != nil {
				t.Error(err)
			}
			_, _ = client.Namespace(p.Namespace).Patch(t.Context(), p.Name, types.ApplyPatchType, content, metav1.PatchOptions{FieldManager: "feed", Force: new(true)})
		}
	}
	write()
	go func() {
		for range time.Tick(time.Second) {
			if t.Context().Err() != nil {
				return
			}
			write()
		}
	}()
}
