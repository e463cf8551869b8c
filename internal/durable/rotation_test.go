package durable_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/internal/durable/killtest"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func openRotating(path string, r durable.Rotation) (*durable.RotatingLog[record], error) {
	return durable.OpenRotatingLog(path, durable.Format[record]{}, r)
}

func mustRotate(t *testing.T, path string, r durable.Rotation) *durable.RotatingLog[record] {
	t.Helper()
	log, err := openRotating(path, r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	return log
}

// rotated are the files of a log as text, in order.
func rotated(t *testing.T, path string) (texts []string) {
	t.Helper()
	paths, err := durable.Aside(path)
	require.NoError(t, err)
	for _, path := range append(paths, path) {
		texts = append(texts, read(t, path))
	}
	return texts
}

func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	put(t, path+".old", "not ours")
	put(t, path+".20260504T1200.000Z", "nor this")
	log := mustRotate(t, path, durable.Rotation{Bytes: 40, Files: 2})
	require.NoError(t, os.Chmod(path, 0o600))
	for i := range 5 {
		require.NoError(t, log.Check(noon))
		require.False(t, log.Full())
		require.NoError(t, log.Append(record{Name: fmt.Sprint("a", i)}, record{Name: "b"}, record{Name: "c"}))
		require.True(t, log.Full())
		require.NoError(t, log.Begin(noon, record{Name: fmt.Sprint("begin", i)}))
		require.NoError(t, log.Prune())
		_, _, err := open(path)
		require.ErrorContains(t, err, "another writer has it open")
	}
	require.Equal(t, path, log.Path())
	body := func(i int) string { return line(fmt.Sprint("a", i)) + line("b") + line("c") }
	require.Equal(t, []string{line("begin2") + body(3), line("begin3") + body(4), line("begin4")}, rotated(t, path))
	paths, err := durable.Aside(path)
	require.NoError(t, err)
	require.Equal(t, []string{path + ".20260504T120000.003Z", path + ".20260504T120000.004Z"}, paths)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())

	// A beginning larger than the limit is followed by as much.
	long := record{Name: strings.Repeat("x", 60)}
	require.NoError(t, log.Append(long))
	require.NoError(t, log.Begin(noon.Add(-time.Hour), long)) // the clock was set back
	require.False(t, log.Full())
	require.NoError(t, log.Append(record{Name: "a"}))
	require.False(t, log.Full())
	require.NoError(t, log.Append(long))
	require.True(t, log.Full())
	paths, err = durable.Aside(path)
	require.NoError(t, err)
	require.Equal(t, path+".20260504T120000.005Z", paths[len(paths)-1])
}

// A link stays one, and the files are where it points to.
func TestRotationBehindALink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(filepath.Join(dir, "log"), link))
	log := mustRotate(t, link, durable.Rotation{Bytes: 1})
	require.NoError(t, log.Append(record{Name: "a"}))
	require.NoError(t, log.Begin(noon, record{Name: "b"}))
	require.Equal(t, []string{line("a"), line("b")}, rotated(t, filepath.Join(dir, "log")))
	require.Equal(t, line("b"), read(t, link))
}

func TestRotationByOthers(t *testing.T) {
	start := func(t *testing.T) (*durable.RotatingLog[record], string) {
		path := filepath.Join(t.TempDir(), "log")
		log := mustRotate(t, path, durable.Rotation{})
		require.NoError(t, log.Append(record{Name: "a"}, record{Name: "b"}))
		require.NoError(t, log.Check(noon))
		return log, path
	}
	t.Run("renamed", func(t *testing.T) {
		log, path := start(t)
		require.NoError(t, os.Rename(path, path+"-1"))
		require.NoError(t, log.Check(noon.Add(time.Second-1)), "it looks once a second")
		require.ErrorIs(t, log.Check(noon.Add(time.Second)), durable.ErrMoved)
		require.NoError(t, log.Append(record{Name: "c"}), "the file still takes lines")
		require.NoError(t, log.Begin(noon, record{Name: "d"}))
		require.Equal(t, line("a")+line("b")+line("c"), read(t, path+"-1"))
		require.Equal(t, line("d"), read(t, path))
		require.NoError(t, log.Check(noon.Add(time.Hour)))
	})
	t.Run("another's file is there", func(t *testing.T) {
		log, path := start(t)
		require.NoError(t, os.Remove(path))
		put(t, path, "a letter\n")
		require.ErrorIs(t, log.Check(noon.Add(time.Second)), durable.ErrMoved)
		require.ErrorContains(t, log.Begin(noon, record{Name: "d"}), "not the beginning of such a file")
		require.Equal(t, "a letter\n", read(t, path))
		require.NoError(t, os.Remove(path))
		other, _ := mustOpen(t, path)
		require.ErrorContains(t, log.Begin(noon, record{Name: "d"}), "another writer has it open")
		require.NoError(t, other.Close())
		require.NoError(t, log.Begin(noon, record{Name: "d"}))
		require.Equal(t, line("d"), read(t, path))
	})
	t.Run("cut", func(t *testing.T) {
		log, path := start(t)
		require.NoError(t, os.Truncate(path, 0))
		require.ErrorIs(t, log.Check(noon), durable.ErrCut)
		require.NoError(t, log.Begin(noon, record{Name: "d"}))
		require.Equal(t, []string{line("d")}, rotated(t, path))
		require.NoError(t, log.Check(noon))
	})
	t.Run("cut in a line", func(t *testing.T) {
		log, path := start(t)
		require.NoError(t, os.Truncate(path, 20))
		require.ErrorIs(t, log.Check(noon), durable.ErrCut)
		require.NoError(t, log.Begin(noon, record{Name: "d"}))
		require.Equal(t, []string{(line("a") + line("b"))[:20], line("d")}, rotated(t, path))
	})
}

