package usage

import (
	"context"
	"fmt"
	"math"
	"path/filepath"

	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	product "github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/lab/records"
)

const (
	batchFile   = "results/batch.md"
	batchMaker  = "make batch-records"
	batchOrders = 6
)

// offers are the formulas compared: Sigma's, Koordinator's default for its resource batch-cpu, and all but a margin.
// The others never evict because their offer falls, but for starving like Sigma's.
var offers = []struct {
	name string
	of   func(capacity, used float64) float64
}{
	{"Sigma", nil},
	{"Koordinator, batch: 60 % − used", func(capacity, used float64) float64 { return .6*capacity - used }},
	{"95 % − used", func(capacity, used float64) float64 { return .95*capacity - used }},
}

// filled are the sums of the orders of one formula.
type filled struct {
	cerebro.BatchUse
	shares []float64 // offered, % of capacity, by order
	hours  float64   // delivered, a day and order
}

func (f *filled) share() float64   { return 100 * f.Offered / f.Capacity }
func (f *filled) starved() float64 { return 100 * f.Starved / math.Max(1, f.Held) }
func (f *filled) evicted() float64 {
	return 1000 * float64(f.Evicted) / math.Max(1, float64(f.Started))
}

// fill replays a window with tasks on what its items leave; nil nights = without.
func (s *set) fill(w *trace.Trace, sizes *sized.Sizes, nightly bool, grace float64, offer func(capacity, used float64) float64) (f filled, err error) {
	for i := range batchOrders {
		opt := cerebro.Options{Usage: s.usage, UsageUntil: s.end, Fallback: rule.Fallback{}}
		if nightly {
			if opt, err = s.options(sizes); err != nil {
				return f, err
			}
		}
		opt.Batch = &cerebro.Batch{Cores: 1, Mean: 3600, Grace: grace, Seed: uint64(i + 1), Expected: sizes.Expected, Offer: offer}
		run, err := cerebro.NewReplayer(shuffled(w, uint64(i))).Run(rule.BestFit{}, opt)
		if err != nil {
			return f, err
		}
		b := run.Use.Batch
		f.Capacity, f.Offered, f.Held, f.Starved = f.Capacity+b.Capacity, f.Offered+b.Offered, f.Held+b.Held, f.Starved+b.Starved
		f.Delivered, f.Lost, f.Started, f.Evicted = f.Delivered+b.Delivered, f.Lost+b.Lost, f.Started+b.Started, f.Evicted+b.Evicted
		f.shares = append(f.shares, 100*b.Offered/b.Capacity)
		f.hours += b.Delivered / 3600 / ((run.Use.Until - run.Use.From) / day) / batchOrders
	}
	return f, nil
}

// never is the grace of formulas that do not evict because their offer falls.
var never = math.Inf(1)

// A batchRecord makes the page.
type batchRecord struct {
	record
	all records.Table
}

