package rule_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

func TestMoveToFront(t *testing.T) {
	// The first placement went to machine 0, the second to machine 1.
	require.Equal(t, []float64{1, 2, 0}, twoDims.scores(t, rule.MoveToFront{}))
	s := twoDims.state(t)
	s.Remove(1, 1, nil) // an emptied machine is no longer at the front
	m, err := s.Choose(rule.MoveToFront{}.Scorer(s), binpack.Item{App: 2})
	require.NoError(t, err)
	require.EqualValues(t, 0, m)
}
