package snapshot

import (
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/internal/usage/prometheus"
	"github.com/sigma-scheduler/sigma/internal/usage/prometheus/prometheustest"
)

const gib = 1 << 30

func asksMemory(text string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse(text) }
}

func ofKind(kind string) func(*v1.Pod) { return func(p *v1.Pod) { p.OwnerReferences[0].Kind = kind } }

// today is the day 20,000: whole days before it are over.
var today = time.Unix(20000*86400+43200, 0)

// uses is a container of a pod with the same use from some days before today on to others.
func uses(pod string, from, until int, cpu, gibs float64) prometheustest.Series {
	during := func(v float64) func(int64) float64 {
		return func(step int64) float64 {
			if d := int(step/288) - 20000; d < -from || d >= -until {
				return -1
			}
			return v
		}
	}
	return prometheustest.Series{Namespace: "shop", Pod: pod, Container: "c", CPU: during(cpu), Memory: during(gibs * gib)}
}

func recordOf(t *testing.T, series ...prometheustest.Series) *prometheus.Record {
	t.Helper()
	server := httptest.NewServer(&prometheustest.Fake{Series: series})
	defer server.Close()
	rec, err := (&prometheus.Reader{URLs: []string{server.URL}, Folder: t.TempDir()}).Read(t.Context(), today, 28)
	require.NoError(t, err)
	return rec
}

func byUse(t *testing.T, p *Picture, opt UseOptions, series ...prometheustest.Series) (*trace.Trace, map[string]WorkloadUse, *UseReport) {
	t.Helper()
	tr, _ := snap(t, p)
	opt.JudgeDays, opt.LeastDays = 7, 14
	by, r, err := p.ByUse(tr, recordOf(t, series...), opt)
	require.NoError(t, err)
	of := map[string]WorkloadUse{}
	for _, w := range r.Workloads {
		of[w.App] = w
	}
	return by, of, r
}

// The sizes are of the first three weeks, the judge is the last one; who lacks a history
// counts by request and is named, and who is above the request comes first.
func TestByUse(t *testing.T) {
	const app = "shop/Deployment/web@cpu=1,memory=2Gi"
	two := asksMemory("2Gi")
	p := picture([]*v1.Node{node("n1"), node("n2")},
		pod("web", "web-1", "n1", "1", two), pod("hot", "hot-5d8f-x2k9p", "n1", "1", two), pod("new", "new-1", "n2", "1", two),
		pod("tick", "tick-1", "n2", "1", two, ofKind("Job")), pod("blind", "blind-1", "n2", "1", two),
		pod("agent", "agent-x2k9p", "n1", "0", ofDaemonSet),
	)
	series := []prometheustest.Series{
		uses("web-1", 28, 7, .25, .5), uses("web-1", 7, 0, .75, .75), // busier in the judged week
		uses("hot-5d8f-x2k9p", 3, 0, 1.5, 1), uses("hot-5d8f-zzzzz", 28, 3, 1.5, 1), // restarted under another name
		uses("new-1", 19, 0, .0146865845, 1), uses("tick-1", 28, 0, .1, 1), uses("agent-x2k9p", 28, 0, .5, 1), uses("stray", 28, 0, .25, 1),
	}
	by, of, r := byUse(t, p, UseOptions{}, series...)

	web := of[app]
	assert.InEpsilon(t, .25, web.Size.CPU, .011)
	assert.InEpsilon(t, 1.15*.5*gib, web.Size.Memory, .001)
	assert.Equal(t, 1, web.Pods)
	hot := of["shop/Deployment/hot@cpu=1,memory=2Gi"]
	assert.Equal(t, usage.Above, hot.Size.CPUReason)
	assert.Equal(t, 21, hot.Size.Days)
	assert.Equal(t, usage.Short, of["shop/Deployment/new@cpu=1,memory=2Gi"].Size.CPUReason)
	assert.InDelta(t, 1, of["shop/Deployment/new@cpu=1,memory=2Gi"].Size.CPU, 0)
	assert.Equal(t, usage.Job, of["shop/Job/tick@cpu=1,memory=2Gi"].Size.CPUReason)
	assert.Equal(t, usage.NoMetrics, of["shop/Deployment/blind@cpu=1,memory=2Gi"].Size.CPUReason)

	text := strings.Join(r.Text(), "\n")
	assert.True(t, strings.HasPrefix(text, "1 of 5 apps use more than they request:\n  shop/Deployment/hot@cpu=1,memory=2Gi, request cpu 1, memory 2048 Mi: cpu 1.5"), text)
	assert.Contains(t, text, "pods of every node use more than they request, and nodes have less room than they count: shop/DaemonSet/agent\n")
	assert.Contains(t, text, "use of 21 days from 2024-09-06 to 2024-09-26, judged on 7 more to 2024-10-03; samples cover 100.0 % of the time")
	assert.Contains(t, text, "3 of 5 apps count by request\n  a Job: shop/Job/tick@cpu=1,memory=2Gi\n  no metrics: shop/Deployment/blind@cpu=1,memory=2Gi\n  too few days of history: shop/Deployment/new@cpu=1,memory=2Gi")
	assert.Contains(t, text, "% of the cpu in use was of pods whose workload is not known\n")
	assert.NotContains(t, text, "without a pod now")
	assert.Contains(t, text, "samples cover 80.0 % of the pods' time in the judged days\n", "one of five has none")

	// The trace comes back from its files, and its usage is that of the last week.
	dir := t.TempDir() + "/by"
	require.NoError(t, by.Write(dir))
	again, err := trace.Load(dir)
	require.NoError(t, err)
	assert.True(t, sized.BySize(again))
	u, err := again.Usage()
	require.NoError(t, err)
	from, until := u.Span()
	assert.Equal(t, []float64{0, 7 * 86400}, []float64{from, until})
	for _, s := range u.Series {
		if again.Instance.Apps[s.App].Name == app && again.Instance.Dimensions[s.Dimension].Name == "cpu" {
			assert.InEpsilon(t, .75, float64(s.At(3600)), .001)
		}
	}
	source := again.Source["sizes"].(map[string]any)
	assert.InDelta(t, r.Unknown, source["unknown"], 1e-4)
	assert.InDelta(t, .8, source["covered"], 1e-9)
	for _, none := range []string{"beyond", "gone", "partial", "dropped"} {
		assert.EqualValues(t, 0, source[none], none)
	}
	_, err = sized.New(again, u, 14)
	require.ErrorContains(t, err, "nights need them")
}

