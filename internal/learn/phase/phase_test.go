package phase

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	table := Table[string]{{"shadow", time.Hour}, {"canary", 2 * time.Hour}, {"live", 0}}
	for _, tc := range []struct {
		at            string
		lasted        time.Duration
		forward, back string // "" = none
	}{
		{"shadow", time.Hour - 1, "", ""},
		{"shadow", time.Hour, "canary", ""},
		{"canary", time.Hour, "", "shadow"},
		{"canary", 3 * time.Hour, "live", "shadow"},
		{"canary", -time.Hour, "", "shadow"}, // a clock that went back
		{"live", 100 * time.Hour, "", "canary"},
		{"gone", 100 * time.Hour, "", ""},
	} {
		next, ok := table.Forward(tc.at, tc.lasted)
		require.Equal(t, tc.forward, next, "%+v", tc)
		require.Equal(t, tc.forward != "", ok, "%+v", tc)
		before, ok := table.Back(tc.at)
		require.Equal(t, tc.back, before, "%+v", tc)
		require.Equal(t, tc.back != "", ok, "%+v", tc)
	}
	require.Equal(t, -1, table.Index("gone"))
	_, ok := Table[int](nil).Forward(0, time.Hour)
	require.False(t, ok)
}
