//go:build e2e

package e2e_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

const limitObject = `
apiVersion: autoscaling.sigma-scheduler.io/v1alpha1
kind: MultidimPodAutoscaler
metadata: {name: web, namespace: NAMESPACE}
spec:
  scaleTargetRef: {kind: Deployment, name: web}
  constraints: {replicas: {min: 2, max: 2}, containers: [{name: main}]}
  recommender: {algorithm: static}
  slo: {latency: {percentile: 95, target: 1s}}
  metrics:
    prometheus:
      server: main
      queries: {latency: 'histogram_quantile(.95, sum by (le) (rate(http_request_duration_seconds_bucket{namespace="$namespace", pod=~"$pods"}[5s])))'}
  concurrency: {mode: Apply, memoryShare: 0.9}
`

// gated are the gates of a workload's pods, each a process before the same function, and their
// downward API: the annotation of a pod becomes the limit's file at once.
type gated struct {
	*testing.T
	c    *e2e.Cluster
	ns   string
	dir  string
	page string // host:port, where all gates' metrics are with the labels of a PodMonitor

	mu      sync.Mutex
	gates   map[string]*gateProcess // by pod
	written map[string]limitFile    // what a pod's file says
}

// limitFile is a file of a pod's limit and when it was written.
type limitFile struct {
	limit string
	at    time.Time
}

type gateProcess struct {
	*e2e.Process
	listen, metrics string
}

