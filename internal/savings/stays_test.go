package savings

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// An empty node that stays is paid at every step.
func TestEmptyNodeThatStays(t *testing.T) {
	tr := listed()
	tr.Instance.Apps[0].Demand = []int64{1900, 4 << 30}
	tr.Placed[0].Line = 1 // "a" is empty
	cluster := tr.Source[clusterKey].(map[string]any)
	cluster["nodes"] = map[string]any{"a": map[string]any{"why": "pods that wait fit on it", "stays": true}}
	b := billOf(t, tr)
	requireSums(t, b)
	require.Equal(t, aMonth(8*.2), b.Cost.Now)
	moves := stepOf(t, b, "moves")
	require.Empty(t, moves.Remove)
	require.Equal(t, aMonth(2*.2), moves.Money.Mean, "b has two, and the other five need three nodes")
	require.Equal(t, []Excluded{{"a", "pods that wait fit on it", aMonth(.2), false}}, b.Excluded)
	require.GreaterOrEqual(t, b.Cost.Floor, aMonth(.2))
	number, err := AnyNumber((&present{t: tr, given: tr, facts: &facts{nodes: map[string]node{"a": {stays: true}}}}).loose(0))
	require.NoError(t, err)
	require.Equal(t, 1, number.Instance.Machines[0].Count, "of it there are no more")
}

// Pods on a node that their workload stays off now may remain there: no bound is above what they cost.
func TestPodsOffTheirTypes(t *testing.T) {
	tr := listed()
	tr.Source = map[string]any{"origin": origin}
	tr.Instance.Types = []string{"a", "spot"}
	for i := range tr.Instance.Machines[:4] {
		tr.Instance.Machines[i].Type, tr.Instance.Machines[i].Cost = 1, .01
	}
	tr.Instance.Apps[0].Types, tr.Instance.Apps[0].Demand = []int32{0}, []int64{1900, 4 << 30}
	tr.Instance.Apps[1].Demand = []int64{900, 1 << 30}
	b := billOf(t, tr) // four pods share two nodes, and the pod of the other workload is on one of spot
	requireSums(t, b)
	require.Equal(t, aMonth(2*.2+.01), stepOf(t, b, "moves").Money.Mean)
}

// Empty nodes that stay are for the pods that come to them: no step fills them, so that "fewer nodes" counts the same nodes before
// and after. A placement that does is possible all the same, so the proven least is lower.
func TestNoStepFillsNodesThatStay(t *testing.T) {
	tr := listed()
	tr.Instance.Apps[0].Demand = []int64{3000, 4 << 30}
	tr.Requests, tr.Placed = tr.Requests[2:], tr.Placed[2:] // "a" and "b" are empty
	for i := range tr.Placed {
		tr.Placed[i].Request = int32(i)
	}
	tr.Initial = len(tr.Requests)
	started := map[string]any{"why": "started less than 10 minutes ago", "stays": true, "takes": true}
	cluster := tr.Source[clusterKey].(map[string]any)
	cluster["nodes"] = map[string]any{"a": started, "b": started}
	delete(cluster, "types")
	b := billOf(t, tr)
	requireSums(t, b)
	for i := range b.Steps {
		if m := b.Steps[i].Money; m != nil {
			require.Zero(t, m.Mean, b.Steps[i].name())
			require.Zero(t, b.Steps[i].Nodes, b.Steps[i].name())
		}
	}
	require.Equal(t, aMonth(2*.2), b.Rest)
	model, err := Present(tr, "")
	require.NoError(t, err)
	require.Equal(t, []int64{0, 0}, model.Instance.Machines[0].Capacity)
}

// Pods that use more memory than they request count with their use: no step puts more on a node than it has. Of cpu a warning is the
// limit, and of memory where pods besides the items use it.
func TestMoreUsedThanRequested(t *testing.T) {
	using := func(cpu, memory float64) *trace.Trace {
		tr := listed()
		tr.Instance.Apps[0].Demand = []int64{1900, 4 << 30}
		cluster := tr.Source[clusterKey].(map[string]any)
		room := map[string]any{}
		for _, m := range tr.Instance.Machines {
			room[m.Name] = map[string]any{"cpu": 4., "memory": 15. * (1 << 30)}
		}
		cluster["room"], cluster["used"] = room, map[string]any{"cpu": 1., "memory": 1.}
		cluster["use"] = map[string]any{"shop/Deployment/web": map[string]any{"cpu": 7 * cpu, "memory": 7 * memory * (1 << 30), "pods": 7}}
		return tr
	}
	b := billOf(t, using(1, 4))
	requireSums(t, b)
	require.Equal(t, aMonth(3*.2), b.Steps[0].Money.Mean, "seven in pairs")
	require.Equal(t, "3 pods start again elsewhere", b.Steps[0].Risk)
	require.InDelta(t, 7*1.9+3, b.Namespaces[0].Requested.CPU, 1e-9)

	b = billOf(t, using(1, 9)) // 18 GiB of 16 would be used
	requireSums(t, b)
	for i := range b.Steps[:4] {
		if m := b.Steps[i].Money; m != nil {
			require.Zero(t, m.Mean, b.Steps[i].name())
		}
	}
	require.Equal(t, 8*4., b.Namespaces[0].Requested.Memory/(1<<30), "that is no request")
	require.Equal(t, aMonth(8*.2), billOf(t, using(1, 20)).Cost.Now, "a node that is too small for its pod is as large as that")

	require.Contains(t, billOf(t, using(2.5, 4)).Steps[0].Risk, " would use 5.0 of 4.0 cores, and 2 more nodes")
	require.Regexp(t, "; [a-h] would use 15.8 GiB of 15.0, and 2 more nodes$", billOf(t, using(1, 7.9)).Steps[0].Risk)

	tr := using(1, 9)
	delete(tr.Source[clusterKey].(map[string]any)["use"].(map[string]any)["shop/Deployment/web"].(map[string]any), "pods")
	require.Equal(t, aMonth(3*.2), billOf(t, tr).Steps[0].Money.Mean, "a trace of an earlier version")
}
