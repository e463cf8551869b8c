package placement

import (
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/lab/records"
)

var small = Section{
	Name:  "small",
	title: "Small: requests that are whole apps",
	about: `40 instances (seeds from 950,000), 20 orders each; the optimum is 15 machines. K1: the forecast of each app
is off by a factor with a standard deviation of .2 of its logarithm. Total known: the forecast's sum of cpu is exact as well.
The shipped policy of weights (learned) has the same knowledge in the same run. Nothing is trained on these instances:
weights come from seeds below 100, the parameters of the roll-outs from seeds 500,001 to 500,040.`,
	run: runSmall,
}

const (
	smallRollout = "lab/policies/rollout-k1.yaml"
	smallTotal   = "lab/policies/rollout-k1-total.yaml"
)

func runSmall(b *bench) error {
	const seed, count, orders = 950_000, 40, 20
	for _, c := range []struct {
		name, work, policy string
		sets               []string
		mean, meanAim      float64
		best, bestAim      float64
	}{
		{"k1", "small, K1, roll-outs", smallRollout, nil, 15.6, 15.4, 55, 65},
		{"total", "small, K1 and the total known, roll-outs", smallTotal, []string{"total=known"}, 15.4, 15.25, 76, 85},
	} {
		dir, err := b.generate(c.name, "small", seed, count, c.sets...)
		if err != nil {
			return err
		}
		k, err := b.compareBy(laboratory, dir, c.policy+",learned,worstfit,bestfit", orders, "--timing", "--workers", "1")
		if err != nil {
			return err
		}
		others := func(figure func(policy string) (mean, se float64), format string) string {
			return peers(figure, format, "learned", "worstfit", "bestfit")
		}
		mean, se := k.machines(c.policy)
		b.line(records.Line{
			Work: c.work, Figure: "mean machines", Value: mean, SE: se,
			Peers: others(k.machines, "%.2f"), Must: records.AtMost(c.mean), Aim: records.AtMost(c.meanAim),
		})
		optimal, se := k.optimal(c.policy)
		b.line(records.Line{
			Work: c.work, Figure: "orders at the optimum, %", Value: optimal, SE: se, Format: "%.1f",
			Peers: others(k.optimal, "%.1f"), Must: records.AtLeast(c.best), Aim: records.AtLeast(c.bestAim),
		})
		milliseconds := func(policy string) (mean, se float64) {
			return k.of(policy, func(_ report.Comparison, r report.Run) float64 { return 1000 * r.Seconds })
		}
		cost, se := milliseconds(c.policy)
		b.line(records.Line{
			Work: c.work, Figure: "CPU-ms an order", Value: cost, SE: se, Format: "%.1f",
			Peers: others(milliseconds, "%.1f"), Aim: records.AtMost(60),
		})
	}
	return nil
}
