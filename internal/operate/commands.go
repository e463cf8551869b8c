package operate

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/sigma-scheduler/sigma/plugins/revision"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

// A Shell is the interface of a program for its commands on a cluster.
type Shell struct {
	Out    io.Writer
	Do     func(func(*cobra.Command, []string) error) func(*cobra.Command, []string) error // wraps a command's function
	Usage  func(format string, args ...any) error                                          // the error of wrong use
	Access func(*pflag.FlagSet, *snapshot.Access)                                          // adds the flags for the access to a cluster
}

// flags are those of the commands on a cluster.
type flags struct {
	access    snapshot.Access
	namespace string
	percent   int64
	revision  int64
	dryRun    bool
	format    string
}

// command makes a command on a cluster; of does its work.
func (s Shell) command(f *flags, cmd *cobra.Command, of func(ctx context.Context, c *Cluster, args []string) error) *cobra.Command {
	use := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := use(cmd, args); err != nil {
			return s.Usage("%w; the use is %s", err, cmd.UseLine())
		}
		return nil
	}
	s.Access(cmd.Flags(), &f.access)
	cmd.RunE = s.Do(func(cmd *cobra.Command, args []string) error {
		switch {
		case f.access.Timeout <= 0:
			return s.Usage("--timeout %v: want more than 0", f.access.Timeout)
		case cmd.Flags().Changed("percent") && (f.percent < 1 || f.percent > 100):
			return s.Usage("--percent %d: want 1 to 100", f.percent)
		case cmd.Flags().Changed("to") && f.revision < 1:
			return s.Usage("--to %d: want the number of a revision", f.revision)
		case f.format != "" && f.format != "table" && f.format != "json":
			return s.Usage("unknown format %q; there are table, json", f.format)
		}
		config, err := f.access.Config()
		if err != nil {
			return err
		}
		c, err := New(rest.AddUserAgent(config, "policy"), f.namespace, f.access.Timeout)
		if err != nil {
			return err
		}
		return of(cmd.Context(), c, args)
	})
	return cmd
}

func (f *flags) addNamespace(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", revision.DefaultNamespace, "namespace of the scheduler")
}

