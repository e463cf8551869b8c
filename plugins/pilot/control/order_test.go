package control

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOrderKeepsItsDays: the days of an order stay for its Job when the record has removed them.
func TestOrderKeepsItsDays(t *testing.T) {
	b := ordersJobs(t)
	job := b.job()
	d, s := b.order(), b.r.loops["general"].worker.shelf
	require.NotEmpty(t, d.Lesson.Window.Files)
	days, err := filepath.Glob(filepath.Join(s.dir, segmentsDir, "events", "*.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, days)
	for _, file := range days {
		require.NoError(t, os.Remove(file))
	}
	require.NoError(t, b.container(t.Context(), job))
	text, err := os.ReadFile(filepath.Join(s.jobDir(d.Lesson.Job), resultFile))
	require.NoError(t, err)
	var r result
	require.NoError(t, json.Unmarshal(text, &r))
	require.Empty(t, r.Trained.Failed)
}

// TestTake: a file that cannot be linked, as its name is taken, is copied.
func TestTake(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	require.NoError(t, os.WriteFile(from, []byte("day"), 0o600))
	same := func() bool {
		a, err := os.Stat(from)
		require.NoError(t, err)
		b, err := os.Stat(to)
		require.NoError(t, err)
		return os.SameFile(a, b)
	}
	require.NoError(t, take(from, to))
	require.True(t, same(), "it is linked")
	require.NoError(t, os.Remove(to))
	require.NoError(t, os.WriteFile(to, nil, 0o600))
	require.NoError(t, take(from, to))
	require.False(t, same(), "it is copied")
	text, err := os.ReadFile(to)
	require.NoError(t, err)
	require.Equal(t, "day", string(text))
	require.ErrorIs(t, take(filepath.Join(dir, "none"), to), os.ErrNotExist)
}
