package whatif

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/plan"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/plural"
)

// Options of [Ask].
type Options struct {
	Repack bool // placed items are placed again
	Plan   plan.Options
	// Progress, if not nil, gets the number of machines whose loss was tried, and of all; then the same of relaxations.
	Progress func(done, of int)
}

// A State is a plan of the present items and machines, or of the changed ones.
type State struct {
	Items   int          `json:"items"`
	Nodes   int          `json:"nodes"` // that hold an item
	Cost    float64      `json:"cost"`
	LeftOut int          `json:"left_out"`
	Bound   report.Bound `json:"bound"`
	// Proven: no plan costs less, or, where items are left out, all machines have less of some
	// resource than all items need.
	Proven bool `json:"proven"`
	// Ignored is the number of items that are placed without all of their constraints.
	Ignored int `json:"ignored,omitempty"`
	// Use is the risk of a plan by use.
	Use   *report.Use `json:"use,omitempty"`
	again int         // items that must not move and are placed again
}

// An AppLeft is an app that no longer fits.
type AppLeft struct {
	App   string `json:"app"`
	Items int    `json:"items"`
}

// A Loss is the effect of the worst machine's failure.
type Loss struct {
	Node     string `json:"node"`
	Moved    int    `json:"moved"` // items that need another machine
	LeftOut  int    `json:"left_out"`
	Nodes    int    `json:"nodes"` // in use afterwards
	Tried    int    `json:"tried"` // machines that hold an item: all
	Harmless int    `json:"harmless"`
	// As in State, of all that are tried.
	ignored, again int
}

// An Answer is the number of machines needed, the items that do not fit, and the reasons.
type Answer struct {
	Trace    string    `json:"trace"`
	Question string    `json:"question"`
	At       *float64  `json:"at,omitempty"` // seconds: the time of the largest demand, where items also leave
	Now      State     `json:"now"`
	Then     State     `json:"then"`
	Loss     *Loss     `json:"loss,omitempty"`
	NotFit   []AppLeft `json:"left_out"`
	Relaxed  []Relaxed `json:"relaxed"`
	// Together let all items in where nothing alone does.
	Together []string `json:"together,omitempty"`
	Note     string   `json:"note,omitempty"` // on rows that have no risk
	only     string   // the machine whose loss is not tried
}

func (o *Options) plan(ctx context.Context, t *trace.Trace) (*compare.Plan, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, exact, err := o.quick(ctx, t, o.Plan.Work)
	if err != nil || exact {
		return p, err
	}
	p, err = compare.NewPlan(ctx, t, o.Plan)
	if err == nil {
		err = ctx.Err() // a search that was cut short is no answer
	}
	return p, err
}

func state(t *trace.Trace, p *compare.Plan) State {
	s := State{p.Standing + p.Placed + p.Unplaced, p.Machines, p.Cost, p.Unplaced, p.Bound, p.Proven, p.Ignored(), nil, p.Again()}
	if p.Unplaced > 0 {
		s.Proven = tooLittle(t)
	}
	return s
}

// tooLittle reports a resource of which all items need more than all machines have.
func tooLittle(t *trace.Trace) bool {
	items := newSite(t).items()
	for d := range t.Instance.Dimensions {
		room, unlimited := 0.0, false
		for _, m := range t.Instance.Machines {
			room += float64(m.Count) * float64(m.Capacity[d])
			unlimited = unlimited || m.Count == binpack.Unlimited
		}
		for a, n := range items {
			room -= float64(n) * float64(t.Instance.Apps[a].Demand[d])
		}
		if room < 0 && !unlimited {
			return true
		}
	}
	return false
}

