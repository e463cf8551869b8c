package evict

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSource: a source's own limit counts what was evicted in its name, by whatever process.
func TestSource(t *testing.T) {
	s, clock := newSite("shop/web", "shop/db", "bank/db")
	const tidy, other Source = "rebalance:tidy", "rebalance:other"
	as := func(by Source, most int, name string) error {
		return New(s, Rebalance, Limits{}, clock).EvictAs(t.Context(), by, most, pod(name, "a"))
	}
	require.NoError(t, as(tidy, 2, "shop/web"))
	require.NoError(t, as(other, 1, "shop/db"))
	clock.SetTime(start.Add(time.Minute))
	require.NoError(t, as(tidy, 2, "bank/db"))
	var limit *LimitError
	require.ErrorAs(t, as(tidy, 2, "shop/db"), &limit)
	assert.Equal(t, LimitError{"source rebalance:tidy", "2 evictions within an hour, at most 2 are allowed", start.Add(time.Hour)}, *limit)
	assert.Len(t, s.evicted, 3)
	n, err := New(s, Rebalance, Limits{}, clock).Count(t.Context(), tidy)
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	clock.SetTime(limit.Until)
	require.NoError(t, as(tidy, 2, "shop/db"))

	s.before = func(call string) error {
		if call == "patch" { // the leader before this one evicts at the same time
			s.before = nil
			require.NoError(t, as(tidy, 0, "shop/web"))
		}
		return nil
	}
	clock.SetTime(start.Add(90 * time.Minute))
	require.ErrorAs(t, as(tidy, 2, "bank/db"), &limit)
}
