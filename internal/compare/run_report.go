package compare

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/plural"
)

// Placement is a decision of a replay as a line of placements.csv.
func Placement(t *trace.Trace, s *binpack.State, names *trace.MachineNames, d cerebro.Decision) trace.Placement {
	q := t.Requests[d.Request]
	p := trace.Placement{
		Time: d.Time, Request: q.Name, Item: int(d.Item), App: t.Instance.Apps[q.App].Name, Kind: d.Kind.String(),
	}
	if d.Machine < 0 {
		return p
	}
	p.Machine = names.Name(s.Position(d.Machine))
	p.Devices = trace.FormatDevices(t.Instance, d.Devices)
	return p
}

// PrintRun writes the summary of one replay, next to a bound unless items may wait.
func PrintRun(out io.Writer, head report.Trace, bound report.Bound, found Found, run cerebro.Run) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-12s "+format+"\n", append([]any{name}, args...)...)
	}
	line("trace", "%s  %s", head.Name, head.Digest.Trace)
	line("fleet", "%s, %s, %s", head.Fleet, plural.Of(head.Items, "item"), plural.Of(head.Apps, "app"))
	which := ""
	if found.File != "" {
		which = "  " + found.File
	}
	line("policy", "%s%s  %s", found.Name, which, found.Policy.Knowledge())
	if names, shares := choices([]cerebro.Run{run}); len(names) == 1 {
		line("chosen", "%s", names[0])
	} else if len(names) > 1 {
		line("chosen", "%s", strings.Join(shares, ", "))
	}
	line("order", "%d", run.Order)
	line("placed", "%d", run.Placed)
	line("unplaced", "%d", run.Unplaced)
	if head.Retry {
		line("waiting", "mean %.6g s, longest %.6g s", run.MeanWaiting, run.LongestWaiting)
	}
	if head.Moving {
		line("moves", "%d", run.Moves)
	}
	if run.AwaySeconds > 0 {
		line("away", "%.6g item-seconds", run.AwaySeconds)
	}
	for d, name := range head.Dimensions {
		if run.Unplaced > 0 && d < 4 {
			line("rejected", "%s %.4f", name, run.Rejected[d])
		}
	}
	limit := func(text string, args ...any) string {
		if head.Retry {
			return "" // items may wait
		}
		if run.Unplaced > 0 {
			text += ", of all items"
		}
		return fmt.Sprintf(" ("+text+")", args...)
	}
	switch {
	case head.Deletes:
		line("machines", "%d at the end, %d at the peak%s", run.Machines, run.PeakMachines, limit("bound %d", bound.Machines))
		line("cost-s", "%.6g%s", run.CostSeconds, limit("bound %.6g", bound.CostSeconds))
	case bound.Optimal != nil:
		line("machines", "%d%s", run.Machines, limit("bound %d, optimum %g", bound.Machines, *bound.Optimal))
	default:
		line("machines", "%d%s", run.Machines, limit("bound %d", bound.Machines))
	}
	if run.Cost != float64(run.Machines) {
		line("cost", "%.6g%s", run.Cost, limit("bound %.6g", bound.Cost))
	}
	for d, name := range head.Dimensions {
		if d < 4 {
			line("allocation", "%s %.4f", name, run.AllocationRate[d])
		}
	}
	if u := report.UseOf(head, run); u != nil {
		line("by use", "%s (%.0f node-hours)", u.Text(), u.NodeHours)
		line("nodes", "mean %.2f, most %d", u.MeanMachines, u.MostMachines)
		switch m := u.MovesByUse; {
		case m == nil:
		case m.Allowed == 0:
			line("moves", "none: that share of the items is less than one move a day")
		default:
			line("moves", "%d at night, %d at once, at most %.2f %% of the items a day", m.Nights, m.AtOnce, m.MostOfDay)
		}
	}
	if run.Use != nil && run.Use.Batch != nil {
		b := run.Use.Batch
		line("batch", "%.2f %% of the machines' cpu offered, %.6g core-hours delivered (%.3g lost by evictions)", 100*b.Offered/math.Max(1, b.Capacity), b.Delivered/3600, b.Lost/3600)
		line("tasks", "%d started, %d evicted (%.3f of 1,000), starved for %.4f %% of their time", b.Started, b.Evicted, 1000*float64(b.Evicted)/math.Max(1, float64(b.Started)), 100*b.Starved/math.Max(1, b.Held))
	}
	line("fragment", "%.4f", run.Fragment)
	for _, cause := range slices.Sorted(maps.Keys(run.Fallbacks)) {
		line("fallback", "%s: %d", cause, run.Fallbacks[cause])
	}
	line("violations", "%d", run.Violations)
}
