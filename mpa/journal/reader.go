package journal

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/sigma-scheduler/sigma/internal/durable"
)

// A Reader reads a journal. It leaves out a last line without its end, which a kill has cut
// off; CutOff then returns true.
type Reader struct {
	*durable.Reader[*Record]
	name string
}

// NewReader reads a journal; name is used in errors.
func NewReader(name string, r io.Reader) *Reader {
	return &Reader{durable.NewReader(name, r, parse), name}
}

// Next returns the next record, or io.EOF. Errors name file and line.
func (r *Reader) Next() (*Record, error) {
	record, err := r.Reader.Next()
	if err == nil && r.Line() == 1 && record.Kind != KindStart {
		return nil, fmt.Errorf("%s:1: a journal begins with a start, not with %s", r.name, record.Kind)
	}
	return record, err
}

func parse(line []byte) (*Record, error) {
	r, err := durable.ParseJSON[*Record](line)
	if err != nil {
		return nil, err
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
	case r.Start != nil:
		r.Start.Target.Newest = r.Start.Format < 3
	}
	return r, nil
}

// Records returns all records of a journal, up to the first error.
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
