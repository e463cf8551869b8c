package cli

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sigma-scheduler/sigma/benchdata/policies"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/internal/compare"
)

// policiesHelp lists the values of --policy.
var policiesHelp = `A policy is one of
  ` + wrap(compare.Names(), 76) + `
or a policy file, as "sigma train" writes it (a path with a / or ending in
.yaml). learned is the policy that ships with Sigma, hand one with weights set
by hand; --knowledge says how much of the future these two may know.`

// wrap joins names with blanks and breaks lines at a width.
func wrap(names []string, width int) string {
	var b strings.Builder
	at := 0
	for i, name := range names {
		if at += len(name) + 1; at > width {
			b.WriteString("\n  ")
			at = len(name)
		} else if i > 0 {
			b.WriteString(" ")
		}
		b.WriteString(name)
	}
	return b.String()
}

// policyFlags are the flags that change the meaning of a policy's name.
type policyFlags struct{ knowledge, ties string }

func (f *policyFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.knowledge, "knowledge", "",
		"of learned and hand: "+strings.Join(binpack.KnowledgeNames(), ", ")+" (default K1 where the trace gives forecasts, else K0)")
	flags.StringVar(&f.ties, "ties", "random", "how upstream's strategies break ties: random (by --seed, as upstream does) or position")
}

// catalog is the catalog of policies with the flags applied.
func (f *policyFlags) catalog(seed uint64) (compare.Catalog, error) {
	if err := oneOf("ties", f.ties, "random", "position"); err != nil {
		return compare.Catalog{}, err
	}
	knowledge, err := parseKnowledge(f.knowledge)
	if err != nil {
		return compare.Catalog{}, err
	}
	return compare.Catalog{
		Shipped:   policies.Files,
		Knowledge: knowledge,
		Options:   rule.Options{Seed: seed, TiesByPosition: f.ties == "position"},
	}, nil
}

// checkPolicies checks names before a long trace is read. An unknown name is wrong use, a
// broken file is not.
func checkPolicies(catalog *compare.Catalog, names ...string) error {
	err := catalog.Check(names)
	if u := (*compare.UnknownError)(nil); errors.As(err, &u) {
		if _, err := os.Stat(u.Name); err == nil {
			return usagef("unknown policy %q; for the file of that name write ./%s", u.Name, u.Name)
		}
		return &usageError{err}
	}
	return err
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if _, err := os.Stat(args[0]); err == nil && cmd.Flags().Lookup("trace") != nil {
		hint = "; a trace is given as --trace " + args[0]
	} else if cmd.Flags().Lookup("policy") != nil {
		hint = "; write the names of --policy without blanks after the commas"
	}
	return usagef("%s takes flags only, not %q%s", cmd.CommandPath(), args[0], hint)
}
