package convert

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// inputs are the files that a conversion may read.
type inputs []input

// An input is a file; its name is without folder and .gz.
type input struct {
	path, name string
	content    []byte // of a file that was in an archive; nil = to be read from path
	unpacked   *unpacked
}

// unpacked counts what the .gz files of one conversion hold.
type unpacked struct{ sum, limit int64 }

// collect lists the files given and those directly in the folders given.
func collect(paths []string, limit int64) (inputs, error) {
	if len(paths) == 0 {
		return nil, errors.New("no file or folder given")
	}
	var in inputs
	of := &unpacked{limit: limit}
	add := func(path string) {
		in = append(in, input{path: path, name: strings.TrimSuffix(filepath.Base(path), ".gz"), unpacked: of})
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			add(path)
			continue
		}
		entries, err := os.ReadDir(path) // sorted by name
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !e.IsDir() {
				add(filepath.Join(path, e.Name()))
			}
		}
	}
	return in, nil
}

// one returns the only file whose name contains word.
func (in inputs) one(word string) (input, error) {
	var found inputs
	for _, f := range in {
		if strings.Contains(f.name, word) {
			found = append(found, f)
		}
	}
	switch len(found) {
	case 0:
		return input{}, fmt.Errorf("no file is named like %s", word)
	case 1:
		return found[0], nil
	}
	var paths []string
	for _, f := range found {
		paths = append(paths, f.path)
	}
	return input{}, fmt.Errorf("several files are named like %s, give one: %s", word, strings.Join(paths, ", "))
}

// read is the whole file, unpacked.
func (f input) read() ([]byte, error) {
	if f.content != nil {
		return f.content, nil
	}
	if !strings.HasSuffix(f.path, ".gz") {
		return os.ReadFile(f.path)
	}
	content, err := f.unpack()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	return content, nil
}

// unpack reads a .gz file twice, at first only to count its bytes: of a file beyond the
// limit nothing is kept.
func (f input) unpack() ([]byte, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	r, err := trace.Unpack(file, f.unpacked.limit-f.unpacked.sum)
	if err != nil {
		return nil, err
	}
	size, err := io.Copy(io.Discard, r)
	if _, ok := errors.AsType[*trace.UnpackedError](err); ok { // with the files before
		return nil, &trace.UnpackedError{Limit: f.unpacked.limit}
	} else if err != nil {
		return nil, err
	}
	f.unpacked.sum += size
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if r, err = trace.Unpack(file, size); err != nil {
		return nil, err
	}
	content := make([]byte, size)
	_, err = io.ReadFull(r, content)
	return content, err
}

// digest is what the source of a trace states of a file's decompressed content.
func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// rows calls each for every line of a file of comma-separated fields without
// header. fields is reused after each call. Errors of each get the file and the line.
func (f input) rows(content []byte, columns []string, each func(fields []string) error) error {
	return f.table(content, ',', func(fields []string) error {
		if len(fields) != len(columns) {
			return fmt.Errorf("%d fields, want %d: %s", len(fields), len(columns), strings.Join(columns, ","))
		}
		return each(fields)
	})
}

// named is rows for a file whose first line names its columns, separated by
// comma. each gets the fields of the columns asked for, in their order, in a slice that
// is reused after each call; the last optional of them may be absent, and are empty then.
// Other columns are skipped.
func (f input) named(content []byte, comma rune, columns []string, optional int, each func(fields []string) error) error {
	var at []int // of each column in the file's line; -1 = absent
	width := 0
	picked := make([]string, len(columns))
	err := f.table(content, comma, func(fields []string) error {
		if at == nil {
			width = len(fields)
			for i, name := range columns {
				at = append(at, slices.Index(fields, name))
				if at[i] < 0 && i < len(columns)-optional {
					return fmt.Errorf("column %q is missing", name)
				}
			}
			return nil
		}
		if len(fields) != width {
			return fmt.Errorf("%d fields, but %d columns", len(fields), width)
		}
		for i, from := range at {
			picked[i] = ""
			if from >= 0 {
				picked[i] = fields[from]
			}
		}
		return each(picked)
	})
	if err == nil && at == nil {
		err = fmt.Errorf("%s:1: empty, want a line of column names", f.path)
	}
	return err
}

// lines calls each for every line that is not blank. Errors of each get the file
// and the line.
func (f input) lines(content []byte, each func(text string) error) error {
	n := 0
	for line := range bytes.Lines(content) {
		n++
		text := string(bytes.TrimSpace(line))
		if text == "" {
			continue
		}
		if err := each(text); err != nil {
			return fmt.Errorf("%s:%d: %w", f.path, n, err)
		}
	}
	return nil
}

// lastLine is the number of the last line, 1 in an empty file.
func lastLine(content []byte) int {
	return 1 + bytes.Count(bytes.TrimSuffix(content, []byte("\n")), []byte("\n"))
}

// table calls each for every line of a file of separated fields.
func (f input) table(content []byte, comma rune, each func(fields []string) error) error {
	r := csv.NewReader(bytes.NewReader(content))
	r.Comma = comma
	r.FieldsPerRecord = -1
	r.ReuseRecord = true
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if parse := (*csv.ParseError)(nil); errors.As(err, &parse) {
			return fmt.Errorf("%s:%d: %w", f.path, parse.Line, parse.Err)
		} else if err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
		if err := each(fields); err != nil {
			line, _ := r.FieldPos(0)
			return fmt.Errorf("%s:%d: %w", f.path, line, err)
		}
	}
}