// A write that fails after another program cut the file brings nothing back: the file
// stays as short as it was cut.
func TestAppendLogCutAndFull(t *testing.T) {
	for _, left := range []int64{0, 13} {
		path := filepath.Join(t.TempDir(), "log")
		log, _ := mustOpen(t, path)
		for range 100 {
			require.NoError(t, log.Append(record{Name: "a"}))
		}
		require.NoError(t, os.Truncate(path, left))
		durable.On(log, &durable.Disk{Room: 5})
		require.ErrorIs(t, log.Append(record{Name: "b"}), io.ErrShortWrite)
		require.Equal(t, line("a")[:left], read(t, path))
	}
	// Nor does a write that could not be mended before.
	path := filepath.Join(t.TempDir(), "log")
	log, _ := mustOpen(t, path)
	require.NoError(t, log.Append(record{Name: "a"}))
	disk := &durable.Disk{Room: 5, FailTruncate: errors.New("broken")}
	durable.On(log, disk)
	require.Error(t, log.Append(record{Name: "b"}))
	require.NoError(t, os.Truncate(path, 0))
	disk.Room, disk.FailTruncate = 100, nil
	require.NoError(t, log.Append(record{Name: "c"}))
	require.Equal(t, line("c"), read(t, path))
}

// A kill at any step of a rotation loses nothing that was written: there are the files
// before, or those after, and the next writer goes on.
func TestRotationKilledAtEachStep(t *testing.T) {
	kills := killtest.EachStep(t,
		func(dir string) {
			put(t, filepath.Join(dir, "log"), line("a"))
			put(t, filepath.Join(dir, "log.20260504T110000.000Z"), line("old"))
		},
		func(dir string) error {
			log, err := openRotating(filepath.Join(dir, "log"), durable.Rotation{Bytes: 20, Files: 1})
			if err != nil {
				return err
			}
			return errors.Join(log.Append(record{Name: "b"}), log.Begin(noon, record{Name: "begin"}), log.Prune(), log.Append(record{Name: "c"}), log.Close())
		},
		func(dir, next string) {
			path := filepath.Join(dir, "log")
			log := mustRotate(t, path, durable.Rotation{})
			texts := strings.Join(rotated(t, path), "|")
			require.Contains(t, []string{
				line("old") + "|" + line("a"),
				line("old") + "|" + line("a") + line("b"),
				line("old") + "|" + line("a") + line("b") + "|" + line("begin"),
				line("a") + line("b") + "|" + line("begin"),
				line("a") + line("b") + "|" + line("begin") + line("c"),
			}, texts, "killed before: %s", next)
			if next == "" {
				require.Equal(t, line("a")+line("b")+"|"+line("begin")+line("c"), texts)
			}
			require.NoError(t, log.Begin(noon, record{Name: "again"}))
			require.True(t, strings.HasSuffix(read(t, path), line("again")))
			require.NoError(t, log.Close())
			mustRotate(t, path, durable.Rotation{})
		})
	require.Equal(t, 9, kills)
}

// A rotation that fails leaves the log as it was.
func TestRotationFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	log := mustRotate(t, path, durable.Rotation{Bytes: 1})
	require.NoError(t, log.Append(record{Name: "a"}))
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".log.new"), 0o700)) // in the way
	put(t, filepath.Join(dir, ".log.new", "x"), "")
	require.Error(t, log.Begin(noon, record{Name: "b"}))
	require.NoError(t, log.Append(record{Name: "c"}))
	require.Equal(t, []string{line("a") + line("c")}, rotated(t, path))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, ".log.new")))
	require.NoError(t, log.Begin(noon, record{Name: "d"}))
	require.Equal(t, []string{line("a") + line("c"), line("d")}, rotated(t, path))
}

// A second writer is refused at each moment of a rotation.
func TestRotationIsLockedThroughout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log := mustRotate(t, path, durable.Rotation{Bytes: 1, Files: 1})
	done := make(chan struct{})
	var tries sync.WaitGroup
	tries.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if other, _, err := open(path); err == nil {
					t.Error("a second writer was let in")
					_ = other.Close()
					return
				}
			}
		}
	})
	for i := range 300 {
		require.NoError(t, log.Append(record{Name: "a"}))
		require.NoError(t, log.Begin(noon.Add(time.Duration(i)*time.Second), record{Name: "b"}))
		require.NoError(t, log.Prune())
	}
	close(done)
	tries.Wait()
	require.Equal(t, []string{line("b") + line("a"), line("b")}, rotated(t, path))
}
