package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/train/remote"
)

func (a *app) worker() *cobra.Command {
	var f natsFlags
	var threads int
	var quiet bool
	cmd := &cobra.Command{
		Use:   "worker --nats URL",
		Short: "Evaluate for trainings that run elsewhere",
		Long: `Worker takes evaluations from the queue of a NATS server, for every "sigma train"
that uses this server (--nats) or is this server (--listen). It waits for trainings
and for the server, and works until it is interrupted. Another worker then takes
over what it has begun. Workers may come and go: the result of a training does not
depend on them.

A worker must be the same program file as the trainer. It says so of others, and waits
for one of its own.`,
		Example: `  sigma worker --nats tls://trainer:4222 --nats-fingerprint sha256:… --nats-token-file token
  SIGMA_NATS_TOKEN=… sigma worker --nats tls://nats.example.org:4222 --nats-ca ca.pem --workers 4`,
		Args: noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if err := required(cmd, "nats"); err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			if threads < 1 {
				return usagef("--workers %d: want at least 1", threads)
			}
			access, err := f.access()
			if err != nil {
				return err
			}
			return a.work(cmd.Context(), f.url, access, threads, quiet)
		}),
	}
	f.add(cmd.Flags())
	cmd.Flags().IntVar(&threads, "workers", runtime.GOMAXPROCS(0), "evaluations at the same time")
	quietFlag(cmd.Flags(), &quiet)
	return cmd
}

func (a *app) work(ctx context.Context, url string, access remote.Access, threads int, quiet bool) error {
	show := a.newProgress(0, "evaluation", quiet)
	defer show.end()
	say := func(line string) { show.print(a.stderr, line) }
	conn, err := remote.Connect(ctx, url, access, say)
	if err != nil {
		return err
	}
	defer conn.Close()
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	worker := remote.Worker{Name: fmt.Sprintf("%s-%d", host, os.Getpid()), Threads: threads, Done: show.add}
	say(fmt.Sprintf("worker %s at %s: %s at the same time", worker.Name, url, plural.Of(threads, "evaluation")))
	err = worker.Run(ctx, conn)
	if errors.Is(err, context.Canceled) {
		return interrupted("%s done; another worker takes over what was under way", plural.Of(show.count(), "evaluation"))
	}
	return err
}
