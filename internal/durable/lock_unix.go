//go:build unix

package durable

import (
	"errors"
	"os"
	"syscall"
)

// TryLock takes an exclusive lock that ends when f is closed, at the latest with
// the process. It fails when another open file holds it.
func TryLock(f *os.File) error { return flock(f, syscall.LOCK_EX|syscall.LOCK_NB) }

// waitLock waits for the lock.
func waitLock(f *os.File) error { return flock(f, syscall.LOCK_EX) }

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK):
			return nil // a file system without locks
		}
		return err
	}
}
