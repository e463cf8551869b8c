package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/crdtest"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

const crdFile = "../../../manifests/mpa/crds/multidimpodautoscalers.yaml"

// fullText is a spec with all fields.
const fullText = `apiVersion: autoscaling.sigma-scheduler.io/v1alpha1
kind: MultidimPodAutoscaler
metadata: {name: web, namespace: default}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  mode: InPlace
  slo:
    latency: {percentile: 99.9, target: 250ms}
    throughput: {target: 1k}
  metrics:
    usage: Prometheus
    prometheus:
      server: main
      queries: {rate: a, latency: b, throughput: c, cpu: d, memory: e}
    maxAge: 1m30s
  constraints:
    replicas: {min: 2, max: 20}
    containers:
    - name: main
      controlled: [cpu, memory]
      minAllowed: {cpu: 100m, memory: 128Mi}
      maxAllowed: {cpu: 4, memory: 4Gi}
    - name: log
      controlled: [memory]
  recommender: {name: ours, algorithm: autopilot}
  fallback: {algorithm: hpa, after: 1h}
  concurrency: {mode: Observe, learner: law, min: 2, max: 100, initial: 5}
`

// knativeText is a spec with a Knative Service.
const knativeText = `apiVersion: autoscaling.sigma-scheduler.io/v1alpha1
kind: MultidimPodAutoscaler
metadata: {name: web, namespace: default}
spec:
  scaleTargetRef: {apiVersion: serving.knative.dev/v1, kind: Service, name: web}
  slo: {latency: {percentile: 95, target: 250ms}}
  metrics: {prometheus: {server: main}}
  concurrency: {mode: Apply, pod: Knative, min: 1, max: 1000}
`

// badKnative are changes of knativeText, with the texts of their refusals.
var badKnative = []struct{ name, old, replaced, want string }{
	{"a Service of the core", "serving.knative.dev/v1,", "v1,", "spec.scaleTargetRef: Invalid value: want a Deployment or a StatefulSet of apps/v1, or a Service of serving.knative.dev/v1"},
	{"a Revision", "kind: Service,", "kind: Revision,", "spec.scaleTargetRef: Invalid value: want a Deployment or a StatefulSet of apps/v1, or a Service of serving.knative.dev/v1"},
	{"pods that have a gate", "pod: Knative, ", "", "spec.scaleTargetRef: Invalid value: a Knative Service needs concurrency.pod Knative"},
	{"nothing learned", "  concurrency: {mode: Apply, pod: Knative, min: 1, max: 1000}\n", "", "spec.scaleTargetRef: Invalid value: a Knative Service needs concurrency.pod Knative"},
	{"a Deployment", "apiVersion: serving.knative.dev/v1, kind: Service", "kind: Deployment", "spec.concurrency.pod: Invalid value: pod Knative needs a Service of serving.knative.dev/v1 as the target"},
	{"bounds of replicas", "  slo:", "  constraints: {replicas: {max: 3}}\n  slo:", "spec.constraints: Forbidden: Knative keeps the replicas and the size of its pods"},
	{"resizes in place", "  slo:", "  mode: InPlace\n  slo:", "spec.mode: Invalid value: nothing of a Knative Service is sized: want Off, which writes nothing, or the default"},
	{"an algorithm", "  slo:", "  recommender: {algorithm: capacity}\n  slo:", "spec.recommender.algorithm: Invalid value: Knative decides on replicas, leave this out"},
	{"a fallback", "  slo:", "  fallback: {}\n  slo:", "spec.fallback: Forbidden: Knative decides on replicas"},
	{"a throughput", "target: 250ms}", "target: 250ms}, throughput: {target: 5}", "spec.slo.throughput: Forbidden: a pod of a Knative Service keeps a latency"},
	{"no promise", "  slo: {latency: {percentile: 95, target: 250ms}}\n", "", "spec.concurrency.mode: Invalid value: the requests a second in a pod of a Knative Service need slo.latency"},
	{"a port", "pod: Knative,", "pod: Knative, port: http,", "spec.concurrency.port: Forbidden: Knative has its own queue-proxy"},
	{"more than Knative takes", "max: 1000", "max: 1001", "spec.concurrency.max: Invalid value: Knative takes at most 1000"},
}

