package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/sigma-scheduler/sigma/mpa"
)

// A Reader reads a journal.
type Reader struct {
	name string
	in   *bufio.Reader
	line int
	// CutOff says that the last line has no end: a kill cut it off. It is left out.
	CutOff bool
}

// NewReader reads a journal; name is used in errors.
func NewReader(name string, r io.Reader) *Reader {
	return &Reader{name: name, in: bufio.NewReaderSize(r, 1<<16)}
}

// Line is the number of the line that Next read last.
func (r *Reader) Line() int { return r.line }

// mostLine is the largest record in bytes: one of 100,000 pods is smaller.
const mostLine = 64 << 20

// readLine is the rest of the file up to the end of the line.
func (r *Reader) readLine() (line []byte, err error) {
	for {
		part, err := r.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		case len(line) > mostLine:
			return nil, fmt.Errorf("a line of more than %d MiB: this is no journal", mostLine>>20)
		}
	}
}

// Next is the next record, or io.EOF. Errors name file and line.
func (r *Reader) Next() (*Record, error) {
	line, err := r.readLine()
	switch {
	case errors.Is(err, io.EOF):
		r.CutOff = len(line) > 0
		return nil, io.EOF
	case err != nil:
		return nil, fmt.Errorf("%s:%d: %w", r.name, r.line+1, err)
	}
	r.line++
	record, err := parse(line)
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", r.name, r.line, err)
	}
	if r.line == 1 && record.Kind != KindStart {
		return nil, fmt.Errorf("%s:1: a journal begins with a start, not with %s", r.name, record.Kind)
	}
	return record, nil
}

func parse(line []byte) (*Record, error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	var r Record
	if err := dec.Decode(&r); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if dec.More() {
		return nil, errors.New("more than one record on the line")
	}
	parts := map[string]bool{KindStart: r.Start != nil, KindDecision: r.Decision != nil, KindOutcome: r.Outcome != nil}
	has, known := parts[r.Kind]
	switch {
	case !known:
		return nil, fmt.Errorf("kind %q: want start, decision or outcome", r.Kind)
	case !has:
		return nil, fmt.Errorf("%s: the record has none", r.Kind)
	case r.Start != nil && (r.Start.Format < 1 || r.Start.Format > Format):
		return nil, fmt.Errorf("start.format %d: this program reads 1 to %d", r.Start.Format, Format)
	}
	return &r, nil
}

// Records are all records of a journal, up to the first error.
func (r *Reader) Records() iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for {
			record, err := r.Next()
			if errors.Is(err, io.EOF) || !yield(record, err) || err != nil {
				return
			}
		}
	}
}

// A Transition is a decision with what it led to: what a learner learns from.
type Transition struct {
	Setup *Setup
	*Decided
	// Outcomes that were known when the next decision was taken, oldest first.
	Outcomes []Outcome
	// Next is the observation after it; nil at the end, and where another setup begins.
	Next *mpa.Observation
}

// Transitions are all decisions of a journal with what they led to, up to the first
// error.
func (r *Reader) Transitions() iter.Seq2[Transition, error] {
	return func(yield func(Transition, error) bool) {
		var t Transition
		var setup *Setup
		give := func(next *mpa.Observation) bool {
			last := t
			last.Next, t = next, Transition{}
			return last.Decided == nil || yield(last, nil)
		}
		for record, err := range r.Records() {
			switch {
			case err != nil:
				yield(Transition{}, err)
				return
			case record.Start != nil:
				if setup == nil || !record.Start.Continues || !setup.same(&record.Start.Setup) {
					if !give(nil) {
						return
					}
				}
				setup = &record.Start.Setup
			case record.Decision != nil:
				if !give(&record.Decision.Observation) {
					return
				}
				t = Transition{Setup: setup, Decided: record.Decision}
			case t.Decided != nil && record.Outcome.Decided.Equal(t.Decision.Time):
				t.Outcomes = append(t.Outcomes, *record.Outcome)
			}
		}
		give(nil)
	}
}
