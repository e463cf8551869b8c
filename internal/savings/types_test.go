package savings

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// listed has eight nodes with a pod each of 2 cores, one of which a node of another type must not take, and a price list with a type
// of twice the size that costs half as much again.
func listed() *trace.Trace {
	tr := messy(20, 1)
	inst := tr.Instance
	inst.Types, inst.Machines = []string{"a"}, nil
	for i := range 8 {
		inst.Machines = append(inst.Machines, binpack.MachineLine{Name: string(rune('a' + i)), Count: 1, Cost: .2, Capacity: []int64{4000, 16 << 30}})
	}
	inst.Apps = []binpack.App{
		{Name: "shop/Deployment/web", Expected: -1, Lifetime: -1, Demand: []int64{3000, 4 << 30}},
		{Name: "shop/Deployment/old", Group: 1, Expected: -1, Lifetime: -1, Demand: []int64{3000, 4 << 30}},
	}
	inst.Groups = []binpack.Group{{Name: "shop/Deployment/web"}, {Name: "shop/Deployment/old"}}
	tr.Requests, tr.Placed, tr.Events = nil, nil, nil
	for i := range 8 {
		tr.Requests = append(tr.Requests, trace.Request{Name: string(rune('A' + i)), Count: 1, App: int32(i / 7)})
		tr.Placed = append(tr.Placed, trace.Placed{Request: int32(i), Line: int32(i), Count: 1})
	}
	tr.Initial = len(tr.Requests)
	tr.Source = map[string]any{"origin": origin, clusterKey: map[string]any{
		"types": map[string]any{
			"double":  map[string]any{"arch": "amd64", "cost": .3, "has": map[string]any{"cpu": 7.5, "memory": 32. * (1 << 30)}},
			"foreign": map[string]any{"arch": "arm64", "cost": .01, "has": map[string]any{"cpu": 64, "memory": 64 << 30}},
		},
		"pools": map[string]any{"a": map[string]any{"arch": "amd64", "less": map[string]any{"cpu": .5}, "refuses": map[string]any{"shop/Deployment/old": true}}},
	}}
	return tr
}

func TestAnyType(t *testing.T) {
	tr := listed()
	b := billOf(t, tr)
	requireSums(t, b)
	require.Equal(t, aMonth(8*.2), b.Cost.Now)
	require.Zero(t, stepOf(t, b, "shapes").Money.Mean)
	step := stepOf(t, b, "types")
	require.Equal(t, aMonth(8*.2)-aMonth(.2+3*.3+.2), step.Money.Mean, "two on each of three; one alone, and one that needs the old type")
	require.EqualValues(t, 3, step.Nodes)
	require.Contains(t, step.Command, "--present --any-type")
	require.GreaterOrEqual(t, step.Bound, step.Money.Mean)
	require.Less(t, b.Cost.Floor, b.Cost.Now)

	pools := tr.Source[clusterKey].(map[string]any)["pools"].(map[string]any)["a"].(map[string]any)
	pools["less"] = map[string]any{"cpu": 1.6} // pods of DaemonSets leave no room for two
	require.Zero(t, stepOf(t, billOf(t, tr), "types").Money.Mean)

	all, err := AnyType(listed())
	require.NoError(t, err)
	require.Len(t, all.Instance.Machines, 9, "of the architecture of the pool")
	require.Empty(t, listed().Instance.Apps[1].Types)

	without := listed()
	delete(without.Source, clusterKey)
	b = billOf(t, without)
	requireSums(t, b)
	require.Nil(t, stepOf(t, b, "types").Money, "no list, no number")
	_, err = AnyType(without)
	require.ErrorContains(t, err, "it has no other instance types: no snapshot of a cluster")

	for field, value := range map[string]map[string]any{
		".types": {"types": 1}, ".types.m.cost": {"types": map[string]any{"m": map[string]any{}}}, ".types.m.has": {"types": map[string]any{"m": map[string]any{"cost": 1, "has": map[string]any{"cpu": -1}}}},
		".pools": {"pools": 1}, ".pools.a.less": {"pools": map[string]any{"a": map[string]any{"less": 1}}}, ".pools.a.refuses": {"pools": map[string]any{"a": map[string]any{"refuses": 1}}},
	} {
		wrong := listed()
		maps.Copy(wrong.Source[clusterKey].(map[string]any), value)
		_, err = AnyType(wrong)
		require.ErrorContains(t, err, "source.cluster"+field+":")
	}
}
