package rule_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/rule"
)

func TestWorstFit(t *testing.T) {
	// 4/10 + 14/20 = 1.1; 8/20 + 2/20 = .5; the empty one 8/10 + 18/20 − (2·2 + 1) = −3.3.
	require.InDeltaSlice(t, []float64{1.1, .5, -3.3}, twoDims.scores(t, rule.WorstFit{}), 1e-15)
	require.EqualValues(t, 0, twoDims.chosen(t, rule.WorstFit{}))
}

// TestWorstFitNothingTaken: a machine in use from which nothing is taken is not
// an empty one, though their amounts are equal.
func TestWorstFitNothingTaken(t *testing.T) {
	tb := table{machines: [][]int64{{4}, {4}}, apps: [][]int64{{0}, {1}}, standing: [][]int32{nil, {0}}}
	require.EqualValues(t, 1, tb.chosen(t, rule.WorstFit{}))
}
