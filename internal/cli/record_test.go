package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRecordUntil: a record ends at the time of day that comes next; after one at the end of the day nothing is to be done before midnight.
func TestRecordUntil(t *testing.T) {
	day := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct{ until, now, end string }{
		{"23:58", "00:00", "23:58"},
		{"23:58", "14:30", "23:58"},
		{"23:58", "23:57", "23:58"},
		{"23:58", "23:58", "23:58"},
		{"23:58", "23:59", "23:58"},
		{"08:00", "14:30", "32:00"},
		{"23:54", "23:56", "47:54"},
	} {
		parse := func(text string) time.Time {
			d, err := time.ParseDuration(text[:2] + "h" + text[3:] + "m")
			require.NoError(t, err)
			return day.Add(d)
		}
		end, err := (&recordFlags{until: c.until}).end(parse(c.now))
		require.NoError(t, err)
		require.Equal(t, parse(c.end), end, "%s at %s", c.until, c.now)
	}
	_, err := (&recordFlags{until: "24:00"}).end(day)
	require.ErrorContains(t, err, "--until 24:00: want a time of day such as 23:58")
}
