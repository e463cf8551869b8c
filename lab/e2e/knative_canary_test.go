//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/lab/podspace"
)

const knativeObject = `
apiVersion: autoscaling.sigma-scheduler.io/v1alpha1
kind: MultidimPodAutoscaler
metadata: {name: NAME, namespace: default}
spec:
  scaleTargetRef: {apiVersion: serving.knative.dev/v1, kind: Service, name: NAME}
  slo: {latency: {percentile: 95, target: 10s}}
  metrics: {prometheus: {server: main, queries: {}}}
  concurrency: {mode: Apply, pod: Knative, initial: 1, max: MOST}
`

// A knativeSite is Knative with Services whose pods are processes.
type knativeSite struct {
	*testing.T
	c *e2e.Cluster
	k *e2e.Knative
}

// limit of a Service's template; 0 = none.
func (s *knativeSite) limit(name string) int64 {
	s.Helper()
	n, _, err := unstructured.NestedInt64(s.k.Get(s.T, e2e.KnativeServices, "default", name).Object, "spec", "template", "spec", "containerConcurrency")
	require.NoError(s, err)
	return n
}

// status of the Service in that of its object.
func (s *knativeSite) status(name string) (phase, summary string) {
	s.Helper()
	var status struct {
		Knative struct{ Phase, Summary string }
	}
	text := statusOf(s.T, s.c, "default", name)
	require.NoError(s, json.Unmarshal([]byte(text), &status), text)
	return status.Knative.Phase, status.Knative.Summary
}

// await waits until a Service's requests are spread in a way.
func (s *knativeSite) await(name, what string, ok func(e2e.Split) bool) {
	s.Helper()
	s.awaitHistory(name, what, func(all []e2e.Split) bool { return len(all) > 0 && ok(all[len(all)-1]) })
}

// awaitEver waits until they were spread in a way, however they are now.
func (s *knativeSite) awaitEver(name, what string, ok func(e2e.Split) bool) {
	s.Helper()
	s.awaitHistory(name, what, func(all []e2e.Split) bool { return slices.ContainsFunc(all, ok) })
}

func (s *knativeSite) awaitHistory(name, what string, ok func([]e2e.Split) bool) {
	s.Helper()
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if ok(s.k.Splits("default", name)) {
			return
		}
	}
	s.Fatalf("%s: %s: the splits were %v; %s", name, what, s.k.Splits("default", name), statusOf(s.T, s.c, "default", name))
}

// tenth is a canary's share: a tenth for the second Revision.
func tenth(name string) func(e2e.Split) bool {
	return like(e2e.Split{name + "-00001": 90, name + "-00002": 10})
}

func like(want e2e.Split) func(e2e.Split) bool {
	return func(split e2e.Split) bool { return maps.Equal(split, want) }
}

// A knativeCase is a Service with its load.
type knativeCase struct {
	name       string
	pods, most int // at least; requests at once that may be tried
	function   e2e.Function
	atOnce     int // requests
	period     time.Duration
}

// On a busy machine short periods get longer: what has to come comes in many at once.
var knativeServices = []knativeCase{
	// The function loses what comes when it has no connection; queue-proxy would let that wait.
	{"better", 2, 4, e2e.Function{Wait: 50 * time.Millisecond, CPU: 4 * time.Millisecond, Connections: 4}, 4, 160 * time.Millisecond},
	// One at once is too few: a pod answers 1 a second, and queue-proxy lets 10 wait.
	{"loses", 1, 1, e2e.Function{Wait: time.Second, CPU: time.Millisecond}, 40, time.Second},
	{"stuck", 1, 310, e2e.Function{Wait: 50 * time.Millisecond, CPU: 4 * time.Millisecond}, 5, 500 * time.Millisecond},
	{"edited", 1, 310, e2e.Function{Wait: 50 * time.Millisecond, CPU: 4 * time.Millisecond}, 10, 500 * time.Millisecond},
}

// service is the Service. There is no activator to take a burst, and the pods stay as many as they are: from a time in
// which some come or go nothing is learned.
func (x *knativeCase) service() string {
	return strings.NewReplacer(
		"NAME", x.name,
		`min-scale: "2"`, fmt.Sprintf(`min-scale: "%d", autoscaling.knative.dev/max-scale: "%[1]d", autoscaling.knative.dev/target-burst-capacity: "0"`, x.pods),
		`cpu: "1", memory: 512Mi`, "cpu: 250m, memory: 2Gi",
	).Replace(knativeService)
}

