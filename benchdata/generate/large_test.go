package generate

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
)

func TestLarge(t *testing.T) {
	for _, tt := range []struct {
		kind, scale         string
		seeds               int
		apps                int
		items, requests     float64
		cpu                 float64
		machines, tolerance float64
	}{
		{"large", "1", 40, 400, 4880, 3000, 25474, 265, .05},
		{"large", ".5", 40, 283, 2440, 1550, 12737, 133, .06},
		{"large", ".2", 60, 179, 976, 700, 5095, 54, .06},
		{"large2d", "1", 20, 400, 4880, 3000, 26010, 271, .06},
		{"large3d", "1", 20, 400, 4880, 3000, 26010, 271, .06},
	} {
		t.Run(tt.kind+" "+tt.scale, func(t *testing.T) {
			var sumItems, sumRequests, cpu, machines, limit, pairs float64
			least, most := math.Inf(1), 0.
			for seed := range uint64(tt.seeds) {
				tr := generate(t, tt.kind, seed, map[string]string{"scale": tt.scale})
				inst := tr.Instance
				require.Len(t, inst.Apps, tt.apps)
				require.Len(t, inst.Rules, 4*tt.apps, "mean degree 4: 2 pairs an app, both ways")
				n := items(tr)
				c := 0.
				for a := range inst.Apps {
					require.GreaterOrEqual(t, n[a], int64(1))
					sumItems += float64(n[a])
					c += float64(n[a] * inst.Apps[a].Demand[0])
				}
				cpu += c
				least, most = min(least, c), max(most, c)
				sumRequests += float64(len(tr.Requests))
				v := bound.Volume(inst, n).Machines
				machines += float64(v)
				share := float64(bound.Limit(inst, n).Machines) / float64(v)
				limit = max(limit, share)
				require.LessOrEqual(t, share, largeShare)
				for _, r := range inst.Rules {
					both := need(inst, n, r.A) + need(inst, n, r.B)
					pairs = max(pairs, float64(both)/float64(v))
				}
				times := make([]float64, len(tr.Events))
				for i, e := range tr.Events {
					times[i] = e.Time
				}
				require.True(t, slices.IsSorted(times) && times[0] >= 0 && times[len(times)-1] <= day)
			}
			k := float64(tt.seeds)
			t.Logf("%d seeds: containers %.0f, requests %.0f, cpu %.0f (%.0f…%.0f), volume bound %.1f, limits at most %.2f and exclusions %.2f of it",
				tt.seeds, sumItems/k, sumRequests/k, cpu/k, least, most, machines/k, limit, pairs)
			assert.InEpsilon(t, tt.items, sumItems/k, tt.tolerance)
			assert.InEpsilon(t, tt.requests, sumRequests/k, tt.tolerance)
			assert.InEpsilon(t, tt.cpu, cpu/k, tt.tolerance)
			assert.InEpsilon(t, tt.machines, machines/k, tt.tolerance)
			assert.LessOrEqual(t, pairs, 1., "two apps that exclude each other fit the volume bound")
		})
	}
}

// need is how many machines the limit of an app asks for.
func need(inst *binpack.Instance, n []int64, app int32) int64 {
	limit := int64(inst.Groups[app].Limit)
	return (n[app] + limit - 1) / limit
}

func TestLargeMeans(t *testing.T) {
	means := rankMeans(400, 4880, 200)
	sum := 0.
	for _, m := range means {
		sum += m
	}
	assert.InDelta(t, 4880, sum, 1e-6)
	assert.InDelta(t, 200, means[0], 0)
	assert.InDelta(t, math.Pow(2, -.8), means[199]/means[99], 1e-9)
	assert.InDelta(t, 5.22, meanCPU(largeMix), 1e-12)
	for _, mix := range [][]spec{smallMix, largeMix, large2dMix} {
		share := 0.
		for _, s := range mix {
			share += s.share
		}
		assert.InDelta(t, 1, share, 1e-12)
	}
}

func TestLargeRequests(t *testing.T) {
	tr := generate(t, "large", 5, nil)
	top, others, n := int32(0), int32(0), int32(0)
	for _, r := range tr.Requests {
		if r.App < largeTop {
			top = max(top, r.Count)
		} else {
			others, n = others+r.Count, n+1
		}
	}
	assert.True(t, top > 35 && top <= 40, top)
	assert.InDelta(t, 1.12, float64(others)/float64(n), .02)
	w := population{top: 1, burst: 40}
	sum := 0
	rng := Stream(1, StreamRequests)
	for range 100000 {
		sum += w.requestSize(rng, 1, 1.6)
	}
	assert.InDelta(t, 1.6, float64(sum)/100000, .02)
}

func TestFixed(t *testing.T) {
	open := generate(t, "large", 4, nil)
	v := bound.Volume(open.Instance, items(open)).Machines
	for _, f := range []float64{.98, 1, 1.02} {
		tr := generate(t, "fixed", 4, map[string]string{"f": fmt.Sprint(f)})
		assert.Equal(t, binpack.Fixed, tr.Instance.Fleet)
		assert.InDelta(t, f*float64(v), float64(tr.Instance.Machines[0].Count)-.5, .5)
		assert.Equal(t, open.Requests, tr.Requests)
	}
}
