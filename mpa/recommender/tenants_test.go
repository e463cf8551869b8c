package recommender

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each namespace has an equal share of the volume for journals, whatever number of objects the other one has. An object whose
// part is too small decides without a journal.
func TestTwoTenantsShareJournals(t *testing.T) {
	w := newWorld(t)
	w.options.JournalDir, w.options.JournalBytes, w.options.JournalTotal = t.TempDir(), 1<<30, 8<<20
	journals := func() (names []string) {
		names, err := filepath.Glob(filepath.Join(w.options.JournalDir, "*", "*.jsonl"))
		require.NoError(t, err)
		return names
	}
	w.of["a"] = 5000
	require.NotNil(t, w.step(0).Status.Recommendation)
	require.Len(t, journals(), 1)
	require.Equal(t, int64(4<<20), w.journalBytes("shop"), "half of it is for the other namespace")
	require.Less(t, w.journalBytes("a"), int64(leastJournal))

	crowded := newWorld(t)
	w.options.JournalDir = t.TempDir()
	crowded.options = w.options
	crowded.of["shop"] = 5000
	require.NotNil(t, crowded.step(0).Status.Recommendation)
	require.NotNil(t, crowded.step(15*time.Second).Status.Recommendation)
	require.Empty(t, journals())
	require.Len(t, crowded.full, 1)
}
