package rule_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/rule"
)

func TestFirstFit(t *testing.T) {
	require.Equal(t, []float64{0, 0, 0}, twoDims.scores(t, rule.FirstFit{}))
	require.EqualValues(t, 0, twoDims.chosen(t, rule.FirstFit{}))
	full := twoDims
	full.standing = [][]int32{{0, 0}, {1}} // 2 × 12 left on machine 0: still the first
	require.EqualValues(t, 0, full.chosen(t, rule.FirstFit{}))
	full.apps = [][]int64{{4, 4}, {10, 16}, {3, 2}}
	require.EqualValues(t, 1, full.chosen(t, rule.FirstFit{}))
}
