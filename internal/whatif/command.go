package whatif

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/binpack/plan"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
)

// A Shell holds the program's services for the command.
type Shell struct {
	Out   io.Writer
	Do    func(func(*cobra.Command, []string) error) func(*cobra.Command, []string) error // wraps the command's function
	Usage func(format string, args ...any) error                                          // the error of wrong use
	Load  func(path string) (*trace.Trace, error)
	Flags func(*pflag.FlagSet) // of every command that reads a trace
	// Progress begins to show the number of units done, and of all; end ends that.
	Progress func(unit string) (set func(done, of int), end func())
}

// Command is "sigma whatif".
func (s Shell) Command() *cobra.Command {
	var (
		path, format string
		q            Question
		o            = Options{Plan: plan.Options{Work: bound.DefaultWork, Starts: compare.DefaultStarts}}
	)
	cmd := &cobra.Command{
		Use:   "whatif --trace DIR --add 20%",
		Short: "Answer a question about capacity: how many nodes, what no longer fits, and what binds",
		Long: `Whatif changes a trace and plans it as "sigma plan" does: with more items (--add, --app),
without a zone (--without), with other numbers of nodes (--nodes), or after the loss of the
worst node (--lose 1; every node is tried). The changes of one command are made together.

It prints how many nodes that takes, with the bound that no plan can be below, and what finds
no place. Then it relaxes each resource, rule, limit and type that may be the reason, and
says which of them bind: without it all fits, or takes less.

The items of placed.csv stay where they are, unless their node is gone, or --repack places all
again. Where items leave, the question is about the time of the largest demand. A trace by use
has the risk beside both plans; items without samples, such as added ones, have those of others
of their app in turn. Items that do
not fit are an answer: the exit code is 0.`,
		Example: `  sigma whatif --trace snap --add 20%
  sigma whatif --trace snap --app shop/cart=+30 --nodes m5.large=+2
  sigma whatif --trace snap --without eu-central-1a --format json
  sigma whatif --trace snap --lose 1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return s.Usage("unknown argument %q; the use is %s", args[0], cmd.UseLine())
			}
			return nil
		},
		RunE: s.Do(func(cmd *cobra.Command, _ []string) error {
			switch {
			case path == "":
				return s.Usage("--trace is missing; see %s --help", cmd.CommandPath())
			case format != "table" && format != "json":
				return s.Usage("unknown format %q; there are table, json", format)
			case o.Plan.Steps < 1 || o.Plan.Starts < 1 || o.Plan.Workers < 1:
				return s.Usage("--steps %d --starts %d --workers %d: want at least 1", o.Plan.Steps, o.Plan.Starts, o.Plan.Workers)
			case cmd.Flags().Changed("lose") && q.Lose != 1:
				return s.Usage("%w", fieldError("lose", fmt.Sprint(q.Lose), "want 1"))
			}
			if err := q.Check(); err != nil {
				return s.Usage("%w", err)
			}
			t, err := s.Load(path)
			if err != nil {
				return err
			}
			set, end := s.Progress("plan")
			defer end()
			o.Progress = set
			a, err := Ask(cmd.Context(), t, &q, o)
			end()
			if err != nil {
				return fmt.Errorf("trace %s: %w", t.Name, err)
			}
			if format == "json" {
				enc := json.NewEncoder(s.Out)
				enc.SetIndent("", "  ")
				return enc.Encode(a)
			}
			return a.Print(s.Out)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&path, "trace", "", "trace: a folder or a .tar.gz file")
	s.Flags(flags)
	flags.StringVar(&q.Add, "add", "", "more items of every app, such as 20%")
	flags.StringArrayVar(&q.Apps, "app", nil, "more or fewer items of one app, such as web=+30, or in a snapshot of namespace/name, such as shop/cart=-2 (repeatable)")
	flags.StringArrayVar(&q.Without, "without", nil, "zone that is gone with its nodes (repeatable)")
	flags.StringArrayVar(&q.Nodes, "nodes", nil, "how many nodes a type has, such as m5.large=12, =+4 or =-2 (repeatable)")
	flags.IntVar(&q.Lose, "lose", 0, "1: one node fails, the worst of all")
	flags.BoolVar(&o.Repack, "repack", false, "place the items of placed.csv again")
	flags.Uint64Var(&o.Plan.Seed, "seed", 1, "of the search")
	flags.IntVar(&o.Plan.Steps, "steps", plan.DefaultSteps, "steps of each search in a fleet of one size")
	flags.IntVar(&o.Plan.Starts, "starts", compare.DefaultStarts, "searches; the best counts, and one that meets the bound is the last")
	flags.IntVar(&o.Plan.Workers, "workers", runtime.GOMAXPROCS(0), "searches at the same time")
	flags.StringVar(&format, "format", "table", "table or json")
	return cmd
}
