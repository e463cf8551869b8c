package ledger

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Reader reads a decision log of any version that this package supports. The events
// it returns are those of [Version].
type Reader struct {
	name    string
	in      *bufio.Reader
	line    int
	version int    // of the last start
	starts  int    // so far
	seq     uint64 // of the last event
	lists   lists
	// CutOff counts the lines that a kill cut off: unreadable lines before a start
	// or at the end of the file.
	CutOff int
	// Gaps are the places where the log begins again after missing events.
	Gaps []Gap
}

// A Gap is a place where a log begins again after events that could not be written, or whose file
// is missing.
type Gap struct {
	File string
	Line int    // of the start
	Seq  uint64 // of the start
	Lost uint64 // events
}

// NewReader reads a log; name is used in errors.
func NewReader(name string, r io.Reader) *Reader {
	return &Reader{name: name, in: bufio.NewReaderSize(r, 1<<16)}
}

// Line returns the number of the line that Next read last.
func (r *Reader) Line() int { return r.line }

// Continue reads on in the next file of the same log.
func (r *Reader) Continue(name string, in io.Reader) {
	r.name, r.in, r.line = name, bufio.NewReaderSize(in, 1<<16), 0
}

// Next returns the next event, or io.EOF. Errors name file and line. A log has to
// begin with a start and must not lack a line.
func (r *Reader) Next() (*Event, error) {
	e, err := r.next()
	if err != nil {
		return nil, err
	}
	switch {
	case e.Kind == KindStart:
		if r.starts > 0 && e.Seq > r.seq+1 {
			r.Gaps = append(r.Gaps, Gap{r.name, r.line, e.Seq, e.Seq - r.seq - 1})
		}
		r.starts++
	case r.starts == 0:
		return nil, fmt.Errorf("%s:%d: nothing started yet: not the beginning of a decision log", r.name, r.line)
	case e.Seq != r.seq+1:
		return nil, fmt.Errorf("%s:%d: seq %d follows %d: lines are missing", r.name, r.line, e.Seq, r.seq)
	}
	r.seq = e.Seq
	if err := r.lists.complete(e); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", r.name, r.line, err)
	}
	return e, nil
}

// next returns the next readable event.
func (r *Reader) next() (*Event, error) {
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
		e, bad := r.parse(text)
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

// parse reads one line in the version of the last start.
func (r *Reader) parse(text []byte) (*Event, error) {
	e, err := &Event{}, error(nil)
	if r.version == 1 {
		e, err = parseVersion1(text)
	} else {
		err = decodeStrictly(text, e)
	}
	if err == nil && e.Kind == KindStart && e.Start != nil {
		if r.version = e.Start.Version; r.version == 1 {
			e.Start.Version = Version
		}
	}
	return e, err
}

// parseVersion1 reads a line of version 1, which differs in the names of two
// fields of an app.
func parseVersion1(text []byte) (*Event, error) {
	type app struct {
		Group         string           `json:"group"`
		Selector      string           `json:"selector"`
		Demand        map[string]int64 `json:"demand"`
		MaxPerMachine int32            `json:"max_per_machine"`
		SpreadMin     int32            `json:"spread_min"`
	}
	line := struct {
		*Event
		Spec *app `json:"spec"` // in place of the event's
	}{Event: &Event{}}
	if err := decodeStrictly(text, &line); err != nil {
		return nil, err
	}
	if s := line.Spec; s != nil {
		line.Event.Spec = &App{Group: s.Group, Selector: s.Selector, Demand: s.Demand, MaxPerMachine: s.MaxPerMachine, SpreadMin: s.SpreadMin}
	}
	return line.Event, nil
}

// decodeStrictly reads one JSON value without unknown fields.
func decodeStrictly(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if dec.More() {
		return errors.New("more than one event on the line")
	}
	return nil
}
