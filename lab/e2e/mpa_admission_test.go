//go:build e2e

package e2e_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

const webObject = `
apiVersion: autoscaling.sigma-scheduler.io/v1alpha1
kind: MultidimPodAutoscaler
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  scaleTargetRef: {kind: KIND, name: NAME}
  mode: MODE
  constraints: {replicas: {min: 1, max: 100}, containers: [{name: main, maxAllowed: {cpu: "8", memory: 8Gi}}]}
`

// recommend creates an object with a recommendation.
func recommend(t *testing.T, c *e2e.Cluster, namespace, kind, name string, id int, cpu, memory string) {
	t.Helper()
	text := strings.NewReplacer("NAMESPACE", namespace, "NAME", name, "KIND", kind, "MODE", "Initial").Replace(webObject)
	c.Kubectl(t, text, "apply", "-f", "-")
	status := fmt.Sprintf(`{"status":{"phase":"Scaling","recommendation":{"id":%d,"time":%q,"change":"Requests","replicas":1,
		"containers":[{"name":"main","cpu":%q,"memory":%q}]}}}`, id, time.Now().UTC().Format(metav1.RFC3339Micro), cpu, memory)
	c.Kubectl(t, "", "patch", "mpa", name, "-n", namespace, "--subresource=status", "--type=merge", "-p", status)
}

// sizes counts the pods of an app by their requests: "cpu memory recommendation".
func sizes(c *e2e.Cluster, namespace, app string) map[string]int {
	count := map[string]int{}
	for _, pod := range c.Pods(namespace) {
		if pod.DeletionTimestamp == nil && pod.Labels["app"] == app {
			count[sizeOf(pod)]++
		}
	}
	return count
}

func sizeOf(pod *v1.Pod) string {
	r := pod.Spec.Containers[0].Resources.Requests
	return strings.TrimSpace(r.Cpu().String() + " " + r.Memory().String() + " " + pod.Annotations["autoscaling.sigma-scheduler.io/recommendation"])
}

func waitSizes(t *testing.T, c *e2e.Cluster, namespace, app string, want map[string]int) {
	t.Helper()
	e2e.Wait(t, fmt.Sprint(want), func() (string, bool) {
		is := sizes(c, namespace, app)
		return fmt.Sprint(is), fmt.Sprint(is) == fmt.Sprint(want)
	})
}

// sibling is a pod like those of Deployment web's ReplicaSet, which adopts it.
func sibling(t *testing.T, c *e2e.Cluster, namespace string) *v1.Pod {
	t.Helper()
	for _, pod := range c.Pods(namespace) {
		if pod.Labels["app"] == "web" {
			return &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "web-", Labels: pod.Labels, OwnerReferences: pod.OwnerReferences},
				Spec:       e2e.Pod(namespace, "x", "500m", "1Gi").Spec,
			}
		}
	}
	t.Fatal("no pod of web")
	return nil
}

func scaleWeb(t *testing.T, c *e2e.Cluster, namespace string, n int) {
	t.Helper()
	c.Kubectl(t, "", "scale", "deployment", "web", "-n", namespace, fmt.Sprintf("--replicas=%d", n))
}

