package savings

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/shellword"
)

// Options of [Of].
type Options struct {
	Source  Source
	Catalog compare.Catalog
	Workers int
	Seed    uint64
	Missing []string // kinds of objects that were not read
	Notes   []string // on the trace, for the page
	Days    int      // of usage that is known, and of which a trace has none
	// MonthSeeds is the number of seeds of the simulated month; 0 = none is simulated.
	MonthSeeds int
	// Progress, if not nil, is called with the part of the work that begins.
	Progress func(part string)
}

// podKind is the kind without which a bill has no steps.
const podKind = "Pod"

// A Source is the origin of the trace, for the commands of the bill.
type Source struct {
	Trace    string // folder that exists; "" = Snapshot writes it
	Snapshot string // command that writes the trace [Source.Path], which it ends with; "" with Trace
	Bill     string // command of the bill, without a file of use; "" with Trace
	// Prometheus has the flags of the servers that the usage is of, as a shell reads them.
	Prometheus string
}

// Path is the trace in commands.
func (s Source) Path() string {
	if s.Trace != "" {
		return shellword.Quote(s.Trace)
	}
	return "snap"
}

// A builder makes one bill.
type builder struct {
	opt     Options
	p       *present
	bill    *Bill
	level   Cents    // the cost a month after the steps so far
	nodes   float64  // in use then
	empty   []string // nodes that hold nothing now, and may be removed
	ending  []string // nodes that hold nothing soon
	always  Cents    // of nodes that are in the bill at every step, and hold no item of the trace
	model   *trace.Trace
	least   least
	policy  *contender    // of the step packing; nil = none places all
	tight   *compare.Plan // of the model; nil = there is none that places all
	after   *present      // with the placements after the moves
	freed   bool          // there are moves
	moved   float64       // the cost an hour of the nodes in use after the moves
	used    []*Used       // by app; nil = unknown
	demands [][]int64     // by use, by app; nil = the trace has requests alone
	from    float64       // time of these demands
	byUse   bool          // the model counts pods by their use
}

// DefaultSeed is that of the commands of a bill.
const DefaultSeed = 1

// seed is the flag of commands that a bill of another seed needs.
func (b *builder) seed() string {
	if b.opt.Seed == DefaultSeed {
		return ""
	}
	return fmt.Sprintf(" --seed %d", b.opt.Seed)
}

// trace is the trace of the model in commands.
func (b *builder) trace() string {
	switch {
	case !b.byUse && b.demands != nil:
		return "snap"
	case b.byUse && (b.demands == nil || b.opt.Source.Snapshot != ""):
		return filepath.Clean(b.opt.Source.Path()) + "-by-use"
	}
	return b.opt.Source.Path()
}

// Of returns the bill of a trace.
func Of(ctx context.Context, t *trace.Trace, opt Options) (*Bill, error) {
	from, err := sized.From(t)
	if err != nil {
		return nil, err
	}
	t, demands, err := split(t)
	if err != nil {
		return nil, err
	}
	p, err := presentOf(t)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", t.Name, err)
	}
	if len(opt.Missing) == 0 {
		opt.Missing = p.facts.missing
	}
	p.t.SetUsage(nil) // it judges the model by use alone
	b := &builder{opt: opt, p: p, demands: demands, from: from, bill: &Bill{
		name: t.Name, MonthHours: monthHours, source: opt.Source, Steps: []Step{}, Constraint: []ConstraintCost{},
		Pending: []Pending{}, Pinned: []Pinned{}, Excluded: []Excluded{}, Namespaces: []Namespace{}, notes: opt.Notes,
		LeftOut: []LeftOut{}, Missing: append([]string{}, opt.Missing...), Snapshot: opt.Source.Snapshot,
		Prices: Prices{p.facts.priced, append([]string{}, p.facts.lists...)},
	}}
	b.bill.Currency, _ = t.Source["currency"].(string)
	b.present()
	type part struct {
		name string
		do   func(context.Context) error
	}
	parts := []part{{"moves", b.moves}, {"policies", b.packing}, {"constraints", b.constraints}, {"usage", b.usage}, {"shapes", b.shapes}, {"floor", b.floor}, {"month", b.month}}
	if slices.Contains(opt.Missing, podKind) { // no node is known to be empty
		parts = nil
		for i, cause := range []string{"moves", "packing", "usage", "shapes", "shapes"} {
			step := Step{Cause: cause, AnyType: i == 4, Risk: "unknown", Bound: b.level - b.always}
			step.text = step.name() + ": no pods were read"
			b.bill.Steps = append(b.bill.Steps, step)
		}
		b.bill.Cost.Floor, b.bill.Rest = b.always, b.level-b.always
	}
	for _, part := range parts {
		if opt.Progress != nil {
			opt.Progress(part.name)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := part.do(ctx); err != nil {
			return nil, fmt.Errorf("trace %s: %s: %w", t.Name, part.name, err)
		}
	}
	b.rows()
	return b.bill, nil
}

