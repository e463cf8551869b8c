package savings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/month"
	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// A Month compares stacks on simulated days of the cluster's own workloads.
type Month struct {
	Seeds   int     `json:"seeds"`
	Days    int     `json:"days"`          // of each seed
	Share   float64 `json:"share"`         // of the pods, in each seed
	Stacks  []Lived `json:"stacks"`        // b, e and, with known sizes by use, e with these
	LeftOut int     `json:"left_out"`      // pods that no node type takes which may be bought
	Why     string  `json:"not_simulated"` // the reason; "" = it is simulated
}

// A Lived stack has the means of its simulated days.
type Lived struct {
	Stack string `json:"stack"`
	Text  string `json:"text"`
	Money Money  `json:"money"`
	// Saves is the money by which it is cheaper than the first stack, seed by seed; negative = it is dearer.
	Saves   Money   `json:"saves"`
	Moved   float64 `json:"moved_a_day"`
	Waiting float64 `json:"waiting_minutes_a_day"`
	Waits   int     `json:"unplaced"` // pods that wait at the end, of all seeds
	// Broken is the percentage of the time of workloads with less cpu than they use; nil = unknown.
	Broken *float64 `json:"broken_percent"`
}

// MonthSeeds is the number of seeds of a month: with the most days of each, thirty days.
const MonthSeeds = 5

// The work of a simulated day grows with the square of the pods: more of them have fewer days, and of more than the most a
// part is simulated.
const (
	mostDays, leastDays  = 6, 2
	fullDays, mostInSeed = 300, 600 // pods
	// leadDays precede those that count: the pods of a seed begin all at once, and Rebalance moves few an hour.
	leadDays = 3
)

const byUseText = "the same, sizes by use of today"

// month simulates the workloads under the stacks of internal/month, or has the reason against it.
func (b *builder) month(ctx context.Context) error {
	if b.opt.MonthSeeds == 0 {
		return nil
	}
	b.bill.Month = &Month{Seeds: b.opt.MonthSeeds}
	if err := b.simulate(ctx, b.bill.Month); err != nil {
		b.bill.Month = &Month{Stacks: []Lived{}, Why: err.Error()}
	}
	return ctx.Err()
}

func (b *builder) simulate(ctx context.Context, m *Month) error {
	w, err := b.workloads()
	if err != nil {
		return err
	}
	m.LeftOut = w.left
	m.Share = min(1, mostInSeed/float64(w.pods))
	m.Days = max(leastDays, min(mostDays, mostDays*fullDays/w.pods))
	list := []Lived{{Stack: "b"}, {Stack: "e"}}
	if b.byUse {
		list = append(list, Lived{Stack: "e", Text: byUseText})
	}
	costs := make([][]float64, len(list))
	for i := range m.Seeds {
		if b.opt.Progress != nil {
			b.opt.Progress(fmt.Sprintf("month, seed %d of %d", i+1, m.Seeds))
		}
		t, scale := w.days(b.opt.Seed*uint64(m.Seeds)+uint64(i), leadDays+m.Days, m.Share)
		for k := range list {
			if err := ctx.Err(); err != nil {
				return err
			}
			l, own := &list[k], *t
			if l.Text == byUseText {
				own.Instance = b.sizedByUse(own.Instance)
			}
			s := stackOf(l.Stack)
			l.Text = cmp.Or(l.Text, s.Text)
			r, err := s.Run(&own, nil, leadDays*day, float64(leadDays+m.Days)*day)
			if err != nil {
				return err
			}
			all := scale / float64(m.Days)
			costs[k] = append(costs[k], r.Cost*all/24)
			l.Moved += float64(r.Moved()) * all / float64(m.Seeds)
			l.Waiting += r.WaitMinutes * all / float64(m.Seeds)
			l.Waits += r.Unplaced
		}
	}
	for k := range list {
		saves := slices.Clone(costs[0])
		for i, c := range costs[k] {
			saves[i] -= c
		}
		list[k].Money, list[k].Saves = signed(costs[k]), signed(saves)
	}
	m.Stacks = list
	return nil
}

func stackOf(name string) month.Stack {
	all := month.Stacks()
	return all[slices.IndexFunc(all, func(s month.Stack) bool { return s.Name == name })]
}

