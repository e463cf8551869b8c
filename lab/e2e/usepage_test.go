//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa/batch"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// mpaObjects has the algorithms and modes of a namespace's objects, by name.
func mpaObjects(t *testing.T, c *e2e.Cluster, ns string) string {
	t.Helper()
	return strings.TrimSpace(c.Kubectl(t, "", "get", "mpa", "-n", ns, "-o", `jsonpath={range .items[*]}{.metadata.name}:{.spec.recommender.algorithm}:{.spec.mode} {end}`))
}

// TestNamespacesByUse: with exactly the rights of the component, a label makes objects that observe, and then act beside a
// HorizontalPodAutoscaler; without it everything is as before.
func TestNamespacesByUse(t *testing.T) {
	c := ownCluster(t)
	s := installMPA(t, c, "mpa")
	c.Kubectl(t, "", "apply", "-f", filepath.Join(repository, "manifests", "mpa", "usage", "rbac.yaml"))
	ns := c.Namespace(t)
	c.CreateDeployment(t, e2e.Deployment(ns, "web", 2, "500m", "256Mi"))
	c.WaitRunning(t, ns, 2)
	c.Kubectl(t, "", "autoscale", "deployment", "web", "-n", ns, "--cpu-percent=60", "--min=1", "--max=5")
	h, err := c.Client.AutoscalingV2().HorizontalPodAutoscalers(ns).Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	all := s.startPart(t, c, "all", "--interval=1s", "--cool-down=2s", "--usage-namespaces")
	c.Kubectl(t, "", "label", "namespace", ns, "autoscaling.sigma-scheduler.io/usage=Observe")
	e2e.Wait(t, "an object that observes", func() (string, bool) {
		is := mpaObjects(t, c, ns)
		return is, is == "deployment-web:usage:Off"
	})
	c.Kubectl(t, "", "label", "namespace", ns, "--overwrite", "autoscaling.sigma-scheduler.io/usage=Apply")
	e2e.Wait(t, "an object that acts", func() (string, bool) {
		is := mpaObjects(t, c, ns)
		return is, is == "deployment-web:usage:InPlace"
	})
	c.Kubectl(t, "", "label", "namespace", ns, "autoscaling.sigma-scheduler.io/usage-")
	e2e.Wait(t, "no object", func() (string, bool) { is := mpaObjects(t, c, ns); return is, is == "" })
	after, err := c.Client.AutoscalingV2().HorizontalPodAutoscalers(ns).Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, h.Spec, after.Spec)
	require.Equal(t, autoscalingv2.UtilizationMetricType, after.Spec.Metrics[0].Resource.Target.Type)
	requireAllowed(t, all)
	log, err := os.ReadFile(all.Log)
	require.NoError(t, err)
	require.NotContains(t, string(log), "ERROR", fmt.Sprint(all.Name))
}

// A latePrometheus has an address before it starts, since its series have the names of pods that exist then.
type latePrometheus struct {
	URL    string
	target atomic.Pointer[url.URL]
}

func newLatePrometheus(t *testing.T) *latePrometheus {
	p := &latePrometheus{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := p.target.Load()
		if to == nil {
			http.Error(w, "it has not started", http.StatusServiceUnavailable)
			return
		}
		(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			password, _ := to.User.Password()
			r.SetURL(to)
			r.Out.SetBasicAuth(to.User.Username(), password)
		}}).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

func (p *latePrometheus) start(t *testing.T, series []e2e.PastSeries) {
	t.Helper()
	to, err := url.Parse(e2e.StartPrometheusOfPast(t, time.Minute, series).URL)
	require.NoError(t, err)
	p.target.Store(to)
}

