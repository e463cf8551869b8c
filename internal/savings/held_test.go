package savings

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// waits has nodes of 4 cores with a pod of 1.5 each, an empty one, and pods of 2 cores that wait.
func waits(nodes, pods int) *trace.Trace {
	tr := messy(20, 1)
	inst := tr.Instance
	inst.Types, inst.Machines = []string{"a"}, nil
	for i := range nodes + 1 {
		inst.Machines = append(inst.Machines, binpack.MachineLine{Name: string(rune('a' + i)), Count: 1, Cost: .2, Capacity: []int64{4000, 16 << 30}})
	}
	inst.Apps = []binpack.App{
		{Name: "shop/Deployment/web", Expected: -1, Lifetime: -1, Demand: []int64{1500, 1 << 30}},
		{Name: "shop/Deployment/late", Group: 1, Expected: -1, Lifetime: -1, Demand: []int64{2000, 1 << 30}},
	}
	inst.Groups = []binpack.Group{{Name: "shop/Deployment/web"}, {Name: "shop/Deployment/late"}}
	tr.Requests, tr.Placed, tr.Events = nil, nil, nil
	for i := range nodes {
		tr.Requests = append(tr.Requests, trace.Request{Name: "web-" + string(rune('a'+i)), Count: 1})
		tr.Placed = append(tr.Placed, trace.Placed{Request: int32(i), Line: int32(i), Count: 1})
	}
	tr.Initial = nodes
	reasons := map[string]any{}
	for i := range pods {
		q := trace.Request{Name: "late-" + string(rune('a'+i)), App: 1, Count: 1}
		tr.Events = append(tr.Events, trace.Event{Kind: trace.Create, Request: int32(len(tr.Requests)), Count: 1})
		tr.Requests, reasons[q.Name] = append(tr.Requests, q), "limits beside other pods"
	}
	tr.Source = map[string]any{"origin": origin, "currency": "USD", clusterKey: map[string]any{"waiting": reasons}}
	return tr
}

// A pod that waits and fits on a node takes its room: no step removes the node, or gives the room to others.
func TestRoomOfPodsThatWait(t *testing.T) {
	b := billOf(t, waits(3, 0))
	require.Equal(t, aMonth(4*.2)-aMonth(2*.2), b.Steps[0].Money.Mean, "the empty one, and two that share")

	b = billOf(t, waits(3, 2)) // they take the room of two nodes, and that of the third is too small for two
	requireSums(t, b)
	require.Equal(t, aMonth(4*.2), b.Cost.Now)
	require.Equal(t, []string{"d"}, b.Steps[0].Remove)
	for i := range b.Steps {
		if m := b.Steps[i].Money; i > 0 && m != nil {
			require.Zero(t, m.Mean, b.Steps[i].name())
		}
	}
	require.Equal(t, aMonth(.2), b.Steps[0].Money.Mean)
	require.Equal(t, []Pending{{heldText, 2, "late-a"}}, b.Pending)
	require.Equal(t, 3, b.pods)
	require.Len(t, b.Namespaces[0].Workloads, 1)
	require.Empty(t, b.Pinned)

	b = billOf(t, waits(1, 2)) // the second fits on the empty node alone
	requireSums(t, b)
	require.Empty(t, b.Steps[0].Remove)
	require.Zero(t, b.Steps[0].Money.Mean)

	tr := waits(1, 1)
	tr.Instance.Apps[1].Demand[0] = 9000
	b = billOf(t, tr)
	require.Equal(t, []string{"b"}, b.Steps[0].Remove, "it fits nowhere")
	require.Equal(t, []Pending{{"limits beside other pods", 1, "late-a"}}, b.Pending)

	tr = waits(1, 1) // nothing runs yet
	tr.Placed, tr.Requests, tr.Initial, tr.Events[0].Request = nil, tr.Requests[1:], 0, 0
	b = billOf(t, tr)
	requireSums(t, b)
	require.Len(t, b.Steps[0].Remove, 1)
	require.Empty(t, b.Steps[0].Command, "rebalance has no start")
}

