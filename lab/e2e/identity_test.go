//go:build e2e

package e2e_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// TestLiveEqualsSimulated has a scheduler decide while all that happens in a cluster
// goes on, and computes its decisions again from its log alone. SIGMA_IDENTITY makes another
// size, as 1000x5000.
func TestLiveEqualsSimulated(t *testing.T) {
	var nodes, pods int
	_, err := fmt.Sscanf(cmp.Or(os.Getenv("SIGMA_IDENTITY"), "200x2000"), "%dx%d", &nodes, &pods)
	require.NoError(t, err, "SIGMA_IDENTITY")
	for _, driver := range []string{"plugin", "extender"} {
		t.Run(fmt.Sprintf("nodes=%d/pods=%d/%s", nodes, pods, driver), func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "decisions.jsonl")
			liveRun(t, driver, log, nodes, pods)
			text := verify(t, driver, log, pods)
			if pods <= 2000 {
				corrupt(t, log, text)
			}
		})
	}
}

// identityRules limit some apps, spread others and keep some apart.
const identityRules = sharedRules + `
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: one}
spec: {selector: {matchLabels: {one: "yes"}}, maxPerNode: 1, spreadMin: 3}
---
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: zoned}
spec: {selector: {matchLabels: {zoned: "yes"}}, topologyKey: topology.kubernetes.io/zone, maxPerNode: 4, spreadMin: 2}
---
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementRule
metadata: {name: apart-by-zone}
spec: {selector: {matchLabels: {app: app-6}}, topologyKey: topology.kubernetes.io/zone, excludes: [{selector: {matchLabels: {app: app-13}}}]}
`

// failBindings refuses the bindings of some pods.
const failBindings = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: fail-bindings}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods/binding]}]
  validations: [{expression: "!object.metadata.name.endsWith('7')", message: "not yet"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: fail-bindings}
spec: {policyName: fail-bindings, validationActions: [Deny]}
`

// identityPods are pods of apps that rules select in different ways, by node and by zone, that prefer something
// of nodes and zones, or spread over zones as they must. An app is resized after its sixth pod.
func identityPods(ns string, n int) []*v1.Pod {
	pods := e2e.Pods(ns, 7, n)
	for i, pod := range pods {
		size := i - i%10
		if i%10 >= 6 {
			size += 6
		}
		pod.Spec.Containers[0].Resources = pods[size].Spec.Containers[0].Resources
		switch app := i / 10; app % 7 {
		case 0:
			pod.Labels["few"] = "yes"
		case 1:
			pod.Labels["one"] = "yes"
		case 2:
			pod.Labels["loud"] = "yes"
		case 3:
			pod.Labels["quiet"] = "yes"
		case 4:
			preferApart(&pod.Spec, pod.Labels)
		case 5:
			pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{{
				Weight: 30, PodAffinityTerm: v1.PodAffinityTerm{TopologyKey: v1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
			}}}}
		case 6:
			switch {
			case app == 6: // comes before the app that it keeps out of its zone
				pod.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: "zone-0"}
			case app == 13:
			case app%2 == 0:
				pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
				}}
			default:
				pod.Labels["zoned"] = "yes"
			}
		}
	}
	return pods
}

func liveRun(t *testing.T, driver, log string, nodes, n int) {
	c := e2e.Shared(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	c.Kubectl(t, identityRules, "apply", "-f", "-")
	ns := c.Namespace(t)
	all := e2e.Nodes(5, nodes+nodes/20)
	c.CreateNodes(t, all[:nodes]...)
	pods := identityPods(ns, n)
	if driver == "plugin" {
		c.StartScheduler(t, scheduler, sigmaConfig(false, "appLabel: app, decisionLogBytes: 64Ki, decisionLogFiles: 0, decisionLog: "+log))
	} else {
		startExtender(t, c, log)
	}

	// Most pods come, the bindings of a tenth fail at first.
	c.Kubectl(t, failBindings, "apply", "-f", "-")
	c.CreatePods(t, pods[:n*6/10]...)
	c.WaitBound(t, ns, n*6/10*9/10)
	c.Kubectl(t, failBindings, "delete", "-f", "-")
	c.WaitBound(t, ns, n*6/10)

	// Pods leave while others come, nodes come, one is cordoned, some are drained.
	rng := rand.New(rand.NewPCG(9, 9))
	gone := 0
	for i, pod := range pods[:n*6/10] {
		if rng.IntN(10) == 0 {
			gone++
			require.NoError(t, c.Client.CoreV1().Pods(ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
		}
		if i == n*3/10 {
			c.CreatePods(t, pods[n*6/10:n*8/10]...)
			c.CreateNodes(t, all[nodes:]...)
		}
	}
	c.Cordon(t, all[3].Name, true)
	e2e.Wait(t, "all to be bound, or gone", func() (string, bool) {
		there, bound := len(c.Pods(ns)), len(c.Placements(ns))
		return fmt.Sprint(there, bound), there == n*8/10-gone && bound == there
	})
	for _, node := range all[10 : 10+nodes/50] {
		gone += len(podsOn(c, ns, node.Name))
		c.Drain(t, node.Name)
		c.DeleteNode(t, node.Name)
	}
	c.Kubectl(t, "", "patch", "placementrule", "few", "--type=merge", "-p", `{"spec":{"maxPerNode":3}}`)
	c.CreatePods(t, pods[n*8/10:]...)
	c.WaitBound(t, ns, n-gone)
	if driver == "plugin" {
		preemptByRule(t, c, ns)
	}
	c.RequireFits(t)
	requireRules(t, c, ns)
}

func podsOn(c *e2e.Cluster, ns, node string) []*v1.Pod {
	var list []*v1.Pod
	for _, p := range c.Pods(ns) {
		if p.Spec.NodeName == node {
			list = append(list, p)
		}
	}
	return list
}

// preemptByRule has a pod preempt another that keeps it off a node by a rule alone.
func preemptByRule(t *testing.T, c *e2e.Cluster, ns string) {
	c.Kubectl(t, `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: e2e-high}
