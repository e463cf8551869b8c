package compare

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Current is the name of the policy that repeats past placements.
const Current = "current"

// Placements is the key of a trace's source with the placements of later requests: a map
// from request to machine. placed.csv has the placements at the beginning.
const Placements = "placements"

// current places every item on its past machine, from placed.csv or from the source's
// placements. It leaves out items without one.
type current struct {
	rule.FirstFit                  // its scorer is never used
	stood         [][]trace.Placed // by request, in the order of items
}

// newCurrent reads the past placements of a trace.
func newCurrent(t *trace.Trace) (*current, error) {
	c := &current{stood: make([][]trace.Placed, len(t.Requests))}
	for _, p := range t.Placed {
		c.stood[p.Request] = append(c.stood[p.Request], p)
	}
	later, _ := t.Source[Placements].(map[string]any)
	if len(t.Placed) == 0 && len(later) == 0 {
		return nil, errors.New("it has no placed.csv, so nothing says where items stood")
	}
	names := trace.NewMachineNames(t.Instance)
	for i := t.Initial; i < len(t.Requests) && len(later) > 0; i++ {
		q := &t.Requests[i]
		machine, ok := later[q.Name]
		if !ok {
			continue
		}
		line, index, err := names.Parse(fmt.Sprint(machine))
		if err != nil {
			return nil, fmt.Errorf("trace.yaml: source.%s: %s: machine %q: %w", Placements, q.Name, machine, err)
		}
		c.stood[i] = []trace.Placed{{Request: int32(i), Line: line, Index: index, Count: q.Count}}
	}
	return c, nil
}

// StayOf returns the present machines of the later items of a trace, for [cerebro.Options.Stay]; nil = it has none.
func StayOf(t *trace.Trace) (cerebro.Follower, error) {
	if t.Source[Placements] == nil {
		return nil, nil //nolint:nilnil // no items stay
	}
	c, err := newCurrent(t)
	if err != nil {
		return nil, fmt.Errorf("trace %q: %w", t.Name, err)
	}
	return c, nil
}

// Where implements [cerebro.Follower].
func (c *current) Where(request, number int32) (line, index int32, devices []trace.Device, ok bool) {
	for _, p := range c.stood[request] {
		if number < p.Count {
			return p.Line, p.Index, p.Devices, true
		}
		number -= p.Count
	}
	return 0, 0, nil, false
}

// enough is the number of consecutive machines that drainable fails to empty before it
// stops: the next ones are fuller.
const enough = 64

// drainable lists the machines that could be emptied of their items in placed.csv, the
// emptiest first. Best-Fit moves each item to another machine in use. The list is
// empty when items use devices.
func drainable(t *trace.Trace) (machines []string, items int) {
	if slices.ContainsFunc(t.Placed, func(p trace.Placed) bool { return len(p.Devices) > 0 }) {
		return nil, 0
	}
	fixed, _ := t.Fixed() // an error is reported where the trace is read
	d := drain{state: binpack.NewState(t.Instance)}
	for _, p := range t.Placed {
		m := d.state.MachineAt(p.Line, p.Index)
		for range p.Count {
			d.state.Book(t.Requests[p.Request].App, m)
		}
	}
	d.scorer = rule.BestFit{}.Scorer(d.state)
	stays := map[int32]bool{} // machines with an item that must not move
	for _, p := range t.Placed {
		if fixed[t.Requests[p.Request].Name] != nil {
			stays[d.state.MachineAt(p.Line, p.Index)] = true
		}
	}
	stood := make([]int, d.state.Size())
	for m := range stood {
		stood[m] = int(d.state.Items(int32(m)))
	}
	failed := 0
	for _, m := range d.emptiest() {
		if stays[m] || !d.empty(m) {
			if failed++; failed == enough {
				break
			}
			continue
		}
		failed = 0
		items += stood[m] // items that moved here are counted with their first machine
		line, index := d.state.Position(m)
		machines = append(machines, t.MachineName(line, index))
	}
	return machines, items
}

type drain struct {
	state  *binpack.State
	scorer binpack.Scorer
	buf    []int32
	ranked []binpack.Ranked
}

// emptiest lists the machines in use by ascending utilisation; of equal ones the last
// position is first, since Best-Fit moves to the first.
func (d *drain) emptiest() []int32 {
	s := d.state
	used := make([]float64, s.Size())
	var list []int32
	for m := range int32(s.Size()) {
		if s.Items(m) == 0 {
			continue
		}
		list = append(list, m)
		for dim, capacity := range s.Capacity(m) {
			if capacity > 0 {
				used[m] += 1 - float64(s.Free(dim)[m])/float64(capacity)
			}
		}
	}
	slices.SortFunc(list, func(a, b int32) int {
		switch {
		case used[a] != used[b]:
			return cmp.Compare(used[a], used[b])
		case a == b:
			return 0
		case s.Before(b, a):
			return -1
		}
		return 1
	})
	return list
}

// empty moves all items off a machine, or no item, and reports whether it did.
func (d *drain) empty(m int32) bool {
	type move struct{ app, to int32 }
	var moves []move
	undo := func() {
		for _, back := range moves {
			d.state.Remove(back.app, back.to, nil)
			d.state.Book(back.app, m)
		}
	}
	for _, e := range slices.Clone(d.state.Contents(m)) {
		for range e.Count {
			d.state.Remove(e.App, m, nil)
			to := d.best(e.App, m)
			if to < 0 {
				d.state.Book(e.App, m)
				undo()
				return false
			}
			d.state.Book(e.App, to)
			moves = append(moves, move{e.App, to})
		}
	}
	return true
}

// best is the machine that Best-Fit takes for an item among those in use but beside; -1 =
// no such machine.
func (d *drain) best(app, beside int32) int32 {
	d.buf = slices.DeleteFunc(d.state.Feasible(app, d.buf[:0]), func(m int32) bool {
		return m == beside || d.state.Items(m) == 0
	})
	var err error
	d.ranked, err = d.state.Rank(d.scorer, binpack.Item{App: app}, d.buf, 1, d.ranked)
	if err != nil || len(d.ranked) == 0 {
		return -1
	}
	return d.ranked[0].Machine
}
