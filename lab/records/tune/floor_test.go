package tune

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
)

// One cluster of each kind: a row for each record, and the page.
func TestFloor(t *testing.T) {
	docs := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(docs, "results"), 0o755))
	var log bytes.Buffer
	require.NoError(t, Floor(t.Context(), Config{Docs: docs, Log: &log, Version: "v", Seconds: func() float64 { return 0 }, First: 600601, Clusters: 1}))
	page, err := os.ReadFile(filepath.Join(docs, FloorPage))
	require.NoError(t, err)
	for _, want := range []string{"| one size | one day | no | 1 |", "| several sizes | a snapshot | no | 1 |", "--first 600601 --clusters 1 --trained 0"} {
		require.Contains(t, string(page), want)
	}
	require.Equal(t, 4, strings.Count(log.String(), " trainings: "))

	require.NoError(t, Floor(t.Context(), Config{Docs: docs, Log: &log, Version: "v", Seconds: func() float64 { return 0 }, First: 600601, Clusters: 1, Limited: true}))
	limited, err := os.ReadFile(filepath.Join(docs, LimitedPage))
	require.NoError(t, err)
	require.Contains(t, string(limited), "--trained 0 --limited")
	none := "| one size | none | no | 1 | 0 | +0.00 ± 0.00 |"
	require.Contains(t, string(page), none)
	require.Contains(t, string(limited), none)
	require.NotEqual(t, rowOf(string(page), none), rowOf(string(limited), none), "the same clusters")
}

// rowOf is the rest of the first row that begins so.
func rowOf(page, start string) string {
	_, rest, _ := strings.Cut(page, start)
	rest, _, _ = strings.Cut(rest, "\n")
	return rest
}

// A snapshot has the items that live, and no events; a day ends before the next.
func TestRecorded(t *testing.T) {
	tr, err := generate.Generate("kubernetes", 600602, map[string]string{"nodes": "5"})
	require.NoError(t, err)
	now := recorded(tr, "a snapshot")
	require.Empty(t, now.Events)
	require.Equal(t, len(now.Requests), now.Initial)
	require.Greater(t, now.Initial, 30)
	one := recorded(tr, "one day")
	require.Less(t, one.Events[len(one.Events)-1].Time, day)
}

func TestSpread(t *testing.T) {
	require.Equal(t, "+2.00 ± 1.00", spread([]float64{1, 3}))
	require.Equal(t, 1, above([]float64{1, 1.1, -2}))
}
