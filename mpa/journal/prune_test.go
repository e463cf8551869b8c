package journal_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/journal"
)

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, journal.Prune(filepath.Join(dir, "none"), begin))
	now := time.Now()
	file := func(name string, age time.Duration) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		require.NoError(t, os.Chtimes(path, now.Add(-age), now.Add(-age)))
		return path
	}
	const day = 24 * time.Hour
	for _, name := range []string{"gone/a.jsonl", "gone/a.jsonl.1", "gone/b.jsonl.broken", "shop/old.jsonl.3"} {
		file(name, 40*day)
	}
	kept := []string{
		file("shop/web.jsonl", time.Hour), file("shop/web.jsonl.1", 40*day), file("shop/notes.txt", 40*day),
		filepath.Join(dir, "shop/open.jsonl"),
	}
	session := open(t, kept[3], journal.Options{}, setup("static"), mpa.Memory{})
	require.NoError(t, os.Chtimes(kept[3], now.Add(-40*day), now.Add(-40*day)))
	// A volume's own folder, which only root may read, is skipped.
	kept = append(kept, file("lost+found/a.jsonl", 40*day))

	require.NoError(t, journal.Prune(dir, now.Add(-30*day)))
	var left []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if !d.IsDir() {
			left = append(left, path)
		}
		return err
	}))
	assert.ElementsMatch(t, kept, left)
	assert.NoDirExists(t, filepath.Join(dir, "gone"))
	require.NoError(t, session.Close())
}
