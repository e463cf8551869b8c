package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/sigma-scheduler/sigma/internal/durable"
)

// A Log appends events to a file, one line each. It serves one goroutine.
//
// The lines of one Write go to the system together: a process that is killed loses
// none of them. Nothing is synced, so a machine that loses power may lose the last.
type Log struct {
	file *durable.AppendLog[*Event]
	seq  uint64
}

// OpenLog opens a file to append to, making it if need be. A line that a kill cut
// off at its end is removed. One writer at a time: a file that another has open, in
// this process or elsewhere, is an error.
func OpenLog(path string) (*Log, error) {
	encode := func(b *bytes.Buffer, e *Event) error {
		if err := json.NewEncoder(b).Encode(e); err != nil {
			return fmt.Errorf("event %d: %w", e.Seq, err)
		}
		return nil
	}
	file, err := durable.OpenLog(path, durable.Format[*Event]{Encode: encode}, nil)
	if err != nil {
		return nil, err
	}
	return &Log{file: file}, nil
}

// Write numbers the events and appends them, all of them or none. The numbers of
// those that could not be written are used up: a reader sees that they are missing.
func (l *Log) Write(events ...*Event) error {
	for _, e := range events {
		l.seq++
		e.Seq = l.seq
	}
	return l.file.Append(events...)
}

// Sync makes what was written last, also when the machine loses power.
func (l *Log) Sync() error { return l.file.Sync() }

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }
