package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// traceOf is the trace of a dump.
func traceOf(t *testing.T, texts ...string) (*trace.Trace, []string) {
	t.Helper()
	p, err := ReadDumps(dumps(t, listText(texts...)))
	require.NoError(t, err)
	r := NewRecorder("", noon)
	require.NoError(t, r.Record(p, noon))
	tr, notes, err := r.Trace("cluster", "open")
	require.NoError(t, err)
	return tr, notes
}

// renamed is an object with other words.
func renamed(text string, words ...string) string { return strings.NewReplacer(words...).Replace(text) }

var spotText = renamed(nodeText, `"n1"`, `"n2"`, `"u1"`, `"u2"`, `"uid"`, `"labels": {"karpenter.sh/capacity-type": "spot"}, "uid"`)

// A pod on demand stays off a spot node that no taint protects, unless it names spot or more than half of its likes are there.
func TestSpotNeedsAWord(t *testing.T) {
	uses := func(tr *trace.Trace) (spot bool) {
		for _, m := range tr.Instance.Machines {
			types := tr.Instance.Apps[0].Types
			if m.Name == "n2" {
				spot = types == nil || slices.Contains(types, m.Type)
			}
		}
		return spot
	}
	tr, notes := traceOf(t, nodeText, spotText, podText)
	require.False(t, uses(tr))
	require.Contains(t, strings.Join(notes, "\n"), "1 apps stay off spot nodes without a taint")
	for name, with := range map[string]string{
		"selector":   `"nodeSelector": {"karpenter.sh/capacity-type": "spot"}, "containers"`,
		"toleration": `"tolerations": [{"key": "kubernetes.azure.com/scalesetpriority", "operator": "Exists"}], "containers"`,
		"taint":      `"tolerations": [{"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true"}], "containers"`,
		"preference": `"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]}}]}}, "containers"`,
	} {
		tr, _ = traceOf(t, nodeText, spotText, renamed(podText, `"containers"`, with))
		require.True(t, uses(tr), name)
	}
	for name, with := range map[string]string{
		"a name with the letters": `"nodeSelector": {"team": "hotspot"}, "containers"`,
		"every taint":             `"tolerations": [{"operator": "Exists"}], "containers"`,
		"a taint of its own":      `"tolerations": [{"key": "spotlight", "operator": "Exists"}], "containers"`,
		"on demand":               `"nodeSelector": {"karpenter.sh/capacity-type": "on-demand"}, "containers"`,
		"no spot":                 `"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["spot"]}]}]}}}, "containers"`,
	} {
		tr, _ = traceOf(t, renamed(nodeText, `"uid"`, `"labels": {"team": "hotspot", "karpenter.sh/capacity-type": "on-demand"}, "uid"`), renamed(spotText, `"labels": {`, `"labels": {"team": "hotspot", `), renamed(podText, `"containers"`, with))
		require.False(t, uses(tr), name)
	}
	pods := []string{nodeText, spotText}
	for n, on := range []string{"n1", "n2", "n2", "n1", "n1"} {
		pods = append(pods, renamed(podText, "web-1", fmt.Sprint("web-", n), `"p1"`, fmt.Sprintf(`"p%d"`, n), `"nodeName": "n1"`, `"nodeName": "`+on+`"`))
		if n > 0 {
			tr, _ = traceOf(t, pods...)
			require.Equal(t, n == 2, uses(tr), "more than half of %d are there", n+1)
		}
	}
}

// A budget without a status counts by its specification, two of one pod bar its eviction, and one that allows some has its
// workloads in the facts.
func TestBudgetsOfDumps(t *testing.T) {
	ready := renamed(podText, `"phase": "Running"`, `"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]`)
	var objects []string
	for _, n := range []string{"1", "2", "3"} {
		objects = append(objects, renamed(ready, "web-1", "web-"+n, `"p1"`, `"p`+n+`"`, `"labels": {`, `"labels": {"app": "web", `))
	}
	objects = append(objects, nodeText)
	budget := func(name, spec, status string) string {
		return `{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "` + name + `", "namespace": "shop"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, ` + spec + `}` + status + `}`
	}
	why := func(more ...string) string {
		tr, _ := traceOf(t, append(slices.Clone(objects), more...)...)
		fixed, err := tr.Fixed()
		require.NoError(t, err)
		text, _ := fixed["shop/web-1"].(string)
		return text
	}
	const now = "its disruption budget allows no eviction now"
	require.Empty(t, why())
	require.Equal(t, now, why(budget("a", `"minAvailable": 3`, "")))
	require.Equal(t, now, why(budget("a", `"maxUnavailable": 0`, "")))
	require.Equal(t, now, why(budget("a", `"minAvailable": 1`, `, "status": {"observedGeneration": 1, "disruptionsAllowed": 0}`)), "as the API server answers")
	require.Empty(t, why(budget("a", `"minAvailable": "50%"`, "")))
	require.Contains(t, why(budget("a", `"minAvailable": 1`, ""), budget("b", `"minAvailable": 1`, "")), "it has 2 disruption budgets")

	tr, _ := traceOf(t, append(slices.Clone(objects), budget("a", `"maxUnavailable": 1`, ""))...)
	require.Equal(t, map[string]any{"shop/a": map[string]any{"allows": 1, "workloads": map[string]any{"shop/Deployment/web": true}}}, tr.Source["cluster"].(map[string]any)["budgets"])
}

// Pods with scheduling gates, and those of nodes that are not there, have names; an empty dead node may go.
func TestFactsOfPodsWithoutAPlace(t *testing.T) {
	dead := renamed(nodeText, `"n1"`, `"n3"`, `"u1"`, `"u3"`, `"status"`, `"spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]}, "status"`)
	tr, _ := traceOf(t, nodeText, dead, podText,
		renamed(podText, "web-1", "gated", `"p1"`, `"p4"`, `"nodeName": "n1"`, `"schedulingGates": [{"name": "quota"}]`, "Running", "Pending"),
		renamed(podText, "web-1", "lost", `"p1"`, `"p5"`, `"n1"`, `"gone"`))
	facts := tr.Source["cluster"].(map[string]any)
	require.Equal(t, map[string]any{"shop/gated": "scheduling gates: no node is looked for yet"}, facts["waiting"])
	require.Equal(t, map[string]any{"shop/lost": "their node is not in the cluster"}, facts["lost"])
	require.Nil(t, facts["nodes"].(map[string]any)["n3"].(map[string]any)["stays"])
}