// A pod that was resized keeps the history of its workload; so does a renamed workload, if it is
// said which it was, and else it counts by request.
func TestResizedAndRenamedWorkloads(t *testing.T) {
	p := picture([]*v1.Node{node("n1")}, pod("web", "web-1", "n1", "2", asksMemory("4Gi")), pod("store", "store-1", "n1", "1", asksMemory("2Gi")))
	series := []prometheustest.Series{
		uses("web-1", 28, 9, .5, 1), uses("web-1", 9, 0, 1.5, 3), // larger since then
		uses("old-5d8f-zzzzz", 28, 4, .5, 1), uses("store-1", 4, 0, .5, 1),
	}
	_, of, _ := byUse(t, p, UseOptions{}, series...)
	web := of["shop/Deployment/web@cpu=2,memory=4Gi"]
	assert.InEpsilon(t, 1.5, web.Size.CPU, .011)
	assert.Equal(t, usage.ByUse, web.Size.CPUReason)
	assert.Equal(t, usage.NoMetrics, of["shop/Deployment/store@cpu=1,memory=2Gi"].Size.CPUReason)

	p.Declared.Deployments = append(p.Declared.Deployments, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "old"}})
	renamed, err := ParseRenamed([]string{"shop/Deployment/old=shop/Deployment/store"})
	require.NoError(t, err)
	_, of, _ = byUse(t, p, UseOptions{Renamed: renamed}, series...)
	store := of["shop/Deployment/store@cpu=1,memory=2Gi"]
	assert.Equal(t, usage.ByUse, store.Size.CPUReason)
	assert.InEpsilon(t, .5, store.Size.CPU, .011)
}

