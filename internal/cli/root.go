package cli

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/internal/complete"
	"github.com/sigma-scheduler/sigma/internal/operate"
	"github.com/sigma-scheduler/sigma/internal/reportdiff"
	"github.com/sigma-scheduler/sigma/internal/schema"
	"github.com/sigma-scheduler/sigma/internal/whatif"
)

// beginning is the group of the first command of the help.
const beginning = "beginning"

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   a.program.name(),
		Short: "Pack containers onto fewer machines with learned placement policies",
		Long: `Sigma computes how many machines a cluster needs under different placement
policies, and trains policies that need fewer.

Begin with "sigma savings", which prints what a cluster costs a month and where the money
is. All else works on traces: folders of plain files that hold a fleet, its applications
and the requests over time. Make one of a running cluster with "sigma snapshot", or
with "sigma generate" or "sigma convert log", see what is possible with "sigma compare",
improve with "sigma tune", which learns from a recorded history and says whether it is
worth it, or with "sigma train".`,
		Example: `  sigma savings
  sigma snapshot --out snap
  sigma compare --trace snap --policy current,bestfit,learned
  sigma generate small --seed 1 --out small-1
  sigma compare --trace small-1 --policy firstfit,bestfit,worstfit --orders 20
  sigma train --trace small-1 --evaluations 2000 --orders 4 --out policy.yaml
  sigma compare --trace small-1 --policy bestfit,policy.yaml --orders 20 --seed 7`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	a.group(root)
	root.SetFlagErrorFunc(flagError)
	root.AddGroup(&cobra.Group{ID: beginning, Title: "Begin here:"})
	root.AddCommand(a.savings(), a.generate(), a.convert(), a.snapshot(), a.recordCommand(), a.replay(), a.explain(), a.compare(), a.train(), a.tune(), a.worker(), a.bound(), a.plan(), a.whatif(), a.report(), a.rebalance(), a.policy(), a.mpa(), a.flow(), a.shell().DoctorCommand(), a.shell().PilotCommand(a.group), a.schema(), a.version())
	if more := a.program.Commands; more != nil {
		root.AddCommand(more(Shell{Out: a.stdout, Err: a.stderr, Do: a.do, Usage: usagef})...)
	}
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			a.group(cmd)
		}
	}
	complete.Flags(root)
	return root
}

// shell is the interface of this program for the commands on a cluster.
func (a *app) shell() operate.Shell {
	return operate.Shell{Out: a.stdout, Do: a.do, Usage: usagef, Access: addAccess}
}

func (a *app) whatif() *cobra.Command {
	return whatif.Shell{Out: a.stdout, Do: a.do, Usage: usagef, Load: a.loadTrace, Flags: a.unpackedFlag, Progress: func(unit string) (set func(done, of int), end func()) {
		show := a.newProgress(0, unit, false)
		return func(done, of int) {
			show.expect(of)
			show.set(done, "")
		}, show.end
	}}.Command()
}

func (a *app) report() *cobra.Command {
	cmd := reportdiff.Shell{Out: a.stdout, Do: a.do, Usage: usagef, Group: a.group}.Command()
	return cmd
}

// group makes a command a group of commands: without arguments it prints its help, and an
// unknown command is an error that lists those that exist.
func (a *app) group(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknown("command", args[0], commandNames(cmd))
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// commandNames lists the commands below a command.
func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return names
}

// unknown is the error that a name does not exist; it lists those that do.
func unknown(what, name string, names []string) error {
	return usagef("unknown %s %q; there are %s", what, name, strings.Join(names, ", "))
}

// flagError adds the existing flags to the message about an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	if _, ok := errors.AsType[*pflag.NotExistError](err); !ok {
		return &usageError{err}
	}
	if names := commandNames(cmd); len(names) > 0 && cmd.Flags().NArg() > 0 {
		return unknown("command", cmd.Flags().Arg(0), names)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return usagef("%w; %s has %s", err, cmd.CommandPath(), strings.Join(names, ", "))
}

// required reports the first flag that is missing.
func required(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); !f.Changed || f.Value.String() == "" || f.Value.String() == "[]" {
			return usagef("--%s is missing; see %s --help", name, cmd.CommandPath())
		}
	}
	return nil
}

// onlyWith reports a flag that was given without the flag that it needs.
func onlyWith(cmd *cobra.Command, name, other string) error {
	if cmd.Flags().Changed(name) && !cmd.Flags().Changed(other) {
		return usagef("--%s needs --%s", name, other)
	}
	return nil
}

// oneOf reports a value that a flag does not take.
func oneOf(flag, value string, values ...string) error {
	if slices.Contains(values, value) {
		return nil
	}
	return unknown(flag, value, values)
}

// parseKnowledge reads --knowledge; nil when it was not given.
func parseKnowledge(name string) (*binpack.Knowledge, error) {
	if name == "" {
		return nil, nil
	}
	k, ok := binpack.ParseKnowledge(name)
	if !ok {
		return nil, unknown("knowledge", name, binpack.KnowledgeNames())
	}
	return &k, nil
}

func (a *app) schema() *cobra.Command {
	return &cobra.Command{
		Use: "schema " + strings.Join(schema.Names(), "|"), Short: "Print the JSON schema of trace.yaml, or of a line of a decision log or journal",
		Example: "  sigma schema log > log.schema.json", ValidArgs: schema.Names(), Args: cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: a.do(func(_ *cobra.Command, args []string) error {
			text, err := schema.Of(args[0])
			fmt.Fprintf(a.stdout, "%s", text)
			return err
		}),
	}
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  sigma version",
		Args:    noArgs,
		RunE: a.do(func(*cobra.Command, []string) error {
			v := a.program.Version
			if info, ok := debug.ReadBuildInfo(); v == "" && ok {
				v = info.Main.Version
			}
			fmt.Fprintf(a.stdout, "%s %s %s %s/%s\n", a.program.name(), v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		}),
	}
}
