package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/durable"
)

// Kinds of a [Placement].
const (
	Place    = "place"    // the item is put on the machine
	Remove   = "remove"   // the item is deleted; without a machine when it was not placed
	Unplaced = "unplaced" // no machine takes the item
	Move     = "move"     // the item leaves its machine and is placed on the machine
)

// A Placement is one line of placements.csv, the result of a replay.
type Placement struct {
	Time    float64 // seconds
	Request string
	Item    int // number within the request
	App     string
	Machine string // empty when unplaced
	Devices string // as [FormatDevices] writes them
	Kind    string
}

var placementColumns = []string{"time", "request", "item", "app", "machine", "devices", "kind"}

// Positions in placementColumns.
const (
	placementTime = iota
	placementRequest
	placementItem
	placementApp
	placementMachine
	placementDevices
	placementKind
)

// A PlacementWriter writes placements as CSV.
type PlacementWriter struct {
	w    *bufio.Writer
	line line
}

// NewPlacementWriter writes to w, buffered, starting with the header line.
// Errors of w may show only when the writer is flushed.
func NewPlacementWriter(w io.Writer) *PlacementWriter {
	p := &PlacementWriter{w: bufio.NewWriterSize(w, 1<<16), line: *newLine(placementColumns...)}
	_, _ = p.w.Write(p.line.buf) // an error stays in the buffer and returns with the next write
	return p
}

// Write writes one placement.
func (p *PlacementWriter) Write(placement Placement) error {
	l := &p.line
	l.buf = l.buf[:0]
	l.float(placement.Time)
	l.text(placement.Request)
	l.int(int64(placement.Item))
	l.text(placement.App)
	l.text(placement.Machine)
	l.text(placement.Devices)
	l.text(placement.Kind)
	l.end()
	if _, err := p.w.Write(l.buf); err != nil {
		return fmt.Errorf("writing placements: %w", err)
	}
	return nil
}

// Flush writes the remainder of the buffer.
func (p *PlacementWriter) Flush() error {
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("writing placements: %w", err)
	}
	return nil
}

// A PlacementFile is a file of placements that appears under its name only
// when it is complete.
type PlacementFile struct {
	*PlacementWriter
	file *durable.File
}

// CreatePlacements starts a temporary file of placements next to path.
func CreatePlacements(path string) (*PlacementFile, error) {
	file, err := durable.Create(path)
	if err != nil {
		return nil, err
	}
	return &PlacementFile{NewPlacementWriter(file), file}, nil
}

// Commit makes the file durable and gives it its name.
func (p *PlacementFile) Commit() error {
	if err := p.Flush(); err != nil {
		return err
	}
	return p.file.Commit()
}

// Close removes the file unless it was committed.
func (p *PlacementFile) Close() { p.file.Discard() }

// A PlacementReader reads placements line by line.
type PlacementReader struct {
	rows *table
}

// NewPlacementReader reads placements from r; errors call them file.
func NewPlacementReader(file string, r io.Reader) (*PlacementReader, error) {
	rows, err := newTable(file, r, placementColumns)
	if err != nil {
		return nil, err
	}
	return &PlacementReader{rows}, nil
}

// Next returns the next placement, io.EOF after the last, or an error that
// names file, line and field.
func (p *PlacementReader) Next() (Placement, error) {
	rows := p.rows
	if err := rows.next(); err != nil {
		return Placement{}, err
	}
	at, err := parseFloat(rows.field(placementTime))
	if err != nil {
		return Placement{}, rows.bad(placementTime, err)
	}
	for _, column := range []int{placementRequest, placementApp} {
		if _, err := rows.name(column); err != nil {
			return Placement{}, err
		}
	}
	item, err := rows.count(placementItem, 0)
	if err != nil {
		return Placement{}, err
	}
	kind, err := placementKindOf(rows)
	if err != nil {
		return Placement{}, err
	}
	// The fields share the row's text, which is not used again.
	return Placement{
		Time: at, Request: rows.field(placementRequest), Item: int(item), App: rows.field(placementApp),
		Machine: rows.field(placementMachine), Devices: rows.field(placementDevices), Kind: kind,
	}, nil
}

// placementKindOf also compares the machine and the devices with the kind.
func placementKindOf(rows *table) (string, error) {
	machine := rows.field(placementMachine)
	if machine != "" {
		if err := checkName(machine); err != nil {
			return "", rows.bad(placementMachine, err)
		}
	}
	for part := range strings.SplitSeq(rows.field(placementDevices), "|") {
		index := part[strings.IndexByte(part, ':')+1:]
		if _, err := strconv.ParseUint(index, 10, 31); err != nil && rows.field(placementDevices) != "" {
			return "", rows.badf(placementDevices, "device %q: not an index", part)
		}
	}
	if machine == "" && rows.field(placementDevices) != "" {
		return "", rows.badf(placementDevices, "devices without a machine")
	}
	switch rows.field(placementKind) {
	case Place:
		if machine == "" {
			return "", rows.bad(placementMachine, errors.New("placed on no machine"))
		}
		return Place, nil
	case Move:
		if machine == "" {
			return "", rows.bad(placementMachine, errors.New("moved to no machine"))
		}
		return Move, nil
	case Remove:
		return Remove, nil
	case Unplaced:
		if machine != "" {
			return "", rows.bad(placementMachine, errors.New("an unplaced item has no machine"))
		}
		return Unplaced, nil
	}
	return "", rows.badf(placementKind, "want %s, %s, %s or %s", Place, Remove, Unplaced, Move)
}

// ReadPlacements reads a file of placements.
func ReadPlacements(path string) ([]Placement, error) {
	placements, err := readPlacements(path)
	if err != nil {
		return nil, fmt.Errorf("reading placements: %w", err)
	}
	return placements, nil
}

func readPlacements(path string) ([]Placement, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	r, err := NewPlacementReader(filepath.Base(path), f)
	if err != nil {
		return nil, err
	}
	var placements []Placement
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return placements, nil
		} else if err != nil {
			return nil, err
		}
		placements = append(placements, p)
	}
}
