package rule_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/rule"
)

func TestNextFit(t *testing.T) {
	// Machine 1 took the last item, machine 2 is empty.
	require.Equal(t, []float64{0, 2, 1}, twoDims.scores(t, rule.NextFit{}))
	full := twoDims
	full.apps = [][]int64{{4, 4}, {10, 16}, {2, 5}} // 4 are left on machine 1
	require.EqualValues(t, 2, full.chosen(t, rule.NextFit{}))
	full.standing = [][]int32{{0}, {1}, {1, 0}}
	full.machines = [][]int64{{10, 20}, {20, 20}, {20, 20}} // full, and no empty machine
	require.EqualValues(t, 0, full.chosen(t, rule.NextFit{}))
}
