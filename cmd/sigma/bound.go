package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/internal/compare"
)

// A boundOf has the keys of a comparison, without results.
type boundOf struct {
	Trace report.Trace `json:"trace"`
	Bound report.Bound `json:"bound"`
}

func (a *app) bound() *cobra.Command {
	var paths []string
	var format string
	cmd := &cobra.Command{
		Use:   "bound --trace DIR",
		Short: "Say how few machines any scheduler needs at least",
		Long: `Bound prints the volume bound of a trace: per dimension the demand over the
capacity, largest machines first, the most over dimensions (and over time, when
items also leave). No placement of all items needs less. Where the trace states
a proven optimum, that is printed too.`,
		Example: "  sigma bound --trace small-1 --format json",
		Args:    noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if err := required(cmd, "trace"); err != nil {
				return err
			}
			if err := oneOf("format", format, "table", "json"); err != nil {
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
				bounds = append(bounds, boundOf{head, compare.Bound(t, 0, 0)})
			}
			return a.printBounds(bounds, format)
		}),
	}
	cmd.Flags().StringArrayVar(&paths, "trace", nil, "trace, or folder of traces (repeatable)")
	cmd.Flags().StringVar(&format, "format", "table", "table or json")
	return cmd
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
	}
	return w.Flush()
}