func startGates(t *testing.T, c *e2e.Cluster, ns, function string) *gated {
	t.Helper()
	g := &gated{T: t, c: c, ns: ns, dir: t.TempDir(), gates: map[string]*gateProcess{}, written: map[string]limitFile{}}
	for _, pod := range c.Pods(ns) {
		p := &gateProcess{listen: fmt.Sprintf("127.0.0.1:%d", e2e.FreePort(t)), metrics: fmt.Sprintf("127.0.0.1:%d", e2e.FreePort(t))}
		g.project(pod)
		p.Process = e2e.StartProcess(t, "gate-"+pod.Name, e2e.Program(t, "sigma-gate"), "--target="+function,
			"--listen="+p.listen, "--metrics="+p.metrics, "--admin=", "--limit-file="+g.file(pod.Name), "--linger=0s", "--drain=1s")
		g.gates[pod.Name] = p
	}
	page := httptest.NewServer(g)
	t.Cleanup(page.Close)
	g.page = strings.TrimPrefix(page.URL, "http://")
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			for _, pod := range c.Pods(ns) {
				g.project(pod)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return g
}

func (g *gated) file(pod string) string { return filepath.Join(g.dir, pod) }

// project writes the file of a pod's limit, if it differs, as a kubelet does.
func (g *gated) project(pod *v1.Pod) {
	want := pod.Annotations[v1alpha1.AnnotationLimit]
	is, err := os.ReadFile(g.file(pod.Name))
	if err == nil && string(is) == want {
		return
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		g.Error(err)
		return
	}
	if err := os.WriteFile(g.file(pod.Name)+".new", []byte(want), 0o600); err != nil {
		g.Error(err)
		return
	}
	if err := os.Rename(g.file(pod.Name)+".new", g.file(pod.Name)); err != nil {
		g.Error(err)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.written[pod.Name] = limitFile{want, time.Now()}
}

// ServeHTTP is the page for Prometheus.
func (g *gated) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	for pod, p := range g.gates {
		response, err := http.Get("http://" + p.metrics + "/metrics")
		if err != nil {
			continue // killed
		}
		lines := bufio.NewScanner(response.Body)
		for lines.Scan() {
			name, value, ok := strings.Cut(lines.Text(), " ")
			if !ok || !strings.HasPrefix(name, "sigma_gate_") {
				continue
			}
			labels := fmt.Sprintf("namespace=%q,pod=%q", g.ns, pod)
			if base, own, has := strings.Cut(strings.TrimSuffix(name, "}"), "{"); has {
				name, labels = base, labels+","+own
			}
			fmt.Fprintf(w, "%s{%s} %s\n", name, labels, value)
		}
		_ = response.Body.Close()
	}
}

// annotations are the limits of the pods, by pod.
func (g *gated) annotations() map[string]string {
	all := map[string]string{}
	for _, pod := range g.c.Pods(g.ns) {
		all[pod.Name] = pod.Annotations[v1alpha1.AnnotationLimit]
	}
	return all
}

// awaitLimit waits until all pods have a limit of which ok is true and their gates keep it, and
// returns it. No gate may lag behind its annotation for more than 2 s.
func (g *gated) awaitLimit(what string, ok func(string) bool) string {
	g.Helper()
	for end := time.Now().Add(6 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		has, same := "", true
		for pod, limit := range g.annotations() {
			same = same && (has == "" || has == limit)
			has = limit
			g.mu.Lock()
			last := g.written[pod] // may still be that of the annotation before
			g.mu.Unlock()
			if p := g.gates[pod]; p.Alive() {
				is := fmt.Sprint(g.limit(p))
				same = same && is == limit
				if since := time.Since(last.at); last.limit == limit && since > 2*time.Second && since < time.Minute && g.annotations()[pod] == limit { // and not just written
					require.Equal(g, limit, is, "%v after the annotation", since)
				}
			}
		}
		if same && has != "" && ok(has) {
			return has
		}
	}
	g.Fatalf("%s: the limits are %v; %s", what, g.annotations(), statusOf(g.T, g.c, g.ns, "web"))
	return ""
}

func (g *gated) fileOf(pod string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.written[pod].limit
}

// limit in force in a gate; -1 = it does not answer.
func (g *gated) limit(p *gateProcess) int {
	response, err := http.Get("http://" + p.metrics + "/metrics")
	if err != nil {
		return -1
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		n := 0
		if _, err := fmt.Sscanf(lines.Text(), "sigma_gate_limit %d", &n); err == nil {
			return n
		}
	}
	return -1
}

// Two autoscalers that both lead, with the rights of the manifests, learn the limit of pods behind
// gates, apply it, take it back when pods lose requests at it, and end where a user sets another.
// One of them is killed between its first write and the last.
func TestMPALimits(t *testing.T) {
	c := ownCluster(t)
	c.InstallMetricsAPI(t)
	s := installMPA(t, c, "mpa")
	for _, file := range []string{"rbac.yaml", "admission.yaml"} {
		c.Kubectl(t, "", "apply", "-f", filepath.Join(repository, "manifests", "mpa", "limits", file))
	}
	const ns = "default"
	d := e2e.Deployment(ns, "web", 2, "1", "1Gi")
	d.Spec.Template.Annotations = map[string]string{v1alpha1.AnnotationLimit: "20"}
	c.CreateDeployment(t, d)
	c.WaitRunning(t, ns, 2)

	// 10 ms of cpu, as the metrics API says, and 40 ms of waiting. Killed is a function that ends in
	// the middle of requests.
	var killed atomic.Bool
	var lost, requests atomic.Int64
	function := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		time.Sleep(50 * time.Millisecond)
		if killed.Load() && requests.Add(1)%5 == 0 {
			panic(http.ErrAbortHandler)
		}
	}))
	defer function.Close()
	const rate = 60
	load := c.StartWorkload(t, e2e.WorkloadSpec{Namespace: ns, App: "web", CPUSeconds: .01, WaitSeconds: .04, Load: e2e.Steps(time.Hour, 2*rate)})
	load.FeedMetricsAPI(t)
	g := startGates(t, c, ns, function.URL)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var clients sync.WaitGroup
	defer clients.Wait()
	defer cancel()
	for _, p := range g.gates {
		clients.Go(func() {
			ticks := time.NewTicker(time.Second / rate)
			defer ticks.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticks.C:
				}
				clients.Go(func() {
					// A gate sends no such request twice.
					response, err := http.Post("http://"+p.listen+"/", "text/plain", strings.NewReader("one"))
					if err != nil {
						lost.Add(1)
						return
					}
					_ = response.Body.Close()
				})
			}
		})
	}
	prometheus := e2e.StartPrometheus(t, load.Target, g.page)

	flags := []string{"--interval=1s", "--cool-down=2s", "--leader-elect=false", e2e.PrometheusServers(t, map[string]string{"main": prometheus.URL})}
	leaders := []*e2e.MPA{s.startPart(t, c, "all", flags...), s.startPart(t, c, "all", flags...)}
	c.Kubectl(t, strings.ReplaceAll(limitObject, "NAMESPACE", ns), "apply", "-f", "-")

	// Killed between writing and reading back: as soon as a pod has another limit.
	for end := time.Now().Add(6 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		changed := 0
		for _, limit := range g.annotations() {
			if limit != "20" {
				changed++
			}
		}
		if changed > 0 {
			leaders[0].Kill(t)
			break
		}
		require.True(t, time.Now().Before(end), "nothing was applied: %s", statusOf(t, c, ns, "web"))
	}
	killed.Store(true)
	lower := g.awaitLimit("a lower limit", func(limit string) bool { return limit != "20" })
	leaders[0].Restart(t)
	leaders[0].WaitReady(t)
	t.Logf("learned: %s", lower)

	// A gate that is killed has the limit again before its first request.
	for pod, p := range g.gates {
		before := g.fileOf(pod)
		p.Restart(t)
		var is int
		e2e.Wait(t, "the gate", func() (string, bool) {
			is = g.limit(p)
			return "", is >= 0
		})
		require.Contains(t, []string{before, g.fileOf(pod)}, fmt.Sprint(is)) // where it is taken back meanwhile
		break
	}

	g.awaitLimit("taken back", func(limit string) bool { return limit == "20" })
	killed.Store(false)
	status := statusOf(t, c, ns, "web")
	require.Contains(t, status, `"from":20,`)
	require.Contains(t, status, "of the requests failed")
	events := c.Kubectl(t, "", "get", "events", "-n", ns, "-o", `jsonpath={range .items[*]}{.reason} {.message}{"\n"}{end}`)
	require.Contains(t, events, "Recommended "+lower+" requests at once instead of what there is: ")
	require.Regexp(t, `LimitApplied recommendation \d+: `, events)
	require.Regexp(t, `LimitWorse 20 requests at once, not \d+: `, events) // which may be a later one

	// A user's number stands.
	pod := c.Pods(ns)[0].Name
	c.Kubectl(t, "", "annotate", "pod", pod, "-n", ns, "--overwrite", v1alpha1.AnnotationLimit+"=33")
	e2e.Wait(t, "the end of ours", func() (string, bool) {
		status := statusOf(t, c, ns, "web")
		return status, strings.Contains(status, `"ended":"pod `+pod+`: kubectl-annotate set the annotation`) && strings.Contains(status, `"reason":"not applied: pod `+pod)
	})
	time.Sleep(5 * time.Second)
	require.Equal(t, "33", g.annotations()[pod])
	require.Equal(t, 33, g.limit(g.gates[pod]))
	require.Contains(t, c.Kubectl(t, "", "get", "events", "-n", ns, "-o", `jsonpath={range .items[*]}{.reason} {.message}{"\n"}{end}`), "LimitEnded pod "+pod)
	t.Logf("%d requests lost", lost.Load())
	requireAllowed(t, leaders...)
}

