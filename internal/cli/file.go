package cli

import (
	"os"
	"path/filepath"
)

// writable returns why no file can be written to the path that a flag gives, before a
// long command begins.
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

// regular is writable for a file that is renamed when it is whole. A device or a
// pipe cannot be replaced.
func regular(flag, path string) error {
	if info, err := os.Stat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return usagef("--%s %s is not a regular file: give the name of another", flag, path)
	}
	return writable(flag, path)
}