// signed is the mean of amounts an hour with the ends of its 95 % interval, as money.
func signed(values []float64) Money {
	e := sheet.EstimateOf(values)
	return Money{aMonth(e.Mean), aMonth(e.Mean - e.Half), aMonth(e.Mean + e.Half)}
}

// sizedByUse is an instance with the demands of the step by use, whose units are finer.
func (b *builder) sizedByUse(inst *binpack.Instance) *binpack.Instance {
	own, by := *inst, b.model.Instance
	own.Apps = slices.Clone(inst.Apps)
	for a := range own.Apps {
		app := &own.Apps[a]
		app.Demand = slices.Clone(by.Apps[a].Demand)
		for d, n := range app.Demand {
			app.Demand[d] = int64(math.Ceil(float64(n) * float64(inst.Dimensions[d].One) / float64(by.Dimensions[d].One)))
		}
	}
	return &own
}

// workloads are the apps with the pods that run, at their requests, and any number of each kind of node.
type workloads struct {
	inst    *binpack.Instance
	running []int     // by app
	size    []float64 // of a pod of an app: the sum of its shares of each resource that the nodes have
	pods    int
	left    int // pods that no kind of node takes
}

func (b *builder) workloads() (*workloads, error) {
	free, err := AnyNumber(b.p.given)
	if err != nil {
		return nil, err
	}
	inst := free.Instance // a copy
	switch {
	case slices.ContainsFunc(inst.Dimensions, func(d binpack.Dimension) bool { return d.Device }):
		return nil, errors.New("it has nodes with devices")
	case b.p.given.Instance.Fleet == binpack.Fixed:
		return nil, errors.New("its fleet is fixed")
	}
	inst.Machines = slices.DeleteFunc(inst.Machines, func(m binpack.MachineLine) bool { return m.Count != binpack.Unlimited })
	w := &workloads{inst: inst, running: make([]int, len(inst.Apps)), size: make([]float64, len(inst.Apps))}
	for _, at := range b.p.running() {
		w.running[b.p.t.Requests[at.Request].App] += int(at.Count)
	}
	state := binpack.NewState(inst)
	for a, n := range w.running {
		if n > 0 && (len(inst.Machines) == 0 || len(state.Feasible(int32(a), nil)) == 0) {
			w.running[a] = 0
			w.left += n
		}
		w.pods += w.running[a]
	}
	if w.pods == 0 {
		return nil, errors.New("no pod runs on nodes of which more may be bought")
	}
	for d := range inst.Dimensions {
		have := 0.
		for _, m := range inst.Machines {
			have += float64(m.Capacity[d])
		}
		for a := range inst.Apps {
			if have > 0 {
				w.size[a] += float64(inst.Apps[a].Demand[d]) / have
			}
		}
	}
	return w, nil
}

// wholeUpTo is the number of pods up to which a workload is drawn whole: limits are of a workload's pods.
const wholeUpTo = 20

// days are simulated days of a share of the pods, and the factor from them to all: of small workloads a share, drawn at
// equal distances in their order, and of the others a share of their pods.
func (w *workloads) days(seed uint64, days int, share float64) (*trace.Trace, float64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	some := &trace.Trace{Name: "month", Instance: &binpack.Instance{}} // of the apps drawn, with numbers of their own
	var number []int32                                                 // of these in all
	all, drawn, turn := 0., 0., rng.Float64()
	for a, n := range w.running {
		k, drawable := 0, max(share*float64(n), float64(min(n, wholeUpTo)))
		if n > 0 {
			turn += share * float64(n) / drawable
		}
		if turn >= 1 {
			turn--
			k = int(math.Round(drawable))
			some.Requests = append(some.Requests, trace.Request{App: int32(len(number)), Count: int32(k)})
			number = append(number, int32(a))
		}
		all += float64(n) * w.size[a]
		drawn += float64(k) * w.size[a]
	}
	some.Initial, some.Instance.Apps = len(number), make([]binpack.App, len(number))
	t := generate.Days(some, seed, days)
	t.Instance = w.inst
	for i := range t.Requests {
		t.Requests[i].App = number[t.Requests[i].App]
	}
	if drawn == 0 { // pods without a size
		return t, 1
	}
	return t, all / drawn
}

