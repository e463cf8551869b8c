package defrag

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// movesHead is the head of a file of moves.
var movesHead = []string{"step", "request", "item", "app", "from", "to", "devices"}

// ReadMoves returns placed.csv of a trace after the moves of a file that [Result.WriteMoves] wrote. Moves of items that
// are not where the file has them are an error with its line.
func ReadMoves(t *trace.Trace, path string) ([]trace.Placed, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	r := csv.NewReader(file)
	r.FieldsPerRecord = len(movesHead)
	head, err := r.Read()
	if err == nil && head[0] != movesHead[0] {
		err = errors.New("want the moves that sigma rebalance --out wrote")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	m := newMover(t)
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return m.placed, nil
		}
		if err == nil {
			err = m.move(record)
		}
		if err != nil {
			line, _ := r.FieldPos(0)
			return nil, fmt.Errorf("%s:%d: %w", filepath.Base(path), line, err)
		}
	}
}

// A mover moves items one by one.
type mover struct {
	t      *trace.Trace
	names  *trace.MachineNames
	byName map[string]int32
	placed []trace.Placed
	at     map[[2]int32]int // lines of placed by request and item
}

func newMover(t *trace.Trace) *mover {
	m := &mover{t: t, names: trace.NewMachineNames(t.Instance), byName: map[string]int32{}, at: map[[2]int32]int{}}
	for i := range t.Requests {
		m.byName[t.Requests[i].Name] = int32(i)
	}
	next := map[int32]int32{}
	for _, p := range t.Placed {
		n := p.Count
		for p.Count = 1; n > 0; n-- {
			m.at[[2]int32{p.Request, next[p.Request]}] = len(m.placed)
			next[p.Request]++
			m.placed = append(m.placed, p)
		}
	}
	return m
}

func (m *mover) move(record []string) error {
	request, known := m.byName[record[1]]
	if !known {
		return fmt.Errorf("request %q: the trace has none", record[1])
	}
	item, err := strconv.ParseInt(record[2], 10, 32)
	if err != nil {
		return fmt.Errorf("item %q: want a number", record[2])
	}
	k, known := m.at[[2]int32{request, int32(item)}]
	if !known {
		return fmt.Errorf("request %q: item %d is on no machine", record[1], item)
	}
	p := &m.placed[k]
	if now := m.t.MachineName(p.Line, p.Index); now != record[4] {
		return fmt.Errorf("request %q: item %d is on machine %s, not on %q", record[1], item, now, record[4])
	}
	if p.Line, p.Index, err = m.names.Parse(record[5]); err != nil {
		return fmt.Errorf("machine %q: %w", record[5], err)
	}
	if p.Devices, err = trace.ParseDevices(m.t.Instance, record[6]); err != nil {
		return fmt.Errorf("devices %q: %w", record[6], err)
	}
	return nil
}
