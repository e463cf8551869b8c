package durable_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/durable"
)

// smallDisk mounts a file system of 64 KiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("sigma", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	return dir
}

// A full disk is an error, and what was there is still there: a file, a folder
// and a log.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t)
	large := bytes.Repeat([]byte("x"), 100<<10)
	writeLarge := func(w io.Writer) error {
		_, err := w.Write(large)
		return err
	}
	file, folder, path := filepath.Join(dir, "file"), filepath.Join(dir, "folder"), filepath.Join(dir, "log")
	require.NoError(t, durable.WriteFile(file, text("old")))
	require.NoError(t, durable.WriteDir(folder, nil, fill("old")))
	log, _ := mustOpen(t, path)
	require.NoError(t, log.AppendSync(record{Name: "old"}))
	before := files(t, dir)

	require.ErrorIs(t, durable.WriteFile(file, writeLarge), syscall.ENOSPC)
	require.Equal(t, before, files(t, dir))
	require.ErrorIs(t, durable.WriteDir(folder, nil, func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "a"), large, 0o600)
	}), syscall.ENOSPC)
	require.Equal(t, before, files(t, dir))
	require.ErrorIs(t, log.Append(record{Name: strings.Repeat("long", 20<<10)}), syscall.ENOSPC)
	require.Equal(t, before, files(t, dir))

	require.NoError(t, log.AppendSync(record{Name: "next"}))
	require.NoError(t, log.Close())
	_, there := mustOpen(t, path)
	require.Equal(t, []record{{Name: "old"}, {Name: "next"}}, there)
}

// A log that has no room for its next file goes on in the one that it has.
func TestRotationOnFullDisk(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "log")
	log := mustRotate(t, path, durable.Rotation{Bytes: 1})
	require.NoError(t, log.Append(record{Name: strings.Repeat("x", 40<<10)}))
	before := files(t, dir)
	require.ErrorIs(t, log.Begin(noon, record{Name: strings.Repeat("y", 40<<10)}), syscall.ENOSPC)
	require.Equal(t, before, files(t, dir))
	require.NoError(t, log.Append(record{Name: "a"}))
	require.NoError(t, log.Begin(noon, record{Name: "b"}))
	require.Equal(t, line("b"), read(t, path))
}
