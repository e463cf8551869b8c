package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/cli"
	"github.com/sigma-scheduler/sigma/internal/defrag"
	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/lab/reassign"
)

func reassignCommand(shell cli.Shell) *cobra.Command {
	var path, placements, out, format string
	var opt reassign.Options
	cmd := &cobra.Command{
		Use:   "reassign --trace DIR --out plan.csv",
		Short: "Lower the cost of the ROADEF/EURO challenge 2012 by moves",
		Long: `Reassign searches for moves on a trace of "sigma-lab convert roadef", from placed.csv or
from --placements, the file of "sigma replay". The search is simulated annealing; 600
million steps take less than a minute of CPU. Each step of the plan is checked before
anything is written.`,
		Example: `  sigma-lab convert roadef $SIGMA_DATA/roadef2012-a --out roadef
  sigma-lab reassign --trace roadef/roadef-a1-1 --out plan.csv`,
		Args: cobra.NoArgs,
		RunE: shell.Do(func(cmd *cobra.Command, _ []string) error {
			if opt.Steps < 1 {
				return shell.Usage("--steps %d: want a number from 1 on", opt.Steps)
			}
			if format != "table" && format != "json" {
				return shell.Usage("unknown format %q; there are table, json", format)
			}
			if _, err := os.Stat(filepath.Dir(out)); err != nil {
				return shell.Usage("--out: %v", err)
			}
			t, err := trace.Load(path)
			if err != nil {
				return err
			}
			start, err := defrag.ReadStart(t, placements)
			if err != nil {
				return err
			}
			r, err := reassign.Rebalance(cmd.Context(), start, opt)
			if err != nil {
				return err
			}
			if err := durable.WriteFile(out, r.WriteMoves); err != nil {
				return err
			}
			if format == "json" {
				e := json.NewEncoder(shell.Out)
				e.SetIndent("", "  ")
				err = e.Encode(r)
			} else {
				err = r.Print(shell.Out)
			}
			if err != nil {
				return err
			}
			if cmd.Context().Err() != nil {
				return cli.Interrupted("%s holds the moves found so far", out)
			}
			if reason := r.Why(); reason != "" {
				fmt.Fprintln(shell.Err, reason)
			}
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&path, "trace", "", "trace: a folder or a .tar.gz file")
	flags.StringVar(&placements, "placements", "", "start from these placements of a replay instead of placed.csv")
	flags.IntVar(&opt.Steps, "steps", 600_000_000, "moves and swaps that are tried")
	flags.Uint64Var(&opt.Seed, "seed", 1, "of the search")
	flags.StringVar(&out, "out", "", "CSV file to write the moves to")
	flags.StringVar(&format, "format", "table", "table or json")
	_ = cmd.MarkFlagRequired("trace")
	_ = cmd.MarkFlagRequired("out")
	return cmd
}
