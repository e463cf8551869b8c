package ledger

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sigma-scheduler/sigma/internal/bounded"
)

// Files reads the files of one log, in order.
type Files struct {
	*Reader // of the file that is open
	// Stdin is the input that the name - denotes.
	Stdin io.Reader
	paths []string
	next  int // path to open
	file  io.ReadCloser
	first bool    // no event of the file was read yet
	began float64 // first time of the file before
}

// OpenFiles reads the files of one log, in order. They are opened one after another. Files whose names
// end in .gz are unpacked.
func OpenFiles(paths ...string) *Files {
	return &Files{Reader: NewReader("", strings.NewReader("")), paths: paths}
}

// Name returns the name of the file that Next read last.
func (f *Files) Name() string { return f.name }

// Next returns the next event, or io.EOF after the last file. Errors name file and line.
func (f *Files) Next() (*Event, error) {
	for {
		if f.file != nil {
			e, err := f.Reader.Next()
			if err == nil && f.first {
				err = f.begins(e)
			}
			if !errors.Is(err, io.EOF) {
				return e, err
			}
		}
		if f.next == len(f.paths) {
			return nil, io.EOF
		}
		if err := f.open(f.paths[f.next]); err != nil {
			return nil, err
		}
	}
}

// begins checks that a file is the next one of the log.
func (f *Files) begins(e *Event) error {
	before := f.began
	f.first, f.began = false, e.Time
	if f.next > 1 && e.Time < before {
		return fmt.Errorf("%s: begins at %s, before %s does: give the files of one log in order", f.name, instant(e.Time), f.paths[f.next-2])
	}
	return nil
}

func instant(seconds float64) string {
	return time.UnixMicro(bounded.Int(seconds * 1e6)).UTC().Format(time.RFC3339)
}

func (f *Files) open(path string) error {
	if slices.Contains(f.paths[:f.next], path) {
		return fmt.Errorf("%s: is given twice", path)
	}
	if err := f.Close(); err != nil {
		return err
	}
	name := path
	if path == "-" && f.Stdin != nil {
		name, f.file = "standard input", io.NopCloser(f.Stdin)
	} else {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		f.file = file
		if strings.HasSuffix(path, ".gz") {
			if f.file, err = unzip(file); err != nil {
				return errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
			}
		}
	}
	f.Continue(name, f.file)
	f.first = true
	f.next++
	return nil
}

// A zipped is a gzip file that is read unpacked.
type zipped struct {
	*gzip.Reader
	file *os.File
}

func unzip(file *os.File) (io.ReadCloser, error) {
	r, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	return &zipped{r, file}, nil
}

func (z *zipped) Close() error { return errors.Join(z.Reader.Close(), z.file.Close()) }

// Close closes the file that is open.
func (f *Files) Close() error {
	if f.file == nil {
		return nil
	}
	file := f.file
	f.file = nil
	return file.Close()
}
