package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// writeFile writes a file aside and renames it, so that it is never half
// written.
func writeFile(path string, write func(w io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".sigma-*")
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("writing %s: there is no folder %s", path, filepath.Dir(path))
	} else if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // nothing is there once it is renamed
	w := bufio.NewWriter(f)
	if err := errors.Join(write(w), w.Flush(), f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// writable reports a path that a flag gives and that no file can be written to,
// before a long command begins.
func writable(flag, path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return usagef("--%s %s is a folder: give the name of a file", flag, path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return usagef("--%s %s: there is no folder %s", flag, path, filepath.Dir(path))
	}
	return nil
}
