package compare

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A BoundReport has the keys of a comparison, without results, and the bound of
// each method.
type BoundReport struct {
	Trace  report.Trace  `json:"trace"`
	Bound  report.Bound  `json:"bound"`
	Bounds []MethodBound `json:"bounds"`
	Note   string        `json:"note,omitempty"` // of traces by use
}

// A MethodBound is the bound of one method. Stopped means that more work may raise it.
type MethodBound struct {
	Method         string  `json:"method"`
	Machines       int     `json:"machines"`
	Cost           float64 `json:"cost"`
	MachineSeconds float64 `json:"machine_seconds"`
	CostSeconds    float64 `json:"cost_seconds"`
	Stopped        bool    `json:"stopped"`
}

// NewBoundReport computes all bounds of a trace in the file's order. work limits the
// linear programs.
func NewBoundReport(ctx context.Context, t *trace.Trace, head report.Trace, work int64) BoundReport {
	all := Bounds(ctx, t, 0, 0, bound.Options{Work: work})
	b := BoundReport{Trace: head, Bound: ReportBound(t, all.Bound, false), Bounds: []MethodBound{}, Note: NoRisk(t)}
	for _, e := range all.Each {
		b.Bounds = append(b.Bounds, MethodBound{e.Method, e.Machines, e.Cost, e.MachineSeconds, e.CostSeconds, e.Stopped})
	}
	return b
}

// BoundReports are those of several traces.
type BoundReports []BoundReport

// Print writes a table of the bounds.
func (bounds BoundReports) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "trace\titems\tmachines\tcost\tmachine-s\tcost-s\tmethod\toptimum")
	for _, b := range bounds {
		optimum := "-"
		if b.Bound.Optimal != nil {
			optimum = fmt.Sprint(*b.Bound.Optimal)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%.6g\t%.6g\t%.6g\t%s\t%s\n", b.Trace.Name, b.Trace.Items,
			b.Bound.Machines, b.Bound.Cost, b.Bound.MachineSeconds, b.Bound.CostSeconds, b.Bound.Method, optimum)
		for _, e := range b.Bounds {
			stopped := ""
			if e.Stopped {
				stopped = " (stopped)"
			}
			fmt.Fprintf(w, "\t\t%d\t%.6g\t%.6g\t%.6g\t- %s%s\t\n",
				e.Machines, e.Cost, e.MachineSeconds, e.CostSeconds, e.Method, stopped)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, b := range bounds {
		if b.Note != "" {
			fmt.Fprintf(out, "%s: %s\n", b.Trace.Name, b.Note)
		}
	}
	return nil
}
