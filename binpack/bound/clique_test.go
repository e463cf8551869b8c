package bound

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

func TestClique(t *testing.T) {
	// Limits 1 on machines of 10: 4, 3 and 2 machines, of which 0 and 1 exclude each other.
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(-1, 2, 10)}, []int64{1}, []int64{1}, []int64{6}, []int64{6})
	for g := range inst.Groups {
		inst.Groups[g].Limit = 1
	}
	inst.Rules = []binpack.Rule{{A: 0, B: 1}, {A: 1, B: 2, Max: 1}}
	items := []int64{4, 3, 2, 0}
	clique := func(items ...int64) Bound { return Best(t.Context(), inst, items, Options{}).Each[2] }
	assert.Equal(t, Bound{Machines: 7, Cost: 14, Method: MethodClique}, clique(items...))
	// Two items of 6 do not fit on one machine: apps 2 and 3 need 2 + 6.
	assert.Equal(t, Bound{Machines: 8, Cost: 16, Method: MethodClique}, clique(4, 3, 2, 6))
	// An app without items excludes nothing, and fits beside nothing.
	inst.Apps = append(inst.Apps, binpack.App{Group: 2, Demand: []int64{1}})
	assert.Equal(t, 8, clique(0, 0, 2, 6, 0).Machines)
	assert.Equal(t, 6, clique(0, 0, 2, 6, 1).Machines)
	inst.Apps = inst.Apps[:4]
	assert.Equal(t, Bound{Machines: 4, Cost: 8, Method: MethodClique}, clique(4, 0, 2, 0))
}

// The branch and bound finds the heaviest clique of small graphs, a greedy one
// is a clique.
func TestHeaviestClique(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	for range 400 {
		n := 1 + rng.IntN(12)
		edge := make([][]bool, n)
		graph, weight := make([][]int32, n), make([]float64, n)
		for i := range n {
			edge[i] = make([]bool, n)
			weight[i] = float64(rng.IntN(8))
		}
		density := rng.Float64()
		for i := range n {
			for j := range i {
				if rng.Float64() < density {
					edge[i][j], edge[j][i] = true, true
				}
			}
		}
		for i := range n {
			for j := range n {
				if edge[i][j] {
					graph[i] = append(graph[i], int32(j))
				}
			}
		}
		best := 0.0
		for set := range 1 << n {
			sum, ok := 0.0, true
			for i := range n {
				for j := range i {
					ok = ok && (set>>i&1 == 0 || set>>j&1 == 0 || edge[i][j])
				}
				sum += float64(set>>i&1) * weight[i]
			}
			if ok {
				best = max(best, sum)
			}
		}
		sum := 0.0
		found := heaviest(graph, weight)
		for i, v := range found {
			sum += weight[v]
			for _, u := range found[:i] {
				require.True(t, edge[u][v])
			}
		}
		require.InDelta(t, best, sum, 0)
	}
}
