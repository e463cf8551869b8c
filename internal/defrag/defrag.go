package defrag

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/binpack/plan/defrag"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/plural"
)

// Options bound the search. Of Share, Count, Machines and UntilBound one is
// set, or no field with MakeRoom.
type Options struct {
	Share      float64 // most moves ÷ placed items; negative = not set
	Count      int     // most moves; negative = not set
	Machines   int     // number of machines to stop at; 0 = not set
	UntilBound bool
	MakeRoom   bool // first let in the items that wait
	ByCost     bool // empty the dearest machines
	InFlight   int  // items that are away at once; 0 = 1
	Seed       uint64
	Watch      func(attempts, moves, freed int) // may be nil
}

// SetMoves reads the most moves: a number, or a share of the placed items such as 2%.
func (r *Options) SetMoves(text string) error {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return errors.New("want 0% to 100%")
		}
		r.Share = percent / 100
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return errors.New("want a number, or a share such as 2%")
	}
	r.Count = int(n)
	return nil
}

// A Result holds the figures and the moves of a rebalance.
type Result struct {
	MachinesBefore int          `json:"machines_before"`
	MachinesAfter  int          `json:"machines_after"`
	Bound          int          `json:"bound"` // no placement of the items needs fewer machines
	Moves          int          `json:"moves"`
	MovesPercent   float64      `json:"moves_percent"` // of the items on machines
	LeastMoves     int          `json:"least_moves"`   // lower bound, for as many machines freed
	CostBefore     float64      `json:"cost_before"`   // of machines with items, an hour
	CostAfter      float64      `json:"cost_after"`
	Saving         Saving       `json:"saving"`
	Fixed          int          `json:"fixed,omitempty"` // items that must not move
	Curve          []CurvePoint `json:"curve"`
	LetIn          *int         `json:"let_in,omitempty"` // with --make-room: waiting items that got a place
	LeftOut        *int         `json:"left_out,omitempty"`

	Items  int    `json:"-"` // on machines before
	Method string `json:"-"` // of the bound
	Reason string `json:"-"` // why there are no moves, or why the target is not reached

	start *Start
	list  []defrag.Move
	inUse int                 // machines, once room was made
	ends  int                 // moves that empty machines
	most  func(moves int) int // machines that so many moves can free at most
}

// A CurvePoint is the number of machines free after a number of moves, here and by a drain
// without swaps.
type CurvePoint struct {
	Moves      int `json:"moves"`
	Freed      int `json:"freed"`
	DrainFreed int `json:"drain_freed"`
}

// Search looks for moves from a start. The slow checker confirms each step before
// anything is returned. When the context ends, it returns the moves found so far.
func Search(ctx context.Context, start *Start, opt Options) (*Result, error) {
	start, err := start.held(opt)
	if err != nil {
		return nil, err
	}
	standing := start.standing()
	budget := float64(opt.Count)
	if opt.Share >= 0 {
		budget = math.Floor(opt.Share*float64(standing) + 1e-9)
	} else if opt.Count < 0 {
		budget = math.Inf(1)
	}
	r := &Result{Items: standing, start: start, Curve: []CurvePoint{}}
	for _, it := range start.Items {
		if it.Fixed && it.Line >= 0 {
			r.Fixed++
		}
	}
	p, err := defrag.New(start.Trace.Instance, start.Items, defrag.Options{
		Seed: opt.Seed, Budget: budget, ByCost: opt.ByCost, Watch: opt.Watch, InFlight: opt.InFlight, Caps: start.caps,
	})
	if err != nil {
		return nil, err
	}
	_, r.MachinesBefore = p.Machines()
	made := 0
	if opt.MakeRoom {
		left := p.MakeRoom(ctx)
		out, in := len(left), len(start.Items)-standing-len(left)
		r.LetIn, r.LeftOut = &in, &out
		made = len(p.Moves())
	}
	now := start.after(p.Moves())
	b := now.bound()
	r.Bound, r.Method = b.Machines, b.Method
	if opt.Machines > 0 && opt.Machines < b.Machines {
		return nil, fmt.Errorf("no placement of these items needs fewer than %d machines (%s): %d cannot be reached", b.Machines, b.Method, opt.Machines)
	}
	r.inUse, _ = p.Machines()
	only := opt.MakeRoom && opt.Share < 0 && opt.Count < 0 && opt.Machines == 0 && !opt.UntilBound
	if !only {
		p.Rebalance(ctx, max(opt.Machines, b.Machines))
	}
	r.list = p.Moves()
	if err := r.check(); err != nil {
		return nil, err
	}
	r.MachinesAfter, _ = p.Machines()
	r.price()
	least := start.leastMoves()
	if freed := r.MachinesBefore - r.MachinesAfter; freed > 0 {
		r.LeastMoves = least[freed-1]
	}
	spare := max(0, r.inUse-b.Machines)
	r.most = func(n int) int {
		k := 0
		for k < min(spare, len(least)) && least[k] <= n {
			k++
		}
		return k
	}
	r.Reason = reason(r, opt, only, budget, p.LeastMoves(1))
	return r, r.draw(now, r.list[made:])
}

