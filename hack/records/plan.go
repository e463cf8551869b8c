package main

import (
	"encoding/json"
	"fmt"

	"github.com/sigma-scheduler/sigma/cerebro/report"
)

var plan = section{
	name:  "plan",
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

// over is the most machines over the bound, and how many plans are on it.
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
	b.line(line{
		work: "small, 40 instances", figure: "plans proven optimal, %",
		value: 100 * float64(p.proven()) / float64(len(p)), format: "%.1f", must: atLeast(100),
	})
	b.line(line{work: "small, 40 instances", figure: "CPU-s", value: p.slowest(), must: atMost(1)})

	large, err := b.generate("large", "large", 950_000, 6)
	if err != nil {
		return err
	}
	if p, err = b.plan(large); err != nil {
		return err
	}
	most, on := p.over()
	b.line(line{work: "large, 6 instances", figure: "machines over the bound, the most", value: most, format: "%.0f", must: atMost(1)})
	b.line(line{work: "large, 6 instances", figure: "of 6 on the bound", value: float64(on), format: "%.0f", aim: atLeast(5)})
	b.line(line{work: "large, 6 instances", figure: "CPU-s", value: p.slowest(), must: atMost(10), aim: atMost(4)})
	for _, one := range p {
		b.note("%s: bound %g (%s), plan %g machines, %.2f CPU-s.", one.Trace.Name, one.Bound.Cost, one.Bound.Method, one.Plan.Cost, one.Plan.Seconds)
	}

	k, err := b.compare(small, "bestfit,learned", 20, "--knowledge", "K2")
	if err != nil {
		return err
	}
	share, se := k.optimal("learned")
	b.line(line{
		work: "small, K2, 40 instances × 20 orders", figure: "orders at the optimum, %", value: share, se: se, format: "%.1f",
		peers: peers(k.optimal, "%.1f", "bestfit"), must: atLeast(97), aim: atLeast(99.5),
	})
	if k, err = b.compare(large, "bestfit,learned", 5, "--knowledge", "K2"); err != nil {
		return err
	}
	gap, se := k.gap("learned")
	width, _ := k.width("learned")
	b.line(line{
		work: "large, K2, 6 instances × 5 orders", figure: fmt.Sprintf("gap to the bound, %% (range %.1f machines)", width), value: gap, se: se,
		peers: peers(k.gap, "%.2f", "bestfit"),
	})
	return nil
}
