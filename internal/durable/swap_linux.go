package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// swap exchanges fresh and path in one step; the former content of path is at
// old then.
var swap = func(fresh, old, path string) error {
	Step("rename to", old)
	if err := os.Rename(fresh, old); err != nil {
		return err
	}
	Step("exchange with "+filepath.Base(old), path)
	err := unix.Renameat2(unix.AT_FDCWD, old, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
	if err == nil {
		return nil
	}
	err = errors.Join(fmt.Errorf("exchanging %s and %s: %w", old, path, err), os.Rename(old, fresh))
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return errors.Join(errors.ErrUnsupported, err)
	}
	return err
}