// RunBatch measures and writes the page of batch work.
func RunBatch(ctx context.Context, cfg Config) error {
	began := cfg.Seconds()
	r := &batchRecord{record: record{Config: cfg, ctx: ctx, lines: records.LineTable()}}
	r.all = records.Table{
		Heads: []string{"placed", "nodes of", "tasks by", "offered, % of the cpu", "± (95 %)", "core-hours a day", "of them lost, %", "tasks", "evicted of 1,000", "starved, % of their time"},
		Right: []int{1, 3, 4, 5, 6, 7, 8, 9},
	}
	if r.Runner.Data == "" {
		return fmt.Errorf("batch: SIGMA_DATA is not set")
	}
	version, err := r.Runner.Version(ctx)
	if err != nil {
		return fmt.Errorf("%w: make build makes it", err)
	}
	for _, ghz := range []int{104, 42} {
		if err := r.machines(ghz); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return r.page(version, cfg.Seconds()-began+r.Runner.Seconds())
}

// machines judges the last month on machines of a size, with the slots of the 28 days before each day.
func (r *batchRecord) machines(ghz int) error {
	s, err := r.month(ghz)
	if err != nil {
		return err
	}
	w, err := s.byRequest()
	if err != nil {
		return err
	}
	sizes, err := s.sizes()
	if err != nil {
		return err
	}
	sizes.BySlot()
	if err := r.split(s, ghz); err != nil {
		return err
	}
	for _, nightly := range []bool{false, true} {
		placed := "by request"
		if nightly {
			placed = "by use, nightly"
		}
		var list []filled
		for _, o := range offers {
			grace := never
			if o.of == nil {
				grace = product.BatchGrace
			}
			f, err := s.fill(w, sizes, nightly, grace, o.of)
			if err != nil {
				return err
			}
			list = append(list, f)
			r.row(r.judged.Month().String()+", "+placed, ghz, o.name, &f)
		}
		ours, default60 := &list[0], &list[1]
		work := fmt.Sprintf("%s, placed %s", r.work(ghz), placed)
		ratio := records.Line{
			Work: work, Figure: offeredFigure, Value: ours.share() / default60.share(), Format: "%.3f",
			Peers: fmt.Sprintf("%.2f and %.2f %% of the cpu", ours.share(), default60.share()),
		}
		if !nightly {
			ratio.Must, ratio.Aim = records.AtLeast(1.15), records.AtLeast(1.25)
		}
		r.add(ratio)
		r.add(records.Line{
			Work: work, Figure: evictedFigure, Value: ours.evicted(), Format: "%.3f", Peers: fmt.Sprintf("%.3f; 95 %% − used: %.3f", default60.evicted(), list[2].evicted()),
			Must: records.AtMost(.2), Aim: records.AtMost(.05),
		})
		r.add(records.Line{
			Work: work, Figure: starvedFigure, Value: ours.starved(), Format: "%.4f", Peers: fmt.Sprintf("%.4f; 95 %% − used: %.4f", default60.starved(), list[2].starved()),
			Must: records.AtMost(.2), Aim: records.AtMost(.05),
		})
	}
	return nil
}

func (r *batchRecord) row(placed string, ghz int, by string, f *filled) {
	r.all.Rows = append(r.all.Rows, []string{
		placed, fmt.Sprintf("%d GHz", ghz), by, fmt.Sprintf("%.2f", f.share()), fmt.Sprintf("%.2f", half(f.shares)), fmt.Sprintf("%.0f", f.hours),
		fmt.Sprintf("%.3f", 100*f.Lost/f.Delivered), fmt.Sprint(f.Started / batchOrders), fmt.Sprintf("%.3f", f.evicted()), fmt.Sprintf("%.4f", f.starved()),
	})
}

// split judges the rest of the month before, on which the constants were chosen, after 20 days of it.
func (r *batchRecord) split(judged *set, ghz int) error {
	from := float64(r.fitted.Unix()) + 20*day
	s, err := newSet(judged.trace, from, judged.at, judged.leastDays)
	if err != nil {
		return err
	}
	s.end = judged.at - 7200
	w, err := s.byRequest()
	if err != nil {
		return err
	}
	sizes, err := s.sizes()
	if err != nil {
		return err
	}
	sizes.BySlot()
	for i, grace := range []float64{product.BatchGrace, never} {
		f, err := s.fill(w, sizes, false, grace, offers[i].of)
		if err != nil {
			return err
		}
		r.row(fmt.Sprintf("%s, last 11 days, by request", r.fitted.Month()), ghz, offers[i].name, &f)
	}
	return nil
}

func (r *batchRecord) page(version string, seconds float64) error {
	p := records.NewPage("Batch work on the cpu that is left")
	p.Text(`Tasks of one core from an endless queue, with exponential work of one hour in the mean, on the machines that [placement by request and by use](usage.md)
fills with 500 VMs: ` + r.names() + `, step by step of 5 minutes. A machine offers them the lesser of 95 % without the p99 of its VMs in their slots
(hour of day, weekday or weekend) of the next two hours, and 95 % without the use of the last step; the offer falls at once, and grows by 20 % of the machine an
hour at most. Slots are of the 28 days before each day, so nothing of a judged day is known to them. VMs have precedence, as pods have over BestEffort ones: a task is *starved* in a step in which the
VMs leave less than its core, and the youngest are evicted at once where less than 60 % of the cores of a machine's tasks are left, or after four hours in which they hold more than is offered.`)
	p.Table(r.lines)
	p.Text(`Peers: Koordinator's default for ` + "`batch-cpu`" + `, 60 % of the machine without what is used, with the same use of the last step; it evicts at the same 60 %, but never because its offer fell.
The growth of 20 % an hour and the four hours were chosen on July alone (20 days fitted, 11 judged; of 20, 60, 200 % and any, and of 0, 1/2, 1, 2, 4 hours and never), before August was looked at; 95 %, two hours, p99 and 60 % are those of an earlier study, which had seen these months.
Steps in which the VMs with samples have less than half of a machine's demand do not count. Tasks take no memory here: see ` + "`memory=`" + ` of ` + "`sigma replay --batch`" + `.`)
	p.Heading("All formulas")
	p.Table(r.all)
	p.Text(fmt.Sprintf(`%d orders of arrival each; ± is half of the 95 %% interval (Student's t) over them. Placed by use, the machines are %s`, batchOrders,
		`as few as the use of their VMs allows, so that little is left at p99, and the formulas that look at use alone lend what the VMs need at their peaks.
In the last days of July, whose use is lower, both formulas offer about the same by request: the gain depends on the month.`))
	commands := append(r.Runner.Noted(), "bin/sigma-lab records batch")
	p.Commands(seconds, batchMaker, version, commands)
	return p.Save(filepath.Join(r.Docs, batchFile))
}
