//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// Profiles that differ in what scores nodes. The rules hold in all of them: what
// they forbid is for Sigma's filter to check.
const (
	rulesOnly = `
percentageOfNodesToScore: 100
profiles:
- plugins:
    multiPoint: {enabled: [{name: Sigma}]}
    preScore: {disabled: [{name: Sigma}]}
    score: {disabled: [{name: Sigma}]}
  pluginConfig: [{name: Sigma, args: {appLabel: app}}]
`
	mostAllocated = `
percentageOfNodesToScore: 100
profiles:
- plugins:
    multiPoint: {enabled: [{name: Sigma}]}
    preScore: {disabled: [{name: "*"}]}
    score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit}]}
  pluginConfig:
  - {name: Sigma, args: {appLabel: app}}
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}}
`
)

// TestNodesUsed places the workloads of generated instances that no policy was
// trained on, each declared by a Deployment, under three schedulers.
func TestNodesUsed(t *testing.T) {
	// Deployments make their pods in an order that differs each time, and so does the one
	// order of each scheduler. The mean over orders is for the tests of internal/compare.
	const orders = 2
	sum := map[string]int{}
	limit := 0
	for _, in := range []struct {
		kind string
		seed uint64
		set  map[string]string
	}{
		{"small", 950_001, nil}, {"small", 950_002, nil}, {"small", 950_003, nil},
		{"large", 950_001, map[string]string{"scale": "0.1"}},
	} {
		tr, err := generate.Generate(in.kind, in.seed, in.set)
		require.NoError(t, err)
		items := make([]int64, len(tr.Instance.Apps))
		for _, q := range tr.Requests {
			items[q.App] += int64(q.Count)
		}
		least := bound.Volume(tr.Instance, items).Machines
		limit += least
		for _, s := range []struct{ name, config string }{
			{"default", rulesOnly},
			{"MostAllocated", mostAllocated},
			{"learned", sigmaConfig(false, "appLabel: app")},
		} {
			used := nodesUsed(t, tr, items, s.config)
			sum[s.name] += used
			require.GreaterOrEqual(t, used, least)
			t.Logf("%s seed %d: %s uses %d nodes, no scheduler fewer than %d", in.kind, in.seed, s.name, used, least)
		}
	}
	t.Logf("in all: default %d, MostAllocated %d, learned %d, bound %d", sum["default"], sum["MostAllocated"], sum["learned"], limit)
	require.LessOrEqual(t, sum["learned"], sum["MostAllocated"]+orders)
	require.Less(t, sum["learned"], sum["default"])
}

// nodesUsed is the number of nodes that hold a pod when a scheduler has placed
// items pods of each app on twice as many nodes as the volume needs.
func nodesUsed(t *testing.T, tr *trace.Trace, items []int64, config string) int {
	c := e2e.Shared(t)
	defer c.Wipe(t)
	installSigma(t, c)
	applyPolicy(t, c, "general-k1", "general")
	c.Kubectl(t, rulesOf(tr), "apply", "-f", "-")
	ns := c.Namespace(t)
	machine := tr.Instance.Machines[0]
	amount := func(values []int64, d int) string {
		return trace.FormatQuantity(values[d], tr.Instance.Dimensions[d])
	}
	var nodes []*v1.Node
	for i := range 2*bound.Volume(tr.Instance, items).Machines + 10 {
		nodes = append(nodes, e2e.Node(fmt.Sprintf("node-%03d", i), amount(machine.Capacity, 0), amount(machine.Capacity, 1)))
	}
	c.CreateNodes(t, nodes...)
	pods := 0
	for a, app := range tr.Instance.Apps {
		d := e2e.Deployment(ns, strings.ToLower(app.Name), int32(items[a]), amount(app.Demand, 0), amount(app.Demand, 1))
		c.CreateDeployment(t, d)
		pods += int(items[a])
	}
	e2e.Wait(t, "the pods", func() (string, bool) { n := len(c.Pods(ns)); return fmt.Sprint(n), n == pods })
	s := c.StartScheduler(t, scheduler, config)
	c.WaitBound(t, ns, pods)
	c.RequireFits(t)
	used := map[string]bool{}
	for _, node := range c.Placements(ns) {
		used[node] = true
	}
	s.Stop(t)
	return len(used)
}

// rulesOf writes limits, spread and exclusions down as PlacementRules.
func rulesOf(tr *trace.Trace) string {
	var out strings.Builder
	name := func(g int32) string { return strings.ToLower(tr.Instance.Groups[g].Name) }
	for g, group := range tr.Instance.Groups {
		spec := ""
		if group.Limit > 0 {
			spec = fmt.Sprintf(", maxPerNode: %d", group.Limit)
		}
		if group.SpreadMin > 1 {
			spec += fmt.Sprintf(", spreadMin: %d", group.SpreadMin)
		}
		var others []string
		for _, r := range tr.Instance.Rules {
			if int(r.A) == g {
				others = append(others, fmt.Sprintf("{selector: {matchLabels: {app: %s}}, max: %d}", name(r.B), r.Max))
			}
		}
		if len(others) > 0 {
			spec += ", excludes: [" + strings.Join(others, ", ") + "]"
		}
		if spec != "" {
			fmt.Fprintf(&out, "---\napiVersion: sigma-scheduler.io/v1alpha1\nkind: PlacementRule\nmetadata: {name: rule-%s}\nspec: {selector: {matchLabels: {app: %s}}%s}\n",
				name(int32(g)), name(int32(g)), spec)
		}
	}
	return out.String()
}
