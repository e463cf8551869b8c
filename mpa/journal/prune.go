package journal

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/internal/durable"
)

var fileName = regexp.MustCompile(`^(.+\.jsonl)(\.[0-9]+|\.broken)?$`)

// A kept journal is the files of one below a folder.
type kept struct {
	path    string
	files   []string
	bytes   int64
	written time.Time // the last of them
}

// Prune removes the journals below a folder whose files were all written before a time,
// and folders that become empty. Open journals stay. It tries all of them and returns the
// errors together.
func Prune(dir string, since time.Time) error {
	list, err := list(dir)
	errs := []error{err}
	for _, k := range list {
		if k.written.Before(since) {
			_, err := remove(dir, k)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Shrink removes journals below a folder of which keep is false, the oldest first, of each folder in it whose journals have more
// bytes than an equal share of a total. It returns the paths.
func Shrink(dir string, total int64, keep func(path string) bool) (gone []string, err error) {
	list, err := list(dir)
	errs := []error{err}
	has := map[string]int64{}
	for _, k := range list {
		has[filepath.Dir(k.path)] += k.bytes
	}
	share := total / int64(max(1, len(has)))
	slices.SortFunc(list, func(a, b kept) int { return cmp.Or(a.written.Compare(b.written), cmp.Compare(a.path, b.path)) })
	for _, k := range list {
		if has[filepath.Dir(k.path)] <= share || keep(k.path) {
			continue
		}
		removed, err := remove(dir, k)
		errs = append(errs, err)
		if removed {
			has[filepath.Dir(k.path)] -= k.bytes
			gone = append(gone, k.path)
		}
	}
	return gone, errors.Join(errs...)
}

// list returns the journals below a folder.
func list(dir string) ([]kept, error) {
	journals := map[string]*kept{}
	var errs []error
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		match := fileName.FindStringSubmatch(filepath.Base(path))
		switch {
		case d != nil && d.IsDir() && d.Name() == "lost+found": // a volume's own, which only root may read
			return fs.SkipDir
		case errors.Is(err, fs.ErrNotExist): // nothing was written yet, or another process is removing it
			return nil
		case err != nil:
			errs = append(errs, err)
			return nil
		case d.IsDir() || match == nil:
			return nil
		}
		info, gone := d.Info()
		if gone != nil { // another process is removing it
			return nil //nolint:nilerr // the next look sees no file
		}
		of := filepath.Join(filepath.Dir(path), match[1])
		if journals[of] == nil {
			journals[of] = &kept{path: of}
		}
		k := journals[of]
		k.files, k.bytes = append(k.files, path), k.bytes+info.Size()
		if info.ModTime().After(k.written) {
			k.written = info.ModTime()
		}
		return nil
	})
	var all []kept
	for _, k := range journals {
		all = append(all, *k)
	}
	return all, errors.Join(errs...)
}

// remove removes the files of a journal, unless a process has it open.
func remove(dir string, k kept) (removed bool, err error) {
	file, err := os.Open(k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // only old or broken ones remain
	case err != nil:
		return false, err
	default:
		defer func() { _ = file.Close() }()
		if durable.TryLock(file) != nil {
			return false, nil
		}
	}
	for _, name := range k.files {
		if err := os.Remove(name); err != nil {
			return false, err
		}
	}
	if parent := filepath.Dir(k.path); parent != filepath.Clean(dir) {
		_ = os.Remove(parent) // fails unless it is empty
	}
	return true, nil
}
