package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"
)

// Each profile has its configuration, and scheduler_perf runs it under its name.
func TestProfiles(t *testing.T) {
	text, err := os.ReadFile("upstream/performance-config.yaml")
	require.NoError(t, err)
	var cases []struct{ Name, SchedulerConfigPath string }
	require.NoError(t, yaml.Unmarshal(text, &cases))
	require.Len(t, cases, len(profiles))
	for i, p := range profiles {
		require.Equal(t, p.name, cases[i].Name)
		require.Equal(t, filepath.Join("..", "config", p.name+".yaml"), cases[i].SchedulerConfigPath)
		config, err := os.ReadFile(filepath.Join("config", p.name+".yaml"))
		require.NoError(t, err)
		require.Equal(t, p.percentage == 100, strings.Contains(string(config), "percentageOfNodesToScore: 100"), p.name)
	}
}

func TestScoredBy(t *testing.T) {
	all, sigma, only := profiles[0], profiles[1], profiles[2]
	require.True(t, all.scoredBy([]string{"ImageLocality", "NodeResourcesBalancedAllocation", "NodeResourcesFit"}))
	require.False(t, all.scoredBy([]string{"NodeResourcesFit"}), "one of upstream's is missing")
	require.False(t, all.scoredBy([]string{"NodeResourcesBalancedAllocation", "NodeResourcesFit", "Sigma"}), "Sigma is in force")
	require.False(t, sigma.scoredBy([]string{"NodeResourcesBalancedAllocation", "NodeResourcesFit"}), "Sigma is not")
	require.True(t, only.scoredBy([]string{"NodeResourcesFit"}))
	require.False(t, only.scoredBy([]string{"NodeResourcesFit", "ImageLocality"}), "another one scores")
}

// The cluster is what the measurement says it is: all pods fit, in any order, and
// apps have owners, or a name of their own.
func TestCreate(t *testing.T) {
	const nodes, pods = 60, 180
	templates, err := readTemplates("upstream/templates")
	require.NoError(t, err)
	client := fake.NewClientset()
	require.NoError(t, templates.create(t.Context(), client, nodes, pods))

	made, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, made.Items, nodes)
	capacity := make(map[string]corev1.ResourceList)
	var cpu, memory int64
	for _, n := range made.Items {
		capacity[n.Name] = n.Status.Capacity
		cpu += n.Status.Capacity.Cpu().MilliValue()
		memory += n.Status.Capacity.Memory().Value()
	}
	require.Len(t, capacity, nodes)

	list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, nodes+pods)
	taken, owned := make(map[string]bool), 0
	for _, p := range list.Items {
		requests := p.Spec.Containers[0].Resources.Requests
		cpu -= requests.Cpu().MilliValue()
		memory -= requests.Memory().Value()
		if node := p.Spec.NodeName; node != "" {
			require.False(t, taken[node], "two pods run on %s", node)
			taken[node] = true
			room := capacity[node]
			require.LessOrEqual(t, requests.Cpu().MilliValue(), room.Cpu().MilliValue())
			require.LessOrEqual(t, requests.Memory().Value(), room.Memory().Value())
		}
		require.NotEmpty(t, p.GenerateName)
		if owner := metav1.GetControllerOf(&p); owner != nil {
			require.Equal(t, p.Labels[appLabel]+"-"+p.Labels["pod-template-hash"], owner.Name)
			owned++
		}
	}
	require.Len(t, taken, nodes)
	require.Positive(t, cpu)
	require.Positive(t, memory)
	require.InDelta(t, 2./3, float64(owned)/(nodes+pods), .05)

	deployments, err := client.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, d := range deployments.Items {
		owned -= int(*d.Spec.Replicas)
	}
	require.Zero(t, owned, "a Deployment declares as many pods as it has")
}

