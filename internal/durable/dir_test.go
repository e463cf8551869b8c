package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/internal/durable/killtest"
)

// files are the contents of all files below a folder, by path.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	contents := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			contents[path[len(dir)+1:]] = read(t, path)
		}
		return err
	}))
	return contents
}

// fill writes two files, one of them in a folder.
func fill(version string) func(dir string) error {
	return func(dir string) error {
		return errors.Join(
			os.WriteFile(filepath.Join(dir, "a"), []byte(version), 0o600),
			os.Mkdir(filepath.Join(dir, "deep"), 0o700),
			os.WriteFile(filepath.Join(dir, "deep", version), []byte(version), 0o600))
	}
}

func isMine(name string) bool { return name == "mine" || name == ".git" }

// Whatever kills a write of a folder, the old one or the new one is there, whole,
// at once where folders can be exchanged, else after the next write began. What the
// user has put there is never lost.
func TestWriteDirKilledAtEachStep(t *testing.T) {
	for name, prepare := range map[string]func() (undo func()){
		"exchange": func() func() { return func() {} }, "two renames": durable.WithoutExchange,
	} {
		t.Run(name, func(t *testing.T) {
			defer prepare()()
			before := map[string]string{"a": "old", "deep/old": "old", "mine": "mine", ".git/config": "mine"}
			after := map[string]string{"a": "new", "deep/new": "new", "mine": "mine", ".git/config": "mine"}
			gone := 0
			kills := killtest.EachStep(t,
				func(dir string) {
					for name, text := range before {
						put(t, filepath.Join(dir, "d", name), text)
					}
				},
				func(dir string) error { return durable.WriteDir(filepath.Join(dir, "d"), isMine, fill("new")) },
				func(dir, next string) {
					d := filepath.Join(dir, "d")
					if _, err := os.Stat(d); errors.Is(err, fs.ErrNotExist) {
						gone++
						require.Equal(t, before, files(t, filepath.Join(dir, ".d.old")), "killed before: %s", next)
					} else if got := files(t, d); got["a"] == "old" {
						require.Equal(t, before, got, "killed before: %s", next)
					} else {
						for _, name := range []string{"a", "deep/new"} {
							require.Equal(t, after[name], got[name], "killed before: %s", next)
						}
					}
					failed := errors.New("failed")
					require.ErrorIs(t, durable.WriteDir(d, isMine, func(dir string) error { return failed }), failed)
					if got := files(t, d); next != "" && got["a"] == "old" {
						require.Equal(t, before, got, "killed before: %s", next)
					} else {
						require.Equal(t, after, got, "killed before: %s", next)
					}
					require.Equal(t, []string{"d"}, names(t, dir), "killed before: %s", next)

					require.NoError(t, durable.WriteDir(d, isMine, fill("new")))
					require.Equal(t, after, files(t, d), "killed before: %s", next)
					require.Equal(t, []string{"d"}, names(t, dir))
				})
			if name == "exchange" {
				require.Zero(t, gone, "there was a moment without the folder")
			} else {
				require.Equal(t, 1, gone)
			}
			require.Greater(t, kills, 8)
		})
	}
}

func TestWriteDirNew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x", "y")
	kills := killtest.EachStep(t,
		func(string) {},
		func(dir string) error { return durable.WriteDir(filepath.Join(dir, "x", "y"), nil, fill("new")) },
		func(dir, next string) {
			d := filepath.Join(dir, "x", "y")
			if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) {
				require.Equal(t, map[string]string{"a": "new", "deep/new": "new"}, files(t, d), "killed before: %s", next)
			}
			require.NoError(t, durable.WriteDir(d, nil, fill("newer")))
			require.Equal(t, map[string]string{"a": "newer", "deep/newer": "newer"}, files(t, d))
			require.Equal(t, []string{"y"}, names(t, filepath.Join(dir, "x")))
		})
	require.Equal(t, 4, kills)

	require.NoError(t, durable.WriteDir(dir, nil, fill("old")))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	require.NoError(t, durable.WriteDir(link, nil, fill("new")))
	require.Equal(t, map[string]string{"a": "new", "deep/new": "new"}, files(t, dir))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)

	require.ErrorContains(t, durable.WriteDir(filepath.Join(dir, "a"), nil, fill("new")), "exists and is not a folder")
	require.Equal(t, "new", read(t, filepath.Join(dir, "a")))
}

// Several processes may write folders side by side.
// What cannot be replaced is refused before write is asked, and stays.
func TestWriteDirRefuses(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink("nowhere", link))
	for path, want := range map[string]string{link: "is a symbolic link to what does not exist", "": "the name is empty"} {
		err := durable.WriteDir(path, nil, func(string) error { t.Error("asked for " + path); return nil })
		require.EqualError(t, err, "writing "+path+": "+want)
	}
	to, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, "nowhere", to)
}

func TestWriteDirSideBySide(t *testing.T) {
	parent := t.TempDir()
	done := make(chan error)
	for _, name := range []string{"a", "b", "a", "b"} {
		go func() { done <- durable.WriteDir(filepath.Join(parent, name), nil, fill(name)) }()
	}
	for range 4 {
		require.NoError(t, <-done)
	}
	require.Equal(t, []string{"a", "b"}, names(t, parent))
}