func TestRenames(t *testing.T) {
	p := picture([]*v1.Node{node("n1")}, pod("store", "store-1", "n1", "1", asksMemory("2Gi")))
	series := []prometheustest.Series{
		uses("oldest-5d8f-zzzzz", 28, 14, .5, 1), uses("old-5d8f-zzzzz", 14, 4, .5, 1), uses("store-1", 4, 0, .5, 1),
	}
	const oldest, old, store = "shop/Deployment/oldest", "shop/Deployment/old", "shop/Deployment/store"
	// A chain, in any order; the patterns of names need no Deployment of the former ones.
	renamed, err := ParseRenamed([]string{old + "=" + store, oldest + "=" + old})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{oldest: store, old: store}, renamed)
	_, of, r := byUse(t, p, UseOptions{Renamed: renamed}, series...)
	assert.Equal(t, 21, of[store+"@cpu=1,memory=2Gi"].Size.Days)
	assert.Zero(t, r.Unknown+r.Gone)

	for _, wrong := range [][]string{
		{"old"}, {"a=b"}, {"shop/Deployment/=" + store}, {old + "=" + old}, {old + "=" + store, store + "=" + old}, {old + "=" + store, old + "=" + oldest},
	} {
		_, err := ParseRenamed(wrong)
		require.Error(t, err, wrong)
	}
	tr, _ := snap(t, p)
	rec := recordOf(t, series...)
	for pair, want := range map[string]string{
		"shop/Deployment/odl=" + store: "no pod of shop/Deployment/odl has samples", old + "=shop/Deployment/stor": "the cluster has no shop/Deployment/stor",
	} {
		renamed, err := ParseRenamed([]string{pair})
		require.NoError(t, err)
		_, _, err = p.ByUse(tr, rec, UseOptions{JudgeDays: 7, LeastDays: 14, Renamed: renamed})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "--renamed "+pair)
	}
	p.Pods = append(p.Pods, pod("old", "old-1", "n1", "1"))
	_, _, err = p.ByUse(tr, rec, UseOptions{JudgeDays: 7, LeastDays: 14, Renamed: map[string]string{old: store}})
	require.ErrorContains(t, err, "has pods now")
}

// Workloads that share the label of an app have histories of their own; where they count alike, the largest counts.
func TestWorkloadsWithOneAppLabel(t *testing.T) {
	label := func(p *v1.Pod) { p.Labels["app"] = "web" }
	for _, same := range []bool{true, false} {
		asks := asksMemory("2Gi")
		if !same {
			asks = asksMemory("1Gi")
		}
		p := picture([]*v1.Node{node("n1")}, pod("web", "web-1", "n1", "1", label, asksMemory("2Gi")), pod("exporter", "exporter-5d8f-x2k9p", "n1", "1", label, asks))
		r := NewRecorder("app", noon)
		require.NoError(t, r.Record(p, noon))
		tr, _, err := r.Trace("snap", "open")
		require.NoError(t, err)
		rec := recordOf(t, uses("web-1", 28, 0, .8, 1), uses("exporter-5d8f-x2k9p", 28, 0, .02, .05), uses("exporter-5d8f-zzzzz", 28, 0, .02, .05))
		_, report, err := p.ByUse(tr, rec, UseOptions{JudgeDays: 7, LeastDays: 14})
		require.NoError(t, err)
		of := map[string]usage.Size{}
		for _, w := range report.Workloads {
			of[w.App] = w.Size
		}
		assert.InEpsilon(t, .8, of["shop/web@cpu=1,memory=2Gi"].CPU, .011)
		assert.InEpsilon(t, 1.15*gib, of["shop/web@cpu=1,memory=2Gi"].Memory, .001)
		if !same {
			assert.InEpsilon(t, .02, of["shop/web@cpu=1,memory=1Gi"].CPU, .011)
		}
	}
}

