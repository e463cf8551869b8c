package compare

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
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
	p.Devices = trace.FormatDevices(t.Instance, traceDevices(d.Devices))
	return p
}

// PrintRun writes the summary of one replay.
func PrintRun(out io.Writer, head report.Trace, bound report.Bound, found Found, run cerebro.Run) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-12s "+format+"\n", append([]any{name}, args...)...)
	}
	line("trace", "%s  %s", head.Name, head.Digest.Trace)
	line("fleet", "%s, %s, %s", head.Fleet, report.Plural(head.Items, "item"), report.Plural(head.Apps, "app"))
	which := ""
	if found.File != "" {
		which = "  " + found.File
	}
	line("policy", "%s%s  %s", found.Name, which, found.Policy.Knowledge())
	line("order", "%d", run.Order)
	line("placed", "%d", run.Placed)
	line("unplaced", "%d", run.Unplaced)
	for d, name := range head.Dimensions {
		if run.Unplaced > 0 && d < 4 {
			line("rejected", "%s %.4f", name, run.Rejected[d])
		}
	}
	switch {
	case head.Deletes:
		line("machines", "%d at the end, %d at the peak (bound %d)", run.Machines, run.PeakMachines, bound.Machines)
		line("cost-s", "%.6g (bound %.6g)", run.CostSeconds, bound.CostSeconds)
	case bound.Optimal != nil:
		line("machines", "%d (bound %d, optimum %g)", run.Machines, bound.Machines, *bound.Optimal)
	default:
		line("machines", "%d (bound %d)", run.Machines, bound.Machines)
	}
	if run.Cost != float64(run.Machines) {
		line("cost", "%.6g (bound %.6g)", run.Cost, bound.Cost)
	}
	for d, name := range head.Dimensions {
		if d < 4 {
			line("allocation", "%s %.4f", name, run.AllocationRate[d])
		}
	}
	line("fragment", "%.4f", run.Fragment)
	for _, cause := range slices.Sorted(maps.Keys(run.Fallbacks)) {
		line("fallback", "%s: %d", cause, run.Fallbacks[cause])
	}
	line("violations", "%d", run.Violations)
}