// FromMoves returns the figures of moves that another search found, without the curve. The
// slow checker confirms each step.
func FromMoves(start *Start, list []defrag.Move) (*Result, error) {
	r := &Result{Items: start.standing(), start: start, list: list, Curve: []CurvePoint{}}
	if err := r.check(); err != nil {
		return nil, err
	}
	r.MachinesBefore, r.MachinesAfter = len(start.inUse()), len(start.after(list).inUse())
	r.price()
	b := start.bound()
	r.Bound, r.Method = b.Machines, b.Method
	return r, nil
}

// check confirms the moves and counts them.
func (r *Result) check() error {
	if err := defrag.Check(r.start.Trace.Instance, r.start.Items, r.list); err != nil {
		return fmt.Errorf("a move breaks a constraint: this is a bug, please report it with the trace: %w", err)
	}
	for _, m := range r.list {
		if m.From != defrag.Nowhere {
			r.Moves++
		}
	}
	if r.Items > 0 {
		r.MovesPercent = math.Round(1e6*float64(r.Moves)/float64(r.Items)) / 1e4
	}
	return nil
}

// Placed calls each for every item on a machine, before the moves or after them, with its
// request and its number within that.
func (r *Result) Placed(after bool, each func(request, number int32, it *defrag.Item)) {
	s := r.start
	if after {
		s = s.after(r.list)
	}
	for k := range s.Items {
		if it := &s.Items[k]; it.Line >= 0 {
			each(s.request[k], s.number[k], it)
		}
	}
}

// Final is placed.csv after the moves, an item a line.
func (r *Result) Final() (placed []trace.Placed) {
	r.Placed(true, func(request, _ int32, it *defrag.Item) {
		placed = append(placed, trace.Placed{Request: request, Line: it.Line, Index: it.Index, Count: 1, Devices: it.Devices})
	})
	return placed
}

// A Moved item, by the name of its request, leaves one machine for another.
type Moved struct{ Request, From, To string }

// Sequence returns the moves in their order. From is empty where an item was not placed.
func (r *Result) Sequence() []Moved {
	list := make([]Moved, len(r.list))
	for k, m := range r.list {
		list[k] = Moved{r.start.Trace.Requests[r.start.request[m.Item]].Name, "", r.start.Trace.MachineName(m.To.Line, m.To.Index)}
		if m.From != defrag.Nowhere {
			list[k].From = r.start.Trace.MachineName(m.From.Line, m.From.Index)
		}
	}
	return list
}

// An Emptied machine is free after so many of the moves.
type Emptied struct {
	Machine string
	Moves   int
}

