package placement

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/lab/records"
)

var large = Section{
	Name:     "large",
	research: true,
	title:    "Large clusters: unknown volume, wrong forecasts, fixed fleets, departures",
	about: `Policies of the product and of the laboratory on instances of 400 apps and about 5,000 containers that none of them was trained on. The gap is
to the volume bound; a range is max − min machines over the shuffled orders of an instance, mean over instances.`,
	run: runLarge,
}

const (
	largeSeed  = 970_000
	largeCount = 12
	largeFiles = "large-"
)

func runLarge(b *bench) error {
	for _, part := range []func(*bench) error{largeOpen, largeBlind, largeTotal, largeWrong, large2d, largeFixed, largeChurn} {
		if err := part(b); err != nil {
			return err
		}
	}
	return nil
}

// A packing is a policy on open fleets and what it must reach: gap and
// "fewer than" in %, width and p90 − p10 in machines.
type packing struct {
	kind, knowledge, policy string
	orders                  int
	gap, gapAim             records.Target
	best, bestAim           records.Target
	worst, worstAim         records.Target
	width, widthAim         records.Target
	p90p10, p90p10Aim       records.Target
}

// measure runs a packing and adds a line for each of its targets.
func (p packing) measure(b *bench, dir string) error {
	k, err := b.compare(dir, "bestfit,worstfit,"+p.policy, p.orders, "--knowledge", p.knowledge)
	if err != nil {
		return err
	}
	less := func(peer string) func(string) (float64, float64) {
		return func(policy string) (mean, se float64) { return k.less(policy, peer), 0 }
	}
	for _, l := range []struct {
		figure    string
		of        func(policy string) (mean, se float64)
		format    string
		must, aim records.Target
	}{
		{"gap to the bound, %", k.gap, "%.2f", p.gap, p.gapAim},
		{"fewer machines than bestfit, %", less("bestfit"), "%.2f", p.best, p.bestAim},
		{"fewer machines than worstfit, %", less("worstfit"), "%.2f", p.worst, p.worstAim},
		{"range over orders", k.width, "%.1f", p.width, p.widthAim},
		{"p90 − p10 over orders", k.p90p10, "%.1f", p.p90p10, p.p90p10Aim},
	} {
		if !l.must.Set() {
			continue
		}
		v, se := l.of(p.policy)
		b.line(records.Line{
			Work: fmt.Sprintf("%s, %s, %d × %d", p.kind, p.knowledge, largeCount, p.orders), Figure: l.figure,
			Value: v, SE: se, Format: l.format, Peers: peers(l.of, l.format, "bestfit", "worstfit"), Must: l.must, Aim: l.aim,
		})
	}
	return nil
}

func largeOpen(b *bench) error {
	dir, err := b.generate("large", "large", largeSeed, largeCount)
	if err != nil {
		return err
	}
	for _, p := range []packing{
		{
			kind: "large", knowledge: "K1+clock", policy: "learned", orders: 30,
			gap: records.AtMost(3.2), gapAim: records.AtMost(2), best: records.AtLeast(9), bestAim: records.AtLeast(10), worst: records.AtLeast(4.5), worstAim: records.AtLeast(6),
			width: records.AtMost(20), widthAim: records.AtMost(8), p90p10: records.AtMost(9), p90p10Aim: records.AtMost(4),
		},
		{
			kind: "large", knowledge: "K0+clock", policy: "learned", orders: 30,
			gap: records.AtMost(3.2), gapAim: records.AtMost(2), best: records.AtLeast(9), bestAim: records.AtLeast(10), worst: records.AtLeast(4.5), worstAim: records.AtLeast(6),
		},
	} {
		if err := p.measure(b, dir); err != nil {
			return err
		}
	}
	return nil
}

// largeBlind compares with Worst-Fit of the same run.
func largeBlind(b *bench) error {
	const orders = 10
	file := largeFiles + "k0.yaml"
	k, err := b.compare(b.path("large"), "bestfit,worstfit,learned,"+file, orders, "--knowledge", "K0")
	if err != nil {
		return err
	}
	v, se := k.gap(file)
	worst, _ := k.gap("worstfit")
	b.line(records.Line{
		Work: fmt.Sprintf("large, K0, %d × %d, large-k0", largeCount, orders), Figure: "gap to the bound, %", Value: v, SE: se,
		Peers: peers(k.gap, "%.2f", "bestfit", "worstfit", "learned"), Must: records.AtMost(worst), Aim: records.AtMost(7),
	})
	return nil
}

// largeTotal: the forecast is wrong for each app and right in all.
func largeTotal(b *bench) error {
	dir, err := b.generate("total", "large", largeSeed, largeCount, "total=known")
	if err != nil {
		return err
	}
	for _, p := range []packing{
		{policy: "total-mean", gap: records.AtMost(2), gapAim: records.AtMost(1.4)},
		{policy: "total-stable", gap: records.AtMost(3.2), gapAim: records.AtMost(2.5), width: records.AtMost(4), widthAim: records.AtMost(3)},
	} {
		p.kind, p.policy = "large, total known, large-"+p.policy, largeFiles+p.policy+".yaml"
		p.knowledge, p.orders = "K1", 30
		if err := p.measure(b, dir); err != nil {
			return err
		}
	}
	return nil
}

