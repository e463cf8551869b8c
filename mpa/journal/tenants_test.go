package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/journal"
)

// Tenant a has made and deleted objects again and again. Their journals go, the oldest first, until its share is left; those
// of tenant b, of objects that exist, and those that are open, stay.
func TestTwoTenantsShareTheVolume(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	write := func(name string, age time.Duration) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, make([]byte, 1000), 0o644))
		require.NoError(t, os.Chtimes(path, now.Add(-age), now.Add(-age)))
		return path
	}
	open := open(t, filepath.Join(dir, "a/open.jsonl"), journal.Options{}, setup("static"), mpa.Memory{})
	for i := range 50 {
		write(fmt.Sprintf("a/%d.jsonl", i), time.Duration(i)*time.Minute)
	}
	old := write("b/web.jsonl", 20*24*time.Hour)
	living := write("a/living.jsonl", 30*24*time.Hour) // its object exists, and was not reconciled since the start
	gone, err := journal.Shrink(dir, 20_000, func(path string) bool { return path == living })
	require.NoError(t, err)
	require.Greater(t, len(gone), 30)
	require.FileExists(t, living)
	files, err := filepath.Glob(filepath.Join(dir, "a", "?*.jsonl"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(files), 10)
	require.Greater(t, len(files), 5)
	require.Contains(t, files, filepath.Join(dir, "a/0.jsonl"))
	require.FileExists(t, filepath.Join(dir, "a/open.jsonl"))
	require.FileExists(t, old)
	require.NoError(t, open.Close())
}

// A journal whose bound is lowered has no more than that once the next file begins.
func TestBoundIsLowered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.jsonl")
	s := open(t, path, journal.Options{MaxBytes: 60 << 10, Keep: 7}, setup("hpa+vpa"), mpa.Memory{})
	w := newWorld(2)
	w.run(t, s, 400)
	require.Greater(t, len(journal.Files(path)), 3)
	s.Bound(6 << 10)
	w.run(t, s, 100)
	require.NoError(t, s.Close())
	size := int64(0)
	for _, f := range journal.Files(path) {
		info, err := os.Stat(f)
		require.NoError(t, err)
		size += info.Size()
	}
	require.Less(t, size, int64(8*(6<<10+8<<10)), "each file may have a record more, and its start")
}
