package durable

import (
	"errors"
	"io"
)

// WithoutExchange makes WriteDir do as it does where two folders cannot be
// exchanged. The function that it returns ends that.
func WithoutExchange() (undo func()) {
	before := swap
	swap = func(fresh, old, path string) error { return errors.ErrUnsupported }
	return func() { swap = before }
}

// A Disk fails as its fields say.
type Disk struct {
	logFile
	Room                   int // in bytes; what is more is not written
	FailSync, FailTruncate error
}

// On puts a disk below a log.
func On[T any](l *AppendLog[T], d *Disk) { d.logFile, l.file = l.file, d }

func (d *Disk) Write(b []byte) (int, error) {
	n, err := d.logFile.Write(b[:min(len(b), d.Room)])
	if d.Room -= n; err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return n, err
}

// Sync fails or does it.
func (d *Disk) Sync() error { return errors.Join(d.FailSync, d.logFile.Sync()) }

// Truncate fails or does it.
func (d *Disk) Truncate(size int64) error {
	if d.FailTruncate != nil {
		return d.FailTruncate
	}
	return d.logFile.Truncate(size)
}
