package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sigma-scheduler/sigma/internal/durable"
)

// A Log appends events to a file, one line each. It serves one goroutine.
//
// The lines of one Write reach the system together: a killed process loses none of
// them. Only Sync protects them from a machine that loses power.
type Log struct {
	file  *durable.RotatingLog[*Event]
	seq   uint64
	lists lists
}

// OpenLog opens a file to append to, and creates it if necessary. A line that a kill cut
// off at its end is removed. A file has one writer: it fails if another writer, in this
// process or elsewhere, has the file open.
func OpenLog(path string) (*Log, error) { return OpenRotatingLog(path, Rotation{}) }

// A Rotation bounds the files of a log.
type Rotation = durable.Rotation

// ErrMoved is returned by [Log.Check] for a file that was renamed or removed. The file
// still takes events.
var ErrMoved = durable.ErrMoved

// OpenRotatingLog is OpenLog for a log of several files.
func OpenRotatingLog(path string, r Rotation) (*Log, error) {
	l := &Log{}
	file, err := durable.OpenRotatingLog(path, durable.Format[*Event]{Encode: l.encode, Mine: mine}, r)
	if err != nil {
		return nil, err
	}
	l.file = file
	return l, nil
}

func (l *Log) encode(b *bytes.Buffer, e *Event) error {
	if err := json.NewEncoder(b).Encode(l.lists.shorten(e)); err != nil {
		return fmt.Errorf("event %d: %w", e.Seq, err)
	}
	return nil
}

// Write numbers the events and appends all of them or none. It does not use a
// number twice: a reader notices events that could not be written.
func (l *Log) Write(events ...*Event) error {
	l.number(events)
	err := l.file.Append(events...)
	if err != nil {
		l.lists = lists{} // the next ones are written whole
	}
	return err
}

func (l *Log) number(events []*Event) {
	for _, e := range events {
		l.seq++
		e.Seq = l.seq
	}
}

// Skip uses up the numbers of events that are not written.
func (l *Log) Skip(events int) { l.seq += uint64(events) }

// Check reports the changes of the file by other programs, as [durable.RotatingLog.Check] does.
func (l *Log) Check(now time.Time) error { return l.file.Check(now) }

// Full reports whether the log should begin in another file.
func (l *Log) Full() bool { return l.file.Full() }

// Begin appends a description, after which the log can be read without the earlier events:
// to another file, if this one is full or was moved or cut. All of it is written, or
// nothing.
func (l *Log) Begin(now time.Time, description []*Event) error {
	before := l.seq
	l.number(description)
	err := l.file.Begin(now, description...)
	if err != nil {
		l.seq, l.lists = before, lists{}
	}
	return err
}

// Prune removes the oldest files of the log if there are too many.
func (l *Log) Prune() error { return l.file.Prune() }

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