// bad are changes of fullText, with the texts of their refusals.
var bad = []struct{ name, old, replaced, want string }{
	{"no spec", part("spec:", ""), "", "spec: Required value"},
	{"a long name", "name: web, namespace", "name: " + strings.Repeat("x", 64) + ", namespace", "metadata.name: at most 63 characters"},
	{"no target", "  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n", "", "spec.scaleTargetRef: Required value"},
	{"a target without a name", ", name: web}", "}", "spec.scaleTargetRef.name: Required value"},
	{"a target with an empty name", ", name: web}", `, name: ""}`, "spec.scaleTargetRef.name: Invalid value: \"\""},
	{"a DaemonSet", "kind: Deployment,", "kind: DaemonSet,", "spec.scaleTargetRef: Invalid value: want a Deployment or a StatefulSet of apps/v1, or a Service of serving.knative.dev/v1"},
	{"a foreign Deployment", "apiVersion: apps/v1,", "apiVersion: example.org/v1,", "spec.scaleTargetRef: Invalid value: want a Deployment or a StatefulSet of apps/v1, or a Service of serving.knative.dev/v1"},
	{"an unknown mode", "mode: InPlace", "mode: Auto", "spec.mode: Unsupported value: \"Auto\": supported values: \"Off\", \"Initial\", \"InPlace\", \"InPlaceOrRecreate\", \"Recreate\""},
	{"what YAML makes of Off", "mode: InPlace", "mode: Off", "spec.mode: Invalid value: \"boolean\""},
	{"an empty promise", "latency: {percentile: 99.9, target: 250ms}\n    throughput: {target: 1k}", "{}", "spec.slo: Invalid value: want latency, throughput or both"},
	{"a percentile of 100", "percentile: 99.9", "percentile: 100", "spec.slo.latency.percentile: Invalid value: 100"},
	{"a percentile of 0", "percentile: 99.9", "percentile: 0", "spec.slo.latency.percentile: Invalid value: 0"},
	{"no percentile", "percentile: 99.9, ", "", "spec.slo.latency.percentile: Required value"},
	{"a latency without a unit", "target: 250ms", "target: \"250\"", "spec.slo.latency.target: Invalid value: \"250\""},
	{"a latency of nothing", "target: 250ms", "target: 999us", "spec.slo.latency.target: Invalid value: \"999us\": want 1ms to 10m"},
	{"a latency of an hour", "target: 250ms", "target: 1h", "spec.slo.latency.target: Invalid value: \"1h\": want 1ms to 10m"},
	{"a throughput of nothing", "target: 1k", "target: 0", "spec.slo.throughput.target: Invalid value: 0: want more than 0"},
	{"a negative throughput", "target: 1k", "target: -5", "spec.slo.throughput.target: Invalid value: -5: want more than 0"},
	{"usage from nowhere", "usage: Prometheus", "usage: Datadog", "spec.metrics.usage: Unsupported value: \"Datadog\": supported values: \"MetricsAPI\", \"Prometheus\""},
	{"a promise nobody measures", "    prometheus:\n      server: main\n      queries: {rate: a, latency: b, throughput: c, cpu: d, memory: e}\n", "", "spec.metrics: Invalid value: an SLO is measured by Prometheus: metrics.prometheus is missing"},
	{"usage from a Prometheus that is not named", "    prometheus:\n      server: main\n      queries: {rate: a, latency: b, throughput: c, cpu: d, memory: e}\n", "", "spec.metrics.prometheus: Invalid value: usage from Prometheus needs its server"},
	{"no query for the latency", "latency: b, ", "", "spec.metrics: Invalid value: slo.latency needs metrics.prometheus.queries.latency"},
	{"no query for the throughput", "throughput: c, ", "", "spec.metrics: Invalid value: slo.throughput needs metrics.prometheus.queries.throughput"},
	{"an empty query", "rate: a", `rate: ""`, "spec.metrics.prometheus.queries.rate: Invalid value: \"\""},
	{"a long query", "rate: a", "rate: " + strings.Repeat("a", 4097), "spec.metrics.prometheus.queries.rate: Too long"},
	{"a query of another name", "rate: a", "rates: a", "spec.metrics.prometheus.queries.rates"},
	{"no server", "      server: main\n", "", "spec.metrics.prometheus: Invalid value: want server or its predecessor address"},
	{"a server without a name", "server: main", `server: ""`, "spec.metrics.prometheus.server: Invalid value: \"\""},
	{"a server and an address", "server: main", "server: main\n      address: http://prometheus:9090", "spec.metrics.prometheus: Invalid value: want server or its predecessor address"},
	{"an address with a user", "server: main", "address: http://user@prometheus:9090", "no user belongs there; name a server that has the credentials"},
	{"an address with a password", "server: main", "address: https://user:pass@prometheus:9090/prefix", "no user belongs there; name a server that has the credentials"},
	{"an address without a scheme", "server: main", "address: prometheus:9090", "spec.metrics.prometheus.address: Invalid value: \"prometheus:9090\": want an http or https URL"},
	{"an address of a file", "server: main", "address: file:///etc/passwd", "spec.metrics.prometheus.address: Invalid value: \"file:///etc/passwd\": want an http or https URL"},
	{"old measurements", "maxAge: 1m30s", "maxAge: 11m", "spec.metrics.maxAge: Invalid value: \"11m\": want 10s to 10m"},
	{"measurements of this moment", "maxAge: 1m30s", "maxAge: 1s", "spec.metrics.maxAge: Invalid value: \"1s\": want 10s to 10m"},
	{"no constraints", part("  constraints:", "  recommender:"), "", "spec.constraints: Required value: the bounds of replicas"},
	{"no most", "min: 2, max: 20", "min: 2", "spec.constraints.replicas.max: Required value"},
	{"less than the least", "max: 20", "max: 1", "spec.constraints.replicas.max: Invalid value: max is below min"},
	{"none", "min: 2", "min: 0", "spec.constraints.replicas.min: Invalid value: 0"},
	{"too many", "max: 20", "max: 100001", "spec.constraints.replicas.max: Invalid value: 100001"},
	{"a container twice", "name: log", "name: main", "spec.constraints.containers[1]: Duplicate value"},
	{"a container without a name", "name: main\n      ", "", "spec.constraints.containers[0].name: Required value"},
	{"17 containers", "    - name: log\n", many(16) + "    - name: log\n", "spec.constraints.containers: Too many: 18: must have at most 16 items"},
	{"another resource", "controlled: [memory]", "controlled: [disk]", "spec.constraints.containers[1].controlled[0]: Unsupported value: \"disk\""},
	{"a resource twice", "controlled: [memory]", "controlled: [memory, memory]", "spec.constraints.containers[1].controlled[1]: Duplicate value"},
	{"cpu below the least", "cpu: 4,", "cpu: 50m,", "spec.constraints.containers[0].maxAllowed: Invalid value: cpu is below minAllowed"},
	{"memory below the least", "memory: 4Gi", "memory: 100Mi", "spec.constraints.containers[0].maxAllowed: Invalid value: memory is below minAllowed"},
	{"memory below the default's least", "      controlled: [memory]\n", "      maxAllowed: {memory: 32Mi}\n", "spec.constraints.containers[1].maxAllowed: Invalid value: memory is below minAllowed"},
	{"no cpu", "cpu: 100m", "cpu: 0", "spec.constraints.containers[0].minAllowed.cpu: Invalid value: 0: want more than 0 and at most 100k"},
	{"negative cpu", "cpu: 100m", "cpu: -1", "spec.constraints.containers[0].minAllowed.cpu: Invalid value: -1: want more than 0 and at most 100k"},
	{"a part of a core, not in quotes", "cpu: 100m", "cpu: 0.1", "spec.constraints.containers[0].minAllowed.cpu: Invalid value: \"number\""},
	{"all cpu there is", "cpu: 4,", "cpu: 100001,", "spec.constraints.containers[0].maxAllowed.cpu: Invalid value: 100001: want more than 0 and at most 100k"},
	{"all memory there is", "memory: 4Gi", "memory: 2Pi", "spec.constraints.containers[0].maxAllowed.memory: Invalid value: \"2Pi\": want more than 0 and at most 1Pi"},
	{"memory that is none", "memory: 4Gi", "memory: much", "spec.constraints.containers[0].maxAllowed.memory: Invalid value: \"much\""},
	{"memory as a long text", "memory: 4Gi", "memory: \"" + strings.Repeat("1", 33) + "\"", "spec.constraints.containers[0].maxAllowed.memory: Too long"},
	{"an unknown amount", "memory: 4Gi", "gpu: 1", "spec.constraints.containers[0].maxAllowed.gpu"},
	{"a mode of concurrency that there is not", "mode: Observe", "mode: Auto", "spec.concurrency.mode: Unsupported value: \"Auto\": supported values: \"Observe\", \"Recommend\", \"Apply\""},
	{
		"limits applied without a promise and without a rate", part("  slo:", "  constraints:") + part("  constraints:", "  concurrency:") + "  concurrency: {mode: Observe,",
		"  metrics: {prometheus: {server: main}}\n" + part("  constraints:", "  concurrency:") + "  concurrency: {mode: Apply,",
		"spec.concurrency.mode: Invalid value: Apply needs slo.latency or metrics.prometheus.queries.rate",
	},
	{"no memory for requests", "initial: 5}", "initial: 5, memoryShare: 0}", "spec.concurrency.memoryShare: Invalid value: 0"},
	{"all memory for requests", "initial: 5}", "initial: 5, memoryShare: 0.96}", "spec.concurrency.memoryShare: Invalid value: 0.96"},
	{"an unknown learner", "learner: law", "learner: guess", "spec.concurrency.learner: Unsupported value: \"guess\""},
	{"a limit of nothing", "min: 2, max: 100", "min: 0, max: 100", "spec.concurrency.min: Invalid value: 0"},
	{"limits the wrong way round", "min: 2, max: 100", "min: 5, max: 4", "spec.concurrency.max: Invalid value: max is below min"},
	{"a first limit outside", "initial: 5", "initial: 500", "spec.concurrency.initial: Invalid value: want min to max"},
	{"another place of the gate", "initial: 5}", "initial: 5, pod: Mesh}", "spec.concurrency.pod: Unsupported value: \"Mesh\": supported values: \"Annotation\", \"Sidecar\", \"Knative\""},
	{"a gate before no port", "initial: 5}", "initial: 5, pod: Sidecar}", "spec.concurrency.port: Invalid value: pod Sidecar needs the name of the port that requests come to"},
	{"a gate before a long port", "initial: 5}", "initial: 5, pod: Sidecar, port: a-name-of-17-runs}", "spec.concurrency.port: Too long: may not be more than 15"},
	{"gates that nobody measures", "    prometheus:\n      server: main\n      queries: {rate: a, latency: b, throughput: c, cpu: d, memory: e}\n", "", "spec.concurrency: Invalid value: gates are measured by Prometheus: metrics.prometheus is missing"},
	{"capacity without gates", "algorithm: autopilot}\n  fallback: {algorithm: hpa, after: 1h}\n  concurrency: {mode: Observe, learner: law, min: 2, max: 100, initial: 5}\n", "algorithm: capacity}\n", "spec.recommender: Invalid value: this algorithm needs what gates measure: concurrency is missing"},
	{
		"capacity without a promised latency",
		"    latency: {percentile: 99.9, target: 250ms}\n" + part("    throughput:", "  recommender:") + "  recommender: {name: ours, algorithm: autopilot}",
		part("    throughput:", "  recommender:") + "  recommender: {name: ours, algorithm: capacity}",
		"spec.recommender: Invalid value: the algorithm capacity needs slo.latency",
	},
	{
		"sizes by use without Prometheus", part("  slo:", ""), part("  constraints:", "  recommender:") + "  recommender: {algorithm: usage}\n",
		"spec.metrics: Invalid value: the algorithm usage needs the Prometheus that has the use of 28 days: metrics.prometheus is missing",
	},
	{"sizes by use with a fallback", "algorithm: autopilot", "algorithm: usage", "spec.fallback: Forbidden: the algorithms usage and template keep their last sizes, leave this out"},
	{"a recommender without a name", "name: ours", `name: ""`, "spec.recommender.name: Invalid value: \"\""},
	{"a policy of a rule", "algorithm: autopilot", "algorithm: autopilot, policy: general", "spec.recommender.algorithm: Invalid value: a policy is for the algorithm learned"},
	{"a policy without a name", "algorithm: autopilot", `algorithm: learned, policy: ""`, "spec.recommender.policy: Invalid value: \"\""},
	{"phases of a rule", "algorithm: autopilot", "algorithm: autopilot, learning: {}", "spec.recommender.algorithm: Invalid value: learning is for the algorithm learned"},
	{"an unknown phase", "algorithm: autopilot", "algorithm: learned, learning: {begin: Trained}", "spec.recommender.learning.begin: Unsupported value: \"Trained\": supported values: \"OfflineTraining\", \"OnlineTraining\", \"Serving\""},
	{"a short window", "algorithm: autopilot", "algorithm: learned, learning: {window: 59s}", "spec.recommender.learning.window: Invalid value: \"59s\": want 1m to 24h"},
	{"a window that is no duration", "algorithm: autopilot", "algorithm: learned, learning: {window: long}", "spec.recommender.learning.window: Invalid value: \"long\""},
	{"an algorithm without a name", "algorithm: autopilot", `algorithm: ""`, "spec.recommender.algorithm: Invalid value: \"\""},
	{"a fallback after a day", "after: 1h", "after: 24h", "spec.fallback.after: Invalid value: \"24h\": want 0s to 1h"},
	{"an unknown field", "  fallback:", "  fallbacks:", "spec.fallbacks"},
}

