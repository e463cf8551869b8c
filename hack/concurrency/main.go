// Concurrency compares what Sigma learns of a function, and what its simulator says of it,
// with real functions: each runs in a cgroup and a network namespace of its own behind
// sigma-gate, and Vegeta keeps the gate full.
//
//	concurrency curve [PROFILE…]
//
// It needs Linux and root.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// asFunction is set in the environment of the functions' processes.
const asFunction = "SIGMA_CONCURRENCY_FUNCTION"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "concurrency: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	var gate string
	root := &cobra.Command{Use: "concurrency", Short: "Learned limits and simulated curves beside real functions", SilenceErrors: true, SilenceUsage: true}
	root.PersistentFlags().StringVar(&gate, "gate", "../../out/concurrency/sigma-gate", "the program sigma-gate")
	curve := &cobra.Command{
		Use: "curve [PROFILE…]", Short: "What each limit gives, measured and simulated",
		RunE: func(cmd *cobra.Command, names []string) error {
			list, err := ready(names)
			if err != nil {
				return err
			}
			for _, p := range list {
				d, err := startPod(cmd.Context(), gate, p, 1)
				if err != nil {
					return err
				}
				l := startLoad(d, 400, "/")
				for _, n := range []int{1, 4, 8, 10, 16, 32, 64, 100, 310} {
					at, err := d.measure(cmd.Context(), n)
					if err != nil {
						fmt.Fprintln(stdout, err)
						break
					}
					w := at.window
					fmt.Fprintf(stdout, "%s %d: %.4g/s cpu %.3g ms mem %.3g inside %.4g failed %v kills %d\n", p.name, n, at.rate(),
						1e3*w.CPU.Number/w.Answered.Number, w.Memory.Number/w.MemoryLimit.Number, w.Inside.Number, w.Failed.Number, at.kills)
				}
				if err := d.stop(); err != nil {
					return err
				}
				fmt.Fprintln(stdout, l.stop())
			}
			return nil
		},
	}
	function := &cobra.Command{Use: "function PROFILE", Hidden: true, Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, names []string) error {
		list, err := named(names)
		if err != nil {
			return err
		}
		return serve(list[0])
	}}
	root.AddCommand(curve, function)
	root.SetArgs(args)
	root.SetOut(stdout)
	return root.ExecuteContext(ctx)
}

// ready returns the profiles of names where this machine can run them.
func ready(names []string) ([]*profile, error) {
	list, err := named(names)
	if err != nil {
		return nil, err
	}
	if lacks := missing(); len(lacks) > 0 {
		return nil, fmt.Errorf("this machine has not what functions need: %s", strings.Join(lacks, ", "))
	}
	return list, nil
}
