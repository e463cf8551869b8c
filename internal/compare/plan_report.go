package compare

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A PlanReport has the figures of one trace's plan.
type PlanReport struct {
	Trace report.Trace `json:"trace"`
	Bound report.Bound `json:"bound"`
	Plan  Planned      `json:"plan"`
	Use   *report.Use  `json:"use,omitempty"` // the risk of a trace by use
	// Saves is the money a month that it costs less than the plan before it; nil where that is of no interest, or one of
	// the two leaves items out, or the trace has no prices.
	Saves *float64 `json:"saves_per_month,omitempty"`
}

// SaveFrom sets the money that a plan saves on another one.
func (p *PlanReport) SaveFrom(base *PlanReport) {
	if p.Trace.Currency != "" && p.Plan.Unplaced+base.Plan.Unplaced == 0 {
		const monthHours = 730 // 365 days ÷ 12
		p.Saves = new(math.Round(100*monthHours*(base.Plan.Cost-p.Plan.Cost)) / 100)
	}
}

// Planned are the figures of a plan.
type Planned struct {
	Machines       int                `json:"machines"`
	Cost           float64            `json:"cost"`
	AllocationRate map[string]float64 `json:"allocation_rate"`
	Standing       int                `json:"standing"` // items that stay where they were
	Placed         int                `json:"placed"`
	Unplaced       int                `json:"unplaced"`
	Proven         bool               `json:"proven"` // no plan costs less
	Seconds        float64            `json:"seconds"`
	leftOut        map[string]int     // items without a place, by app
}

// Report returns the figures of a plan of the trace that head describes.
func (p *Plan) Report(head report.Trace) PlanReport {
	head.Ignored, head.Again = p.Ignored(), p.Again()
	out := PlanReport{Trace: head, Bound: p.Bound, Plan: Planned{
		Machines: p.Machines, Cost: p.Cost, AllocationRate: map[string]float64{},
		Standing: p.Standing, Placed: p.Placed, Unplaced: p.Unplaced, Proven: p.Proven,
	}}
	for _, item := range p.Placements {
		if item.Kind == trace.Unplaced {
			if out.Plan.leftOut == nil {
				out.Plan.leftOut = map[string]int{}
			}
			out.Plan.leftOut[item.App]++
		}
	}
	for d, name := range head.Dimensions {
		out.Plan.AllocationRate[name] = p.AllocationRate[d]
	}
	return out
}

// Ignored is the number of items that the plan places without all of their constraints: those of an app of which the
// trace marks some items so. Items that stay where they are do not count.
func (p *Plan) Ignored() (items int) {
	apps := IgnoredApps(p.t)
	for _, e := range p.t.Events {
		if apps[p.t.Requests[e.Request].App] {
			items += int(e.Count)
		}
	}
	return items
}

// Again is the number of items that must not move and that the plan places again.
func (p *Plan) Again() (items int) {
	fixed, _ := p.t.Fixed() // the same
	for _, e := range p.t.Events {
		if fixed[p.t.Requests[e.Request].Name] != nil {
			items += int(e.Count)
		}
	}
	return items
}

// IgnoredApps are the apps of which a trace lacks constraints of some items.
func IgnoredApps(t *trace.Trace) map[int32]bool {
	ignored, _ := t.Ignored() // the error is reported where the trace is read
	apps := map[int32]bool{}
	for _, q := range t.Requests {
		apps[q.App] = apps[q.App] || ignored[q.Name] != nil
	}
	return apps
}

// Plans are the reports of several traces.
type Plans []PlanReport

// Print writes a table of the plans, with CPU seconds if timing.
func (plans Plans) Print(out io.Writer, timing bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	seconds := ""
	if timing {
		seconds = "\tcpu-s"
	}
	fmt.Fprintf(w, "trace\titems\tmachines\tcost\tbound machines\tbound cost\tmethod\tleft out%s\tresult\n", seconds)
	for _, p := range plans {
		if timing {
			seconds = fmt.Sprintf("\t%.2f", p.Plan.Seconds)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%.6g\t%d\t%.6g\t%s\t%d%s\t%s\n", p.Trace.Name, p.Plan.Placed+p.Plan.Unplaced+p.Plan.Standing, p.Plan.Machines, p.Plan.Cost,
			p.Bound.Machines, p.Bound.Cost, p.Bound.Method, p.Plan.Unplaced, seconds, report.Qualified(p.Plan.result(), p.Trace.Ignored, p.Trace.Again))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, p := range plans {
		if p.Saves != nil {
			fmt.Fprintf(out, "%s saves %.2f %s a month\n", p.Trace.Name, *p.Saves, p.Trace.Currency)
		}
		if p.Use != nil {
			fmt.Fprintf(out, "%s by use: %s\n", p.Trace.Name, p.Use.Text())
		}
	}
	return nil
}

// Use is the risk of the plan of a trace by use; nil of others.
func (p *Plan) Use() (*report.Use, error) {
	var list []Standing
	next := make([]int32, len(p.t.Requests))
	for _, s := range p.t.Placed {
		for range s.Count {
			list = append(list, Standing{s.Request, next[s.Request], s.Line, s.Index, s.Devices})
			next[s.Request]++
		}
	}
	byName := map[string]int32{}
	for i, q := range p.t.Requests {
		byName[q.Name] = int32(i)
	}
	names := trace.NewMachineNames(p.t.Instance)
	for _, item := range p.Placements {
		if item.Kind == trace.Unplaced {
			continue
		}
		line, index, err := names.Parse(item.Machine)
		if err != nil {
			return nil, err
		}
		devices, err := trace.ParseDevices(p.t.Instance, item.Devices)
		if err != nil {
			return nil, err
		}
		list = append(list, Standing{byName[item.Request], int32(item.Item), line, index, devices})
	}
	return UseOfPlacement(p.t, list)
}

// mostLeftOut are the apps that an error names.
const mostLeftOut = 10

// Incomplete returns an error with the items that the plans leave out and their number; nil if no
// item is left out.
func (plans Plans) Incomplete() error {
	var all []error
	for _, p := range plans {
		if p.Plan.Unplaced == 0 {
			continue
		}
		var of []string
		apps := slices.Sorted(maps.Keys(p.Plan.leftOut))
		for _, app := range apps[:min(len(apps), mostLeftOut)] {
			of = append(of, fmt.Sprintf("%d of app %s", p.Plan.leftOut[app], app))
		}
		if more := len(apps) - mostLeftOut; more > 0 {
			of = append(of, fmt.Sprintf("and of %d other apps", more))
		}
		all = append(all, fmt.Errorf("trace %s: %d of %d items are left out: %s", p.Trace.Name, p.Plan.Unplaced, p.Plan.Standing+p.Plan.Placed+p.Plan.Unplaced, strings.Join(of, ", ")))
	}
	return errors.Join(all...)
}

// result describes in words whether a plan is proven.
func (p *Planned) result() string {
	switch {
	case p.Proven:
		return report.Optimal
	case p.Unplaced > 0:
		return "incomplete"
	}
	return "not proven"
}
