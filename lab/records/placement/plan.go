package placement

import (
	"encoding/json"
	"fmt"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/lab/records"
)

var plan = Section{
	Name:  "plan",
	title: "Everything known: the plan, and the policy that follows it",
	about: `` + "`sigma plan`" + ` packs the true counts at once; a plan is *proven* when it costs no more than a
lower bound. The policy ` + "`learned`" + ` at K2 knows the counts, not the order, and follows such a plan. CPU seconds are of one
instance, the slowest of all.`,
	run: runPlan,
}

// plans are what sigma plan prints as JSON.
type plans []struct {
	Trace report.Trace
	Bound report.Bound
	Plan  struct {
		Cost     float64
		Unplaced int
		Proven   bool
		Seconds  float64
	}
}

func (b *bench) plan(dir string, flags ...string) (plans, error) {
	out, _, err := b.sigma(append([]string{"plan", "--trace", dir, "--workers", "1", "--timing", "--format", "json", "--quiet"}, flags...)...)
	if err != nil {
		return nil, err
	}
	var p plans
	return p, json.Unmarshal(out, &p)
}

// over returns the largest number of machines over the bound, and how many plans are on it.
func (p plans) over() (most float64, on int) {
	for _, one := range p {
		over := one.Plan.Cost - one.Bound.Cost + float64(one.Plan.Unplaced)
		most = max(most, over)
		if over <= 0 {
			on++
		}
	}
	return most, on
}

func (p plans) proven() (n int) {
	for _, one := range p {
		if one.Plan.Proven {
			n++
		}
	}
	return n
}

func (p plans) slowest() (seconds float64) {
	for _, one := range p {
		seconds = max(seconds, one.Plan.Seconds)
	}
	return seconds
}

func runPlan(b *bench) error {
	small, err := b.generate("small", "small", 950_000, 40)
	if err != nil {
		return err
	}
	p, err := b.plan(small)
	if err != nil {
		return err
	}
	b.line(records.Line{
		Work: "small, 40 instances", Figure: "plans proven optimal, %",
		Value: 100 * float64(p.proven()) / float64(len(p)), Format: "%.1f", Must: records.AtLeast(100),
	})
	b.line(records.Line{Work: "small, 40 instances", Figure: "CPU-s", Value: p.slowest(), Must: records.AtMost(1)})

	large, err := b.generate("large", "large", 950_000, 6)
	if err != nil {
		return err
	}
	if p, err = b.plan(large); err != nil {
		return err
	}
	most, on := p.over()
	b.line(records.Line{Work: "large, 6 instances", Figure: "machines over the bound, the most", Value: most, Format: "%.0f", Must: records.AtMost(1)})
	b.line(records.Line{Work: "large, 6 instances", Figure: "of 6 on the bound", Value: float64(on), Format: "%.0f", Aim: records.AtLeast(5)})
	b.line(records.Line{Work: "large, 6 instances", Figure: "CPU-s", Value: p.slowest(), Must: records.AtMost(10), Aim: records.AtMost(4)})
	for _, one := range p {
		b.note("%s: bound %g (%s), plan %g machines, %.2f CPU-s.", one.Trace.Name, one.Bound.Cost, one.Bound.Method, one.Plan.Cost, one.Plan.Seconds)
	}

	k, err := b.compare(small, "bestfit,learned", 20, "--knowledge", "K2")
	if err != nil {
		return err
	}
	share, se := k.optimal("learned")
	b.line(records.Line{
		Work: "small, K2, 40 instances × 20 orders", Figure: "orders at the optimum, %", Value: share, SE: se, Format: "%.1f",
		Peers: peers(k.optimal, "%.1f", "bestfit"), Must: records.AtLeast(97), Aim: records.AtLeast(99.5),
	})
	if k, err = b.compare(large, "bestfit,learned", 5, "--knowledge", "K2"); err != nil {
		return err
	}
	gap, se := k.gap("learned")
	width, _ := k.width("learned")
	b.line(records.Line{
		Work: "large, K2, 6 instances × 5 orders", Figure: fmt.Sprintf("gap to the bound, %% (range %.1f machines)", width), Value: gap, SE: se,
		Peers: peers(k.gap, "%.2f", "bestfit"),
	})
	return nil
}