// largeWrong asks what a wrong forecast costs: the requests are those of the
// instances with the right one.
func largeWrong(b *bench) error {
	const orders = 10
	work := func(text string) string {
		return fmt.Sprintf("large, K1+clock, %s, %d × %d", text, largeCount, orders)
	}
	gaps := func(dir string) (*block, error) {
		return b.compare(dir, "bestfit,worstfit,learned", orders, "--knowledge", "K1+clock")
	}
	k, err := gaps(b.path("large"))
	if err != nil {
		return err
	}
	right, _ := k.gap("learned")
	for _, c := range []struct{ name, set, text string }{
		{"high", "forecast=1.3", "forecast × 1.3"},
		{"low", "forecast=.769231", "forecast ÷ 1.3"},
	} {
		dir, err := b.generate(c.name, "large", largeSeed, largeCount, c.set)
		if err != nil {
			return err
		}
		if k, err = gaps(dir); err != nil {
			return err
		}
		wrong, _ := k.gap("learned")
		b.line(records.Line{
			Work: work(c.text), Figure: "gap more than with the right forecast, points", Value: wrong - right,
			Peers: "its gap " + fmt.Sprintf("%.2f", wrong) + ", " + peers(k.gap, "%.2f", "bestfit", "worstfit"),
			Must:  records.AtMost(1), Aim: records.AtMost(0),
		})
	}
	dir, err := b.generate("noisy", "large", largeSeed, largeCount, "noise=.7")
	if err != nil {
		return err
	}
	if k, err = gaps(dir); err != nil {
		return err
	}
	v, se := k.gap("learned")
	worst, _ := k.gap("worstfit")
	b.line(records.Line{
		Work: work("every app's forecast × lognormal(.7)"), Figure: "gap to the bound, %", Value: v, SE: se,
		Peers: peers(k.gap, "%.2f", "bestfit", "worstfit"), Must: records.AtMost(worst), Aim: records.AtMost(3.5),
	})
	return nil
}

func large2d(b *bench) error {
	dir, err := b.generate("large2d", "large2d", largeSeed, largeCount)
	if err != nil {
		return err
	}
	return packing{
		kind: "large2d", knowledge: "K1+clock", policy: "learned", orders: 10, best: records.AtLeast(8.5), bestAim: records.AtLeast(10),
	}.measure(b, dir)
}

// largeFixed measures the file that was trained on this kind; learned takes the one of Kubernetes clusters.
func largeFixed(b *bench) error {
	const orders, file = 10, "general-k0-fixed.yaml"
	for _, c := range []struct {
		f                     string
		rejected, first       records.Target
		rejectedAim, firstAim records.Target
	}{
		{"1.02", records.AtMost(.12), records.AtLeast(99), records.AtMost(.05), records.AtLeast(99.7)},
		{"1.00", records.AtMost(.9), records.AtLeast(97.5), records.AtMost(.6), records.AtLeast(98.5)},
	} {
		dir, err := b.generate("fixed-"+c.f, "fixed", largeSeed, largeCount, "f="+c.f)
		if err != nil {
			return err
		}
		k, err := b.compare(dir, "bestfit,worstfit,learned,"+file, orders, "--knowledge", "K0")
		if err != nil {
			return err
		}
		rejected := func(policy string) (mean, se float64) {
			return k.of(policy, func(_ report.Comparison, r report.Run) float64 { return 100 * r.Rejected["cpu"] })
		}
		first := func(policy string) (mean, se float64) {
			return k.of(policy, func(_ report.Comparison, r report.Run) float64 { return 100 * r.FirstRejection })
		}
		work := fmt.Sprintf("fixed, %s × bound, K0, %d × %d, general-k0-fixed", c.f, largeCount, orders)
		v, se := rejected(file)
		b.line(records.Line{
			Work: work, Figure: "rejected cpu, %", Value: v, SE: se, Format: "%.3f",
			Peers: peers(rejected, "%.3f", "bestfit", "worstfit", "learned"), Must: c.rejected, Aim: c.rejectedAim,
		})
		v, se = first(file)
		b.line(records.Line{
			Work: work, Figure: "first rejection, % of the volume", Value: v, SE: se,
			Peers: peers(first, "%.2f", "bestfit", "worstfit", "learned"), Must: c.first, Aim: c.firstAim,
		})
	}
	return nil
}

// largeChurn compares instance by instance: their volumes differ.
func largeChurn(b *bench) error {
	const count = 6
	for _, c := range []struct {
		burst     string
		must, aim records.Target
	}{{"40", records.AtMost(-7), records.AtMost(-11)}, {"8", records.AtMost(-2), records.AtMost(-5)}} {
		dir, err := b.generate("churn-"+c.burst, "churn", largeSeed, count, "burst="+c.burst)
		if err != nil {
			return err
		}
		k, err := b.compare(dir, "bestfit,worstfit,movetofront,learned", 0, "--knowledge", "K1")
		if err != nil {
			return err
		}
		cost := func(policy string) []float64 {
			return k.perTrace(policy, func(_ report.Comparison, runs []report.Run) float64 { return runs[0].CostSeconds })
		}
		than := func(policy string) (mean, se float64) {
			own, peer := cost(policy), cost("movetofront")
			for i := range own {
				own[i] = 100 * (own[i]/peer[i] - 1)
			}
			return meanSE(own)
		}
		v, se := than("learned")
		b.line(records.Line{
			Work: fmt.Sprintf("churn, bursts of %s, K1, %d × file order", c.burst, count), Figure: "cost-seconds against movetofront, %",
			Value: v, SE: se, Peers: peers(than, "%+.2f", "bestfit", "worstfit"), Must: c.must, Aim: c.aim,
		})
	}
	return nil
}
