package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/internal/compare"
)

// A boundOf has the keys of a comparison, without results, and what each method
// gives.
type boundOf struct {
	Trace  report.Trace    `json:"trace"`
	Bound  report.Bound    `json:"bound"`
	Bounds []boundOfMethod `json:"bounds"`
}

// A boundOfMethod is one line of the list. Stopped says that more work may give
// more.
type boundOfMethod struct {
	Method         string  `json:"method"`
	Machines       int     `json:"machines"`
	Cost           float64 `json:"cost"`
	MachineSeconds float64 `json:"machine_seconds"`
	CostSeconds    float64 `json:"cost_seconds"`
	Stopped        bool    `json:"stopped"`
}

func (a *app) bound() *cobra.Command {
	var paths []string
	var format string
	var effort float64
	cmd := &cobra.Command{
		Use:   "bound --trace DIR",
		Short: "Say how few machines any scheduler needs at least",
		Long: `Bound prints what no placement of all items can beat, by several methods, and
the strongest of them first:

  volume          the demand over the capacity, the most over dimensions
  limit           what one group needs for its limit per machine
  clique          groups of which no two share a machine, their needs added up
  gilmore-gomory  the linear program over all ways to fill a machine: of one
                  dimension, or of all with limits, rules and types

With departures all hold at each moment. Volume, limit and clique cost
milliseconds; --effort says how much the linear programs may cost. Where the trace states a proven optimum, that is
printed too.`,
		Example: "  sigma bound --trace small-1 --format json",
		Args:    noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if err := required(cmd, "trace"); err != nil {
				return err
			}
			if err := oneOf("format", format, "table", "json"); err != nil {
				return err
			}
			work, err := workOf(effort)
			if err != nil {
				return err
			}
			traces, err := loadTraces(paths)
			if err != nil {
				return err
			}
			var bounds []boundOf
			for _, t := range traces {
				if err := cmd.Context().Err(); err != nil {
					return err
				}
				head, err := compare.Describe(t, cerebro.NewReplayer(t))
				if err != nil {
					return err
				}
				b := boundOf{Trace: head, Bounds: []boundOfMethod{}}
				all := compare.Bounds(cmd.Context(), t, 0, 0, bound.Options{Work: work})
				b.Bound = compare.ReportBound(t, all.Bound)
				for _, e := range all.Each {
					b.Bounds = append(b.Bounds, boundOfMethod{e.Method, e.Machines, e.Cost, e.MachineSeconds, e.CostSeconds, e.Stopped})
				}
				bounds = append(bounds, b)
			}
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			return a.printBounds(bounds, format)
		}),
	}
	cmd.Flags().StringArrayVar(&paths, "trace", nil, "trace, or folder of traces (repeatable)")
	cmd.Flags().StringVar(&format, "format", "table", "table or json")
	effortFlag(cmd, &effort, 1)
	return cmd
}

// effortFlag is how much the linear programs of a bound may cost.
func effortFlag(cmd *cobra.Command, effort *float64, standard float64) {
	cmd.Flags().Float64Var(effort, "effort", standard, "of the bound by linear programs, for each trace: 0 = none, 1 = some seconds at most, 10 = ten times that")
}

// workOf is an effort in the operations that limit it.
func workOf(effort float64) (int64, error) {
	if !(effort >= 0 && effort <= 1e6) {
		return 0, usagef("--effort %g: want 0 to 1000000", effort)
	}
	return int64(effort * bound.DefaultWork), nil
}

func (a *app) printBounds(bounds []boundOf, format string) error {
	if format == "json" {
		e := json.NewEncoder(a.stdout)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(bounds)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
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
	return w.Flush()
}
