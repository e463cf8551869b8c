package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// A Log appends events to a file, one line each. It serves one goroutine.
//
// The lines of one Write go to the system together: a process that is killed loses
// none of them. Nothing is synced, so a machine that loses power may lose the last.
type Log struct {
	file *os.File
	size int64 // of the file, in whole lines
	seq  uint64
	buf  bytes.Buffer
	enc  *json.Encoder
}

// OpenLog opens a file to append to, making it if need be. A line that a kill cut
// off there is ended, so that what follows is whole. One writer at a time: a file
// that another has open, in this process or elsewhere, is an error.
func OpenLog(path string) (*Log, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	if err := lock(file); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: another profile or process writes to it: %w", path, err), file.Close())
	}
	l := &Log{file: file}
	l.enc = json.NewEncoder(&l.buf)
	if err := l.endLine(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

// endLine finds the end of the file and ends its last line.
func (l *Log) endLine() (err error) {
	if l.size, err = l.file.Seek(0, io.SeekEnd); err != nil || l.size == 0 {
		return err
	}
	var last [1]byte
	if _, err := l.file.ReadAt(last[:], l.size-1); err != nil || last[0] == '\n' {
		return err
	}
	l.buf.WriteByte('\n')
	return l.flush()
}

// Write numbers the events and appends them, all of them or none. The numbers of
// those that could not be written are used up: a reader sees that they are missing.
func (l *Log) Write(events ...*Event) error {
	var failed error
	for _, e := range events {
		l.seq++
		e.Seq = l.seq
		if err := l.enc.Encode(e); err != nil && failed == nil {
			failed = fmt.Errorf("%s: event %d: %w", l.file.Name(), e.Seq, err)
		}
	}
	if failed != nil {
		l.buf.Reset()
		return failed
	}
	return l.flush()
}

// flush appends what is in the buffer. Of what fails half way, nothing stays.
func (l *Log) flush() error {
	defer l.buf.Reset()
	n, err := l.file.Write(l.buf.Bytes())
	if err != nil {
		return errors.Join(err, l.file.Truncate(l.size))
	}
	l.size += int64(n)
	return nil
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }
