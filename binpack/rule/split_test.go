package rule_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

// TestSplit: an item whose group may have one on a machine goes by one rule, any other by
// the other; terms of an explanation are those of its rule.
func TestSplit(t *testing.T) {
	s := twoDims.state(t)
	all := []int32{0, 1, 2}
	item := binpack.Item{App: 2}
	scorer := rule.Split{OnePerNode: rule.BestFit{}, Others: rule.WorstFit{}}.Scorer(s)
	for limit, own := range map[int32]binpack.Policy{0: rule.WorstFit{}, 1: rule.BestFit{}, 2: rule.WorstFit{}} {
		s.Instance().Groups[2].Limit = limit
		got, want := make([]float64, 3), make([]float64, 3)
		scorer.Score(item, all, got)
		own.Scorer(s).Score(item, all, want)
		require.Equal(t, want, got, "limit %d", limit)
		require.Equal(t,
			own.Scorer(s).(binpack.Explainer).Explain(item, 0),
			scorer.(binpack.Explainer).Explain(item, 0), "limit %d", limit)
	}
}

// TestSplitMarks: it has a mark that both its rules have.
func TestSplitMarks(t *testing.T) {
	s := twoDims.state(t)
	most := rule.MostAllocated{Ties: byPosition}
	for _, tt := range []struct {
		one, others    binpack.Policy
		byClass, grows bool
	}{
		{rule.BestFit{}, rule.BestFit{}, true, true},
		{rule.BestFit{}, rule.WorstFit{}, true, true},
		{most, rule.BestFit{}, true, false},
		{rule.BestFit{}, rule.NextFit{}, false, false},
	} {
		scorer := rule.Split{OnePerNode: tt.one, Others: tt.others}.Scorer(s)
		_, byClass := scorer.(binpack.ClassScorer)
		_, grows := scorer.(binpack.Grower)
		require.Equal(t, tt.byClass, byClass, "%T %T", tt.one, tt.others)
		require.Equal(t, tt.grows, grows, "%T %T", tt.one, tt.others)
	}
}
