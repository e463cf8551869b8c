package placement

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/lab/records"
)

var public = Section{
	Name:  "public",
	title: "Public sets: Tianchi, triplets, Azure",
	about: `Tianchi 2018 (preliminary, set B): 68,224 instances in the file's order on an empty cluster, large machines
first, 200 dimensions; the policy was trained on shuffled samples of two halves of the apps. Triplets: the 163 files without
negative sizes, orders 1 to 20; a file with an even seed is placed by the policy trained on those with an odd seed and the
other way round; K0+clock knows the elapsed share, and so in effect the number of items. Azure V1 (dev): the rows from second 1,950,000 on,
from an empty fleet; the policy was trained on the rows before, and lifetimes are not known.`,
	run: runPublic,
}

func runPublic(b *bench) error {
	for _, run := range []func(*bench) error{runTianchi, runTriplet, runAzure} {
		if err := run(b); errors.Is(err, errNoData) {
			b.leftOut("Tianchi, triplets, Azure")
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

func runTianchi(b *bench) error {
	const ours, unseenFile = "lab/policies/tianchi-k0.yaml", "lab/policies/" + curves
	dir, err := b.convert("tianchi", "tianchi", []string{"tianchi2018-common", "tianchi2018-prelim-b"}, "--large-first", "--empty")
	if err != nil {
		return err
	}
	k, err := b.compare(dir, ours+","+unseenFile+",dotproduct,firstfit,bestfit", 0, "--timing", "--workers", "1")
	if err != nil {
		return err
	}
	others := func(figure func(string) (float64, float64), format string) string {
		return peers(figure, format, unseenFile, "dotproduct", "firstfit", "bestfit")
	}
	machines, _ := k.machines(ours)
	b.line(records.Line{
		Work: "tianchi, K0", Figure: "machines", Value: machines, Format: "%.0f",
		Peers: others(k.machines, "%.0f") + fmt.Sprintf("; bound %d", k.traces[0].Bound.Machines),
		Must:  records.AtMost(2370), Aim: records.AtMost(2320),
	})
	seconds := func(policy string) (mean, se float64) {
		return k.of(policy, func(_ report.Comparison, r report.Run) float64 { return r.Seconds })
	}
	cost, _ := seconds(ours)
	b.line(records.Line{Work: "tianchi, K0", Figure: "CPU-seconds", Value: cost, Format: "%.1f", Peers: others(seconds, "%.1f")})
	unseen, _ := k.machines(unseenFile)
	b.line(records.Line{
		Work: "tianchi, `" + curves + "`, which saw no Tianchi set", Figure: "machines", Value: unseen, Format: "%.0f",
		Peers: peers(k.machines, "%.0f", "dotproduct", "firstfit", "bestfit"),
		Must:  records.AtMost(2411), Aim: records.AtMost(2340),
	})
	return nil
}

func runTriplet(b *bench) error {
	baselines := []string{"firstfit", "bestfit", "worstfit", "bestfit-l2", "dotproduct"}
	levels := []struct{ knowledge, file string }{
		{"K0", "lab/policies/triplet-k0-"}, {"K0+clock", "lab/policies/triplet-k0-clock-"},
	}
	var policies []string
	for _, level := range levels {
		policies = append(policies, level.file+"even.yaml", level.file+"odd.yaml")
	}
	dir, err := b.convert("triplet", "vbp", []string{"vbp-triplet"}, "--quiet")
	if err != nil {
		return err
	}
	k, err := b.compare(dir, strings.Join(append(policies, baselines...), ","), 20)
	if err != nil {
		return err
	}
	gaps := func(policy string) []float64 {
		return k.perTrace(policy, func(c report.Comparison, runs []report.Run) float64 {
			sum := 0.0
			for _, r := range runs {
				sum += 100 * (r.Cost/optimum(c) - 1)
			}
			return sum / float64(len(runs))
		})
	}
	gap := func(policy string) (mean, se float64) { return meanSE(gaps(policy)) }
	best := bestOf(gap, baselines)
	for _, level := range levels {
		held, even := gaps(level.file+"odd.yaml"), gaps(level.file+"even.yaml") // by the files that they were trained on
		for i, c := range k.traces {
			if seed := c.Trace.Name[len(c.Trace.Name)-1]; seed%2 != 0 { // '1' is odd, as 1 is
				held[i] = even[i]
			}
		}
		mean, se := meanSE(held)
		b.line(records.Line{
			Work: "triplets, " + level.knowledge, Figure: "gap to the optimum, %", Value: mean, SE: se,
			Peers: peers(gap, "%.2f", baselines...), Must: records.AtMost(best - 2), Aim: records.AtMost(best - 5),
		})
	}
	return nil
}

// bestOf is the lowest figure of some policies.
func bestOf(figure func(policy string) (mean, se float64), policies []string) float64 {
	best, _ := figure(policies[0])
	for _, p := range policies[1:] {
		v, _ := figure(p)
		best = min(best, v)
	}
	return best
}

func runAzure(b *bench) error {
	const ours = "lab/policies/azure-k0.yaml"
	baselines := []string{"firstfit", "movetofront", "bestfit", "bestfit-l2"}
	dir, err := b.convert("azure", "azure", []string{"azure-v1-flavors"}, "--from", "1950000", "--quiet")
	if err != nil {
		return err
	}
	k, err := b.compare(dir, ours+","+strings.Join(baselines, ","), 0)
	if err != nil {
		return err
	}
	best, limit := bestOf(k.costSeconds, baselines), k.traces[0].Bound.CostSeconds
	closed := func(policy string) (mean, se float64) {
		v, _ := k.costSeconds(policy)
		return 100 * (best - v) / (best - limit), 0
	}
	value, _ := closed(ours)
	b.line(records.Line{
		Work: "azure, rows from 1,950,000 s on, K0", Figure: "gap between the best peer and the bound that is closed, %",
		Value: value, Format: "%.1f", Peers: peers(closed, "%.1f", baselines...), Must: records.AtLeast(25), Aim: records.AtLeast(50),
	})
	gap, _ := k.gap(ours)
	b.line(records.Line{
		Work: "azure, the same", Figure: "cost-seconds over the bound, %", Value: gap, Peers: peers(k.gap, "%.2f", baselines...),
	})
	return nil
}
