package savings

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/usage"
)

// judgeDays are the last days of usage, on which sizes from the days before are judged, as by sigma convert usage.
const judgeDays = 7

const day = 86400.

// usage replays the pods at their effective sizes, and judges them by later use.
func (b *builder) usage(ctx context.Context) error {
	u, err := b.p.given.Usage()
	if err != nil {
		return err
	}
	step, former := Step{Cause: "usage", Bound: b.level - b.always}, b.least
	if len(b.p.t.Placed) == 0 {
		step.Money, step.Risk, step.text, step.Bound = fixedMoney(0), "none", "size pods by their use: no pods", 0
		b.add(step)
		return nil
	}
	if u == nil {
		text := "requests nearer to use: no history"
		if b.opt.Days > 0 {
			text = fmt.Sprintf("requests nearer to use: %d of %d days", b.opt.Days, usage.LeastDays+judgeDays)
		}
		b.unknownUse(step, text)
		return nil
	}
	if b.used == nil {
		b.setUsed(u)
	}
	from, until := u.Span()
	at := max(b.from, from) // of a trace by use
	if b.demands == nil {
		if days := (until - from) / day; days < usage.LeastDays+judgeDays {
			b.unknownUse(step, fmt.Sprintf("requests nearer to use: %.3g of %d days", max(0, days), usage.LeastDays+judgeDays))
			return nil
		}
		at = until - judgeDays*day
	}
	t, err := b.bySize(u, at)
	if err != nil {
		return err
	}
	b.least = leastOf(ctx, t, b.work())
	step.Bound = max(0, b.level-b.monthly(b.least.cost))
	name := mostAllocated
	if b.policy != nil {
		name = b.policy.name
	}
	all, _, err := b.replay(ctx, t, []string{name})
	if err != nil {
		return err
	}
	if len(all) == 0 {
		b.least, step.Bound = former, b.level-b.always
		step.text = "requests nearer to use: not all pods fit"
		step.Risk = "unknown: " + name + " leaves pods out at these sizes"
		b.add(step)
		return nil
	}
	risk := report.MeanUse(slices.DeleteFunc(all[0].use, func(u *report.Use) bool { return u == nil }), "order")
	if risk != nil {
		risk.Unseen = sized.UnseenOf(b.p.given)
	}
	if risk == nil || risk.NotKnown != "" || compare.KnownRisk(b.p.given, risk) != nil { // no saving without its risk
		b.least, step.Bound = former, b.level-b.always
		b.unknownUse(step, "requests nearer to use: too few samples")
		last := &b.bill.Steps[len(b.bill.Steps)-1]
		if last.Risk = "not known: no usage of the last days"; risk != nil {
			last.Risk = "not known: " + cmp.Or(risk.NotKnown, "no samples of "+strings.Join(risk.NotJudged, " and "))
		}
		return nil
	}
	b.saveBy(&step, &all[0])
	step.Risk = risk.Text()
	step.text = "size pods by their use"
	b.byUse = true
	step.Command, step.Prints = b.compareCommand(&all[0])
	step.advice = "risk: " + shortRisk(risk)
	if step.Prints > step.Money.Mean+1 {
		step.advice += "; command prints " + b.bill.money(step.Prints)
	}
	switch {
	case b.demands != nil && b.opt.Source.Snapshot != "":
		step.Command = fmt.Sprintf("%s-by-use --usage %s && ", b.opt.Source.Snapshot, b.opt.Source.Prometheus) + step.Command
	case b.demands == nil:
		step.Command = fmt.Sprintf("sigma convert usage %s --out %s && ", b.opt.Source.Path(), b.trace()) + step.Command
	}
	b.model = t
	b.add(step)
	if b.demands != nil {
		return nil // the days that slots follow from are in no trace
	}
	return b.batch(ctx, u, at, until)
}

