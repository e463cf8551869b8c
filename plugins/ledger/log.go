package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/sigma-scheduler/sigma/internal/durable"
)

// A Log appends events to a file, one line each. It serves one goroutine.
//
// The lines of one Write reach the system together: a killed process loses none of
// them. Only Sync protects them from a machine that loses power.
type Log struct {
	file *durable.AppendLog[*Event]
	seq  uint64
}

// OpenLog opens a file to append to, and creates it if necessary. A line that a kill cut
// off at its end is removed. One writer at a time: a file that another has open, in
// this process or elsewhere, is an error.
func OpenLog(path string) (*Log, error) {
	encode := func(b *bytes.Buffer, e *Event) error {
		if err := json.NewEncoder(b).Encode(e); err != nil {
			return fmt.Errorf("event %d: %w", e.Seq, err)
		}
		return nil
	}
	file, err := durable.OpenLog(path, durable.Format[*Event]{Encode: encode, Mine: mine}, nil)
	if err != nil {
		return nil, err
	}
	return &Log{file: file}, nil
}

// Write numbers the events and appends all of them or none. It does not use a
// number twice: a reader notices events that could not be written.
func (l *Log) Write(events ...*Event) error {
	for _, e := range events {
		l.seq++
		e.Seq = l.seq
	}
	return l.file.Append(events...)
}

// Sync waits until everything written is on the disk.
func (l *Log) Sync() error { return l.file.Sync() }

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }

// mine reports whether a text can begin a decision log: events begin with their number.
func mine(text []byte) bool {
	const begin = `{"seq":`
	n := min(len(text), len(begin))
	return string(text[:n]) == begin[:n]
}