// Emptied returns the machines that the moves free, in the order in which they become free.
func (r *Result) Emptied() (list []Emptied) {
	on := map[defrag.Position]int{}
	at := map[defrag.Position]int{} // the moves after which it became free
	for _, it := range r.start.Items {
		if it.Line >= 0 {
			on[defrag.Position{Line: it.Line, Index: it.Index}]++
		}
	}
	for k, m := range r.list {
		on[m.To]++
		delete(at, m.To)
		if on[m.From]--; on[m.From] == 0 {
			at[m.From] = k + 1
		}
	}
	for p, k := range at {
		list = append(list, Emptied{r.start.Trace.MachineName(p.Line, p.Index), k})
	}
	slices.SortFunc(list, func(a, b Emptied) int { return cmp.Compare(a.Moves, b.Moves) })
	return list
}

// Why returns the reason why there are no moves, or why the target is not reached; empty otherwise.
func (r *Result) Why() string { return r.Reason }

// reason returns the reason why there are no moves, or why the target is not reached.
func reason(r *Result, opt Options, only bool, budget, least float64) string {
	target := max(opt.Machines, r.Bound)
	switch {
	case r.Items == 0:
		return "no item stands on a machine"
	case only:
		return ""
	case r.MachinesBefore <= target:
		return fmt.Sprintf("no moves: the target of %s is met", plural.Of(target, "machine"))
	case r.Fixed == r.Items:
		return "no moves: no item may move"
	case budget == 0:
		return "no moves: the budget is 0"
	case r.Moves == 0 && least > budget && !math.IsInf(least, 1):
		return "no moves: to empty the cheapest machine takes more"
	case r.Moves == 0:
		return "no moves: no machine could be emptied"
	case (opt.Machines > 0 || opt.UntilBound) && r.MachinesAfter > target:
		return fmt.Sprintf("the limit of %d is not reached: no more moves were found at %s", target, plural.Of(r.MachinesAfter, "machine"))
	}
	return ""
}

// draw makes the curve of the moves that empty machines, next to a drain without swaps.
func (r *Result) draw(now *Start, list []defrag.Move) error {
	drain, err := defrag.Greedy(now.Trace.Instance, now.Items)
	if err != nil {
		return err
	}
	on := map[defrag.Position]int{}
	for _, it := range now.Items {
		if it.Line >= 0 {
			on[defrag.Position{Line: it.Line, Index: it.Index}]++
		}
	}
	before := len(on)
	r.ends = len(list)
	at := map[int]CurvePoint{}
	for k, m := range list {
		if on[m.From]--; on[m.From] == 0 {
			delete(on, m.From)
		}
		on[m.To]++
		at[k+1] = CurvePoint{Moves: k + 1, Freed: before - len(on)}
	}
	last := CurvePoint{}
	end := len(list)
	if n := len(drain); n > 0 {
		end = max(end, drain[n-1].Moves)
	}
	for k := 1; k <= end; k++ {
		next := last
		if p, ok := at[k]; ok {
			next = p
		}
		next.Moves, next.DrainFreed = k, last.DrainFreed
		for len(drain) > 0 && drain[0].Moves <= k {
			next.DrainFreed, drain = drain[0].Freed, drain[1:]
		}
		if next.Freed != last.Freed || next.DrainFreed != last.DrainFreed {
			r.Curve = append(r.Curve, next)
		}
		last = next
	}
	return nil
}

// bound is the lower bound of the placed items.
func (s *Start) bound() bound.Bound {
	standing := *s.Trace
	standing.Placed = nil
	var changes []bound.Change
	for k, it := range s.Items {
		if it.Line >= 0 {
			standing.Placed = append(standing.Placed, trace.Placed{Request: s.request[k], Line: it.Line, Index: it.Index, Count: 1})
			changes = append(changes, bound.Change{App: it.App, Count: 1})
		}
	}
	if len(changes) == 0 {
		return bound.Bound{Method: "volume"}
	}
	return bound.BestOverTime(context.Background(), standing.Loosened(), changes, math.NaN(), bound.Options{}).Bound
}

