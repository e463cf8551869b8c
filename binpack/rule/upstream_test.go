package rule_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

var byPosition = rule.Ties{ByPosition: true}

// lab/oracle compares these with kube-scheduler's own code.
func TestMostAllocated(t *testing.T) {
	// With the item 6/10, 6/20 → (60 + 30)/2 = 45; 12/20, 18/20 → (60 + 90)/2 = 75;
	// 2/10, 2/20 → (20 + 10)/2 = 15.
	require.Equal(t, []float64{45, 75, 15}, twoDims.scores(t, rule.MostAllocated{Ties: byPosition}))
	// Floors at both divisions: 2/3 → 66, 1/7 → 14, 80/2 = 40.
	tb := table{machines: [][]int64{{3, 7}}, apps: [][]int64{{2, 1}}}
	require.Equal(t, []float64{40}, tb.scores(t, rule.MostAllocated{Ties: byPosition}))
}

func TestLeastAllocated(t *testing.T) {
	// 4/10, 14/20 → (40 + 70)/2 = 55; 8/20, 2/20 → 25; 8/10, 18/20 → 85.
	require.Equal(t, []float64{55, 25, 85}, twoDims.scores(t, rule.LeastAllocated{Ties: byPosition}))
}

func TestRequestedToCapacityRatio(t *testing.T) {
	require.Equal(t, []float64{45, 75, 15}, twoDims.scores(t, rule.RequestedToCapacityRatio{Ties: byPosition}))
	// 2/3 → 66, 1/7 → 14, and 1/200 → 0 does not count: 80/2 = 40. 1/3 → 33 and
	// 4/7 → 57 is 45, rounded; with 2/5 → 40 it is 130/3 = 43.3 → 43.
	tb := table{machines: [][]int64{{3, 7, 200}}, apps: [][]int64{{2, 1, 1}}}
	require.Equal(t, []float64{40}, tb.scores(t, rule.RequestedToCapacityRatio{Ties: byPosition}))
	tb = table{machines: [][]int64{{3, 7, 5}}, apps: [][]int64{{1, 4, 2}}}
	require.Equal(t, []float64{43}, tb.scores(t, rule.RequestedToCapacityRatio{Ties: byPosition}))
	// 1/3 → 33, 1/2 → 50: 41.5 rounds to 42, where MostAllocated says 41.
	tb = table{machines: [][]int64{{3, 2}}, apps: [][]int64{{1, 1}}}
	require.Equal(t, []float64{42}, tb.scores(t, rule.RequestedToCapacityRatio{Ties: byPosition}))
	require.Equal(t, []float64{41}, tb.scores(t, rule.MostAllocated{Ties: byPosition}))
}

// TestResources: dimensions count by their weights, and those without one not at all.
func TestResources(t *testing.T) {
	weights := map[string]int64{"d0": 3, "d1": 1}
	// (3·60 + 30)/4 = 52, (3·60 + 90)/4 = 67, (3·20 + 10)/4 = 17.
	require.Equal(t, []float64{52, 67, 17}, twoDims.scores(t, rule.MostAllocated{Ties: byPosition, Resources: weights}))
	// (3·40 + 70)/4 = 47, (3·40 + 10)/4 = 32, (3·80 + 90)/4 = 82.
	require.Equal(t, []float64{47, 32, 82}, twoDims.scores(t, rule.LeastAllocated{Ties: byPosition, Resources: weights}))
	// 52.5 and 67.5 round up, and 17.5.
	require.Equal(t, []float64{53, 68, 18}, twoDims.scores(t, rule.RequestedToCapacityRatio{Ties: byPosition, Resources: weights}))
	only := map[string]int64{"d1": 7, "d9": 1}
	require.Equal(t, []float64{30, 90, 10}, twoDims.scores(t, rule.MostAllocated{Ties: byPosition, Resources: only}))
	nothing := map[string]int64{"d9": 1}
	require.Equal(t, []float64{0, 0, 0}, twoDims.scores(t, rule.MostAllocated{Ties: byPosition, Resources: nothing}))
}

