package page

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/sheet/sheettest"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
)

var monday = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

func htmlOf(t *testing.T, h *History) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, h.Report("general", "general").HTML(&out))
	sheettest.Check(t, out.String())
	return out.String()
}

func TestHTML(t *testing.T) {
	h := &History{Currency: "EUR"}
	require.Contains(t, htmlOf(t, h), "No whole day is recorded yet.")
	for d := range 10 {
		if d != 4 { // a gap
			h.AddDay(Day{Start: monday.AddDate(0, 0, d), Current: 8, Without: 10, Bound: 5})
		}
	}
	h.AddDay(Day{Start: monday, Current: 1, Without: 1, Bound: 1})
	h.AddDay(Day{Start: monday.AddDate(0, 0, 20), Current: math.NaN()})
	require.Len(t, h.Days, 9)
	require.True(t, h.Has(monday))
	require.False(t, h.Has(monday.AddDate(0, 0, 4)))
	h.Tell(Mark{monday, "a < b is turned down"})
	since := monday.AddDate(0, 0, 1)
	h.Note(Live{Digest: "sha256:0123456789abcdef", Since: since, Promised: &pilot.Saving{Mean: 5, Low: 3, High: 7}})
	h.Note(Live{Digest: "sha256:0123456789abcdef", Since: since, Realised: &pilot.Saving{Mean: 2, Low: 1, High: 3}, Days: 4})
	h.Note(Live{})
	require.Len(t, h.Lives, 1)
	text := htmlOf(t, h)
	// 1 − 8/10 = 20 %, 8/5 − 1 = 60 %; the first week lacks a day.
	for _, want := range []string{
		"In the week from 2026-11-09 (3 days) the nodes in use cost 8 EUR an hour, where the scheduler without a policy would have needed 10",
		">2026-11-02</th><td>6</td><td>8</td><td>10</td><td>20.0</td><td>5</td><td>60.0</td>",
		"a &lt; b is turned down", "5.0 (3.0 to 7.0)</td><td>2.0 (1.0 to 3.0)</td><td>4</td><td class=\"words\">no</td>", "sha256:01234567<",
	} {
		require.Contains(t, text, want)
	}
	require.Equal(t, 1, strings.Count(text, `role="img"`))
}

// However long a pilot runs, its page stays readable.
func TestBounded(t *testing.T) {
	h := &History{}
	for i := range 1000 {
		h.AddDay(Day{Start: monday.AddDate(0, 0, i), Current: 1, Without: 1})
		h.Tell(Mark{monday, fmt.Sprint(i)})
		h.Note(Live{Digest: fmt.Sprint("sha256:", i), Since: monday.AddDate(0, 0, i)})
	}
	require.Len(t, h.Days, keptDays)
	require.Equal(t, monday.AddDate(0, 0, 999), h.Days[keptDays-1].Start)
	require.Len(t, h.Marks, keptMarks)
	require.Len(t, h.Lives, keptLives)
	require.Less(t, len(htmlOf(t, h)), 500_000, "too large for a ConfigMap")
}
