package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/usage"
)

func (a *app) convertUsage() *cobra.Command {
	var (
		out   string
		judge time.Duration
		days  int
		quiet bool

		byRequest bool
	)
	cmd := &cobra.Command{
		Use:   "usage DIR --out DIR",
		Short: "Turn a trace with usage.csv.gz into one that counts items at what they use",
		Long: `Convert usage finds the effective size of each app from usage.csv.gz, all days but the
last ones: of cpu halfway between the p99 of the mean pod and that of one pod, in the two
busiest days in a row, and the memory peak × 1.15, at most the request unless the app uses
more. It writes the trace from there on with these sizes as demands, and the usage of the
last days, which judges it: a saving by use has its risk beside it. With --by-request the demands are the requests, as a baseline on the same days.

Apps with too few days of history, and those that trace.yaml lists under source.jobs,
count by request. Apps without a request count at the most that they used.`,
		Example: `  sigma generate kubernetes --set usage=1 --set days=28 --out traces/k8s
  sigma convert usage traces/k8s --judge 336h --out traces/k8s-by-use
  sigma convert usage traces/k8s --judge 336h --by-request --out traces/k8s-by-request
  sigma compare --trace traces/k8s-by-request --trace traces/k8s-by-use --policy bestfit`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("want one trace with usage.csv.gz, not %d", len(args))
			}
			return nil
		},
		RunE: a.do(func(cmd *cobra.Command, args []string) error {
			if err := required(cmd, "out"); err != nil {
				return err
			}
			if judge.Seconds() <= trace.Settling || days < 1 {
				return usagef("--judge %v --days %d: want more than 1h, of which the first is not judged, and at least 1 day", judge, days)
			}
			t, err := a.loadTrace(args[0])
			if err != nil {
				return err
			}
			u, err := t.Usage()
			if err != nil {
				return err
			}
			if u == nil {
				return usagef("%s has no usage.csv.gz", args[0])
			}
			_, until := u.Span()
			if byRequest {
				w, err := sized.ByRequest(t, u, until-judge.Seconds(), until)
				if err != nil {
					return err
				}
				show := a.newProgress(1, "trace", quiet)
				defer show.end()
				return a.write(show, w, out)
			}
			sizedTrace, sizes, err := sized.Trace(t, u, days, until-judge.Seconds(), until)
			if err != nil {
				return err
			}
			show := a.newProgress(1, "trace", quiet)
			defer show.end()
			if err := a.write(show, sizedTrace, out); err != nil {
				return err
			}
			// The dangerous ones first.
			var above []string
			byRequest := 0
			for i := range sizes {
				if sizes[i].Above() {
					above = append(above, fmt.Sprintf("%s: %s", t.Instance.Apps[i].Name, &sizes[i]))
				} else if sizes[i].ByRequest() != "" {
					byRequest++
				}
			}
			if len(above) > 0 {
				show.print(a.stdout, fmt.Sprintf("%s above the request:\n  %s", plural.Of(len(above), "app"), strings.Join(above, "\n  ")))
			}
			show.print(a.stdout, fmt.Sprintf("%s of %d by request; trace.yaml has the reasons", plural.Of(byRequest, "app"), len(sizes)))
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "", "folder to write, or a file ending in .tar.gz")
	a.unpackedFlag(flags)
	flags.DurationVar(&judge, "judge", 7*24*time.Hour, "the last time of the usage, which no size knows; its first hour is not judged")
	flags.IntVar(&days, "days", usage.LeastDays, "days of history below which an app counts by request")
	flags.BoolVar(&byRequest, "by-request", false, "write the same days with requests as demands")
	quietFlag(flags, &quiet)
	return cmd
}
