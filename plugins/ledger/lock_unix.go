//go:build unix

package ledger

import (
	"os"
	"syscall"
)

// lock takes an exclusive lock that ends with the process, however it ends.
func lock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
