package rule_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

func TestRandom(t *testing.T) {
	s := twoDims.state(t)
	const draws = 30_000
	count := make([]int, 3)
	for seed := range uint64(3) {
		scorer := rule.Random{Seed: seed}.Scorer(s)
		for i := range uint64(draws / 3) {
			m, err := s.Choose(scorer, binpack.Item{App: 2, Serial: i})
			require.NoError(t, err)
			count[m]++
		}
	}
	for m := range count { // a third each; the standard deviation is 82
		require.InDelta(t, draws/3, count[m], 400)
	}
	again := twoDims.scores(t, rule.Random{Seed: 4})
	require.Equal(t, again, twoDims.scores(t, rule.Random{Seed: 4}))
	require.NotEqual(t, again, twoDims.scores(t, rule.Random{Seed: 5}))
}
