package placement

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/sigma-scheduler/sigma/cerebro/report"
)

// runs returns the runs that count in statistics: the shuffled orders, or the file's
// order where there are none.
func runs(r report.Result) []report.Run {
	if len(r.Runs) == 1 {
		return r.Runs
	}
	return slices.DeleteFunc(slices.Clone(r.Runs), func(r report.Run) bool { return r.Order == 0 })
}

// perTrace computes one number for each trace from a policy's runs.
func (k *block) perTrace(policy string, f func(c report.Comparison, runs []report.Run) float64) []float64 {
	var list []float64
	for _, c := range k.traces {
		at := slices.IndexFunc(c.Results, func(r report.Result) bool { return r.Policy == policy })
		if at < 0 {
			panic(fmt.Sprintf("the comparison has no policy %q", policy)) // a slip in the section
		}
		list = append(list, f(c, runs(c.Results[at])))
	}
	return list
}

// of returns the mean over traces of a number per run, and its standard error.
func (k *block) of(policy string, f func(c report.Comparison, r report.Run) float64) (mean, se float64) {
	return meanSE(k.perTrace(policy, func(c report.Comparison, runs []report.Run) float64 {
		sum := 0.0
		for _, r := range runs {
			sum += f(c, r)
		}
		return sum / float64(len(runs))
	}))
}

func meanSE(list []float64) (mean, se float64) {
	mean = stat.Mean(list, nil)
	if len(list) > 1 {
		se = stat.StdErr(stat.StdDev(list, nil), float64(len(list)))
	}
	return mean, se
}

// machines is the mean number of machines.
func (k *block) machines(policy string) (mean, se float64) {
	return k.of(policy, func(_ report.Comparison, r report.Run) float64 { return float64(r.Machines) })
}

// gap is the mean distance from the bound in %: of the cost, with departures of
// its integral over time.
func (k *block) gap(policy string) (mean, se float64) {
	return k.of(policy, func(c report.Comparison, r report.Run) float64 {
		if c.Bound.CostSeconds > 0 && r.CostSeconds > 0 && r.Machines != r.PeakMachines {
			return 100 * (r.CostSeconds/c.Bound.CostSeconds - 1)
		}
		return 100 * (r.Cost/c.Bound.Cost - 1)
	})
}

// optimal is the share of runs in % that need no more than the bound.
func (k *block) optimal(policy string) (mean, se float64) {
	return k.of(policy, func(c report.Comparison, r report.Run) float64 {
		if r.Unplaced == 0 && float64(r.Machines) <= math.Max(float64(c.Bound.Machines), optimum(c)) {
			return 100
		}
		return 0
	})
}

func optimum(c report.Comparison) float64 {
	if c.Bound.Optimal == nil {
		return 0
	}
	return *c.Bound.Optimal
}

// less is how many % fewer machines a policy needs than another, from the means
// over traces.
func (k *block) less(policy, peer string) float64 {
	a, _ := k.machines(policy)
	b, _ := k.machines(peer)
	return 100 * (1 - a/b)
}

// costSeconds is the mean cost integral over time.
func (k *block) costSeconds(policy string) (mean, se float64) {
	return k.of(policy, func(_ report.Comparison, r report.Run) float64 { return r.CostSeconds })
}

// width is the mean over traces of max − min machines over the orders.
func (k *block) width(policy string) (mean, se float64) {
	return meanSE(k.perTrace(policy, func(_ report.Comparison, runs []report.Run) float64 {
		list := machineCounts(runs)
		return slices.Max(list) - slices.Min(list)
	}))
}

// p90p10 is the mean over traces of the difference between the 90th and the 10th
// percentile of machines over the orders.
func (k *block) p90p10(policy string) (mean, se float64) {
	return meanSE(k.perTrace(policy, func(_ report.Comparison, runs []report.Run) float64 {
		list := machineCounts(runs)
		slices.Sort(list)
		return stat.Quantile(.9, stat.LinInterp, list, nil) - stat.Quantile(.1, stat.LinInterp, list, nil)
	}))
}

func machineCounts(runs []report.Run) []float64 {
	list := make([]float64, len(runs))
	for i, r := range runs {
		list[i] = float64(r.Machines)
	}
	return list
}

// peers lists a figure of other policies of the same run: "bestfit 20.49, …".
func peers(figure func(policy string) (mean, se float64), format string, names ...string) string {
	var list []string
	for _, n := range names {
		v, _ := figure(n)
		list = append(list, n+" "+fmt.Sprintf(format, v))
	}
	return strings.Join(list, ", ")
}