// TestUsePage runs the commands of docs/use.md: requests change in place beside a HorizontalPodAutoscaler, the scheduler
// packs by them, relief moves one pod, batch work runs on what is left and leaves first, and all of it goes back.
func TestUsePage(t *testing.T) {
	c := e2e.StartCluster(t)
	installSigma(t, c)
	grant(t, c, "rebalance")
	c.InstallMetricsAPI(t)
	late := newLatePrometheus(t)
	c.StartScheduler(t, scheduler, sigmaConfig(true, fmt.Sprintf("rebalancePrometheus: %q", late.URL)))
	s, startBatch := installBatch(t, c)
	c.Kubectl(t, "", "apply", "-f", filepath.Join(repository, "manifests", "mpa", "usage", "rbac.yaml"))
	c.Kubectl(t, "", "create", "namespace", "shop")
	c.Kubectl(t, "", "create", "namespace", "etl")

	cores, last := map[string]float64{"web": .2, "hot": 3.6}, time.Now().Unix()/60*60
	c.CreateNodes(t, e2e.Node("one", "8", "32Gi"))
	c.CreateDeployment(t, e2e.Deployment("shop", "web", 6, "1", "1Gi"))
	c.CreateDeployment(t, e2e.Deployment("etl", "hot", 2, "500m", "1Gi"))
	c.WaitRunning(t, "shop", 6)
	c.WaitRunning(t, "etl", 2)
	c.CreateNodes(t, e2e.Node("two", "8", "32Gi"))
	c.Kubectl(t, "", "autoscale", "deployment", "web", "-n", "shop", "--cpu-percent=60", "--min=1", "--max=6")
	hpa := func() autoscalingv2.HorizontalPodAutoscalerSpec {
		h, err := c.Client.AutoscalingV2().HorizontalPodAutoscalers("shop").Get(t.Context(), "web", metav1.GetOptions{})
		require.NoError(t, err)
		return h.Spec
	}
	was := hpa()
	var series []e2e.PastSeries
	var online []*v1.Pod
	for _, ns := range []string{"shop", "etl"} {
		for _, p := range c.Pods(ns) {
			past := e2e.PastSeries{From: last - 29*86400, Until: last + 7200, Noise: .01, Seed: uint64(len(series))}
			series = append(series, past.Container(ns, p.Name, "main", "/kubepods/"+p.Name, cores[p.Labels["app"]], 300<<20)...)
			online = append(online, p)
		}
	}
	late.start(t, series)
	var used atomic.Int64 // of each pod, for the metrics API
	used.Store(200)
	feed(t, c, online, &used)
	servers := filepath.Join(t.TempDir(), "servers.yaml")
	require.NoError(t, os.WriteFile(servers, fmt.Appendf(nil, "servers: [{name: default, url: %q}]\n", late.URL), 0o600))
	programs := []*e2e.MPA{
		s.startPart(t, c, "recommender", "--interval=1s", "--cool-down=2s", "--patience=2s", "--usage-namespaces", "--prometheus-servers="+servers),
		s.startPart(t, c, "updater"), s.startPart(t, c, "admission"),
	}

	page := openPage(t, c, "use.md")
	page.edit = func(text string) string {
		return strings.ReplaceAll(text, "http://prometheus.monitoring:9090", late.URL)
	}
	require.Contains(t, page.run(t, "Look", 1), "size pods by their use")

	requests := func(app string) string {
		var list []string
		for _, p := range c.Pods("shop") {
			if p.Labels["app"] == app && p.DeletionTimestamp == nil {
				list = append(list, p.Spec.Containers[0].Resources.Requests.Cpu().String())
			}
		}
		return strings.Join(list, " ")
	}
	uidsOf := func() map[string]bool {
		all := map[string]bool{}
		for _, p := range c.Pods("shop") {
			all[string(p.UID)] = true
		}
		return all
	}
	before := uidsOf()
	const section = "Honest requests"
	page.run(t, section, 1)
	e2e.Wait(t, "a recommendation", func() (string, bool) {
		is := c.Kubectl(t, "", "get", "mpa", "-n", "shop")
		return is, regexp.MustCompile(`(?m)^deployment-web +Off .* 2\d\dm `).MatchString(is)
	})
	shown := page.run(t, section, 1)
	require.Regexp(t, `deployment-web: usage: main: cpu 2\d\dm \(use\), memory 3\d\dMi \(use\); 28 days`, shown)
	require.Equal(t, "1 1 1 1 1 1", requests("web"), "Observe changes nothing")
	require.Equal(t, was, hpa())

	page.run(t, section, 1)
	e2e.Wait(t, "honest requests", func() (string, bool) {
		is := requests("web")
		return is, regexp.MustCompile(`^(2\d\dm ?){6}$`).MatchString(is)
	})
	require.Equal(t, before, uidsOf(), "in place")
	require.Equal(t, 6, strings.Count(page.run(t, section, 1), "web-"))
	require.Equal(t, "600m", hpa().Metrics[0].Resource.Target.AverageValue.String())
	e2e.Wait(t, "what kubelets have set aside", func() (string, bool) {
		large := 0
		for _, p := range c.Pods("shop") {
			if list := p.Status.ContainerStatuses; len(list) == 0 || list[0].Resources == nil || list[0].Resources.Requests.Cpu().MilliValue() >= 300 || list[0].AllocatedResources.Cpu().MilliValue() >= 300 {
				large++
			}
		}
		return fmt.Sprint(large), large == 0
	})
	// The scheduler packs by them: beside the requests of before there was no room.
	c.CreateDeployment(t, e2e.Deployment("shop", "more", 1, "3", "1Gi"))
	c.WaitRunning(t, "shop", 7)
	for name, node := range c.Placements("shop") {
		require.Equal(t, "one", node, name)
	}

	page.run(t, "Relief", 1)
	planned := waitRebalance(t, c, "relief", "a pod that would move", func(r v1alpha1.Rebalance) bool { return r.Status.Plan != nil && len(r.Status.Plan.Leaves) == 1 })
	require.Equal(t, "two", planned.Status.Plan.Leaves[0].To)
	require.Regexp(t, "^etl/hot-", planned.Status.Plan.Leaves[0].Pod)
	page.run(t, "Relief", 1)
	waitRebalance(t, c, "relief", "the move", func(r v1alpha1.Rebalance) bool { return r.Status.Progress != nil && r.Status.Progress.Moved == 1 })
	moved := 0
	for _, node := range c.Placements("etl") {
		if node == "two" {
			moved++
		}
	}
	require.Equal(t, 1, moved)

	var later []*v1.Pod // which the Prometheus does not have
	for _, p := range slices.Concat(c.Pods("shop"), c.Pods("etl")) {
		if !slices.ContainsFunc(online, func(o *v1.Pod) bool { return o.UID == p.UID }) {
			later = append(later, p)
		}
	}
	require.Len(t, later, 2)
	feed(t, c, later, &used)
	startBatch("Apply")
	batchPods := func() (names []string) {
		for _, p := range c.Pods("shop") {
			if p.Labels["app"] == "report" && p.Spec.NodeName != "" && p.DeletionTimestamp == nil && p.Status.Phase == v1.PodRunning {
				require.Equal(t, "1k", p.Spec.Containers[0].Resources.Requests.Name(batch.CPU, "").String())
				names = append(names, p.Name)
			}
		}
		return names
	}
	e2e.Wait(t, "cpu for batch work", func() (string, bool) {
		n, err := c.Client.CoreV1().Nodes().Get(t.Context(), "two", metav1.GetOptions{})
		require.NoError(t, err)
		q := n.Status.Allocatable[batch.CPU]
		return q.String(), q.Value() >= 2000
	})
	page.run(t, "Batch work", 1)
	e2e.Wait(t, "batch pods", func() (string, bool) { is := batchPods(); return fmt.Sprint(is), len(is) == 2 })
	used.Store(8000) // of each: all of both nodes
	e2e.Wait(t, "batch pods that leave", func() (string, bool) { is := batchPods(); return fmt.Sprint(is), len(is) == 0 })
	require.Len(t, c.Pods("etl"), 2)
	require.Len(t, strings.Fields(requests("web")+" "+requests("more")), 7, "online pods stay")
	used.Store(200)

	page.run(t, "The way back", 1)
	require.Empty(t, page.blocks)
	e2e.Wait(t, "no object", func() (string, bool) { is := mpaObjects(t, c, "shop"); return is, is == "" })
	require.Equal(t, "1 1 1 1 1 1", requests("web"))
	require.Equal(t, was, hpa())
	requireAllowed(t, programs...)
	c.RequireFits(t)
}
