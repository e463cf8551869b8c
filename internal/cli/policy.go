package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/benchdata/policies"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/explain"
	"github.com/sigma-scheduler/sigma/internal/export"
	"github.com/sigma-scheduler/sigma/internal/plural"
)

func (a *app) policy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Look at policy files, and lead a cluster's policies from shadow to live and back",
		Long: `Policy shows, checks and compares policy files, as "sigma train" writes them.
The files that ship with Sigma have names such as general-k1.yaml. Apply, promote, demote,
rollback and history are about a PlacementPolicy of a cluster.`,
		Example: "  sigma policy show policy.yaml\n  sigma policy diff general-k1.yaml policy.yaml\n  sigma policy promote general",
	}
	a.group(cmd)
	cmd.AddCommand(
		&cobra.Command{
			Use:     "show FILE…",
			Short:   "Print the features of a policy, its weights and its provenance",
			Example: "  sigma policy show policy.yaml",
			Args:    files(1, math.MaxInt),
			RunE:    a.do(a.showPolicies),
		},
		&cobra.Command{
			Use:     "validate FILE…",
			Short:   "Check policy files; print the first fault of each with line and field",
			Example: "  sigma policy validate policies/*.yaml",
			Args:    files(1, math.MaxInt),
			RunE:    a.do(a.validatePolicies),
		},
		&cobra.Command{
			Use:     "diff FILE FILE",
			Short:   "Print the differences between two policies",
			Example: "  sigma policy diff old.yaml new.yaml",
			Args:    files(2, 2),
			RunE:    a.do(a.diffPolicies),
		},
	)
	cmd.AddCommand(export.Shell{Out: a.stdout, Do: a.do, Usage: usagef, Load: loadPolicy}.Command())
	cmd.AddCommand(a.shell().PolicyCommands()...)
	return cmd
}

// files accepts between least and most arguments.
func files(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usagef("%s given; the use is %s", plural.Of(len(args), "policy file"), cmd.UseLine())
		}
		return nil
	}
}

func (a *app) showPolicies(_ *cobra.Command, paths []string) error {
	for i, path := range paths {
		o, err := loadPolicy(path)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		if err := explain.Policy(a.stdout, o); err != nil {
			return err
		}
	}
	return nil
}

// loadPolicy reads a policy file, or a shipped one by the name that a comparison prints.
func loadPolicy(path string) (*policy.Object, error) {
	o, err := policy.Load(path)
	if !errors.Is(err, fs.ErrNotExist) || strings.Contains(path, "/") {
		return o, err
	}
	if text, err := fs.ReadFile(policies.Files, path); err == nil && compare.IsFile(path) {
		return policy.Parse(path, text)
	}
	shipped, globErr := fs.Glob(policies.Files, "*.yaml")
	return nil, errors.Join(fmt.Errorf("%w, and no policy of that name is shipped; there are %s", err, strings.Join(shipped, ", ")), globErr)
}

func (a *app) validatePolicies(_ *cobra.Command, paths []string) error {
	bad := 0
	for _, path := range paths {
		o, err := loadPolicy(path)
		if err != nil {
			bad++
			fmt.Fprintln(a.stderr, err)
			continue
		}
		what := plural.Of(len(o.Spec.Features), "feature")
		if o.Spec.Rule != nil {
			what = o.Spec.Rule.String()
		}
		fmt.Fprintf(a.stdout, "%s: %s, %s, %s, %s\n", path, o.Metadata.Name, o.Spec.Model, o.Spec.Knowledge, what)
	}
	if bad > 0 {
		return fmt.Errorf("%s of %d cannot be used", plural.Of(bad, "policy file"), len(paths))
	}
	return nil
}

func (a *app) diffPolicies(_ *cobra.Command, paths []string) error {
	old, errOld := loadPolicy(paths[0])
	changed, errNew := loadPolicy(paths[1])
	if err := errors.Join(errOld, errNew); err != nil {
		return err
	}
	return explain.PolicyDifferences(a.stdout, old, changed)
}