// shortRisk is the share of the node-time with more used than there is, by resource.
func shortRisk(u *report.Use) string {
	var parts []string
	for _, d := range slices.Sorted(maps.Keys(u.OverPercent)) {
		part := fmt.Sprintf("%s %.2g %%", d, u.OverPercent[d])
		if len(parts) == 0 {
			part = fmt.Sprintf("%s above capacity %.2g %% of the time", d, u.OverPercent[d])
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

func (b *builder) unknownUse(step Step, text string) {
	to := filepath.Clean(b.opt.Source.Path()) + "-by-use" // the trace that there is stays
	step.text, step.Command = text, fmt.Sprintf("sigma snapshot --out %s --usage --prometheus URL && sigma savings --trace %s", to, to)
	switch of := b.opt.Source; {
	case b.opt.Days > 0:
		step.Command = "" // the Prometheus has no more
	case of.Bill != "":
		step.Command = of.Bill + b.seed() + " --prometheus URL"
	}
	step.Risk = fmt.Sprintf("unknown: it takes %d days of usage, of which the last %d judge it", usage.LeastDays+judgeDays, judgeDays)
	b.add(step)
}

// saveBy sets the saving of a policy's runs on the level before, and the nodes.
func (b *builder) saveBy(step *Step, c *contender) {
	hourly := float64(b.level-b.always) / 100 / monthHours
	saved := make([]float64, len(c.costs))
	for i, cost := range c.costs {
		saved[i] = hourly - cost
	}
	step.Money = interval(saved)
	if step.Money.Mean > 0 {
		after := meanOf(c.nodes)
		step.Nodes, b.nodes = b.nodes-after, after
	}
}

// bySize is the model with the sizes of a time as demands. The fixed items count by size, too; a machine that is too
// small for them is as large as they are.
func (b *builder) bySize(u *trace.Usage, at float64) (*trace.Trace, error) {
	finer, after := *b.after, *b.after.t
	after.Instance = b.p.given.Instance
	finer.t = &after
	demands := b.demands
	if demands == nil {
		finer.t = sized.Finer(&after)
		sizes, err := sized.New(finer.t, u, usage.LeastDays)
		if err != nil {
			return nil, err
		}
		demands = sizes.Demands(at)
	}
	t := finer.loose(at)
	t.SetUsage(u)
	inst := *t.Instance
	inst.Apps, inst.Machines = slices.Clone(inst.Apps), slices.Clone(inst.Machines)
	for a, demand := range demands {
		inst.Apps[a].Demand = demand
	}
	t.Instance = &inst
	used := map[spot][]int64{}
	for _, p := range t.Placed {
		at := spot{p.Line, p.Index}
		if used[at] == nil {
			used[at] = make([]int64, len(inst.Dimensions))
		}
		for d, n := range inst.Apps[t.Requests[p.Request].App].Demand {
			used[at][d] += n * int64(p.Count)
		}
	}
	for at, sum := range used {
		m := &inst.Machines[at.line]
		m.Capacity = slices.Clone(m.Capacity)
		for d := range sum {
			m.Capacity[d] = max(m.Capacity[d], sum[d])
		}
	}
	return t, nil
}

// setUsed sums the last use of the items, unless the snapshot has that of all pods.
func (b *builder) setUsed(u *trace.Usage) {
	inst := b.p.t.Instance
	b.used = make([]*Used, len(inst.Apps))
	count, alone := make([]float64, len(inst.Apps)), make([]map[int]float64, len(inst.Apps)) // items with a series of their own, by dimension
	for _, at := range b.p.running() {
		count[b.p.t.Requests[at.Request].App] += float64(at.Count)
	}
	known := false
	add := func(app int32, dimension int, v float64) {
		if b.used[app] == nil {
			b.used[app] = &Used{}
		}
		switch inst.Dimensions[dimension].Name {
		case "cpu":
			b.used[app].CPU += v
		case "memory":
			b.used[app].Memory += v
		}
		known = true
	}
	type shared struct {
		app, dimension int32
		value          float64
	}
	var rest []shared
	u.Items(b.p.t, func(s *trace.Series, request, _ int32) {
		v := lastOf(s.Values)
		switch {
		case math.IsNaN(v):
		case request < 0:
			rest = append(rest, shared{s.App, s.Dimension, v})
		default:
			if alone[s.App] == nil {
				alone[s.App] = map[int]float64{}
			}
			alone[s.App][int(s.Dimension)]++
			add(s.App, int(s.Dimension), v)
		}
	})
	for _, s := range rest {
		add(s.app, int(s.dimension), s.value*max(0, count[s.app]-alone[s.app][int(s.dimension)]))
	}
	if b.bill.Used == nil && known {
		b.bill.Used = &Used{}
		for _, a := range b.used {
			if a == nil {
				continue
			}
			b.bill.Used.CPU += a.CPU
			b.bill.Used.Memory += a.Memory
		}
	}
	if !known {
		b.used = nil
	}
}

// lastOf is the last sample, NaN without one.
func lastOf(values []float32) float64 {
	for _, v := range slices.Backward(values) {
		if v == v {
			return float64(v)
		}
	}
	return math.NaN()
}
