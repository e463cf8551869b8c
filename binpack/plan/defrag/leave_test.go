package defrag

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLeaveOrder(t *testing.T) {
	sizes := []float64{3, 1, 5, 3, 2, 4}
	for _, tt := range []struct {
		excess float64
		want   []int
	}{
		{3, []int{0, 3, 5, 2, 4, 1}}, // the smallest that suffices, and of two alike the first
		{0, []int{1, 4, 0, 3, 5, 2}},
		{9, []int{2, 5, 0, 3, 4, 1}}, // none suffices: the largest
	} {
		require.Equal(t, tt.want, LeaveOrder(sizes, tt.excess))
	}
	require.Empty(t, LeaveOrder(nil, 1))
}
