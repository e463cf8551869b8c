package durable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile replaces the file at path by the output of write. With an error, the
// old file is as it was. A symbolic link stays, and the file that it points to is
// replaced.
func WriteFile(path string, write func(w io.Writer) error) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := write(f); err != nil {
		return err
	}
	return f.Commit()
}

// WriteBytes replaces the content of the file at path, as [WriteFile] does.
func WriteBytes(path string, content []byte) error {
	return WriteFile(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// A File is written next to the file that it replaces when it is committed.
type File struct {
	path string
	file *os.File
	w    *bufio.Writer
	done bool
}

// Create begins to replace the file at path. The folder must exist.
func Create(path string) (*File, error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("writing %s: exists and is not a regular file", path)
	}
	file, err := createLocked(hidden(path, ".new"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("writing %s: there is no folder %s", path, filepath.Dir(path))
	} else if err != nil {
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	return &File{path: path, file: file, w: bufio.NewWriter(file)}, nil
}

// hidden is the name of a helper file next to path.
func hidden(path, suffix string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+suffix)
}

// errBusy is the error if another writer is at work.
var errBusy = errors.New("another process is writing it now")

// createLocked makes a file and locks it. A file of that name without a lock was left by
// a kill, and is removed.
func createLocked(name string) (*os.File, error) {
	for {
		Step("create", name)
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		left := errors.Is(err, fs.ErrExist)
		if left {
			file, err = os.Open(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue // its writer has just given it its name
			}
		}
		if err != nil {
			return nil, err
		}
		if TryLock(file) != nil {
			return nil, errors.Join(errBusy, file.Close())
		}
		// Between opening and locking, another process may have put its own there.
		same, err := isAt(file, name)
		if err == nil && same && !left {
			return file, nil
		}
		if err == nil && same {
			Step("remove", name)
			err = os.Remove(name)
		}
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
	}
}

// isAt reports whether name is the name of the open file.
func isAt(file *os.File, name string) (bool, error) {
	mine, err := file.Stat()
	if err != nil {
		return false, err
	}
	return isNamed(mine, name)
}

// isNamed reports whether name is the name of a file.
func isNamed(mine fs.FileInfo, name string) (bool, error) {
	there, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, there), err
}

// Write implements [io.Writer].
func (f *File) Write(b []byte) (int, error) { return f.w.Write(b) }

// Commit makes the file last and gives it its name.
func (f *File) Commit() error {
	Step("write", f.path)
	if err := f.w.Flush(); err != nil {
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	Step("sync", f.path)
	if err := f.file.Sync(); err != nil {
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	Step("rename to", f.path)
	if err := os.Rename(f.file.Name(), f.path); err != nil {
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	f.done = true
	if err := f.file.Close(); err != nil { // not earlier: the lock ends with it
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	Step("sync the folder of", f.path)
	return syncFolder(filepath.Dir(f.path))
}

// Discard removes the new file, unless it was committed.
func (f *File) Discard() {
	if !f.done {
		_ = os.Remove(f.file.Name())
		_ = f.file.Close()
		f.done = true
	}
}

// syncFolder makes the names in a folder last.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
