package main

import (
	"os"
	"path/filepath"
)

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
