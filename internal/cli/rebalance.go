package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	moves "github.com/sigma-scheduler/sigma/binpack/plan/defrag"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/defrag"
	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/internal/plural"
)

type rebalanceFlags struct {
	path, placements, out, format, picture string
	moves, objective, prices               string
	quiet                                  bool
	defrag.Options
}

func (a *app) rebalance() *cobra.Command {
	var f rebalanceFlags
	cmd := &cobra.Command{
		Use:   "rebalance --trace DIR --out plan.csv",
		Short: "Empty machines, or make room, with a few moves of what stands on them",
		Long: `Rebalance looks for a few moves that empty machines. The items stand where placed.csv
says, or where --placements says: the file of "sigma replay". An item may take the
place of another, which moves on in turn. Nothing is moved in a cluster: the moves
are a file. Each is valid when its turn comes, so one may stop after any of them. An
independent checker checks every step before anything is written.

The table shows the machines freed after so many moves, those that a drain without
swaps frees (fewest items first, Best-Fit), and those that so many moves can free at
most. Without --moves, --machines and --until-bound the budget is 2% of the items.

With --make-room the items that wait get a place first, each with at most 8 moves of
others: what the file of placements left out, or what a snapshot's events.csv asks
for. Alone it empties no machine.`,
		Example: `  sigma rebalance --trace snap --moves 1% --out plan.csv
  sigma replay --trace large-1 --policy bestfit --placements start.csv
  sigma rebalance --trace large-1 --placements start.csv --until-bound --out plan.csv --format json`,
		Args: noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if err := required(cmd, "trace", "out"); err != nil {
				return err
			}
			if err := f.complete(cmd); err != nil {
				return err
			}
			if err := cmp.Or(regular("out", f.out), regular("picture", f.picture), oneOf("format", f.format, "table", "json")); err != nil {
				return err
			}
			if f.picture != "" && filepath.Clean(f.picture) == filepath.Clean(f.out) {
				return usagef("--out and --picture name the same file %s", f.out)
			}
			t, err := a.loadTrace(f.path)
			if err != nil {
				return err
			}
			start, err := defrag.OpenStart(t, f.placements, f.prices)
			if err != nil {
				return err
			}
			return a.rebalanceFrom(cmd.Context(), start, f)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.path, "trace", "", "trace: a folder or a .tar.gz file")
	a.unpackedFlag(flags)
	flags.StringVar(&f.placements, "placements", "", "start from these placements of a replay instead of placed.csv")
	flags.StringVar(&f.moves, "moves", "", "most moves: a number, or a share of the items that stand such as 2%")
	flags.IntVar(&f.Machines, "machines", 0, "stop when so many machines are in use")
	flags.BoolVar(&f.UntilBound, "until-bound", false, "stop at the lower bound")
	cmd.MarkFlagsMutuallyExclusive("moves", "machines", "until-bound")
	flags.IntVar(&f.InFlight, "in-flight", 1, "most items that are away at once; from 2 on items can change places")
	flags.StringVar(&f.prices, "prices", "", "CSV file of what moves cost and what must not move: app,request,fixed,price,cap")
	flags.BoolVar(&f.MakeRoom, "make-room", false, "first let in the items that wait")
	flags.StringVar(&f.objective, "objective", "machines", "machines; cost: empty the dearest machines")
	flags.StringVar(&f.out, "out", "", "CSV file to write the moves to")
	flags.StringVar(&f.picture, "picture", "", "SVG file to draw the machines freed against the items moved in")
	flags.Uint64Var(&f.Seed, "seed", 1, "of the search")
	flags.StringVar(&f.format, "format", "table", "table or json")
	quietFlag(flags, &f.quiet)
	return cmd
}

// complete checks the flags and reads the budget.
func (f *rebalanceFlags) complete(cmd *cobra.Command) error {
	if f.objective == "roadef" {
		return usagef("--objective roadef: run sigma-lab reassign")
	}
	if err := oneOf("objective", f.objective, "machines", "cost"); err != nil {
		return err
	}
	f.ByCost = f.objective == "cost"
	if cmd.Flags().Changed("machines") && f.Machines < 1 || f.InFlight < 1 {
		return usagef("--machines and --in-flight: want at least 1")
	}
	f.Share, f.Count = -1, -1
	if f.moves == "" && !f.MakeRoom && !f.UntilBound && f.Machines == 0 {
		f.moves = "2%"
	}
	if err := f.SetMoves(f.moves); f.moves != "" && err != nil {
		return usagef("--moves %s: %w", f.moves, err)
	}
	return nil
}

func (a *app) rebalanceFrom(ctx context.Context, start *defrag.Start, f rebalanceFlags) error {
	r, err := a.search(ctx, start, f)
	if err != nil {
		return err
	}
	risk, err := rebalanceRisk(start.Trace, r)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(f.out, r.WriteMoves); err != nil {
		return err
	}
	if f.format == "json" {
		err = a.json(rebalanceReport{r, risk})
	} else if err = r.Print(a.stdout); err == nil && risk.After != nil {
		_, err = fmt.Fprintf(a.stdout, "\nby use    before: %s\n          after:  %s\n", risk.Before.Text(), risk.After.Text())
	}
	if f.picture != "" && err == nil {
		err = durable.WriteFile(f.picture, func(out io.Writer) error { return drawMoves(out, r) })
	}
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return interrupted("%s holds the moves found so far", f.out)
	}
	if reason := r.Why(); reason != "" {
		fmt.Fprintln(a.stderr, reason)
	}
	return nil
}

// search looks for moves by the objective.
func (a *app) search(ctx context.Context, start *defrag.Start, f rebalanceFlags) (*defrag.Result, error) {
	show := a.newProgress(0, "attempt", f.quiet)
	defer show.end()
	f.Watch = func(attempts, moves, freed int) {
		show.set(attempts, fmt.Sprintf("%s, %s freed", plural.Of(moves, "move"), plural.Of(freed, "machine")))
	}
	return defrag.Search(ctx, start, f.Options)
}

// A rebalanceReport is the result with the risk of traces by use.
type rebalanceReport struct {
	*defrag.Result
	beforeAndAfter
}

type beforeAndAfter struct {
	Before *report.Use `json:"use_before,omitempty"`
	After  *report.Use `json:"use_after,omitempty"`
}

func rebalanceRisk(t *trace.Trace, r *defrag.Result) (risk beforeAndAfter, err error) {
	for _, one := range []struct {
		after bool
		use   **report.Use
	}{{false, &risk.Before}, {true, &risk.After}} {
		var list []compare.Standing
		r.Placed(one.after, func(request, number int32, it *moves.Item) {
			list = append(list, compare.Standing{Request: request, Number: number, Line: it.Line, Index: it.Index, Devices: it.Devices})
		})
		if *one.use, err = compare.UseOfPlacement(t, list); err != nil {
			return risk, err
		}
	}
	return risk, nil
}
