package report

import (
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// charts draws machines and allocation over time, if the runs hold a series: of the best
// policies and of Best-Fit, in the first order with a series.
func (c *Comparison) charts(id string) []sheet.Chart {
	const most = 6
	var lines []line
	order := -1
	for _, o := range c.outcomes() {
		run := seriesRun(o.result)
		bestFit := slices.Contains(bestFitNames, o.result.Policy)
		if run == nil || len(lines) == most || len(lines) == most-1 && !bestFit && c.bestFitToCome(lines) {
			continue
		}
		order = run.Order
		lines = append(lines, line{plotName(o.result), run.Series, learned(o.result)})
	}
	if len(lines) == 0 {
		return nil
	}
	where := fmt.Sprintf(", in order %d", order)
	if order == 0 {
		where = ", in the order of the file"
	}
	machines := sheet.LineChart{
		ID: id + "-machines", Title: "Machines that hold an item over time" + where, Axis: "machines",
		Lines: linesOf(lines, func(s cerebro.Sample) float64 { return float64(s.Machines) }),
		Limit: float64(c.bound().Machines), LimitName: "bound",
	}
	switch {
	case c.Trace.Retry:
		machines.Limit = nothing
	case len(c.bound().Steps) > 1:
		machines.Limit, machines.Limits = nothing, c.bound().Steps
		machines.LimitName = "bound, at the end"
	case c.Trace.Deletes:
		machines.LimitName = "bound at the peak"
	}
	saving := ""
	if c.Trace.Deletes && len(lines) > 1 && lines[0].label == "current" {
		i := max(1, slices.IndexFunc(lines, func(l line) bool { return l.learned }))
		machines.Lines[i].Band = sheet.Between(machines.Lines[0].Points, machines.Lines[i].Points)
		saving = fmt.Sprintf(" The area between current and %s is what differs.", lines[i].label)
	}
	charts := []sheet.Chart{{Plot: machines, Caption: machines.Title + "." + saving}}
	if len(c.Trace.Dimensions) > 0 && len(lines[0].series[0].Allocation) > 0 {
		of := "the machines that hold an item"
		if c.Trace.Fleet == "fixed" {
			of = "all machines"
		}
		title := fmt.Sprintf("Share of the %s of %s that is placed, over time%s", c.Trace.Dimensions[0], of, where)
		charts = append(charts, sheet.Chart{Caption: title + ".", Plot: sheet.LineChart{
			ID: id + "-allocation", Title: title, Axis: axisName(c.Trace.Dimensions[0]) + " placed, %", Limit: nothing,
			Lines: linesOf(lines, func(s cerebro.Sample) float64 { return 100 * s.Allocation[0] }),
		}})
	}
	return charts
}

// A line is the time series of one policy.
type line struct {
	label   string
	series  []cerebro.Sample
	learned bool
}

func linesOf(lines []line, value func(cerebro.Sample) float64) []sheet.Line {
	out := make([]sheet.Line, len(lines))
	for i, l := range lines {
		out[i].Label = l.label
		for _, s := range l.series {
			out[i].Points = append(out[i].Points, sheet.Point{Time: s.Time, Value: value(s)})
		}
	}
	return out
}

// bestFitToCome reports whether Best-Fit has a series and no line yet.
func (c *Comparison) bestFitToCome(lines []line) bool {
	r := c.result(bestFitNames...)
	if r == nil || seriesRun(r) == nil {
		return false
	}
	return !slices.ContainsFunc(lines, func(l line) bool { return l.label == plotName(r) })
}

// seriesRun is the first of the counted runs with a time series, else of all.
func seriesRun(r *Result) *Run {
	for _, runs := range [][]Run{r.counted(), r.Runs} {
		for i := range runs {
			if len(runs[i].Series) > 1 {
				return &runs[i]
			}
		}
	}
	return nil
}