// WriteMoves writes the moves as CSV, one a line. The lines of a step leave together.
func (r *Result) WriteMoves(out io.Writer) error {
	s, in := r.start, r.start.Trace.Instance
	w := csv.NewWriter(out)
	_ = w.Write(movesHead) // the writer keeps its error
	for _, m := range r.list {
		from := ""
		if m.From != defrag.Nowhere {
			from = s.Trace.MachineName(m.From.Line, m.From.Index)
		}
		_ = w.Write([]string{
			strconv.Itoa(m.Step + 1), s.Trace.Requests[s.request[m.Item]].Name, strconv.Itoa(int(s.number[m.Item])),
			in.Apps[s.Items[m.Item].App].Name, from, s.Trace.MachineName(m.To.Line, m.To.Index),
			trace.FormatDevices(in, m.Devices),
		})
	}
	w.Flush()
	return w.Error()
}

// after is the start with moves carried out.
func (s *Start) after(list []defrag.Move) *Start {
	next := *s
	next.Items = slices.Clone(s.Items)
	for _, m := range list {
		it := &next.Items[m.Item]
		it.Line, it.Index, it.Devices = m.To.Line, m.To.Index, m.Devices
	}
	return &next
}

var errNoStart = errors.New("nothing says where items stand: it has no placed.csv; give --placements with the file of sigma replay")

// needed is the number of devices of a dimension that an item of an app uses.
func needed(in *binpack.Instance, app int32, d int) int {
	need := in.Apps[app].Demand[d]
	if !in.Dimensions[d].Device || need == 0 {
		return 0
	}
	return int(max(1, need/in.Dimensions[d].One))
}

// shares are the rows of the table: moves as percent of the items on machines.
var shares = []float64{.1, .2, .5, 1, 2, 3, 5, 10, 20, 50}

// Print writes the figures, and machines freed against items moved.
func (r *Result) Print(out io.Writer) error {
	fmt.Fprintf(out, "machines  %d → %d (bound %d, %s)\n", r.MachinesBefore, r.MachinesAfter, r.Bound, r.Method)
	fmt.Fprintf(out, "moves     %d, %.2f %% of %s; at least %d\n", r.Moves, r.MovesPercent, plural.Of(r.Items, "item"), r.LeastMoves)
	if r.Saving.Money != nil && *r.Saving.Money > 0 {
		empty := ""
		if n := r.Saving.Empty; n > 0 {
			empty = ", with " + plural.Of(n, "empty machine")
		}
		fmt.Fprintf(out, "saves     %.2f %s a month%s\n", *r.Saving.Money, r.Saving.Currency, empty)
	}
	if r.Fixed > 0 {
		fmt.Fprintf(out, "fixed     %s must not move\n", plural.Of(r.Fixed, "item"))
	}
	if r.LetIn != nil {
		fmt.Fprintf(out, "let in    %d of %d waiting items\n", *r.LetIn, *r.LetIn+*r.LeftOut)
	}
	if r.ends == 0 {
		return nil
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "moves\t% of items\tfreed\tdrain without swaps\tat most")
	row := func(n int) {
		p := r.After(n)
		fmt.Fprintf(w, "%d\t%.2f\t%d\t%d\t%d\n", n, p.Percent, p.Freed, p.DrainFreed, p.Most)
	}
	last := 0
	for _, share := range shares {
		if n := int(share / 100 * float64(r.Items)); n > last && n < r.ends {
			row(n)
			last = n
		}
	}
	row(r.ends)
	return w.Flush()
}

// A Progress is the point of the curve after a number of moves.
type Progress struct {
	CurvePoint
	Percent float64 // of the items on machines
	Most    int     // machines that so many moves can free at most
}

// After returns the progress after the first n moves that empty machines.
func (r *Result) After(n int) Progress {
	p := Progress{Percent: 100 * float64(n) / float64(max(r.Items, 1)), Most: r.most(n)}
	for _, q := range r.Curve {
		if q.Moves <= n {
			p.CurvePoint = q
		}
	}
	return p
}

// Emptying returns the number of moves that empty machines.
func (r *Result) Emptying() int { return r.ends }