// present sets the figures of the cluster as it is.
func (b *builder) present() {
	p, bill := b.p, b.bill
	hourly, removable := 0., []float64(nil)
	inst := p.t.Instance
	have := make([]float64, len(inst.Dimensions))
	p.machines(func(at spot, line *binpack.MachineLine, used bool) {
		bill.nodes++
		name := p.t.MachineName(at.line, at.index)
		of, known := p.facts.nodes[name]
		switch {
		case used:
			b.nodes++
			hourly += line.Cost
		case of.stays:
			b.always += aMonth(line.Cost)
		case p.ending[name] && !strings.HasPrefix(of.why, "not well"):
			b.ending = append(b.ending, name)
			hourly += line.Cost
		default:
			b.empty = append(b.empty, name)
			hourly += line.Cost
		}
		if known {
			bill.Excluded = append(bill.Excluded, Excluded{name, of.why, aMonth(line.Cost), of.takes})
		}
		for d := range have {
			have[d] += float64(line.Capacity[d]) / float64(inst.Dimensions[d].One)
		}
	})
	for name, n := range p.facts.nodes {
		if !n.outside {
			continue
		}
		money := aMonth(n.cost)
		bill.nodes++
		bill.Excluded = append(bill.Excluded, Excluded{name, n.why, money, n.takes})
		if !n.stays {
			b.empty = append(b.empty, name)
			removable = append(removable, n.cost)
			continue
		}
		b.always += money
	}
	slices.Sort(removable) // a sum of floats depends on their order
	for _, cost := range removable {
		hourly += cost
	}
	slices.Sort(b.empty)
	slices.SortFunc(bill.Excluded, func(a, b Excluded) int { return strings.Compare(a.Node, b.Node) })
	bill.Cost.Now = aMonth(hourly) + b.always // rounded as the cost after moves is
	b.level = bill.Cost.Now
	asked := make([]float64, len(have))
	for _, at := range p.running() {
		bill.pods += int(at.Count)
		for d, n := range inst.Apps[p.t.Requests[at.Request].App].Demand {
			asked[d] += float64(n) * float64(at.Count) / float64(inst.Dimensions[d].One)
		}
	}
	bill.Requested, bill.have = amounts(inst, asked), amounts(inst, have)
	if f := p.facts; f.requested != nil && f.have != nil {
		bill.Requested = Amounts{f.requested["cpu"], f.requested["memory"]}
		bill.have = Amounts{f.have["cpu"], f.have["memory"]}
	}
	if u := p.facts.used; u["cpu"]+u["memory"] > 0 {
		bill.Used, bill.unknown = &Used{u["cpu"], u["memory"]}, p.facts.unknown
	}
	if p.facts.use != nil {
		b.used = make([]*Used, len(inst.Apps))
		for a := range inst.Apps {
			if u, ok := p.facts.use[inst.Apps[a].Name]; ok {
				b.used[a] = &u.Used
			}
		}
	}
	b.pending()
	b.pinned()
}

func amounts(inst *binpack.Instance, of []float64) (a Amounts) {
	for d, dim := range inst.Dimensions {
		switch dim.Name {
		case "cpu":
			a.CPU = of[d]
		case "memory":
			a.Memory = of[d]
		}
	}
	return a
}

// pending groups the pods that wait by their reason.
func (b *builder) pending() {
	reasons := maps.Clone(b.p.facts.waiting)
	if reasons == nil {
		reasons = map[string]string{}
	}
	for _, name := range b.p.waiting {
		if reasons[name] == "" {
			reasons[name] = "no node has room for it now"
		}
	}
	for name := range b.p.held {
		reasons[name] = heldText
	}
	for _, g := range grouped(reasons) {
		b.bill.Pending = append(b.bill.Pending, Pending(g))
	}
}

// movesAlone ends the reason of pods that stay where moves alone count: later steps replace them, with their volumes.
const movesAlone = " (in moves alone)"

// pinned groups the pods that must not move by their reason.
func (b *builder) pinned() {
	all := maps.Clone(b.p.fixed)
	for name, why := range b.p.follow {
		all[name] = why + movesAlone
	}
	for _, g := range grouped(all) {
		b.bill.Pinned = append(b.bill.Pinned, Pinned(g))
	}
	for _, g := range grouped(b.p.facts.lost) {
		b.bill.LeftOut = append(b.bill.LeftOut, LeftOut(g))
	}
}

// A group is a reason with its number of pods, and the first of them by name.
type group struct {
	Reason string
	Count  int
	First  string
}

// grouped counts names by reason, the most frequent first.
func grouped(reasons map[string]string) (list []group) {
	at := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		why := reasons[name]
		i, ok := at[why]
		if !ok {
			i, at[why] = len(list), len(list)
			list = append(list, group{Reason: why, First: name})
		}
		list[i].Count++
	}
	slices.SortStableFunc(list, func(a, b group) int { return b.Count - a.Count })
	return list
}
