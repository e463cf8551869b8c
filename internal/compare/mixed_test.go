package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// snapshotOf draws what a snapshot of a cluster shows: nodes of some sizes at prices by cpu and memory, and small
// workloads without limits, whose pods come one by one. Of cpu, memory and pods it has the first dims.
func snapshotOf(seed uint64, dims int) *trace.Trace {
	rng := rand.New(rand.NewPCG(seed, 0))
	sizes := [][2]int64{{8, 32}, {16, 64}, {16, 32}, {16, 128}, {32, 128}, {64, 256}}
	rng.Shuffle(len(sizes), func(i, j int) { sizes[i], sizes[j] = sizes[j], sizes[i] })
	sizes = sizes[:2+rng.IntN(5)]
	tr := &trace.Trace{Name: "snapshot", MeasureFrom: math.NaN(), Instance: &binpack.Instance{
		Fleet:      binpack.Open,
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1000}, {Name: "memory", One: 1}, {Name: "pods", One: 1}}[:dims], Types: []string{""},
	}}
	inst := tr.Instance
	nodes := []int{12, 24, 48}[rng.IntN(3)]
	for i := range nodes {
		size := sizes[rng.IntN(len(sizes))]
		inst.Machines = append(inst.Machines, binpack.MachineLine{
			Name: fmt.Sprintf("n%02d", i), Count: 1, Cost: .0316*float64(size[0]) + .00424*float64(size[1]),
			Capacity: []int64{1000*size[0] - 100*(1+rng.Int64N(4)), 1024 * size[1], 110}[:dims],
		})
	}
	var apps []int32
	for a := range int32(2 * nodes) {
		name, n := fmt.Sprint("app", a), []int{1, 1, 2, 2, 3, 4, 6, 8, 12}[rng.IntN(9)]
		inst.Apps = append(inst.Apps, binpack.App{
			Name: name, Group: a, Expected: float64(n), Lifetime: -1,
			Demand: []int64{[]int64{100, 250, 500, 750, 1000, 1500, 2000, 4000}[rng.IntN(8)], 256 << rng.IntN(6), 1}[:dims],
		})
		inst.Groups = append(inst.Groups, binpack.Group{})
		apps = append(apps, slices.Repeat([]int32{a}, n)...)
	}
	rng.Shuffle(len(apps), func(i, j int) { apps[i], apps[j] = apps[j], apps[i] })
	for i, a := range apps {
		tr.Requests = append(tr.Requests, trace.Request{Name: fmt.Sprint("r", i), App: a, Count: 1})
		tr.Events = append(tr.Events, trace.Event{Time: float64(i), Request: int32(i), Count: 1})
	}
	return tr
}

// TestLearnedOnMixedNodes: what a user has by default costs less than Best-Fit and than fullest nodes first on
// clusters of nodes that differ.
func TestLearnedOnMixedNodes(t *testing.T) {
	names := []string{"learned", "bestfit", "mostallocated"}
	for _, dims := range []int{2, 3} {
		sums, n := map[string]float64{}, 0.
		for seed := range uint64(300) {
			tr := snapshotOf(seed, dims)
			costs := map[string]float64{}
			for _, name := range names {
				found, err := (&Catalog{}).Find(name, tr)
				require.NoError(t, err)
				run, err := cerebro.NewReplayer(tr).Run(found.Policy, cerebro.Options{})
				require.NoError(t, err)
				if run.Unplaced > 0 {
					costs = nil
					break
				}
				costs[name] = run.Cost
			}
			for name, cost := range costs { // drawn clusters in which all has room
				sums[name] += cost / costs["bestfit"]
			}
			n += float64(len(costs)) / float64(len(names))
		}
		learned, packed := sums["learned"]/n, sums["mostallocated"]/n
		t.Logf("%d dimensions, %.0f clusters, cost ÷ bestfit: learned %.4f, mostallocated %.4f", dims, n, learned, packed)
		require.Greater(t, n, 250.)
		require.Less(t, learned, .99)
		require.Less(t, learned, .99*packed)
	}
}
