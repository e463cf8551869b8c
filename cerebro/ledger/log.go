package ledger

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// A Log appends events to a file, one line each. The lines of one Write reach
// the file together.
type Log struct {
	file *os.File
	seq  uint64
	buf  bytes.Buffer
	enc  *json.Encoder
}

// OpenLog opens a file to append to, making it if need be. A line that a kill cut
// off there is ended, so that what follows is whole.
func OpenLog(path string) (*Log, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	l := &Log{file: file}
	l.enc = json.NewEncoder(&l.buf)
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if size > 0 {
		var last [1]byte
		if _, err := file.ReadAt(last[:], size-1); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if last[0] != '\n' {
			l.buf.WriteByte('\n')
		}
	}
	return l, nil
}

// Write numbers the events and appends them.
func (l *Log) Write(events ...*Event) error {
	for _, e := range events {
		l.seq++
		e.Seq = l.seq
		if err := l.enc.Encode(e); err != nil {
			return fmt.Errorf("%s: event %d: %w", l.file.Name(), e.Seq, err)
		}
	}
	_, err := l.file.Write(l.buf.Bytes())
	l.buf.Reset()
	return err
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }

// A Reader reads a decision log.
type Reader struct {
	name string
	in   *bufio.Reader
	line int
	// CutOff counts the lines that a kill cut off: unreadable ones before a start
	// or at the end of the file.
	CutOff int
}

// NewReader reads a log; name is used in errors.
func NewReader(name string, r io.Reader) *Reader {
	return &Reader{name: name, in: bufio.NewReaderSize(r, 1<<16)}
}

// Line is the number of the line that Next read last.
func (r *Reader) Line() int { return r.line }

// Next is the next event, or io.EOF. Errors name file and line.
func (r *Reader) Next() (*Event, error) {
	var broken error
	for {
		text, err := r.in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s:%d: %w", r.name, r.line+1, err)
		}
		if len(text) == 0 { // the end
			return nil, io.EOF
		}
		r.line++
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		e, bad := parse(text)
		switch {
		case bad == nil && (broken == nil || e.Kind == KindStart):
			return e, nil
		case bad == nil:
			return nil, broken
		case broken != nil:
			return nil, broken
		}
		broken = fmt.Errorf("%s:%d: %w", r.name, r.line, bad)
		r.CutOff++
	}
}

func parse(text []byte) (*Event, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	e := &Event{}
	if err := dec.Decode(e); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if dec.More() {
		return nil, errors.New("more than one event on the line")
	}
	return e, nil
}