// TestShape: utilisations of 60 and 30, 60 and 90, 20 and 10 percent.
func TestShape(t *testing.T) {
	for _, tt := range []struct {
		shape [][]int64
		want  []float64
	}{
		{[][]int64{{0, 0}, {100, 10}}, []float64{45, 75, 15}},
		{[][]int64{{0, 10}, {100, 0}}, []float64{55, 25, 85}},
		{[][]int64{{50, 7}}, []float64{70, 70, 70}},
		// Flat 20 up to 30, then 20 + 80·(60 − 30)/60 = 60, flat 100 from 90: 40, 80, 20.
		{[][]int64{{30, 2}, {90, 10}}, []float64{40, 80, 20}},
		// Down from 100 at 0 to 0 at 30: 100 − 100·20/30 = 100 − 66 = 34, 100 − 33 = 67; 0
		// does not count. 34 and 67 are 50.5.
		{[][]int64{{0, 10}, {30, 0}}, []float64{0, 0, 51}},
	} {
		require.Equal(t, tt.want, twoDims.scores(t, rule.RequestedToCapacityRatio{Ties: byPosition, Shape: tt.shape}), tt.shape)
	}
}

func TestBalancedAllocation(t *testing.T) {
	// With the item |.6 − .3|/2 = .15 → 85, |.6 − .9|/2 = .15 → 85, |.2 − .1|/2 = .05 → 95;
	// without it |.4 − .2|/2 → 90, |.5 − .8|/2 → 85, 0 → 100. 50 + (50 − 5)/2 = 72.
	require.Equal(t, []float64{72, 75, 72}, twoDims.scores(t, rule.BalancedAllocation{Ties: byPosition}))
	// .5, .5, 0: mean 1/3, variance (1/36 + 1/36 + 4/36)/3 = 1/18, σ = .2357 → 76, 100 without.
	tb := table{machines: [][]int64{{4, 4, 4}}, apps: [][]int64{{2, 2, 0}}}
	require.Equal(t, []float64{63}, tb.scores(t, rule.BalancedAllocation{Ties: byPosition}))
	// One dimension is always in balance: nothing changes. An item without demand is not scored.
	tb = table{machines: [][]int64{{4}}, apps: [][]int64{{1}}}
	require.Equal(t, []float64{75}, tb.scores(t, rule.BalancedAllocation{Ties: byPosition}))
	tb = table{machines: [][]int64{{4, 4}}, apps: [][]int64{{0, 0}}}
	require.Equal(t, []float64{0}, tb.scores(t, rule.BalancedAllocation{Ties: byPosition}))
}

// TestScalars: an extended resource that the item does not ask for does not
// count; cpu and memory always do.
func TestScalars(t *testing.T) {
	tb := table{
		dimensions: []string{"cpu", "memory", "example.com/gpu"},
		machines:   [][]int64{{10, 10, 8}},
		apps:       [][]int64{{5, 0, 0}},
	}
	// (50 + 0)/2 and not ÷ 3.
	require.Equal(t, []float64{25}, tb.scores(t, rule.MostAllocated{Ties: byPosition}))
	tb.apps = [][]int64{{5, 0, 4}} // (50 + 0 + 50)/3 = 33
	require.Equal(t, []float64{33}, tb.scores(t, rule.MostAllocated{Ties: byPosition}))
}

// TestRandomTies: at random by seed, but never across whole scores.
func TestRandomTies(t *testing.T) {
	first := 0
	const draws = 10_000
	s := twoDims.state(t)
	three := []int32{0, 1, 2}
	out := make([]float64, 3)
	scorer := rule.BalancedAllocation{Ties: rule.Ties{Seed: 1}}.Scorer(s)
	for i := range uint64(draws) {
		scorer.Score(binpack.Item{App: 2, Serial: i}, three, out)
		for m, want := range []int{72, 75, 72} {
			require.Equal(t, want, int(math.Floor(out[m])))
		}
		if out[0] > out[2] {
			first++
		}
	}
	require.InDelta(t, draws/2, first, 250) // five standard deviations
	_, asked := scorer.(binpack.ClassScorer)
	require.False(t, asked, "random ties depend on the position of every machine")
}
