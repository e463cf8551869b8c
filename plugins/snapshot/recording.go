package snapshot

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// version is the format of recordings.
const version = 1

// A recording is the file that a recorder appends to, one line each, so that it
// can go on after its process was killed.
type recording struct {
	file *os.File
	buf  bytes.Buffer
}

// OpenRecorder begins a recording in a file, or goes on with the one it holds. Only
// one process at a time may have it open.
func OpenRecorder(path, appLabel string, now time.Time) (r *Recorder, resumed bool, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if err != nil {
			_ = file.Close() // nothing was written
		}
	}()
	if err := lock(file); err != nil {
		return nil, false, fmt.Errorf("%s: another snapshot records there: %w", path, err)
	}
	b, whole, err := readBook(path, file)
	if err != nil {
		return nil, false, err
	}
	// A kill may have cut off the last line.
	if err := file.Truncate(whole); err != nil {
		return nil, false, err
	}
	if _, err := file.Seek(whole, io.SeekStart); err != nil {
		return nil, false, err
	}
	if resumed = whole > 0; resumed && b.begin.AppLabel != appLabel {
		return nil, false, fmt.Errorf("%s: was begun with --app-label %q, not %q", path, b.begin.AppLabel, appLabel)
	}
	r = newRecorder(b, appLabel)
	r.file = &recording{file: file}
	if !resumed {
		r.note(&line{Begin: newBegin(appLabel, now)})
	}
	return r, resumed, r.err
}

// readBook reads the lines of a recording; whole is where the last whole one ends.
func readBook(name string, in io.Reader) (b *book, whole int64, err error) {
	b = newBook()
	lines := bufio.NewReaderSize(in, 1<<16)
	for number := 1; ; number++ {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return b, whole, nil
		}
		if err != nil {
			return nil, 0, err
		}
		l := &line{}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(l); err != nil {
			return nil, 0, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		if (number == 1) != (l.Begin != nil) || number == 1 && l.Begin.Version != version {
			return nil, 0, fmt.Errorf("%s:%d: not a recording of version %d", name, number, version)
		}
		if err := b.apply(l); err != nil {
			return nil, 0, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		whole += int64(len(text))
	}
}

// write appends lines and makes them last.
func (f *recording) write(lines []*line) error {
	if len(lines) == 0 {
		return nil
	}
	f.buf.Reset()
	enc := json.NewEncoder(&f.buf)
	for _, l := range lines {
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	if _, err := f.file.Write(f.buf.Bytes()); err != nil {
		return err
	}
	return f.file.Sync()
}

// Began is when the recording began.
func (r *Recorder) Began() (time.Time, error) { return time.Parse(time.RFC3339Nano, r.book.begin.Time) }

// Close closes the file, if there is one.
func (r *Recorder) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.file.Close()
}