// part is the text from one line on to another; "" = the end.
func part(from, to string) string {
	_, after, _ := strings.Cut(fullText, "\n"+from)
	if to != "" {
		after, _, _ = strings.Cut(after, "\n"+to)
		after += "\n"
	}
	return from + after
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "    - name: c%d\n", i)
	}
	return b.String()
}

func changed(t *testing.T, old, replaced string) []byte {
	t.Helper()
	require.Contains(t, fullText, old)
	return []byte(strings.Replace(fullText, old, replaced, 1))
}

// good are specs that are taken.
func good(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{
		"full":                  []byte(fullText),
		"off":                   changed(t, "mode: InPlace", `mode: "Off"`),
		"a StatefulSet":         changed(t, "kind: Deployment,", "kind: StatefulSet,"),
		"the longest name":      changed(t, "name: web, namespace", "name: "+strings.Repeat("x", 63)+", namespace"),
		"a promise of one kind": changed(t, "latency: {percentile: 99.9, target: 250ms}\n    ", ""),
		"one size of replicas":  changed(t, "min: 2, max: 20", "min: 20, max: 20"),
		"one size of cpu":       changed(t, "cpu: 4,", `cpu: "0.1",`),
		"16 containers":         changed(t, "    - name: log\n", many(14)+"    - name: log\n"),
		"amounts as numbers":    changed(t, "memory: 4Gi", "memory: 4294967296"),
		"a policy":              changed(t, "algorithm: autopilot", "algorithm: learned, policy: general"),
		"a limit that is said":  changed(t, "mode: Observe", "mode: Recommend"),
		"a limit applied":       changed(t, "mode: Observe", "memoryShare: 0.95, mode: Apply"),
		"at once":               changed(t, "after: 1h", "after: 0s"),
		"a Knative Service":     []byte(knativeText),
	}
	files, err := filepath.Glob("../../../manifests/mpa/samples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		all[filepath.Base(file)], err = os.ReadFile(file)
		require.NoError(t, err)
	}
	return all
}

