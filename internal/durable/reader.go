package durable

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A LineError is an error in a line of a file.
type LineError struct {
	File string
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }

// Unwrap returns the error in the line.
func (e *LineError) Unwrap() error { return e.Err }

// A Reader reads records, one a line.
type Reader[T any] struct {
	name   string
	in     *bufio.Reader
	decode func(line []byte) (T, error)
	line   int
	// CutOff means that the last line has no end, because a kill cut it off. It
	// is not read.
	CutOff bool
}

// NewReader reads records from r. Errors call the file name. decode gets a line
// without its end, and may not keep it.
func NewReader[T any](name string, r io.Reader, decode func(line []byte) (T, error)) *Reader[T] {
	return &Reader[T]{name: name, in: bufio.NewReaderSize(r, 1<<16), decode: decode}
}

// Line is the number of the line that Next read last.
func (r *Reader[T]) Line() int { return r.line }

// Next returns the next record, or io.EOF. Any other error is a [*LineError];
// after one from decode, Next continues with the next line.
func (r *Reader[T]) Next() (T, error) {
	var none T
	text, err := r.readLine()
	switch {
	case errors.Is(err, io.EOF):
		r.CutOff = len(text) > 0
		return none, io.EOF
	case err != nil:
		return none, &LineError{r.name, r.line + 1, err}
	}
	r.line++
	record, err := r.decode(text[:len(text)-1])
	if err != nil {
		return none, &LineError{r.name, r.line, err}
	}
	return record, nil
}

// mostLine is the most bytes of a record: far more than any has.
const mostLine = 64 << 20

// readLine returns a line with its end, or the remainder of the file and io.EOF.
// The text is valid until the next call.
func (r *Reader[T]) readLine() ([]byte, error) {
	text, err := r.in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return text, err
	}
	long := bytes.Clone(text)
	for {
		text, err = r.in.ReadSlice('\n')
		long = append(long, text...)
		switch {
		case !errors.Is(err, bufio.ErrBufferFull):
			return long, err
		case len(long) > mostLine:
			return nil, fmt.Errorf("a line of more than %d MiB", mostLine>>20)
		}
	}
}

// ParseJSON decodes one JSON value. Unknown names and a second value are errors.
func ParseJSON[T any](line []byte) (T, error) {
	var v, none T
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return none, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return none, errors.New("more than one JSON value on the line")
	}
	return v, nil
}