// PolicyCommands are the commands that lead a cluster's PlacementPolicy.
func (s Shell) PolicyCommands() []*cobra.Command {
	change := func(cmd *cobra.Command, f *flags, of func(ctx context.Context, c *Cluster, name string) (*Change, error)) *cobra.Command {
		cmd.Args = cobra.ExactArgs(1)
		cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "let the API server check the change, and write nothing")
		return s.command(f, cmd, func(ctx context.Context, c *Cluster, args []string) error {
			done, err := of(ctx, c, args[0])
			if err != nil {
				return err
			}
			if done != nil {
				_, err = fmt.Fprintln(s.Out, done)
			}
			return err
		})
	}
	var apply, promote, demote, rollback, history flags
	var name string
	var anyway bool
	put := change(&cobra.Command{
		Use:   "apply FILE --name NAME",
		Short: "Give a policy of a cluster the numbers of a file, in shadow",
		Long: `Apply creates a PlacementPolicy, or changes the numbers of one, and always in mode shadow, where it
decides nothing: "sigma policy promote" leads it on. What else the policy says, as repair and soft, stays. It refuses a
policy that is a canary or live, unless --demote is given, and one that a PolicyPilot steers. The account needs the verbs get, create and patch on placementpolicies.`,
		Example: "  sigma policy apply policy.yaml --name general-candidate\n  sigma policy apply policy.yaml --name general --demote",
	}, &apply, func(ctx context.Context, c *Cluster, file string) (*Change, error) {
		if name == "" {
			return nil, s.Usage("--name is missing")
		}
		return c.Apply(ctx, name, file, anyway, apply.dryRun)
	})
	put.Flags().StringVar(&name, "name", "", "name of the PlacementPolicy")
	put.Flags().BoolVar(&anyway, "demote", false, "also replace a policy that decides: it is in shadow then")
	up := change(&cobra.Command{
		Use:   "promote NAME",
		Short: "Lead a policy of a cluster on: from shadow to a canary, from there to live",
		Long: `Promote changes the mode of a PlacementPolicy: shadow becomes a canary for --percent of the
workloads, a canary becomes live, or with a larger --percent a larger canary. It refuses a
policy that the scheduler has not accepted or does not use, and one that somebody
else changes at the same time. The account needs the verbs get and patch on placementpolicies.`,
		Example: "  sigma policy promote general --percent 5\n  sigma policy promote general",
	}, &promote, func(ctx context.Context, c *Cluster, name string) (*Change, error) {
		return c.Promote(ctx, name, promote.percent, promote.dryRun)
	})
	up.Flags().Int64Var(&promote.percent, "percent", 0, "share of the workloads for which the canary decides (default the policy's canaryPercent)")
	down := change(&cobra.Command{
		Use:   "demote NAME",
		Short: "Lead a policy of a cluster back: from live to a canary, from there to shadow",
		Long: `Demote is promote backwards: live becomes a canary for --percent of the workloads, a canary
becomes shadow, or with a smaller --percent a smaller canary. It needs the same rights.`,
		Example: "  sigma policy demote general",
	}, &demote, func(ctx context.Context, c *Cluster, name string) (*Change, error) {
		return c.Demote(ctx, name, demote.percent, demote.dryRun)
	})
	down.Flags().Int64Var(&demote.percent, "percent", 0, "share of the workloads for which the canary decides (default the policy's canaryPercent)")
	back := change(&cobra.Command{
		Use:   "rollback NAME",
		Short: "Give a policy of a cluster its former numbers, and the mode that they had",
		Long: `Rollback takes from the history of a PlacementPolicy the newest revision with other numbers than
now, and gives the policy its whole specification, the mode included. It does not
lead to numbers that were rolled back from before; --to takes any revision. The account needs the
verbs get and patch on placementpolicies, and list on controllerrevisions in --namespace.`,
		Example: "  sigma policy rollback general --dry-run\n  sigma policy rollback general --to 3",
	}, &rollback, func(ctx context.Context, c *Cluster, name string) (*Change, error) {
		return c.Rollback(ctx, name, rollback.revision, rollback.dryRun)
	})
	back.Flags().Int64Var(&rollback.revision, "to", 0, "number of the revision, as history lists it (default the last one with other numbers)")
	rollback.addNamespace(back)
	past := s.command(&history, &cobra.Command{
		Use:   "history NAME",
		Short: "List what the scheduler took up of a policy of a cluster, oldest first",
		Long: `History lists the revisions of a PlacementPolicy: the mode, the digest of the numbers, when a
scheduler took them up, where they come from, and what they saved when they were chosen. The account needs
the verb get on placementpolicies, and list on controllerrevisions in --namespace.`,
		Example: "  sigma policy history general",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, c *Cluster, args []string) error {
		h, err := c.History(ctx, args[0])
		if err != nil {
			return err
		}
		return h.Write(s.Out, history.format == "json")
	})
	history.addNamespace(past)
	past.Flags().StringVar(&history.format, "format", "table", "table or json")
	return []*cobra.Command{put, up, down, back, past}
}

// DoctorCommand checks a cluster's prerequisites for Sigma.
func (s Shell) DoctorCommand() *cobra.Command {
	var f flags
	cmd := s.command(&f, &cobra.Command{
		Use:   "doctor",
		Short: "Say what a cluster lacks for Sigma, in one table",
		Long: `Doctor looks at a cluster, before and after Sigma is installed, and changes nothing: the
version of the API server, the account's rights, the kinds of objects, what the
autoscaler needs, whether its webhook and its Prometheus servers answer, nodes and zones,
Sigma's pods and why one is not ready, and the policies. Each row has the next command. The states are ok; lacks: Sigma needs it, and the exit code is 1; without:
Sigma does with less, or is not installed; unknown: the account may not look.`,
		Example: "  sigma doctor --context production",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, c *Cluster, _ []string) error {
		d, err := c.Examine(ctx)
		if err != nil {
			return err
		}
		if err := d.Write(s.Out, f.format == "json"); err != nil {
			return err
		}
		if n := d.Lacking(); n > 0 {
			return fmt.Errorf("the cluster lacks what Sigma needs: %d of %d checks say lacks", n, len(d))
		}
		return nil
	})
	f.addNamespace(cmd)
	cmd.Flags().StringVar(&f.format, "format", "table", "table or json")
	return cmd
}
