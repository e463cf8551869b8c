package rule_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/rule"
)

func TestDotProduct(t *testing.T) {
	// 2·6/10² + 2·16/20² = .2; 2·10/20² + 2·4/20² = .07; the empty one
	// 2·10/10² + 2·20/20² − (2·2 + 1) = −4.7.
	require.InDeltaSlice(t, []float64{.2, .07, -4.7}, twoDims.scores(t, rule.DotProduct{}), 1e-15)
	require.EqualValues(t, 0, twoDims.chosen(t, rule.DotProduct{}))
}
