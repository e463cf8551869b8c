package rule_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/rule"
)

func TestBestFitFirst(t *testing.T) {
	// (10−4−2)/10 = 4/10, (20−10−2)/20 = 8/20 = 4/10, (10−2)/10 = 8/10: a tie of
	// machines of different size, which the lower position wins.
	require.Equal(t, []float64{-.4, -.4, -.8}, twoDims.scores(t, rule.BestFitCPU{}))
	require.EqualValues(t, 0, twoDims.chosen(t, rule.BestFitCPU{}))
}

func TestBestFit(t *testing.T) {
	// 4/10 + 14/20 = 1.1; 8/20 + 2/20 = 0.5; 8/10 + 18/20 = 1.7.
	require.InDeltaSlice(t, []float64{-1.1, -.5, -1.7}, twoDims.scores(t, rule.BestFit{}), 1e-15)
	require.EqualValues(t, 1, twoDims.chosen(t, rule.BestFit{}))
}

// TestBestFitTwo: the pass for two dimensions and one kind gives the same bits
// as the general one.
func TestBestFitTwo(t *testing.T) {
	two := table{
		machines: [][]int64{{7, 13}, {7, 13}, {7, 13}},
		apps:     [][]int64{{1, 2}, {3, 5}, {1, 3}},
		standing: [][]int32{{0, 0}, {1}},
	}
	three := table{machines: [][]int64{{7, 13, 1}, {7, 13, 1}, {7, 13, 1}}, apps: [][]int64{{1, 2, 0}, {3, 5, 0}, {1, 3, 1}}, standing: two.standing}
	// −((7−2−1)/7 + (13−4−3)/13) = −(4/7 + 6/13), −(3/7 + 5/13), −(6/7 + 10/13)
	want := []float64{-(4.0/7 + 6.0/13), -(3.0/7 + 5.0/13), -(6.0/7 + 10.0/13)}
	require.InDeltaSlice(t, want, two.scores(t, rule.BestFit{}), 1e-15)
	require.Equal(t, two.scores(t, rule.BestFit{}), three.scores(t, rule.BestFit{}))
}

func TestBestFitL2(t *testing.T) {
	// .4² + .7² = .65; .4² + .1² = .17; .8² + .9² = 1.45.
	require.InDeltaSlice(t, []float64{-.65, -.17, -1.45}, twoDims.scores(t, rule.BestFitL2{}), 1e-15)
	require.EqualValues(t, 1, twoDims.chosen(t, rule.BestFitL2{}))
}

func TestZeroCapacity(t *testing.T) {
	tb := table{machines: [][]int64{{4, 0}, {8, 2}}, apps: [][]int64{{1, 0}}}
	// 3/4 + 0; 7/8 + 2/2.
	require.Equal(t, []float64{-.75, -1.875}, tb.scores(t, rule.BestFit{}))
}
