package report

import (
	"math"
	"slices"
	"strings"
)

// nothing replaces a figure without meaning; it is printed as a dash.
var nothing = math.NaN()

// An outcome has the figures of one result in tables. Shares are not percent yet.
type outcome struct {
	result *Result

	machines        stats // of peaks when items also leave
	cost            float64
	machineSeconds  float64 // ÷ the bound's
	gap             float64
	vsBest, vsWorst float64
	atLimit         float64 // share of orders that meet the optimum, else the bound
	alloc           []float64
	unplaced        float64
	rejected        float64 // first dimension
	firstRejection  float64
	moves           float64 // NaN where items stay
	movesShare      float64 // of the items placed
	away            float64 // item-hours; NaN where moves take no time
	waiting         float64 // seconds, mean over items; NaN where items do not wait
	longestWaiting  float64 // seconds, in the worst order
	seconds         float64
	violations      int
	fallbacks       int
	over, worst     map[string]float64 // by judged dimension; nil without usage
}

type stats struct{ mean, min, max float64 }

func statsOf(runs []Run, value func(Run) float64) stats {
	s := stats{mean: meanOf(runs, value), min: math.Inf(1), max: math.Inf(-1)}
	for _, run := range runs {
		s.min = min(s.min, value(run))
		s.max = max(s.max, value(run))
	}
	return s
}

// outcomes has one entry for each result, in their order, but K2 last: it is nearly offline
// and does not compare with the others.
func (c *Comparison) outcomes() []outcome {
	best, worst := c.result(bestFitNames...), c.result("worstfit")
	var list []outcome
	for i := range c.Results {
		r := &c.Results[i]
		if len(r.Runs) > 0 {
			list = append(list, c.outcome(r, best, worst))
		}
	}
	slices.SortStableFunc(list, func(a, b outcome) int { return offline(a.result) - offline(b.result) })
	return list
}

func offline(r *Result) int {
	if r.Knowledge == "K2" {
		return 1
	}
	return 0
}

// bestFitNames are two names of one policy.
var bestFitNames = []string{"bestfit", "bestfit-l1"}

// result finds a policy's result; nil = no result.
func (c *Comparison) result(names ...string) *Result {
	for i := range c.Results {
		if slices.Contains(names, c.Results[i].Policy) && len(c.Results[i].Runs) > 0 {
			return &c.Results[i]
		}
	}
	return nil
}

func (c *Comparison) outcome(r, best, worst *Result) outcome {
	runs := r.counted()
	o := outcome{
		result:         r,
		machines:       statsOf(runs, c.machineCount()),
		cost:           meanOf(runs, func(run Run) float64 { return run.Cost }),
		machineSeconds: nothing,
		gap:            nothing,
		vsBest:         c.versus(r, best),
		vsWorst:        c.versus(r, worst),
		unplaced:       meanOf(runs, unplaced),
		firstRejection: meanOf(runs, func(run Run) float64 { return run.FirstRejection }),
		moves:          nothing,
		movesShare:     nothing,
		away:           nothing,
		waiting:        nothing,
		longestWaiting: nothing,
		seconds:        meanOf(runs, func(run Run) float64 { return run.Seconds }),
	}
	if b := c.bound().MachineSeconds; b > 0 && r.leavesOut() == 0 { // the bound counts all these items
		o.machineSeconds = meanOf(runs, func(run Run) float64 { return run.MachineSeconds }) / b
	}
	if r.GapToBound != nil {
		o.gap = *r.GapToBound
	} else if b := c.boundCost(); r.noPlace > 0 && b > 0 && r.leavesOut() == 0 {
		o.gap = round(meanOf(runs, c.cost)/b - 1)
	}
	if c.Trace.Moving {
		o.moves = meanOf(runs, moved)
		o.movesShare = meanOf(runs, func(run Run) float64 { return moved(run) / math.Max(1, float64(run.Placed)) })
	}
	if h := meanOf(runs, away); h > 0 {
		o.away = h
	}
	if c.Trace.Retry {
		o.waiting = meanOf(runs, waiting)
		o.longestWaiting = statsOf(runs, func(run Run) float64 { return seconds(run.LongestWaiting) }).max
	}
	for _, name := range c.Trace.Dimensions {
		o.alloc = append(o.alloc, meanOf(runs, func(run Run) float64 {
			if c.Trace.Deletes {
				return run.MeanAllocationRate[name]
			}
			return run.AllocationRate[name]
		}))
	}
	if len(c.Trace.Dimensions) > 0 {
		o.rejected = meanOf(runs, func(run Run) float64 { return run.Rejected[c.Trace.Dimensions[0]] })
	}
	limit, _ := c.limit()
	o.atLimit = meanOf(runs, func(run Run) float64 {
		if c.Trace.Retry {
			return nothing
		}
		if run.Unplaced <= r.noPlace && c.need(run) <= limit*(1+1e-9) {
			return 1
		}
		return 0
	})
	for _, run := range r.Runs {
		o.violations += run.Violations // order 0 as well: every violation counts
	}
	for _, run := range runs {
		for _, n := range run.Fallbacks {
			o.fallbacks += n
		}
	}
	o.setUse()
	return o
}

// machineCount is a run's number of machines: at the peak when items also leave, else at
// the end.
func (c *Comparison) machineCount() func(Run) float64 {
	if c.Trace.Deletes {
		return func(run Run) float64 { return float64(run.PeakMachines) }
	}
	return machines
}

// versus is a's mean cost ÷ b's − 1. Costs do not compare where an item was left out or
// waited: it costs nothing meanwhile.
func (c *Comparison) versus(a, b *Result) float64 {
	if b == nil || absent(a) || absent(b) {
		return nothing
	}
	base := meanOf(b.counted(), c.cost)
	if base == 0 {
		return nothing
	}
	return meanOf(a.counted(), c.cost)/base - 1
}

// absent reports whether an item was left out or waited.
func absent(r *Result) bool {
	return r.leavesOut() > 0 || meanOf(r.counted(), waiting) > 0
}

// limit is the proven optimum, else the bound; 0 = no limit. It is in machines where all cost alike.
func (c *Comparison) limit() (value float64, optimal bool) {
	value = c.boundCost()
	b := c.bound()
	if b.Optimal != nil && !c.Trace.Deletes {
		value, optimal = *b.Optimal, true
	}
	if !c.Trace.Mixed && !c.Trace.Deletes && b.Cost > 0 {
		value *= float64(b.Machines) / b.Cost
	}
	return value, optimal
}

// leavesOut reports whether some policy did not place everything.
func (c *Comparison) leavesOut() bool {
	return slices.ContainsFunc(c.Results, func(r Result) bool { return r.leavesOut() > 0 })
}

// policiesLeaveOut is leavesOut without the present placement: a policy may place items
// that wait in the cluster.
func (c *Comparison) policiesLeaveOut() bool {
	return slices.ContainsFunc(c.Results, func(r Result) bool { return r.Policy != "current" && r.leavesOut() > 0 })
}

// learned reports whether a result is of a trained policy rather than of a rule.
func learned(r *Result) bool { return strings.HasPrefix(r.Policy, "learned") || r.Exposure != "" }
