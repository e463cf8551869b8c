package main

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// cpu measures a command as the pages measure theirs.
func (p *program) cpu() *cobra.Command {
	return &cobra.Command{
		Use: "cpu COMMAND [ARGUMENT…]", Short: "Runs a command and prints its CPU-seconds, with those of its child processes",
		Args: cobra.MinimumNArgs(1), DisableFlagParsing: true,
		RunE: p.run(func(cmd *cobra.Command, args []string) error {
			c := exec.CommandContext(cmd.Context(), args[0], args[1:]...)
			c.Stdin, c.Stdout, c.Stderr = os.Stdin, p.Out, p.Err
			err := c.Run()
			fmt.Fprintf(p.Out, "%.1f CPU-seconds\n", cputime.Ended(c.ProcessState))
			return err
		}),
	}
}
