package durable

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A Format is the encoding of a log's records. The zero value is JSON.
type Format[T any] struct {
	// Encode appends a record to b as one line with its end; nil = JSON.
	Encode func(b *bytes.Buffer, record T) error
	// Decode reads a line without its end, and may not keep it; nil = [ParseJSON].
	Decode func(line []byte) (T, error)
	// Mine reports whether a file that begins with the text, at most its first line with its end,
	// can be such a log. It is called if no record is decoded when a log is opened: the files of
	// other programs are not cut. nil = the text begins like a JSON object.
	Mine func(text []byte) bool
	// Mode of a file that is made; 0 = 0644.
	Mode fs.FileMode
}

func (f Format[T]) orJSON() Format[T] {
	if f.Encode == nil {
		f.Encode = func(b *bytes.Buffer, record T) error { return json.NewEncoder(b).Encode(record) }
	}
	if f.Decode == nil {
		f.Decode = ParseJSON[T]
	}
	if f.Mine == nil {
		f.Mine = func(text []byte) bool { return len(text) > 0 && text[0] == '{' }
	}
	f.Mode = cmp.Or(f.Mode, 0o644)
	return f
}

// An AppendLog appends records to a file, a line each. It serves one goroutine.
//
// The lines of one call are written in one system call. A process that is killed
// cuts off the last line at most, which the next OpenLog removes. A machine that
// loses power may also lose lines that were not synced.
type AppendLog[T any] struct {
	path   string
	format Format[T]
	file   logFile
	size   int64 // of the whole lines
	torn   bool  // there is something behind them
	buf    bytes.Buffer
}

// A logFile is the part of an [os.File] that a log needs.
type logFile interface {
	io.Writer
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

// OpenLog opens a file to append to, or makes it. It removes a last line that a
// kill cut off. Each, if it is not nil, gets the records that are there, with their
// lines; a record that cannot be read, or that each refuses, is a [*LineError], and
// the file stays as it was. A file that another writer has open is an error.
func OpenLog[T any](path string, format Format[T], each func(line int, record T) error) (*AppendLog[T], error) {
	format = format.orJSON()
	file, err := openLocked(path, format.Mode)
	if err != nil {
		return nil, err
	}
	l := &AppendLog[T]{path: path, format: format, file: file}
	if err := l.resume(file, each); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

// openLocked opens a file to append to, or makes it, and locks it.
func openLocked(path string, mode fs.FileMode) (*os.File, error) {
	for {
		Step("open", path)
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, mode)
		if err != nil {
			return nil, err
		}
		if err := TryLock(file); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: another writer has it open: %w", path, err), file.Close())
		}
		// Between opening and locking, its writer may have put another file there.
		same, err := isAt(file, path)
		if err == nil && same {
			return file, nil
		}
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
	}
}

// resume reads the existing records and removes a line that a kill cut off.
func (l *AppendLog[T]) resume(file *os.File, each func(line int, record T) error) error {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if l.size, err = lastLineEnd(file, end); err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	if end == 0 { // maybe a new file: its name must last
		return syncFolder(filepath.Dir(l.path))
	}
	if l.size == 0 || each == nil {
		if err := l.checkMine(file); err != nil {
			return err
		}
	}
	if each != nil {
		if err := l.replay(file, each); err != nil {
			return err
		}
	}
	if l.size == end {
		return nil
	}
	Step("truncate", l.path)
	return file.Truncate(l.size)
}

// checkMine refuses a file that does not begin like a log.
func (l *AppendLog[T]) checkMine(file io.ReaderAt) error {
	text := make([]byte, 1<<16)
	n, err := file.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	if end := bytes.IndexByte(text[:n], '\n'); end >= 0 {
		n = end + 1
	}
	if !l.format.Mine(text[:n]) {
		return &LineError{l.path, 1, errors.New("not the beginning of such a file")}
	}
	return nil
}

func (l *AppendLog[T]) replay(file io.ReaderAt, each func(line int, record T) error) error {
	r := NewReader(l.path, io.NewSectionReader(file, 0, l.size), l.format.Decode)
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := each(r.Line(), record); err != nil {
			return &LineError{l.path, r.Line(), err}
		}
	}
}

// lastLineEnd returns the size of a file up to the end of its last whole line.
func lastLineEnd(file io.ReaderAt, end int64) (int64, error) {
	buf := make([]byte, 1<<16)
	for end > 0 {
		n := min(end, int64(len(buf)))
		if _, err := file.ReadAt(buf[:n], end-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
	}
	return 0, nil
}

// Append appends records, all of them or none: the existing records survive a full
// disk.
func (l *AppendLog[T]) Append(records ...T) error { return l.append(false, records) }

// AppendSync appends records, all of them or none, and syncs the file.
func (l *AppendLog[T]) AppendSync(records ...T) error { return l.append(true, records) }

// mostBuffer is the most memory in bytes that a log keeps from one call to the next.
const mostBuffer = 1 << 20

func (l *AppendLog[T]) append(sync bool, records []T) error {
	l.buf.Reset()
	if l.buf.Cap() > mostBuffer {
		l.buf = bytes.Buffer{}
	}
	for _, record := range records {
		begin := l.buf.Len()
		if err := l.format.Encode(&l.buf, record); err != nil {
			return fmt.Errorf("%s: %w", l.path, err)
		}
		if line := l.buf.Bytes()[begin:]; bytes.IndexByte(line, '\n') != len(line)-1 || len(line) == 0 {
			return fmt.Errorf("%s: a record of other than one line: %q", l.path, line)
		}
	}
	if err := l.mend(); err != nil {
		return err
	}
	size, err := l.length()
	if err != nil {
		return err
	}
	l.size = size // less than before where another program cut the file
	if err := l.write(sync); err != nil {
		l.torn = true
		return errors.Join(err, l.mend())
	}
	l.size += int64(l.buf.Len())
	return nil
}

func (l *AppendLog[T]) write(sync bool) error {
	Step("append to", l.path)
	if _, err := l.file.Write(l.buf.Bytes()); err != nil {
		return err
	}
	if !sync {
		return nil
	}
	return l.Sync()
}

// mend removes the remains of a write that failed half way. It never makes the file
// longer: another program may have cut it meanwhile.
func (l *AppendLog[T]) mend() error {
	if !l.torn {
		return nil
	}
	size, err := l.length()
	if err != nil {
		return err
	}
	if err := l.file.Truncate(min(size, l.size)); err != nil {
		return err
	}
	l.torn = false
	return nil
}

// length is the size that the file has.
func (l *AppendLog[T]) length() (int64, error) {
	info, err := l.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Size is the size of the file in bytes.
func (l *AppendLog[T]) Size() int64 { return l.size }

// Path is the path that the log was opened with.
func (l *AppendLog[T]) Path() string { return l.path }

// Sync makes the records last, also when the machine loses power.
func (l *AppendLog[T]) Sync() error {
	Step("sync", l.path)
	return l.file.Sync()
}

// Close closes the file and ends the lock. It does not sync.
func (l *AppendLog[T]) Close() error { return l.file.Close() }
