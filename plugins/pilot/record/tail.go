package record

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// A tail reads the whole lines of a growing file. After the last of them it returns io.EOF, and
// continues with the next read.
type tail struct {
	file    *os.File
	ready   []byte // whole lines
	pending []byte // the beginning of a line
}

const chunk = 256 << 10

func (t *tail) Read(p []byte) (int, error) {
	for len(t.ready) == 0 {
		begin := len(t.pending)
		t.pending = slices.Grow(t.pending, chunk)
		n, err := t.file.Read(t.pending[begin : begin+chunk])
		t.pending = t.pending[:begin+n]
		if n == 0 {
			if err == nil {
				err = io.ErrNoProgress
			}
			return 0, err
		}
		if end := bytes.LastIndexByte(t.pending, '\n') + 1; end > 0 {
			t.ready, t.pending = t.pending[:end], slices.Clone(t.pending[end:])
		}
	}
	n := copy(p, t.ready)
	t.ready = t.ready[n:]
	return n, nil
}

// cut reports whether the file is shorter than the part already read.
func (t *tail) cut() (bool, error) {
	at, err := t.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return false, err
	}
	info, err := t.file.Stat()
	if err != nil {
		return false, err
	}
	return info.Size() < at, nil
}

// files are those of a log, oldest first: the ones kept aside, whose names end in their time, and
// the one that is written.
func files(path string) ([]string, error) {
	aside, err := filepath.Glob(filepath.Join(globless(filepath.Dir(path)), globless(filepath.Base(path))+".2*"))
	if err != nil {
		return nil, err
	}
	slices.Sort(aside)
	if _, err := os.Stat(path); err == nil {
		aside = append(aside, path)
	} else if !errors.Is(err, os.ErrNotExist) || len(aside) == 0 {
		return nil, err
	}
	return aside, nil
}

// globless is a pattern that matches only the name itself.
func globless(name string) string {
	var out []rune
	for _, r := range name {
		if slices.Contains([]rune{'*', '?', '[', '\\'}, r) {
			out = append(out, '\\')
		}
		out = append(out, r)
	}
	return string(out)
}
