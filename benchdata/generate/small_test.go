package generate

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
)

func TestSmall(t *testing.T) {
	const seeds = 200
	var containers, limited, big int
	errors, squares := 0., 0.
	for seed := range uint64(seeds) {
		tr := generate(t, "small", seed, nil)
		inst := tr.Instance
		n := items(tr)
		require.Len(t, inst.Apps, 30)
		require.Len(t, tr.Requests, 30, "a request is a whole app")
		require.Len(t, inst.Rules, 40, "20 pairs, both ways")
		require.Equal(t, bound.Bound{Machines: 15, Cost: 15, Method: "volume"}, bound.Volume(inst, n))
		require.Equal(t, 15, tr.Source["optimal"])
		cpu, bigs := int64(0), 0
		need := make([]int64, 30)
		for i, app := range inst.Apps {
			cpu += n[i] * app.Demand[0]
			require.Equal(t, 2*app.Demand[0]*gib, app.Demand[1])
			require.True(t, n[i] >= 1 && n[i] <= 15)
			limit := int64(inst.Groups[i].Limit)
			need[i] = (n[i] + limit - 1) / limit
			if n[i] > 10 {
				bigs++
				require.True(t, n[i] >= 12 && limit == 1)
			}
			if limit == 1 {
				limited++
			}
			containers += int(n[i])
			require.True(t, app.Expected >= 1 && app.Expected == math.Trunc(app.Expected))
			if n[i] > 10 { // rounding is small there
				x := math.Log(app.Expected / float64(n[i]))
				errors, squares, big = errors+x, squares+x*x, big+1
			}
		}
		require.Equal(t, int64(1360), cpu)
		require.Equal(t, 8, bigs)
		require.True(t, slices.IsSortedFunc(inst.Rules, func(a, b binpack.Rule) int {
			return int(a.A-b.A)*100 + int(a.B-b.B)
		}))
		for _, r := range inst.Rules {
			require.Contains(t, inst.Rules, binpack.Rule{A: r.B, B: r.A})
			require.LessOrEqual(t, need[r.A]+need[r.B], int64(15))
		}
	}
	mean := errors / float64(big)
	assert.InDelta(t, -.02, mean, .015)
	assert.InDelta(t, .2, math.Sqrt(squares/float64(big)-mean*mean), .02)
	// .8 of the 22 others and all 8 big ones
	assert.InDelta(t, (22*.8+8)/30, float64(limited)/(30*seeds), .02)
	t.Logf("%d instances: %.1f containers, %.1f %% of the apps limited to 1", seeds,
		float64(containers)/seeds, 100*float64(limited)/(30*seeds))
}

// An independent look at the packings that make 15 the optimum.
func TestSmallIsPlanted(t *testing.T) {
	rng, packing := Stream(1, StreamApps), Stream(1, streamPacking)
	tried, packed := 0, 0
	for range 300 {
		apps := drawSmall(rng)
		if !adjust(rng, apps) {
			continue
		}
		need := make([]float64, smallApps)
		for i, a := range apps {
			need[i] = float64(a.need())
		}
		pairs := excludePairs(rng, smallExclusions, need, smallMachines)
		on := packSmall(packing, apps, pairs)
		tried++
		if on == nil {
			continue
		}
		packed++
		var cpu, memory [smallMachines]int64
		count := map[[2]int]int{} // app and machine
		for i, machines := range on {
			require.Len(t, machines, apps[i].items)
			for _, m := range machines {
				cpu[m] += apps[i].spec.cpu
				memory[m] += apps[i].spec.memory
				count[[2]int{i, m}]++
				require.LessOrEqual(t, count[[2]int{i, m}], apps[i].limit)
			}
		}
		for m := range cpu {
			require.True(t, cpu[m] <= 96 && memory[m] <= 512)
			for _, p := range pairs {
				require.False(t, count[[2]int{p.a, m}] > 0 && count[[2]int{p.b, m}] > 0)
			}
		}
	}
	t.Logf("packed %d of %d drawn", packed, tried)
	assert.Greater(t, packed, tried/2, "rejection would make the kept instances special")
	// An app that cannot fit is not packed.
	apps := make([]smallApp, smallApps)
	for i := range apps {
		apps[i] = smallApp{spec: smallMix[0], limit: 1, items: 1}
	}
	apps[0].items = 16
	assert.Nil(t, packSmall(packing, apps, nil))
}