// TestGood: what is stored is, through the Go type, the same.
func TestGood(t *testing.T) {
	d := crdtest.Load(t, crdFile)
	for name, text := range good(t) {
		stored, err := d.Create(t, text)
		require.NoError(t, err, name)
		asJSON, err := json.Marshal(stored)
		require.NoError(t, err)
		var typed v1alpha1.MultidimPodAutoscaler
		dec := json.NewDecoder(strings.NewReader(string(asJSON)))
		dec.DisallowUnknownFields()
		require.NoError(t, dec.Decode(&typed), "the Go type lacks a field")
		again, err := json.Marshal(typed.Spec)
		require.NoError(t, err)
		want, err := json.Marshal(stored["spec"])
		require.NoError(t, err)
		// The type writes amounts and times in their canonical form.
		canonical := strings.NewReplacer(`"4294967296"`, `4294967296`, `"1m0s"`, `"1m"`, `"2m0s"`, `"2m"`, `"3m0s"`, `"3m"`, `"1h0m0s"`, `"1h"`,
			`"4"`, `4`, `"100m"`, `"0.1"`)
		require.JSONEq(t, canonical.Replace(string(want)), canonical.Replace(string(again)), name)
	}
}

func TestBad(t *testing.T) {
	d := crdtest.Load(t, crdFile)
	for _, tt := range bad {
		t.Run(tt.name, func(t *testing.T) {
			_, err := d.Create(t, changed(t, tt.old, tt.replaced))
			require.ErrorContains(t, err, tt.want)
		})
	}
	for _, tt := range badKnative {
		t.Run("Knative: "+tt.name, func(t *testing.T) {
			require.Contains(t, knativeText, tt.old)
			_, err := d.Create(t, []byte(strings.Replace(knativeText, tt.old, tt.replaced, 1)))
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// TestTargetStays: another target would begin with the old one's figures.
func TestTargetStays(t *testing.T) {
	d := crdtest.Load(t, crdFile)
	old, err := d.Create(t, []byte(fullText))
	require.NoError(t, err)
	_, err = d.Update(t, changed(t, "max: 20", "max: 30"), old)
	require.NoError(t, err)
	_, err = d.Update(t, changed(t, ", name: web}", ", name: shop}"), old)
	require.ErrorContains(t, err, "spec.scaleTargetRef: Invalid value: the target cannot be changed: make another object")
}

// TestEveryRule: each of the definition's rules is broken by one of the bad specs.
func TestEveryRule(t *testing.T) {
	said := "the target cannot be changed: make another object "
	for _, tt := range bad {
		said += tt.want + " "
	}
	for _, tt := range badKnative {
		said += tt.want + " "
	}
	text, err := os.ReadFile(crdFile)
	require.NoError(t, err)
	rules := 0
	for line := range strings.Lines(string(text)) {
		if key, message, found := strings.Cut(strings.TrimLeft(strings.TrimSpace(line), "- "), ": "); found && key == "message" {
			rules++
			require.Contains(t, said, strings.Trim(message, `'"`))
		}
	}
	require.Greater(t, rules, 15)
}

func TestDefaults(t *testing.T) {
	stored, err := crdtest.Load(t, crdFile).Create(t, []byte(`
apiVersion: autoscaling.sigma-scheduler.io/v1alpha1
kind: MultidimPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {kind: Deployment, name: web}
  constraints: {replicas: {max: 3}, containers: [{name: main}]}
  fallback: {}
`))
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
		"mode":           "InPlaceOrRecreate",
		"metrics":        map[string]any{"usage": "MetricsAPI", "maxAge": "2m"},
		"constraints": map[string]any{
			"replicas": map[string]any{"min": int64(1), "max": int64(3)},
			"containers": []any{map[string]any{
				"name": "main", "controlled": []any{"cpu", "memory"},
				"minAllowed": map[string]any{"cpu": "25m", "memory": "64Mi"}, "maxAllowed": map[string]any{"cpu": "16", "memory": "64Gi"},
			}},
		},
		"recommender": map[string]any{"name": "default", "algorithm": "hpa+vpa"},
		"fallback":    map[string]any{"algorithm": "hpa+vpa", "after": "3m"},
	}, stored["spec"])
}

// TestColumnsAreThere: what kubectl get shows, in this order.
func TestColumnsAreThere(t *testing.T) {
	crd := crdtest.Load(t, crdFile).Definition
	require.Equal(t, []string{"mpa"}, crd.Spec.Names.ShortNames)
	require.NotNil(t, crd.Spec.Versions[0].Subresources.Status)
	var columns []string
	for _, c := range crd.Spec.Versions[0].AdditionalPrinterColumns {
		columns = append(columns, c.Name+" "+c.JSONPath)
	}
	require.Equal(t, []string{
		"Target .spec.scaleTargetRef.name", "Mode .spec.mode", "Phase .status.phase", "Source .status.decision.source", "Learning .status.learning.phase",
		"Replicas .status.observed.replicas", "Desired .status.decision.replicas",
		"CPU .status.decision.containers[0].cpu", "Memory .status.decision.containers[0].memory",
		"SLO .status.observed.sloRatio", "Condition .status.summary", "Knative .status.knative.summary", "Policy .spec.recommender.policy", "Age .metadata.creationTimestamp",
	}, columns)
}