// Ask answers a question about a trace. Where items leave, it is about the time of the largest demand.
// Placed items stay, except on removed machines, unless Options.Repack is set.
func Ask(ctx context.Context, t *trace.Trace, q *Question, o Options) (*Answer, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	a := &Answer{Trace: t.Name, Question: q.String(), NotFit: []AppLeft{}, Relaxed: []Relaxed{}}
	if slices.ContainsFunc(t.Events, func(e trace.Event) bool { return e.Kind == trace.Delete }) {
		at := compare.Peak(t)
		a.At, t = &at, compare.Moment(t, at)
	}
	if o.Repack {
		t = t.FromEmpty()
	}
	now, err := o.plan(ctx, t)
	if err != nil {
		return nil, err
	}
	a.Now = state(t, now)
	s, err := q.apply(t)
	if err != nil {
		return nil, err
	}
	changed, then := s.t, now
	if q.Lose == 0 || q.Add != "" || len(q.Apps)+len(q.Without)+len(q.Nodes) > 0 {
		if then, err = o.plan(ctx, changed); err != nil {
			return nil, err
		}
	}
	a.Then = state(changed, then)
	a.Then.again += s.again
	if q.Lose > 0 && then.Unplaced == 0 {
		if changed, then, err = o.lose(ctx, changed, then, a); err != nil {
			return nil, err
		}
	}
	if err := a.setUse(t, changed, now, then); err != nil {
		return nil, err
	}
	for app, n := range leftOut(changed, then) {
		a.NotFit = append(a.NotFit, AppLeft{changed.Instance.Apps[app].Name, n})
	}
	slices.SortFunc(a.NotFit, func(x, y AppLeft) int { return cmp.Compare(x.App, y.App) })
	why, together, err := o.why(ctx, changed, then)
	a.Relaxed, a.Together = append(a.Relaxed, why...), together
	return a, err
}

// setUse sets the risk of both plans by use.
func (a *Answer) setUse(t, changed *trace.Trace, now, then *compare.Plan) (err error) {
	if err = compare.Lend(changed, t); err != nil {
		return err
	}
	if a.Now.Use, err = now.Use(); err != nil {
		return err
	}
	if a.Then.Use, err = then.Use(); a.Then.Use != nil {
		a.Note = "plans without a resource or rule are for comparison, and have no risk: that above is of what can be done"
	}
	return err
}

// lose tries the loss of each machine of a plan that leaves nothing out, and returns the worst: most items
// without a place, then the highest cost. The loss of the only machine is not tried.
func (o *Options) lose(ctx context.Context, t *trace.Trace, p *compare.Plan, a *Answer) (*trace.Trace, *compare.Plan, error) {
	full, err := stand(t, p)
	if err != nil {
		return nil, nil, err
	}
	positions, only := newSite(full).positions(), full.Instance.Machines
	if len(only) == 1 && only[0].Count == 1 && len(positions) == 1 {
		a.only = full.MachineName(0, 0)
		return t, p, nil
	}
	if len(positions) == 0 {
		return nil, nil, fmt.Errorf("--lose 1: no machine holds an item")
	}
	list, err := o.losses(ctx, full, positions)
	if err != nil {
		return nil, nil, err
	}
	worst, err := o.worst(ctx, list)
	if err != nil {
		return nil, nil, err
	}
	apps, all, q := compare.IgnoredApps(t), a.Then, worst.p
	all.Ignored = 0
	all.add(apps, full, full.Placed)
	a.Loss = &Loss{
		Node: full.MachineName(worst.at.line, worst.at.index), Moved: q.Placed + q.Unplaced, LeftOut: q.Unplaced, Nodes: q.Machines,
		Tried: len(positions), ignored: all.Ignored, again: all.again,
	}
	for _, l := range list {
		if l.p.Unplaced == 0 {
			a.Loss.Harmless += l.alike
		}
	}
	before := a.Then
	a.Then = state(worst.t, q)
	a.Then.Ignored, a.Then.again = before.Ignored, before.again
	a.Then.add(apps, full, slices.DeleteFunc(slices.Clone(t.Placed), func(p trace.Placed) bool { return position{p.Line, p.Index} != worst.at }))
	return worst.t, q, nil
}

// add counts the items of some lines of placed.csv as placed again; apps are those without all of their constraints.
func (s *State) add(apps map[int32]bool, t *trace.Trace, placed []trace.Placed) {
	fixed, _ := t.Fixed() // "sigma rebalance" reports the error
	for _, p := range placed {
		q := t.Requests[p.Request]
		if apps[q.App] {
			s.Ignored += int(p.Count)
		}
		if fixed[q.Name] != nil {
			s.again += int(p.Count)
		}
	}
}

