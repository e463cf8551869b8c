package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sigma-scheduler/sigma/internal/explain"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// replayLog computes the decisions of a decision log again.
func (a *app) replayLog(cmd *cobra.Command, path string) error {
	var others []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "log" {
			others = append(others, "--"+f.Name)
		}
	})
	if len(others) > 0 {
		return usagef("--log does not go with %s: the log holds the policy and what it was asked", others[0])
	}
	if path == "" {
		return usagef("--log is empty: give a file, or - for standard input")
	}
	in, name := cmd.InOrStdin(), "standard input"
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // it was only read
		in, name = file, path
	}
	var v *ledger.Verdict
	err := until(cmd.Context(), func() (err error) {
		v, err = ledger.Verify(name, in)
		return err
	})
	if err != nil {
		return err
	}
	explain.Verdict(a.stdout, name, v)
	if v.First != nil {
		return fmt.Errorf("%s: %w", name, v.First)
	}
	return nil
}
