package durable_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/internal/durable/killtest"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func put(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestWriteFileKilledAtEachStep(t *testing.T) {
	kills := killtest.EachStep(t,
		func(dir string) { put(t, filepath.Join(dir, "f"), "old") },
		func(dir string) error { return durable.WriteFile(filepath.Join(dir, "f"), text("new")) },
		func(dir, next string) {
			want := "old"
			if next == "" || next == "sync the folder of f" {
				want = "new"
			}
			require.Equal(t, want, read(t, filepath.Join(dir, "f")), "killed before: %s", next)
			require.NoError(t, durable.WriteFile(filepath.Join(dir, "f"), text("newer")))
			require.Equal(t, "newer", read(t, filepath.Join(dir, "f")))
			require.Equal(t, []string{"f"}, names(t, dir), "killed before: %s", next)
		})
	require.Equal(t, 5, kills)
}

func TestWriteFileFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	put(t, path, "old")
	full := errors.New("no space left")
	require.ErrorIs(t, durable.WriteFile(path, func(w io.Writer) error {
		return errors.Join(text("half of ")(w), full)
	}), full)
	require.Equal(t, "old", read(t, path))
	require.Equal(t, []string{"f"}, names(t, dir))

	require.ErrorContains(t, durable.WriteFile(filepath.Join(dir, "no", "f"), text("")), "there is no folder "+filepath.Join(dir, "no"))
	require.ErrorContains(t, durable.WriteFile(dir, text("")), "exists and is not a regular file")
	require.ErrorContains(t, durable.WriteFile(os.DevNull, text("")), "exists and is not a regular file")
}

// A second writer gets an error, and does not disturb the first.
func TestCreateOfTwoWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	first, err := durable.Create(path)
	require.NoError(t, err)
	require.NoError(t, text("first")(first))
	_, err = durable.Create(path)
	require.ErrorContains(t, err, "f: another process is writing it now")
	require.NoError(t, first.Commit())
	first.Discard()
	require.Equal(t, "first", read(t, path))

	second, err := durable.Create(path)
	require.NoError(t, err)
	require.NoError(t, text("second")(second))
	second.Discard()
	require.Equal(t, "first", read(t, path))
	require.Equal(t, []string{"f"}, names(t, filepath.Dir(path)))
}

func TestWriteFileThroughLink(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "there", "f"), "old")
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(filepath.Join(dir, "there", "f"), link))
	require.NoError(t, durable.WriteFile(link, text("new")))
	require.Equal(t, "new", read(t, filepath.Join(dir, "there", "f")))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&os.ModeSymlink)
}
