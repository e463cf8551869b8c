//go:build unix

package durable

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// TryLock takes an exclusive lock that ends when f is closed, at the latest with
// the process. It fails when another open file holds it.
func TryLock(f *os.File) error { return flock(f, syscall.LOCK_EX|syscall.LOCK_NB) }

// waitLock waits for the lock, but not for ever: its holder may wait for us.
func waitLock(f *os.File) error {
	for range lockTries {
		err := TryLock(f)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		time.Sleep(lockPause) //nolint:forbidigo // another process holds it, in real time
	}
	return fmt.Errorf("another process has held the lock on %s for %v", f.Name(), lockTries*lockPause)
}

// How long waitLock waits.
const (
	lockTries = 200
	lockPause = 50 * time.Millisecond
)

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