// lines are the month on the screen.
func (m *Month) lines(b *Bill) (lines []textLine) {
	if m == nil {
		return nil
	}
	if m.Why != "" {
		return []textLine{{clip("No month is simulated: " + m.Why + "."), nil}}
	}
	row := func(text, money, saves, moved, waits string) string {
		return fmt.Sprintf("%-34s%13s%14s%9s%10s", text, money, saves, moved, waits)
	}
	lines = append(lines, textLine{row(m.span(), b.unit()+" a month", "saves", "moves/d", "waits/d"), pen.faint})
	for i := range m.Stacks {
		l := &m.Stacks[i]
		saves := ""
		if i > 0 {
			saves = l.saves(b)
		}
		lines = append(lines, textLine{clip(row("  "+l.Text, b.money(l.Money.Mean), saves, figure(l.Moved), figure(l.Waiting)+" min")), nil})
	}
	return append(lines, textLine{clip(m.verdict(b)), pen.strong}, textLine{clip(m.unknown()), nil})
}

// span is the simulated time.
func (m *Month) span() string {
	text := fmt.Sprintf("simulated: %d days", m.Days*m.Seeds)
	if m.Share < 1 {
		text += fmt.Sprintf(", %.0f %% of pods", 100*m.Share)
	}
	return text
}

// saves is the saving with half of its interval.
func (l *Lived) saves(b *Bill) string {
	return fmt.Sprintf("%s ±%s", b.money(l.Saves.Mean), b.money((l.Saves.High-l.Saves.Low)/2))
}

// verdict compares Sigma with the first stack.
func (m *Month) verdict(b *Bill) string {
	l := &m.Stacks[1]
	percent := 100 * float64(l.Saves.Mean) / float64(max(1, m.Stacks[0].Money.Mean))
	switch {
	case l.Saves.Low > 0:
		return fmt.Sprintf("%s is cheaper there by %s %s a month, %.1f %%.", l.Text, b.money(l.Saves.Mean), b.unit(), percent)
	case l.Saves.High < 0:
		return fmt.Sprintf("%s is dearer there by %s %s a month, %.1f %%.", l.Text, b.money(-l.Saves.Mean), b.unit(), -percent)
	}
	return fmt.Sprintf("%s: no difference in money is proven there.", l.Text)
}

// unknown names the figures that the simulated days lack.
func (m *Month) unknown() string {
	if len(m.Stacks) < 3 {
		return "Unknown without use: broken workloads; and sizes by use: add --prometheus URL."
	}
	return "Unknown, since the simulated days have no use: broken workloads."
}

// figure is a number with a tenth below ten.
func figure(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// section is the month on the page.
func (m *Month) section(b *Bill) (s sheet.Section) {
	s = sheet.Section{ID: "month", Name: "A simulated month"}
	if m.Why != "" {
		s.Notes = []string{"It is not simulated: " + m.Why + "."}
		return s
	}
	t := sheet.Table{Narrow: true, Caption: m.span(), Columns: []sheet.Column{
		{Head: "stack", Words: true},
		{Head: "a month"},
		{Head: "saves", About: "the money by which it is cheaper than the first, seed by seed, with half of the 95 % interval; negative: it is dearer"},
		{Head: "moves a day", About: "pods that a provisioner or a Rebalance evicts"},
		{Head: "waiting a day", About: "minutes of pods without a node"},
		{Head: "wait at the end", About: "pods, of all seeds"},
	}}
	for i := range m.Stacks {
		l := &m.Stacks[i]
		saves := "-"
		if i > 0 {
			saves = l.saves(b)
		}
		t.Add(l.Text, b.money(l.Money.Mean), saves, figure(l.Moved), figure(l.Waiting), fmt.Sprint(l.Waits))
	}
	s.About = fmt.Sprintf("The pods of each workload at their requests, with roll-outs and scaling drawn at random, %s of each of %s, and any number of each kind of node that the cluster has. All pods may move there, also those that must stay now.",
		plural.Of(m.Days, "day"), plural.Of(m.Seeds, "seed"))
	if m.LeftOut > 0 {
		s.Notes = append(s.Notes, plural.Of(m.LeftOut, "pod")+" that only other nodes take are left out.")
	}
	s.Tables, s.Notes = []sheet.Table{t}, append(s.Notes, m.verdict(b), m.unknown())
	return s
}