// The right to patch pods is good for the limit and nothing else, of the account of either form.
func TestMPALimitRight(t *testing.T) {
	c := ownCluster(t)
	c.Kubectl(t, "", "apply", "-k", filepath.Join(repository, "manifests", "mpa", "base"))
	for _, file := range []string{"rbac.yaml", "admission.yaml"} {
		c.Kubectl(t, "", "apply", "-f", filepath.Join(repository, "manifests", "mpa", "limits", file))
	}
	const ns = "default"
	c.CreateDeployment(t, e2e.Deployment(ns, "web", 1, "1", "1Gi"))
	c.WaitRunning(t, ns, 1)
	pod := c.Pods(ns)[0].Name
	for _, name := range []string{"sigma-mpa", "sigma-mpa-updater"} {
		config, err := clientcmd.BuildConfigFromFlags("", accountKubeconfig(t, c, mpaSystem, name))
		require.NoError(t, err)
		account, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		patch := func(text string) error { // without reading the pod first, as kubectl does
			kind := types.MergePatchType
			if strings.HasPrefix(text, "[") {
				kind = types.JSONPatchType
			}
			_, err := account.CoreV1().Pods(ns).Patch(t.Context(), pod, kind, []byte(text), metav1.PatchOptions{})
			return err
		}
		const limit = `{"metadata":{"annotations":{"sigma-scheduler.io/concurrency":"34"}}}`
		e2e.Wait(t, "the right", func() (string, bool) {
			err := patch(limit)
			return fmt.Sprint(err), err == nil
		})
		const only = "sigma-mpa sets the annotation sigma-scheduler.io/concurrency of a pod, and changes nothing else"
		e2e.Wait(t, "the policy", func() (string, bool) {
			err := patch(fmt.Sprintf(`{"metadata":{"labels":{"more":"%d"}}}`, time.Now().UnixNano())) // until it is refused
			return fmt.Sprint(err), err != nil && strings.Contains(err.Error(), only)
		})
		for _, change := range []string{
			`[{"op":"replace","path":"/spec/containers/0/image","value":"another"}]`,
			`{"spec":{"activeDeadlineSeconds":1}}`,
			`{"metadata":{"labels":{"app":"another"}}}`,
			`{"metadata":{"labels":null}}`,
			`{"metadata":{"finalizers":["example.com/x"]}}`,
			`{"metadata":{"ownerReferences":null}}`,
			`{"metadata":{"annotations":{"example.com/x":"1"}}}`,
			`{"metadata":{"annotations":{"sigma-scheduler.io/concurrency":"7","example.com/x":"1"}}}`,
			`{"metadata":{"annotations":{"sigma-scheduler.io/concurrency":null}}}`,
		} {
			require.ErrorContains(t, patch(change), only, change)
		}
		require.NoError(t, patch(limit))
	}
	c.Kubectl(t, "", "label", "pod", pod, "-n", ns, "more=y", "--overwrite") // others may
}
