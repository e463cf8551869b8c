package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/sigma-scheduler/sigma/internal/durable"
)

var fileName = regexp.MustCompile(`^(.+\.jsonl)(\.[0-9]+|\.broken)?$`)

// Prune removes the journals below a folder whose files were all written before a time,
// and folders that become empty. Open journals stay. It tries all of them and returns the
// errors together.
func Prune(dir string, since time.Time) error {
	files, old := map[string][]string{}, map[string]bool{}
	var errs []error
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		match := fileName.FindStringSubmatch(filepath.Base(path))
		switch {
		case d != nil && d.IsDir() && d.Name() == "lost+found": // a volume's own, which only root may read
			return fs.SkipDir
		case errors.Is(err, fs.ErrNotExist): // nothing was written yet, or somebody is removing it
			return nil
		case err != nil:
			errs = append(errs, err)
			return nil
		case d.IsDir() || match == nil:
			return nil
		}
		journal := filepath.Join(filepath.Dir(path), match[1])
		if len(files[journal]) == 0 {
			old[journal] = true
		}
		files[journal] = append(files[journal], path)
		info, err := d.Info()
		old[journal] = old[journal] && err == nil && info.ModTime().Before(since)
		return nil
	})
	for journal := range files {
		if old[journal] {
			errs = append(errs, remove(dir, journal, files[journal]))
		}
	}
	return errors.Join(errs...)
}

// remove removes the files of a journal that nobody has open.
func remove(dir, journal string, files []string) error {
	file, err := os.Open(journal)
	switch {
	case errors.Is(err, fs.ErrNotExist): // only old or broken ones are left
	case err != nil:
		return err
	default:
		defer func() { _ = file.Close() }()
		if durable.TryLock(file) != nil {
			return nil
		}
	}
	for _, name := range files {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	if parent := filepath.Dir(journal); parent != filepath.Clean(dir) {
		_ = os.Remove(parent) // fails unless it is empty
	}
	return nil
}
