package cli

import (
	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/internal/compare"
)

func (a *app) bound() *cobra.Command {
	var paths []string
	var format string
	var effort float64
	cmd := &cobra.Command{
		Use:   "bound --trace DIR",
		Short: "Say how few machines any scheduler needs at least",
		Long: `Bound prints lower bounds that no placement of all items can beat, by several
methods, the strongest first:

  volume          the demand over the capacity, the most over dimensions
  limit           what one group needs because of its limit per machine
  clique          the sum over groups of which no two share a machine
  gilmore-gomory  the linear program over all ways to fill a machine: of one
                  dimension, or of all with limits, rules and types

With departures, all bounds hold at each moment. Volume, limit and clique cost
milliseconds; --effort limits the linear programs. If the trace states a proven
optimum, that is printed too.`,
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
			traces, err := a.loadTraces(paths)
			if err != nil {
				return err
			}
			var bounds compare.BoundReports
			for _, t := range traces {
				if err := cmd.Context().Err(); err != nil {
					return err
				}
				head, err := compare.Describe(t, cerebro.NewReplayer(t))
				if err != nil {
					return err
				}
				bounds = append(bounds, compare.NewBoundReport(cmd.Context(), t, head, work))
			}
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			if format == "json" {
				return a.json(bounds)
			}
			return bounds.Print(a.stdout)
		}),
	}
	cmd.Flags().StringArrayVar(&paths, "trace", nil, "trace, or folder of traces (repeatable)")
	a.unpackedFlag(cmd.Flags())
	cmd.Flags().StringVar(&format, "format", "table", "table or json")
	effortFlag(cmd, &effort, 1)
	return cmd
}

// effortFlag adds --effort: how much the linear programs of a bound may cost.
func effortFlag(cmd *cobra.Command, effort *float64, standard float64) {
	cmd.Flags().Float64Var(effort, "effort", standard, "of the bound by linear programs, for each trace: 0 = none, 1 = some seconds at most, 10 = ten times that")
}

// workOf converts an effort to a number of operations.
func workOf(effort float64) (int64, error) {
	if !(effort >= 0 && effort <= 1e6) {
		return 0, usagef("--effort %g: want 0 to 1000000", effort)
	}
	return int64(effort * bound.DefaultWork), nil
}