// TestKnative: the autoscaler, with the rights of the manifests, learns of four Services whose pods are functions behind
// queue-proxy, and tries what it learned on a tenth of their requests. One gets half and then all of them, one
// is taken back as it loses requests, one as its pods never become ready, and one as its owner writes
// another template meanwhile. The autoscaler is killed in the middle, and its parts go on as processes of
// their own.
func TestKnative(t *testing.T) {
	if lack := podspace.Missing(); len(lack) > 0 {
		if os.Getenv("SIGMA_CGROUPS") != "" {
			t.Fatalf("SIGMA_CGROUPS is set, and what is missing: %s", strings.Join(lack, ", "))
		}
		t.Skipf("pods cannot be processes without %s", strings.Join(lack, ", "))
	}
	c := ownCluster(t)
	c.InstallMetricsAPI(t)
	s := installMPA(t, c, "mpa/apart")
	knativeRights(t, c)
	site := &knativeSite{T: t, c: c, k: c.StartKnative(t)}
	pods := site.k.StartPods(t, func(pod *v1.Pod) e2e.Function {
		i := slices.IndexFunc(knativeServices, func(x knativeCase) bool { return x.name == pod.Labels["serving.knative.dev/service"] })
		return knativeServices[i].function
	})

	for _, x := range knativeServices {
		c.Kubectl(t, x.service(), "apply", "-f", "-")
	}
	clients := map[string]*e2e.Client{}
	for _, x := range knativeServices {
		require.Equal(t, x.name+"-00001", site.k.WaitReady(t, "default", x.name))
		clients[x.name] = pods.StartClient(t, "default", x.name, x.atOnce, x.period)
	}
	c.Kubelet.Hold(func(pod *v1.Pod) bool { return pod.Labels["serving.knative.dev/revision"] == "stuck-00002" })
	prometheus := pods.StartPrometheus(t)

	recommends := []string{"--interval=1s", "--cool-down=2s", e2e.PrometheusServers(t, map[string]string{"main": prometheus.URL})}
	updates := []string{"--canary-ready=2m", "--canary-least=10s", "--canary-longest=5m"}
	one := s.startPart(t, c, "all", slices.Concat(recommends, updates)...)
	begin := time.Now()
	for _, x := range knativeServices {
		c.Kubectl(t, strings.NewReplacer("NAME", x.name, "MOST", fmt.Sprint(x.most)).Replace(knativeObject), "apply", "-f", "-")
	}
	for _, name := range []string{"better", "loses", "edited"} {
		site.awaitEver(name, "a canary", tenth(name))
		if name == "better" { // before it is judged: more at once than there are connections, with half of the requests too
			clients[name].Send(48, 960*time.Millisecond)
		}
	}
	t.Logf("canaries after %v", time.Since(begin))
	one.Kill(t)
	patchKnative(t, c, e2e.KnativeServices, "edited", `{"spec": {"template": {"metadata": {"annotations": {"example.org/edition": "2"}}}}}`)
	requireAllowed(t, one)
	apart := []*e2e.MPA{s.startPart(t, c, "recommender", recommends...), s.startPart(t, c, "updater", updates...)}

	// What was taken back ends with all requests at another Revision with the former numbers; of the edited
	// one with the owner's change.
	for name, last := range map[string]string{"better": "00002", "loses": "00003", "stuck": "00003", "edited": "00004"} {
		site.await(name, "the end", like(e2e.Split{name + "-" + last: 100}))
		t.Logf("%s after %v: %v", name, time.Since(begin), site.k.Splits("default", name))
	}
	require.Positive(t, site.limit("better"))
	require.Equal(t, []e2e.Split{{"better-00001": 100}, {"better-00001": 90, "better-00002": 10}, {"better-00001": 50, "better-00002": 50}, {"better-00002": 100}}, site.k.Splits("default", "better"))
	require.Equal(t, []e2e.Split{{"loses-00001": 100}, {"loses-00001": 90, "loses-00002": 10}, {"loses-00001": 100}, {"loses-00003": 100}}, site.k.Splits("default", "loses"))
	require.Equal(t, []e2e.Split{{"stuck-00001": 100}, {"stuck-00003": 100}}, site.k.Splits("default", "stuck"))
	for _, split := range site.k.Splits("default", "edited") {
		require.LessOrEqual(t, split["edited-00002"], 50, split)
		require.LessOrEqual(t, split["edited-00003"], 50, split)
	}
	edition, _, err := unstructured.NestedString(site.k.Get(t, e2e.KnativeServices, "default", "edited").Object, "spec", "template", "metadata", "annotations", "example.org/edition")
	require.NoError(t, err)
	require.Equal(t, "2", edition)
	for name, want := range map[string]string{"better": "Promoted", "loses": "RolledBack", "stuck": "RolledBack", "edited": "RolledBack"} {
		e2e.Wait(t, "the status of "+name, func() (string, bool) {
			phase, summary := site.status(name)
			return phase + ": " + summary, phase == want
		})
		if name != "better" {
			require.Zero(t, site.limit(name), name)
		}
	}
	for name, why := range map[string]string{
		"better": "of its requests were lost or late", "loses": " lost ", "stuck": "it has not become ready within 2m0s", "edited": "others have changed the template",
	} {
		_, summary := site.status(name)
		require.Contains(t, summary, why, name)
	}
	events := c.Kubectl(t, "", "get", "events", "-n", "default", "-o", `jsonpath={range .items[*]}{.involvedObject.name} {.reason} {.message}{"\n"}{end}`)
	require.Regexp(t, `better KnativePromoted `, events)
	requireAllowed(t, apart...)

	// Nothing is lost that the Revision of before would have answered, but for what a canary lost by itself until it was taken back.
	promoted := clients["better"].Tallies()["better-00002"].Answered
	e2e.Wait(t, "requests after the promotion", func() (string, bool) {
		is := clients["better"].Tallies()
		return fmt.Sprint(is), is["better-00002"].Answered >= promoted+200
	})
	for name, client := range clients {
		tallies := client.Tallies()
		t.Logf("%s: %+v", name, tallies)
		for revision, n := range tallies {
			switch revision {
			case "better-00001":
				require.Positive(t, n.Full, "it has no limit")
				require.Zero(t, n.Lost, "%s: %s", revision, client.Lost())
			case "loses-00002":
				require.Positive(t, n.Lost, "queue-proxy has too many waiting")
				require.Less(t, float64(n.Lost), .1*float64(tallies["loses-00001"].Answered), "a canary has a tenth")
			default:
				require.Zero(t, n.Full+n.Lost, "%s: %s", revision, client.Lost())
			}
		}
	}
}