// stand is a trace in which the items of a plan are on its machines.
func stand(t *trace.Trace, p *compare.Plan) (*trace.Trace, error) {
	s := newSite(t)
	names, apps := trace.NewMachineNames(t.Instance), map[string]int32{}
	for a, app := range t.Instance.Apps {
		apps[app.Name] = int32(a)
	}
	s.t.Requests, s.t.Events = s.t.Requests[:t.Initial:t.Initial], nil
	type where struct {
		app, machine, devices string
	}
	row := map[where]int{}
	for _, item := range p.Placements {
		if item.Kind == trace.Unplaced {
			continue
		}
		at := where{item.App, item.Machine, item.Devices}
		if i, ok := row[at]; ok {
			s.t.Placed[i].Count++
			s.t.Requests[s.t.Placed[i].Request].Count++
			continue
		}
		line, index, err := names.Parse(item.Machine)
		if err != nil {
			return nil, fmt.Errorf("machine %q: %w", item.Machine, err)
		}
		devices, err := trace.ParseDevices(t.Instance, item.Devices)
		if err != nil {
			return nil, err
		}
		row[at] = len(s.t.Placed)
		s.t.Requests = append(s.t.Requests, trace.Request{Name: fmt.Sprintf("planned-%d", len(row)), App: apps[item.App], Count: 1})
		s.t.Placed = append(s.t.Placed, trace.Placed{Request: int32(len(s.t.Requests) - 1), Line: line, Index: index, Count: 1, Devices: devices})
	}
	s.t.Initial = len(s.t.Requests)
	return s.t, nil
}

func (s *State) result() string {
	switch {
	case s.LeftOut > 0 && s.Proven:
		return "does not fit, proven"
	case s.LeftOut > 0:
		return "does not fit"
	case s.Proven:
		return report.Optimal
	}
	return "not proven"
}

// Print writes the answer as text.
func (a *Answer) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "what\titems\tnodes\tcost\tbound nodes\tbound cost\tleft out\tresult\n")
	for _, row := range []struct {
		name string
		State
	}{{"now", a.Now}, {strings.ReplaceAll(a.Question, "--", ""), a.Then}} {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.6g\t%d\t%.6g\t%d\t%s\n", row.name, row.Items, row.Nodes, row.Cost, row.Bound.Machines, row.Bound.Cost, row.LeftOut, report.Qualified(row.result(), row.Ignored, row.again))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if a.Then.Use != nil {
		fmt.Fprintf(out, "\nby use    now:  %s\n          then: %s\n          %s\n", a.Now.Use.Text(), a.Then.Use.Text(), a.Note)
	}
	if a.At != nil {
		fmt.Fprintf(out, "\nItems leave: this is the time of the largest demand, %g s.\n", *a.At)
	}
	if a.only != "" {
		fmt.Fprintf(out, "\nloss: not tried: %s is the only node, and without it no item has a place.\n", a.only)
	} else if strings.Contains(a.Question, "--lose") && a.Loss == nil {
		fmt.Fprint(out, "\nloss: not tried, since items have no place before it.\n")
	}
	if l := a.Loss; l != nil {
		fmt.Fprintf(out, "\nloss: %d of %s can fail alone and %s. The worst is %s: %s for another node, %d without a place, %s in use then.\n",
			l.Harmless, plural.Of(l.Tried, "node"), report.Qualified("all items find a place", l.ignored, l.again), l.Node, plural.Of(l.Moved, "item"), l.LeftOut, plural.Of(l.Nodes, "node"))
	}
	if len(a.NotFit) > 0 {
		var apps []string
		for _, n := range a.NotFit[:min(10, len(a.NotFit))] {
			apps = append(apps, fmt.Sprintf("%d of %s", n.Items, n.App))
		}
		if more := len(a.NotFit) - 10; more > 0 {
			apps = append(apps, "and "+plural.Of(more, "other app"))
		}
		fmt.Fprintf(out, "\nno longer fits: %s\n", strings.Join(apps, ", "))
	}
	fmt.Fprintf(out, "what binds: %s\n\n", a.binds())
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "without\tleft out\tnodes\tcost\tbinds\n")
	for _, r := range a.Relaxed {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.6g\t%s\n", r.What, r.LeftOut, r.Nodes, r.Cost, r.verdict())
	}
	return w.Flush()
}

func (r *Relaxed) verdict() string {
	switch {
	case r.Binds:
		return "yes"
	case r.Cut:
		return "not found: search cut"
	}
	return "no"
}

// binds names the relaxations that bind.
func (a *Answer) binds() string {
	var names []string
	for _, r := range a.Relaxed {
		if r.Binds {
			names = append(names, r.What)
		}
	}
	switch {
	case len(names) > 0:
		return strings.Join(names, "; ")
	case len(a.Together) > 0:
		return "nothing alone; together " + strings.Join(a.Together, "; ")
	case slices.ContainsFunc(a.Relaxed, func(r Relaxed) bool { return r.Cut }):
		return "none found within the budget: some searches were cut"
	case len(a.NotFit) > 0:
		return "the number of nodes: nothing of the list lets all items in"
	}
	return "nothing: it takes no less without any of these"
}