// Memory without a history of its own is by request, and said so; workloads that are gone have their share.
func TestReasonsAndShares(t *testing.T) {
	two := asksMemory("2Gi")
	p := picture([]*v1.Node{node("n1")}, pod("web", "web-1", "n1", "1", two), pod("some", "some-1", "n1", "1", two), pod("part", "part-1", "n1", "1", two, func(p *v1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "proxy"})
	}))
	web, some := uses("web-1", 28, 0, .5, 1), uses("some-1", 28, 0, .5, 1)
	web.Memory = prometheustest.Always(prometheustest.None)
	few := some.Memory
	some.Memory = func(step int64) float64 {
		if step < 19985*288 {
			return prometheustest.None
		}
		return few(step)
	}
	odd := func(step int64) float64 {
		if step%100 == 7 {
			return 1 << 53
		}
		return .5
	}
	gone := uses("gone-1", 28, 0, 1, 1)
	gone.CPU = odd
	part := uses("part-1", 28, 0, .5, 1)
	tr, _ := snap(t, p)
	server := httptest.NewServer(&prometheustest.Fake{
		Series: []prometheustest.Series{web, some, part, gone, uses("stray", 28, 0, .25, 1)},
		Owners: []map[string]string{{"metric": "kube_pod_owner", "namespace": "shop", "pod": "gone-1", "owner_kind": "StatefulSet", "owner_name": "gone"}},
	})
	defer server.Close()
	rec, err := (&prometheus.Reader{URLs: []string{server.URL}, Folder: t.TempDir()}).Read(t.Context(), today, 28)
	require.NoError(t, err)
	by, r, err := p.ByUse(tr, rec, UseOptions{JudgeDays: 7, LeastDays: 14})
	require.NoError(t, err)
	text := strings.Join(r.Text(), "\n")
	assert.Contains(t, text, "3 of 3 apps count by request\n  memory: no metrics: shop/Deployment/web@cpu=1,memory=2Gi\n  memory: too few days of history: shop/Deployment/some@cpu=1,memory=2Gi\n  no metrics: shop/Deployment/part@cpu=1,memory=2Gi")
	assert.InEpsilon(t, .25/(.25+.5*.99+1), r.Unknown, .01, "the pod that lacks its proxy's samples has no use")
	assert.InEpsilon(t, .5*.99/(.25+.5*.99+1), r.Gone, .01)
	assert.InEpsilon(t, 1./3, r.Partial, .001)
	assert.InDelta(t, 80, r.Dropped.Count, 0)
	for _, line := range []string{
		"of the cpu in use was of pods whose workload is not known", "of the cpu in use was of workloads without a pod now",
		"of the pods' time lacks the samples of a container", "80 samples left out, since no pod can use that (negative, not finite, or more than any node has), the first of shop/gone-1",
	} {
		assert.Contains(t, text, line)
	}
	source := by.Source["sizes"].(map[string]any)
	assert.InDelta(t, r.Gone, source["gone"], 1e-4)
	assert.EqualValues(t, r.Dropped.Count, source["dropped"])
}

// Values that no pod can use end no run.
func TestOddValuesAreWritten(t *testing.T) {
	p := picture([]*v1.Node{node("n1")}, pod("web", "web-1", "n1", "1", asksMemory("2Gi")))
	odd := []float64{1 << 53, -1e-320, 1e-320, 1e-45, 1e300, math.Inf(1), math.Copysign(0, -1), math.NaN()}
	web := uses("web-1", 28, 0, .5, 1)
	cpu := web.CPU
	web.CPU = func(step int64) float64 {
		if i := step % 288; i < int64(len(odd)) {
			return odd[i]
		}
		return cpu(step)
	}
	web.Memory = func(step int64) float64 {
		if i := step % 288; i < int64(len(odd)) {
			return odd[i]
		}
		return gib
	}
	by, of, _ := byUse(t, p, UseOptions{}, web)
	assert.InEpsilon(t, .5, of["shop/Deployment/web@cpu=1,memory=2Gi"].Size.CPU, .011)
	assert.InEpsilon(t, 1.15*gib, of["shop/Deployment/web@cpu=1,memory=2Gi"].Size.Memory, .001)
	dir := t.TempDir() + "/by"
	require.NoError(t, by.Write(dir))
	again, err := trace.Load(dir)
	require.NoError(t, err)
	_, err = again.Usage()
	require.NoError(t, err)
}