// A pod that is being deleted is in no step: its node is empty once it has ended, and until then in no command.
func TestPodsThatAreBeingDeleted(t *testing.T) {
	gone := func(names ...string) *trace.Trace {
		tr := waits(3, 0)
		tr.Instance.Apps[0].Demand[0] = 3000
		lost := map[string]any{}
		for _, name := range names {
			lost[name] = "they are being deleted"
		}
		tr.Source[clusterKey].(map[string]any)["lost"] = lost
		tr.Source["fixed"] = map[string]any{"web-c": "it is being deleted"}
		return tr
	}
	b := billOf(t, gone())
	require.Equal(t, []string{"d"}, b.Steps[0].Remove)
	require.Equal(t, aMonth(.2), b.Steps[0].Money.Mean)

	b = billOf(t, gone("web-c"))
	requireSums(t, b)
	moves := stepOf(t, b, "moves")
	require.Equal(t, []string{"d"}, moves.Remove)
	require.Equal(t, "kubectl delete node d", moves.deletion)
	require.Equal(t, "remove 2 empty nodes", moves.text)
	require.EqualValues(t, 2, moves.Nodes)
	require.Equal(t, aMonth(2*.2), moves.Money.Mean)
	require.Equal(t, moves.Money.Mean, moves.Prints)
	require.Contains(t, moves.Risk, "; c: wait for the end of pods that are being deleted")
	require.Equal(t, 2, b.pods)
	require.Empty(t, b.Pinned)
	require.Equal(t, []LeftOut{{"they are being deleted", 1, "web-c"}}, b.LeftOut)

	tr := gone("web-c")
	tr.Source[clusterKey].(map[string]any)["nodes"] = map[string]any{"c": map[string]any{"why": "not well: node.kubernetes.io/unreachable"}}
	require.Equal(t, []string{"c", "d"}, billOf(t, tr).Steps[0].Remove, "nothing ends the pods of a dead node but its deletion")

	b = billOf(t, gone("web-a", "web-b", "web-c"))
	requireSums(t, b)
	require.Equal(t, aMonth(4*.2), b.Steps[0].Money.Mean)
	require.Empty(t, b.Steps[0].Command)
}

// The room of a pod that is being deleted is not there yet for moves, and is for later steps.
func TestRoomOfPodsThatAreBeingDeleted(t *testing.T) {
	tr := waits(3, 0)
	tr.Placed[2].Line = 0 // "a" has two, one of which stays and one ends, "b" has one, and "c" and "d" have none
	tr.Source["fixed"] = map[string]any{"web-a": "it has local storage"}
	tr.Source[clusterKey].(map[string]any)["lost"] = map[string]any{"web-c": "they are being deleted"}
	b := billOf(t, tr)
	requireSums(t, b)
	require.Equal(t, []string{"c", "d"}, b.Steps[0].Remove)
	require.Equal(t, aMonth(2*.2), b.Steps[0].Money.Mean)
	require.Equal(t, aMonth(.2), b.Steps[1].Money.Mean)
}

// Of a trace by use the same pods have room as of the trace that it was made of: a scheduler counts requests.
func TestPodsThatWaitByUse(t *testing.T) {
	tr := waits(1, 1)
	tr.Instance.Apps[1].Demand[0] = 1000
	tr.Source["sizes"] = map[string]any{"requests": map[string]any{
		"shop/Deployment/web": []any{"1500m", "1Gi"}, "shop/Deployment/late": []any{"9", "1Gi"},
	}}
	p, err := presentOf(tr)
	require.NoError(t, err)
	require.Empty(t, p.held)
	require.Equal(t, []string{"late-a"}, p.waiting)
	tr.Source["sizes"].(map[string]any)["requests"].(map[string]any)["shop/Deployment/late"] = []any{"2", "1Gi"}
	p, err = presentOf(tr)
	require.NoError(t, err)
	require.Len(t, p.held, 1)
}
