package defrag

import (
	"cmp"
	"fmt"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/plan/defrag"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A Start holds the machines of the items of a trace, and the items that wait for a place.
type Start struct {
	Items   []defrag.Item
	Trace   *trace.Trace
	request []int32 // per item
	number  []int32 // per item: within its request
	caps    []int32 // per app: items that may move; nil = all
}

// a startReader books items on machines, so that an item for which there is no room is an
// error with its line.
type startReader struct {
	t      *trace.Trace
	names  *trace.MachineNames
	byName map[string]int32
	state  *binpack.State
	items  [][]startItem // by request
}

type startItem struct {
	stands, waits bool
	line, index   int32
	devices       []binpack.Device
}

// NewStart is the situation that placed.csv describes; the items of events.csv wait.
func NewStart(t *trace.Trace) (*Start, error) {
	if len(t.Placed) == 0 {
		return nil, fmt.Errorf("trace %s: %w", t.Name, errNoStart)
	}
	return startOf(t)
}

func startOf(t *trace.Trace) (*Start, error) {
	r := newStartReader(t)
	if err := r.readPlaced(); err != nil {
		return nil, fmt.Errorf("trace %s: %w", t.Name, err)
	}
	for _, e := range t.Events {
		for i := range r.items[e.Request] {
			it := &r.items[e.Request][i]
			it.waits = e.Kind == trace.Create && !it.stands
		}
	}
	return r.start()
}

// ReadStart returns the situation after the placements in a file, which a replay has
// written; with an empty path that of [NewStart]. The items of placed.csv that are not in
// the file stay where they were.
func ReadStart(t *trace.Trace, path string) (*Start, error) {
	if path == "" {
		return NewStart(t)
	}
	placements, err := trace.ReadPlacements(path)
	if err != nil {
		return nil, err
	}
	r := newStartReader(t)
	again := map[int32]bool{} // requests of placed.csv that the file places again
	for _, p := range placements {
		if q, ok := r.byName[p.Request]; ok && int(q) < t.Initial && (p.Kind == trace.Place || p.Kind == trace.Unplaced) {
			again[q] = true
		}
	}
	if len(again) == 0 {
		if err := r.readPlaced(); err != nil {
			return nil, fmt.Errorf("trace %s: %w", t.Name, err)
		}
	}
	for i, p := range placements {
		if err := r.read(p); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+2, err)
		}
	}
	return r.start()
}

func newStartReader(t *trace.Trace) *startReader {
	t = Movable(t)
	r := &startReader{t: t, names: trace.NewMachineNames(t.Instance), state: binpack.NewState(t.Instance), byName: map[string]int32{}}
	for i, q := range t.Requests {
		r.byName[q.Name] = int32(i)
		r.items = append(r.items, make([]startItem, q.Count))
	}
	return r
}

func (r *startReader) readPlaced() error {
	next := make([]int32, len(r.t.Requests))
	for i, p := range r.t.Placed {
		for range p.Count {
			if err := r.book(p.Request, next[p.Request], p.Line, p.Index, p.Devices); err != nil {
				return fmt.Errorf("placed.csv:%d: %w", i+2, err)
			}
			next[p.Request]++
		}
	}
	return nil
}

// book puts an item on a machine.
func (r *startReader) book(request, number, line, index int32, devices []binpack.Device) error {
	q := r.t.Requests[request]
	m := r.state.MachineAt(line, index)
	if err := r.state.PlaceAs(q.App, m, devices); err != nil {
		return fmt.Errorf("request %q on machine %s: %w", q.Name, r.t.MachineName(line, index), err)
	}
	r.items[request][number] = startItem{stands: true, line: line, index: index, devices: devices}
	return nil
}

// read applies a line of placements.
func (r *startReader) read(p trace.Placement) error {
	request, ok := r.byName[p.Request]
	if !ok {
		return fmt.Errorf("request %q: the trace has none", p.Request)
	}
	q := r.t.Requests[request]
	if name := r.t.Instance.Apps[q.App].Name; name != p.App {
		return fmt.Errorf("request %q: app %q, in the trace %q", p.Request, p.App, name)
	}
	if p.Item >= int(q.Count) {
		return fmt.Errorf("request %q: item %d, and it has %d", p.Request, p.Item, q.Count)
	}
	it := &r.items[request][p.Item]
	switch p.Kind {
	case trace.Unplaced:
		it.waits = true
		return nil
	case trace.Remove:
		if it.stands {
			r.state.Remove(q.App, r.state.MachineAt(it.line, it.index), it.devices)
		}
		*it = startItem{}
		return nil
	case trace.Move:
		if !it.stands {
			return fmt.Errorf("item %d of request %q moves, and stands nowhere", p.Item, p.Request)
		}
		r.state.Remove(q.App, r.state.MachineAt(it.line, it.index), it.devices)
		it.stands = false
	}
	if it.stands {
		return fmt.Errorf("item %d of request %q has two places: %s and %s", p.Item, p.Request, r.t.MachineName(it.line, it.index), p.Machine)
	}
	line, index, err := r.names.Parse(p.Machine)
	if err != nil {
		return fmt.Errorf("machine %q: %w", p.Machine, err)
	}
	devices, err := trace.ParseDevices(r.t.Instance, p.Devices)
	if err != nil {
		return fmt.Errorf("devices %q: %w", p.Devices, err)
	}
	for d, dim := range r.t.Instance.Dimensions {
		n := 0
		for _, dev := range devices {
			if int(dev.Dimension) == d {
				n++
			}
		}
		if want := needed(r.t.Instance, q.App, d); n != want {
			return fmt.Errorf("devices %q: %d of %s, want %d", p.Devices, n, dim.Name, want)
		}
	}
	return r.book(request, int32(p.Item), line, index, devices)
}

func (r *startReader) start() (*Start, error) {
	s := &Start{Trace: r.t}
	fixed, err := r.t.Fixed()
	if _, ignored := r.t.Ignored(); err != nil || ignored != nil {
		return nil, cmp.Or(err, ignored)
	}
	for request, items := range r.items {
		for number, it := range items {
			if !it.stands && !it.waits {
				continue
			}
			item := defrag.Item{App: r.t.Requests[request].App, Line: -1, Index: -1}
			if it.stands {
				item.Fixed = request < r.t.Initial && fixed[r.t.Requests[request].Name] != nil
				item.Line, item.Index, item.Devices = it.line, it.index, it.devices
			}
			s.Items = append(s.Items, item)
			s.request, s.number = append(s.request, int32(request)), append(s.number, int32(number))
		}
	}
	return s, nil
}

func (s *Start) standing() (n int) {
	for _, it := range s.Items {
		if it.Line >= 0 {
			n++
		}
	}
	return n
}