// page is a scheduler's metrics after two pods that Sigma alone scored.
const page = `# TYPE scheduler_schedule_attempts_total counter
scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 2
# TYPE sigma_decisions_total counter
sigma_decisions_total{cause="policy",mode="live",profile="default-scheduler"} 2
# TYPE scheduler_plugin_evaluation_total counter
scheduler_plugin_evaluation_total{extension_point="Filter",plugin="NodeName",profile="default-scheduler"} 2000
scheduler_plugin_evaluation_total{extension_point="Score",plugin="Sigma",profile="default-scheduler"} 1500
# TYPE scheduler_framework_extension_point_duration_seconds histogram
` + histogram + `"Filter",le="0.001"} 1
` + histogram + `"Filter",le="0.003"} 2
` + histogram + `"Filter",le="+Inf"} 2
scheduler_framework_extension_point_duration_seconds_sum{extension_point="Filter"} 0.002
scheduler_framework_extension_point_duration_seconds_count{extension_point="Filter"} 2
`

const histogram = `scheduler_framework_extension_point_duration_seconds_bucket{extension_point=`

func TestRead(t *testing.T) {
	text := page // and the other extension points
	for _, point := range []string{"PreFilter", "PreScore", "Score", "Reserve"} {
		i := strings.Index(page, histogram)
		text += strings.ReplaceAll(page[i:], `"Filter"`, `"`+point+`"`)
	}
	b, sigma := &bench{pods: 2}, profiles[3]
	require.Equal(t, "sigma", sigma.name)
	var m measurement
	require.NoError(t, b.read([]byte(text), sigma, &m))
	require.InDelta(t, 750, m.scored, 0)
	require.InDelta(t, 1, m.latency["Filter"].p50, 1e-9)

	for what, broken := range map[string]string{
		"scheduler_schedule_attempts_total": strings.Replace(text, `"scheduled"} 2`, `"unschedulable"} 1`, 1),
		"sigma_decisions_total":             strings.Replace(text, `cause="policy"`, `cause="fallback:stale"`, 1),
		"the plugins that scored":           strings.Replace(text, `plugin="Sigma"`, `plugin="ImageLocality"`, 1),
		"ran 0 times":                       page, // no latencies but Filter's
	} {
		require.ErrorContains(t, b.read([]byte(broken), sigma, &m), what)
	}
}

func TestCheckSampling(t *testing.T) {
	all, sampled := profiles[0], profiles[4]
	given := []byte(`{"componentconfig":{"PercentageOfNodesToScore":100}}`)
	none := []byte(`{"componentconfig":{"PercentageOfNodesToScore":null}}`)
	require.NoError(t, checkSampling(given, all))
	require.Error(t, checkSampling(none, all))
	require.Error(t, checkSampling(given, sampled))
	require.NoError(t, checkSampling(none, sampled))
	require.Error(t, checkSampling([]byte("{}"), all))
}

func TestReport(t *testing.T) {
	require.InDelta(t, 2, median([]float64{3, 1, 2}), 0)
	require.InDelta(t, 2.5, median([]float64{4, 1, 2, 3}), 0)
	r := &results{measured: map[string][]measurement{
		"sigma":         {{podsPerCPUSecond: 100}, {podsPerCPUSecond: 300}},
		"mostallocated": {{podsPerCPUSecond: 200}, {podsPerCPUSecond: 150}},
	}}
	require.Equal(t, "**1.25** (0.50 … 2.00)", spread("%.2f", r.ratio(ratios[1])), "round by round")
}

func TestReadPerf(t *testing.T) {
	item := func(metric, point string, value string) string {
		return `{"data":{"Average":` + value + `,"Perc50":` + value + `,"Perc99":9},"labels":{"Metric":"` + metric + `","extension_point":"` + point + `"}}`
	}
	items := []string{item("SchedulingThroughput", "not applicable", "300")}
	for _, point := range extensionPoints {
		items = append(items, item("scheduler_framework_extension_point_duration_seconds", point, "1.5"))
	}
	r, err := readPerf([]byte(`{"dataItems":[` + strings.Join(items, ",") + `]}`))
	require.NoError(t, err)
	require.InDelta(t, 300, r.podsPerSecond, 0)
	require.Equal(t, latency{p50: 1.5, p99: 9}, r.latency["Score"])
	_, err = readPerf([]byte(`{"dataItems":[` + items[0] + `]}`))
	require.Error(t, err)
}
