package rule_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/rule"
)

func TestHarmonic(t *testing.T) {
	// Of 12: 6 and 5 go twice (class 2), 4 three times, 1 twelve times (the last
	// class), 7 once. By the dominant dimension, of 12 × 12: (1, 5) is class 2.
	tb := table{
		machines: [][]int64{{12, 12}, {12, 12}, {12, 12}, {12, 12}, {12, 12}},
		apps:     [][]int64{{6, 1}, {4, 4}, {1, 1}, {0, 1}, {7, 1}, {1, 5}},
		standing: [][]int32{{1}, {0}, {2, 3}, nil, {2, 0}},
	}
	// Machine 0 is of class 3, 1 of class 2, 2 of the last, 3 empty, and 4 of the
	// class of its largest item, 2.
	require.Equal(t, []float64{0, 2, 0, 1, 2}, tb.scores(t, rule.Harmonic{}))
	require.EqualValues(t, 1, tb.chosen(t, rule.Harmonic{}))
	// An item of class 1 finds none of its class and takes the empty machine;
	// without one, any.
	tb.apps[5] = []int64{7, 1}
	require.Equal(t, []float64{0, 0, 0, 1, 0}, tb.scores(t, rule.Harmonic{}))
	tb.standing[3] = []int32{1}
	require.EqualValues(t, 0, tb.chosen(t, rule.Harmonic{}))
}

func TestHarmonicKinds(t *testing.T) {
	// 5 is class 2 on a machine of 10 and class 4 on one of 20; 4 is class 5 there.
	tb := table{
		machines: [][]int64{{10}, {20}, {20}},
		apps:     [][]int64{{4}, {5}},
		standing: [][]int32{{1}, {0}, {1}},
	}
	require.Equal(t, []float64{2, 0, 2}, tb.scores(t, rule.Harmonic{}))
}
