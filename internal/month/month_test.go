package month

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/mpa/agents"
)

// Each stack runs on a small cluster, and pays for its nodes.
func TestStacks(t *testing.T) {
	tr, err := generate.Generate("kubernetes", 5, map[string]string{"nodes": "10", "fleet": "open", "usage": "1", "days": "17"})
	require.NoError(t, err)
	use, err := tr.Usage()
	require.NoError(t, err)
	cost := map[string]float64{}
	for _, s := range append(Stacks(), VPAAt(.99)) {
		r, err := s.Run(tr, use, 15*day, 17*day)
		require.NoError(t, err, s.Name)
		cost[s.Name] = r.Cost
		assert.Positive(t, r.Cost, s.Name)
		assert.Zero(t, r.Unplaced, s.Name)
		assert.Positive(t, r.PodHours, s.Name)
	}
	assert.Less(t, cost["c"], cost["b"], "VPA requests less than the templates")
	assert.Less(t, cost["f"], cost["e"], "and so do sizes by use")
	assert.Less(t, cost["c"], cost["c at p99"], "a higher percentile requests more")
	assert.Less(t, cost["b"], cost["a"], "packing and consolidation cost less than spreading")
}

// The first recommendation after a day of a constant use is that of VPA's formula: p90 and 15 %, at least 25m and 250 MiB.
func TestVPA(t *testing.T) {
	tr, err := generate.Generate("kubernetes", 5, map[string]string{"nodes": "10"})
	require.NoError(t, err)
	v := NewVPA(tr, agents.DefaultVPA())
	present := []int64{4000, 4 << 30}
	var demand []int64
	for at := 0.; at <= day; at += 300 {
		v.Sample(at, 0, 7, 1, 1<<30)
		if d := v.Demand(at, 0, present); d != nil {
			demand, present = d, d
		}
	}
	assert.InEpsilon(t, 1150, demand[0], .06)
	assert.InEpsilon(t, 1.15*(1<<30), demand[1], .06)
	v.Killed(day+300, 0, 7)
	v.Sample(day+300, 0, 7, 1, 1<<30)
	more := v.Demand(day+300, 0, present)
	assert.Greater(t, more[1], demand[1], "more memory after a kill")
	assert.Nil(t, v.Demand(day+600, 0, present), "no pod, no opinion")
}

// One day of 200 nodes under a stack; a month is thirty times as long.
func BenchmarkDay(b *testing.B) {
	tr, err := generate.Generate("kubernetes", 5, map[string]string{"nodes": "200", "usage": "1", "days": "17"})
	require.NoError(b, err)
	use, err := tr.Usage()
	require.NoError(b, err)
	for _, s := range Stacks() {
		b.Run(s.Name, func(b *testing.B) {
			for b.Loop() {
				r, err := s.Run(tr, use, 16*day, 17*day)
				require.NoError(b, err)
				b.ReportMetric(r.PodHours/24, "pods")
			}
		})
	}
}
