package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteDir replaces the folder at path, or makes it and those above it. write
// fills an empty folder, dir. Entries of the old folder that keep reports, by
// their names, move to the new one; a nil keep reports none. With an error, the
// old folder is as it was. A symbolic link stays, and the folder that it points to
// is replaced.
//
// Linux exchanges two folders in one step. Elsewhere, and on file systems that
// cannot, a kill at the worst moment leaves no folder at path: the old one is next
// to it as ".NAME.old", and the next WriteDir puts it back first.
func WriteDir(path string, keep func(name string) bool, write func(dir string) error) error {
	if err := writeDir(path, keep, write); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func writeDir(path string, keep func(name string) bool, write func(dir string) error) error {
	if path == "" {
		return errors.New("the name is empty")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	} else if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return errors.New("is a symbolic link to what does not exist")
	}
	parent := filepath.Dir(path)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	// The lock on the folder above leaves nothing behind; it is held for the time
	// of one write.
	above, err := os.Open(parent)
	if err != nil {
		return err
	}
	defer func() { _ = above.Close() }() // only locked and synced
	if err := waitLock(above); err != nil {
		return err
	}
	f := folder{path: path, fresh: hidden(path, ".new"), old: hidden(path, ".old"), keep: keep, above: above}
	if err := f.recover(); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return errors.New("exists and is not a folder")
	}
	err = f.fill(write)
	if err == nil {
		err = f.exchange()
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(f.fresh))
	}
	return nil
}

// A folder that is being replaced.
type folder struct {
	path, fresh, old string
	keep             func(name string) bool
	above            *os.File
}

// recover completes or undoes the work that a kill has interrupted.
func (f *folder) recover() error {
	Step("remove", f.fresh)
	if err := os.RemoveAll(f.fresh); err != nil {
		return err
	}
	if _, err := os.Lstat(f.old); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if _, err := os.Lstat(f.path); errors.Is(err, fs.ErrNotExist) {
		Step("put back", f.path)
		return errors.Join(os.Rename(f.old, f.path), f.above.Sync())
	}
	return f.discardOld()
}

// fill makes the new folder and lets it last.
func (f *folder) fill(write func(dir string) error) error {
	Step("make", f.fresh)
	if err := os.Mkdir(f.fresh, 0o755); err != nil {
		return err
	}
	if err := write(f.fresh); err != nil {
		return err
	}
	Step("sync", f.fresh)
	return filepath.WalkDir(f.fresh, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() && !e.Type().IsRegular() {
			return err
		}
		return syncFolder(path) // a file opened to read can be synced as well
	})
}

// exchange puts the new folder in the place of the old one. The name ".NAME.old"
// is given to nothing that is not whole, so that recover may put it back.
func (f *folder) exchange() error {
	Step("rename to", f.path)
	if _, err := os.Lstat(f.path); errors.Is(err, fs.ErrNotExist) {
		return errors.Join(os.Rename(f.fresh, f.path), f.above.Sync())
	}
	err := swap(f.fresh, f.old, f.path)
	if errors.Is(err, errors.ErrUnsupported) {
		err = f.swapInTwoSteps()
	}
	if err != nil {
		return err
	}
	Step("sync the folder of", f.path)
	if err := f.above.Sync(); err != nil {
		return err
	}
	return f.discardOld()
}

// swapInTwoSteps is for systems and file systems that cannot exchange two folders.
func (f *folder) swapInTwoSteps() error {
	Step("move aside", f.path)
	if err := os.Rename(f.path, f.old); err != nil {
		return err
	}
	Step("move in", f.path)
	if err := os.Rename(f.fresh, f.path); err != nil {
		return errors.Join(err, os.Rename(f.old, f.path))
	}
	return nil
}

// discardOld moves the entries to keep out of the old folder and removes the rest.
// After a kill before the exchange, "old" is the new folder, whose entries to keep
// are all in the other.
func (f *folder) discardOld() error {
	if info, err := os.Lstat(f.old); err == nil && !info.IsDir() {
		return os.Remove(f.old)
	}
	entries, err := os.ReadDir(f.old)
	if err != nil {
		return err
	}
	for _, e := range entries {
		to := filepath.Join(f.path, e.Name())
		if f.keep == nil || !f.keep(e.Name()) {
			continue
		}
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		Step("keep", to)
		if err := os.Rename(filepath.Join(f.old, e.Name()), to); err != nil {
			return err
		}
	}
	Step("remove", f.old)
	return os.RemoveAll(f.old)
}