// A node without room for the use of its pods keeps them: they count less, and are named with that; the pods of the
// same app on other nodes count their use.
func TestPodsAboveTheirNodeCountLess(t *testing.T) {
	const hot = "shop/Deployment/hot@cpu=1"
	series := []prometheustest.Series{uses("hot-1", 28, 0, 2.5, .01), uses("hot-2", 28, 0, 2.5, .01), uses("hot-3", 28, 0, 2.5, .01), uses("web-1", 28, 0, .5, 1)}
	pods := []*v1.Pod{pod("hot", "hot-1", "n1", "1"), pod("hot", "hot-2", "n1", "1"), pod("web", "web-1", "n1", "1", asksMemory("2Gi"))}
	for _, other := range []bool{false, true} {
		cut := hot
		p := picture([]*v1.Node{node("n1"), node("n2")}, pods...)
		if other {
			p.Pods = append(p.Pods, pod("hot", "hot-3", "n2", "1"))
			cut = hot + ",full"
		}
		by, of, r := byUse(t, p, UseOptions{}, series...)
		require.Len(t, r.Cut, 1)
		assert.Equal(t, []any{cut, 2, "n1"}, []any{r.Cut[0].App, r.Cut[0].Items, r.Cut[0].On})
		assert.InEpsilon(t, 2.5, r.Cut[0].Before.CPU, .011)
		assert.InEpsilon(t, 1.75, of[cut].Size.CPU, .02)
		assert.Equal(t, 2, of[cut].Pods)
		assert.InDelta(t, 1, of[cut].Request.CPU, 1e-9)
		if other {
			assert.InEpsilon(t, 2.5, of[hot].Size.CPU, .011)
			assert.Equal(t, 1, of[hot].Pods)
		}
		text := strings.Join(r.Text(), "\n")
		assert.Contains(t, text, "only a part of the use counts for 2 items of "+cut+": cpu 1.75 of 2.52, ")
		assert.Contains(t, text, cut+", request cpu 1, memory 0 Mi: cpu 1.75", "no line has the size that does not count")
		dir := t.TempDir() + "/by"
		require.NoError(t, by.Write(dir))
		again, err := trace.Load(dir)
		require.NoError(t, err)
		assert.Contains(t, again.Source["sizes"].(map[string]any)["cut"], cut)
		total := int64(0)
		for _, placed := range again.Placed {
			if again.MachineName(placed.Line, placed.Index) == "n1" {
				total += int64(placed.Count) * again.Instance.Apps[again.Requests[placed.Request].App].Demand[0]
			}
		}
		assert.LessOrEqual(t, total, int64(4000))
		assert.Greater(t, total, int64(3960))
	}
}

func TestNoUseOfThePresentPods(t *testing.T) {
	p := picture([]*v1.Node{node("n1")}, pod("web", "web-1", "n1", "1"))
	tr, _ := snap(t, p)
	_, _, err := p.ByUse(tr, recordOf(t, uses("stray", 28, 0, 1, 1)), UseOptions{JudgeDays: 7, LeastDays: 14})
	require.ErrorContains(t, err, "no risk beside it")
}

func TestWorkloadsByName(t *testing.T) {
	p := picture([]*v1.Node{node("n1")}, pod("web", "web-5d8f-x2k9p", "n1", "1"), pod("db", "db-0", "n1", "1", ofKind("StatefulSet")), pod("agent", "agent-x2k9p", "n1", "0", ofDaemonSet),
		pod("tick", "tick-29000000-x2k9p", "n1", "1", ofKind("CronJob")), pod("web-api", "web-api-77-x2k9p", "n1", "1"))
	owned := &prometheus.Day{Owners: map[prometheus.Pod]prometheus.Owner{
		{Namespace: "shop", Name: "web-api-8c-b2b2b"}: {Kind: "Deployment", Name: "other"},
		{Namespace: "shop", Name: "odd"}:              {Kind: "ReplicaSet", Name: "web-6c9d"},
	}}
	n := p.namer()
	for name, want := range map[string]string{
		"web-5d8f-x2k9p": "shop/Deployment/web", "web-6c9d-b2b2b": "shop/Deployment/web", "web-api-8c-b2b2b": "shop/Deployment/web-api",
		"db-0": "shop/StatefulSet/db", "db-17": "shop/StatefulSet/db", "agent-zzzzz": "shop/DaemonSet/agent",
		"tick-28999999-zzzzz": "shop/CronJob/tick", "gone-5d8f-x2k9p": "", "web": "", "web-5d8f": "", "db-x": "", "odd": "",
	} {
		assert.Equal(t, want, n.Name(&prometheus.Day{}, prometheus.Pod{Namespace: "shop", Name: name}), name)
	}
	assert.Empty(t, n.Name(&prometheus.Day{}, prometheus.Pod{Namespace: "other", Name: "web-6c9d-b2b2b"}))
	assert.Equal(t, "shop/Deployment/other", n.Name(owned, prometheus.Pod{Namespace: "shop", Name: "web-api-8c-b2b2b"}), "kube-state-metrics precedes patterns")
	assert.Equal(t, "shop/Deployment/web", n.Name(owned, prometheus.Pod{Namespace: "shop", Name: "odd"}))
	assert.True(t, isJob("shop/CronJob/tick"))
	assert.False(t, isJob("shop/Deployment/web"))
}