value: 1000
`, "apply", "-f", "-")
	c.CreateNodes(t, e2e.Node("special", "8", "32Gi"))
	first := e2e.Pod(ns, "pinned-0", "1", "1Gi")
	second := e2e.Pod(ns, "pinned-1", "1", "1Gi")
	second.Spec.PriorityClassName = "e2e-high"
	for _, p := range []*v1.Pod{first, second} {
		p.Labels = map[string]string{"app": "pinned", "one": "yes"}
		p.Spec.NodeSelector = map[string]string{v1.LabelHostname: "special"}
	}
	c.CreatePods(t, first)
	e2e.Wait(t, "the first", func() (string, bool) { return "", c.Placements(ns)["pinned-0"] == "special" })
	c.CreatePods(t, second)
	e2e.Wait(t, "the preemption", func() (string, bool) {
		at := c.Placements(ns)
		return fmt.Sprint(at["pinned-0"], " ", at["pinned-1"]), at["pinned-1"] == "special"
	})
	require.NotContains(t, c.Placements(ns), "pinned-0")
}

// requireRules counts the pods against the rules independently of Sigma.
func requireRules(t *testing.T, c *e2e.Cluster, ns string) {
	t.Helper()
	type key struct{ node, app string }
	count, inZone, zones := map[key]int{}, map[key]int{}, zonesOf(t, c)
	labels := map[string]map[string]string{}
	for _, p := range c.Pods(ns) {
		if p.Spec.NodeName != "" {
			count[key{p.Spec.NodeName, p.Labels["app"]}]++
			inZone[key{zones[p.Spec.NodeName], p.Labels["app"]}]++
			labels[p.Labels["app"]] = p.Labels
		}
	}
	for k, n := range inZone {
		if labels[k.app]["zoned"] == "yes" {
			require.LessOrEqual(t, n, 4, k)
		}
		if k.app == "app-13" {
			require.Zero(t, inZone[key{k.node, "app-6"}], "zone %s", k.node)
		}
	}
	for k, n := range count {
		if labels[k.app]["one"] == "yes" {
			require.LessOrEqual(t, n, 1, k)
		}
		if labels[k.app]["few"] == "yes" {
			require.LessOrEqual(t, n, 3, k)
		}
		if labels[k.app]["loud"] != "yes" {
			continue
		}
		for other, m := range count {
			if other.node == k.node && labels[other.app]["quiet"] == "yes" {
				t.Errorf("%s excludes %s on %s", k.app, other.app, k.node)
			}
			if other.node == k.node && labels[other.app]["few"] == "yes" {
				require.LessOrEqual(t, m, 1, "%s and %s on %s", k.app, other.app, k.node)
			}
		}
	}
}

func startExtender(t *testing.T, c *e2e.Cluster, log string) {
	t.Helper()
	port, metrics := e2e.FreePort(t), e2e.FreePort(t)
	e2e.StartProcess(t, "sigma-extender", e2e.Program(t, "sigma-extender"),
		"--kubeconfig="+filepath.Join(c.Dir, "kubeconfig"), "--app-label=app", "--decision-log="+log, "--decision-log-bytes=64Ki", "--decision-log-files=0",
		fmt.Sprintf("--bind-address=127.0.0.1:%d", port), fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", metrics),
		"--metrics-plain-http")
	e2e.Wait(t, "the extender", func() (string, bool) {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", metrics))
		if err != nil {
			return err.Error(), false
		}
		return response.Status, response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
	c.StartScheduler(t, scheduler, extenderConfig(port))
}

// verify computes the decisions in the files of a log again. text is that of all files.
func verify(t *testing.T, driver, log string, pods int) (text []byte) {
	t.Helper()
	files, err := durable.Aside(log)
	require.NoError(t, err)
	require.NotEmpty(t, files, "the log rotates")
	files = append(files, log)
	for _, file := range files {
		part, err := os.ReadFile(file)
		require.NoError(t, err)
		text = append(text, part...)
	}
	out, err := exec.Command(e2e.Program(t, "sigma"), append([]string{"replay", "--log"}, files...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
	v, err := ledger.Verify(log, bytes.NewReader(text))
	require.NoError(t, err)
	require.Nil(t, v.First, "%v", v.First)
	t.Logf("%d events, decisions by cause %v, agreed %d, refused by the model %d", v.Events, v.Causes, v.Agreed, v.Refused)
	require.Empty(t, v.Gaps)
	require.Greater(t, v.Decisions, pods)
	require.Equal(t, v.Causes[ledger.CausePolicy], v.Agreed)
	require.Less(t, v.Decisions-v.Agreed, v.Decisions/100+1, "other causes: %v", v.Causes)
	if driver == "plugin" { // an extender does not see failed bindings and assumes the pods there for a while
		require.Zero(t, v.Refused)
	}
	return text
}

// corrupt changes a log where it must not matter and where it must.
func corrupt(t *testing.T, log string, text []byte) {
	t.Helper()
	scores := regexp.MustCompile(`"(score|runnerUpScore)":[^,}]*`)
	require.Regexp(t, scores, string(text))
	v, err := ledger.Verify(log, bytes.NewReader(scores.ReplaceAll(text, []byte(`"$1":123.25`))))
	require.NoError(t, err)
	require.Nil(t, v.First, "scores are not to be read")

	v, err = ledger.Verify(log, strings.NewReader(moreCPU(t, string(text))))
	require.NoError(t, err)
	require.NotNil(t, v.First, "a node with other free cpu has to be noticed")
}

// moreCPU doubles the cpu of the node of a log that most pods went to.
func moreCPU(t *testing.T, log string) string {
	most, times := "", map[string]int{}
	for _, m := range regexp.MustCompile(`"kind":"decide","node":"([^"]*)"`).FindAllStringSubmatch(log, -1) {
		if times[m[1]]++; times[m[1]] > times[most] {
			most = m[1]
		}
	}
	lines := strings.Split(log, "\n")
	for i, line := range lines {
		if strings.Contains(line, `"kind":"node","node":"`+most+`"`) {
			var e ledger.Event
			require.NoError(t, json.Unmarshal([]byte(line), &e))
			e.Machine.Capacity["cpu"] *= 2
			text, err := json.Marshal(&e)
			require.NoError(t, err)
			lines[i] = string(text)
		}
	}
	require.NotEmpty(t, most)
	return strings.Join(lines, "\n")
}

// zonesOf returns the zone of each node.
func zonesOf(t *testing.T, c *e2e.Cluster) map[string]string {
	t.Helper()
	zones := map[string]string{}
	list, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for i := range list.Items {
		zones[list.Items[i].Name] = list.Items[i].Labels[v1.LabelTopologyZone]
	}
	return zones
}
