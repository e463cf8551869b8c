package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sigma-scheduler/sigma/internal/explain"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// moreFilesOf allows arguments after a flag as further files, as a shell's pattern
// gives them; without the flag it allows none.
func moreFilesOf(flag string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed(flag) {
			return nil
		}
		return noArgs(cmd, args)
	}
}

// replayLog computes the decisions of a decision log again.
func (a *app) replayLog(cmd *cobra.Command, paths []string) error {
	var others []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "log" {
			others = append(others, "--"+f.Name)
		}
	})
	if len(others) > 0 {
		return usagef("--log does not go with %s: the log holds the policy and what it was asked", others[0])
	}
	if slices.Contains(paths, "") {
		return usagef("--log is empty: give a file, or - for standard input")
	}
	files := ledger.OpenFiles(paths...)
	files.Stdin = cmd.InOrStdin()
	var v *ledger.Verdict
	err := until(cmd.Context(), func() (err error) {
		v, err = ledger.VerifyFiles(files)
		return errors.Join(err, files.Close())
	})
	if err != nil {
		return err
	}
	name := files.Name()
	if len(paths) > 1 {
		name = strings.Join(paths, ", ")
	}
	explain.Verdict(a.stdout, name, v)
	if v.First != nil {
		return fmt.Errorf("%s: %w", v.First.File, v.First)
	}
	return nil
}