func TestAdmission(t *testing.T) {
	c := ownCluster(t)
	s := installMPA(t, c, "mpa/apart")
	const ns = "default"
	// Pods start before there is a webhook.
	c.CreateDeployment(t, e2e.Deployment(ns, "web", 2, "500m", "1Gi"))
	waitSizes(t, c, ns, "web", map[string]int{"500m 1Gi": 2})
	var replicas []*e2e.MPA
	for range 2 {
		replicas = append(replicas, s.startPart(t, c, "admission", "--certificate-lifetime=30s"))
	}
	seen := func() (sum float64) {
		for _, r := range replicas {
			sum += r.Metric(t, "sigma_mpa_admission_pods_total")
		}
		return sum
	}
	time.Sleep(1500 * time.Millisecond) // a recommendation in the template's second does not count
	recommend(t, c, ns, "Deployment", "web", 1, "1", "2Gi")
	e2e.Wait(t, "the caches", func() (string, bool) {
		pod, err := c.Client.CoreV1().Pods(ns).Create(t.Context(), sibling(t, c, ns), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(t, err)
		return sizeOf(pod), sizeOf(pod) == "1 2Gi web/1"
	})

	t.Run("new pods", func(t *testing.T) {
		scaleWeb(t, c, ns, 5)
		waitSizes(t, c, ns, "web", map[string]int{"500m 1Gi": 2, "1 2Gi web/1": 3})
		c.Kubectl(t, "", "set", "image", "deployment/web", "main=registry.example.org/main:2", "-n", ns)
		waitSizes(t, c, ns, "web", map[string]int{"1 2Gi web/1": 5})
		// Requests that somebody changed stay until the next recommendation.
		c.Kubectl(t, "", "set", "resources", "deployment/web", "--requests=cpu=600m,memory=1Gi", "-n", ns)
		waitSizes(t, c, ns, "web", map[string]int{"600m 1Gi": 5})
		time.Sleep(1500 * time.Millisecond)
		recommend(t, c, ns, "Deployment", "web", 2, "2", "3Gi")
		scaleWeb(t, c, ns, 7)
		waitSizes(t, c, ns, "web", map[string]int{"600m 1Gi": 5, "2 3Gi web/2": 2})
	})
	t.Run("a StatefulSet", func(t *testing.T) {
		c.Kubectl(t, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: queue, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: queue}}
  template:
    metadata: {labels: {app: queue}}
    spec: {containers: [{name: main, image: i, resources: {requests: {cpu: 250m, memory: 1Gi}, limits: {cpu: 500m, memory: 1Gi}}}]}
`, "apply", "-f", "-")
		waitSizes(t, c, ns, "queue", map[string]int{"250m 1Gi": 1})
		time.Sleep(1500 * time.Millisecond)
		recommend(t, c, ns, "StatefulSet", "queue", 9, "400m", "2Gi")
		c.Kubectl(t, "", "scale", "statefulset", "queue", "-n", ns, "--replicas=3")
		waitSizes(t, c, ns, "queue", map[string]int{"250m 1Gi": 1, "400m 2Gi queue/9": 2})
		for _, pod := range c.Pods(ns) {
			if pod.Labels["app"] == "queue" {
				r := pod.Spec.Containers[0].Resources
				require.Equal(t, 2*r.Requests.Cpu().MilliValue(), r.Limits.Cpu().MilliValue())
				require.True(t, r.Requests.Memory().Equal(*r.Limits.Memory()))
			}
		}
	})
	t.Run("those that it does not see", func(t *testing.T) {
		before := seen()
		c.CreatePods(t, e2e.Pod(ns, "alone", "100m", "64Mi"))
		c.Kubectl(t, "", "create", "job", "once", "-n", ns, "--image=registry.example.org/once")
		d := e2e.Deployment(mpaSystem, "own", 2, "500m", "1Gi")
		restrict(&d.Spec.Template.Spec)
		recommend(t, c, mpaSystem, "Deployment", "own", 1, "1", "2Gi")
		c.CreateDeployment(t, d)
		waitSizes(t, c, mpaSystem, "own", map[string]int{"500m 1Gi": 2})
		e2e.Wait(t, "the job's pod", func() (string, bool) {
			return "", slices.ContainsFunc(c.Pods(ns), func(p *v1.Pod) bool { return p.Labels["job-name"] == "once" })
		})
		require.Equal(t, before, seen())
	})
	t.Run("limits of the namespace", func(t *testing.T) {
		ns := c.Namespace(t)
		c.Kubectl(t, `
apiVersion: v1
kind: LimitRange
metadata: {name: most}
spec: {limits: [{type: Container, max: {cpu: 800m, memory: 8Gi}, default: {cpu: 600m, memory: 2Gi}}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: room}
spec: {hard: {requests.memory: 5Gi}}
`, "apply", "-n", ns, "-f", "-")
		e2e.Wait(t, "the quota", func() (string, bool) {
			q, err := c.Client.CoreV1().ResourceQuotas(ns).Get(t.Context(), "room", metav1.GetOptions{})
			return fmt.Sprint(err), err == nil && len(q.Status.Hard) == 1
		})
		c.CreateDeployment(t, e2e.Deployment(ns, "web", 1, "500m", "1Gi"))
		waitSizes(t, c, ns, "web", map[string]int{"500m 1Gi": 1})
		time.Sleep(1500 * time.Millisecond)
		recommend(t, c, ns, "Deployment", "web", 3, "1", "3Gi")
		e2e.Wait(t, "the quota's use in the caches", func() (string, bool) {
			pod, err := c.Client.CoreV1().Pods(ns).Create(t.Context(), sibling(t, c, ns), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			require.NoError(t, err)
			return sizeOf(pod), sizeOf(pod) == "666m 3Gi web/3" // with a limit of 800m
		})
		scaleWeb(t, c, ns, 2)
		waitSizes(t, c, ns, "web", map[string]int{"500m 1Gi": 1, "666m 3Gi web/3": 1})
		e2e.Wait(t, "the quota's use", func() (string, bool) {
			q, err := c.Client.CoreV1().ResourceQuotas(ns).Get(t.Context(), "room", metav1.GetOptions{})
			require.NoError(t, err)
			used := q.Status.Used["requests.memory"]
			return used.String(), used.String() == "4Gi"
		})
		time.Sleep(time.Second) // until the webhook knows
		// 1 GiB is left: with the recommended size, the third would not start.
		scaleWeb(t, c, ns, 3)
		waitSizes(t, c, ns, "web", map[string]int{"500m 1Gi": 2, "666m 3Gi web/3": 1})
	})

	// ready waits until the API server gets answers again.
	ready := func(t *testing.T) {
		t.Helper()
		for _, r := range replicas {
			r.WaitReady(t)
		}
		e2e.Wait(t, "the webhook", func() (string, bool) {
			pod, err := c.Client.CoreV1().Pods(ns).Create(t.Context(), sibling(t, c, ns), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			require.NoError(t, err)
			return sizeOf(pod), strings.HasSuffix(sizeOf(pod), " web/2")
		})
	}
	create := func(t *testing.T) (size string, took time.Duration) {
		t.Helper()
		start := time.Now()
		pod, err := c.Client.CoreV1().Pods(ns).Create(t.Context(), sibling(t, c, ns), metav1.CreateOptions{})
		require.NoError(t, err)
		return sizeOf(pod), time.Since(start)
	}
	t.Run("one replica down", func(t *testing.T) {
		for i := range 6 {
			replicas[i%2].Kill(t)
			size := ""
			for range 10 { // the first may use a closed connection
				if size, _ = create(t); size == "2 3Gi web/2" {
					break
				}
			}
			require.Equal(t, "2 3Gi web/2", size)
			replicas[i%2].Restart(t)
			ready(t)
		}
	})
	t.Run("all down", func(t *testing.T) {
		for range 5 {
			for _, r := range replicas {
				r.Kill(t)
			}
			size, took := create(t)
			require.Equal(t, "500m 1Gi", size)
			require.Less(t, took, 15*time.Second)
			for _, r := range replicas {
				r.Restart(t)
			}
			ready(t)
		}
	})
	t.Run("is it reached?", func(t *testing.T) {
		ns := c.Namespace(t)
		c.CreateDeployment(t, e2e.Deployment(ns, "web", 1, "500m", "1Gi"))
		object := strings.NewReplacer("NAMESPACE", ns, "NAME", "web", "KIND", "Deployment", "MODE", "Initial").Replace(webObject)
		c.Kubectl(t, object+"  recommender: {name: asks}\n", "apply", "-f", "-")
		asks := s.startPart(t, c, "recommender", "--recommender-name=asks", "--webhook-probe=1s", "--interval=1s", "--leader-elect=false")
		is := func(want, metric string) {
			t.Helper()
			e2e.Wait(t, "WebhookReached "+want, func() (string, bool) {
				is := c.Kubectl(t, "", "get", "mpa", "web", "-n", ns, "-o", `jsonpath={.status.conditions[?(@.type=="WebhookReached")].reason}`)
				return is, is == want
			})
			require.Equal(t, metric, fmt.Sprint(asks.Metric(t, "sigma_mpa_webhook_reached")))
		}
		doctor := func(want string) {
			t.Helper()
			_, out := (&prompt{t, c, filepath.Join(c.Dir, "kubeconfig")}).run("doctor", "--namespace", mpaSystem)
			require.Regexp(t, "(?m)^webhook +"+want, out)
		}
		is("Answered", "1")
		doctor("ok +the API server reaches the autoscaler's")
		for _, r := range replicas {
			r.Kill(t)
		}
		is("NotReached", "0")
		doctor("lacks +the API server gets no answer")
		for _, r := range replicas {
			r.Restart(t)
		}
		ready(t)
		is("Answered", "1")
		requireAllowed(t, asks)
		none, err := c.Client.CoreV1().ConfigMaps(mpaSystem).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=sigma-mpa-webhook-probe"})
		require.NoError(t, err)
		require.Empty(t, none.Items, "a dry run")
		asks.Stop(t)
	})
	t.Run("slow", func(t *testing.T) {
		require.Equal(t, "2", s.timeout)
		setTimeout(t, c, s.timeout)
		defer setTimeout(t, c, "30")
		for i := range 5 {
			for _, r := range replicas {
				r.Signal(t, syscall.SIGSTOP)
			}
			if i == 0 {
				e2e.Wait(t, "the timeout to be known", func() (string, bool) { _, took := create(t); return took.String(), took < 8*time.Second })
			}
			size, took := create(t)
			require.Equal(t, "500m 1Gi", size)
			require.Less(t, took, 8*time.Second, "timeoutSeconds: 2, not the API server's own 10")
			for _, r := range replicas {
				r.Signal(t, syscall.SIGCONT)
			}
			ready(t)
		}
	})
	t.Run("certificates change", func(t *testing.T) {
		served := map[string]bool{}
		first := secretOf(t, c)
		for deadline := time.Now().Add(3 * time.Minute); len(served) < 4; {
			require.True(t, time.Now().Before(deadline), "only %d certificates", len(served))
			pod, err := c.Client.CoreV1().Pods(ns).Create(t.Context(), sibling(t, c, ns), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			require.NoError(t, err)
			require.Equal(t, "2 3Gi web/2", sizeOf(pod))
			served[string(secretOf(t, c)["tls.crt"])] = true
			for _, address := range s.replicas { // a new connection each: the API server reuses its own
				chain, _, err := cert.GetServingCertificatesForURL("https://"+address, "")
				require.NoError(t, err)
				require.NotEmpty(t, chain)
			}
			time.Sleep(200 * time.Millisecond)
		}
		require.NotEqual(t, first["tls.crt"], secretOf(t, c)["tls.crt"])
		// A leaked key is replaced at once.
		c.Kubectl(t, "", "patch", "secret", "sigma-mpa-webhook", "-n", mpaSystem, "--type=merge", "-p", `{"data":null}`)
		e2e.Wait(t, "a new certificate", func() (string, bool) {
			data := secretOf(t, c)
			authorities, err := cert.ParseCertsPEM(data["ca.crt"])
			return fmt.Sprint(err), err == nil && len(authorities) == 1
		})
		ready(t)
	})
	requireAllowed(t, replicas...)
}

func secretOf(t *testing.T, c *e2e.Cluster) map[string][]byte {
	t.Helper()
	secret, err := c.Client.CoreV1().Secrets(mpaSystem).Get(t.Context(), "sigma-mpa-webhook", metav1.GetOptions{})
	require.NoError(t, err)
	return secret.Data
}

// restrict sets what the autoscaler's namespace requires of pods.
func restrict(spec *v1.PodSpec) {
	yes, no := true, false
	spec.SecurityContext = &v1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}}
	spec.Containers[0].SecurityContext = &v1.SecurityContext{
		AllowPrivilegeEscalation: &no, Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}},
	}
}
