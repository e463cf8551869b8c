package savings

import (
	"context"
	"fmt"
	"math"

	"github.com/dustin/go-humanize"

	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/sheet"
	"github.com/sigma-scheduler/sigma/internal/usage"
)

// A Batch is the cpu that tasks of one core may have beside the pods as they are now, in the judged days. It is no part of
// the bill: nodes that the steps save have no room for it.
type Batch struct {
	Cores   float64 `json:"cores"`           // offered, in the mean
	Share   float64 `json:"share"`           // of the nodes' cpu, in percent
	Evicted float64 `json:"evicted_of_1000"` // tasks
	Starved float64 `json:"starved_percent"` // of the tasks' time
	Command string  `json:"command"`         // prints the same figures
}

// batchTasks are those of the command.
const batchTasks = "cores=1,mean=1h"

// batch replays the last days of usage with tasks beside the pods where they are, by requests.
func (b *builder) batch(ctx context.Context, u *trace.Usage, at, until float64) error {
	t, _, err := sized.Trace(b.p.given, u, usage.LeastDays, at, until)
	if err != nil {
		return err
	}
	use, err := compare.UsageOf(t, 0)
	if err != nil || use == nil {
		return err
	}
	t = sized.Finer(t)
	sizes, err := sized.New(t, use, sized.LeastDays(t))
	if err != nil {
		return err
	}
	sizes.BySlot()
	tasks, err := cerebro.ParseBatch(batchTasks)
	if err != nil {
		return err
	}
	tasks.Expected = sizes.Expected
	current, err := b.opt.Catalog.Find("current", t)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	run, err := cerebro.NewReplayer(t).Run(current.Policy, cerebro.Options{Seed: b.opt.Seed, Usage: use, Batch: tasks})
	if err != nil || run.Use == nil || compare.KnownRisk(t, compare.UseOfRun(t, run)) != nil {
		return err // no figure without its risk
	}
	if got := run.Use.Batch; got != nil && got.Capacity > 0 && got.Started > 0 {
		b.bill.Batch = &Batch{
			Cores: got.Offered / (until - t.MeasureFrom), Share: 100 * got.Offered / got.Capacity,
			Evicted: 1000 * float64(got.Evicted) / float64(got.Started), Starved: 100 * got.Starved / math.Max(1, got.Held),
			Command: fmt.Sprintf("sigma replay --trace %s --policy current --batch %s", b.trace(), batchTasks),
		}
	}
	return nil
}

// line is the batch work on the screen.
func (x *Batch) line() string {
	return fmt.Sprintf("  not added: batch work on what is left, %.0f cores; %.2g of 1,000 evicted", x.Cores, x.Evicted)
}

func (x *Batch) table() sheet.Table {
	t := sheet.Table{Narrow: true, Caption: "batch work on what is left", Columns: []sheet.Column{
		{Head: "cores", About: "offered to tasks of one core that take an hour, in the mean of the judged days"},
		{Head: "% of the cpu"},
		{Head: "evicted of 1,000 tasks"},
		{Head: "starved, % of their time", About: "with less cpu than they hold, while pods use more than expected"},
	}}
	t.Add(humanize.Ftoa(round(x.Cores)), humanize.Ftoa(round(x.Share)), humanize.Ftoa(round(x.Evicted)), humanize.Ftoa(round(x.Starved)))
	return t
}
